package jsonplan

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Unmarshal decodes data, valid JSON, into the variable behind the pointer v, which has the type
// of the plan. The result is as from [json.Unmarshal]: the same value, or the same error and the
// same part of the value. Unmarshal returns nil if data fits.
func (p *Plan) Unmarshal(data []byte, v any) *Misfit {
	into, start := reflect.ValueOf(v).Elem(), jsonsplit.Space(data, 0)
	if p.kind != foreign && p.kind != awkward && into.IsZero() && p.fits(data, start) { // encoding/json merges data with a value that is not zero
		d := decoder{data: data, size: p.sizeHint(), goesOn: p.calls && goesOn()}
		if _, ok := d.value(start, p, into); ok && d.err == nil {
			p.remember(d.used)
			return nil
		}
		if p.calls {
			return p.misfit(data, d.failed, d.err)
		}
		into.SetZero()
	}
	if err := json.Unmarshal(data, v); err != nil {
		return p.misfit(data, -1, err)
	}
	return nil
}

// fits reports whether data fits, apart from methods that must not run twice. A plan without
// such methods decides while decoding.
func (p *Plan) fits(data []byte, start int) bool {
	if !p.calls {
		return true
	}
	d := decoder{data: data, dry: true}
	_, ok := d.value(start, p, reflect.Value{})
	return ok
}

// decoder fills zero values, or nothing in a dry run. Its methods take the start i of a value
// and return its end, and whether the value was decoded. If not, encoding/json decodes
// everything again and returns its error.
type decoder struct {
	data    []byte
	dry     bool
	strings strings.Builder // written text never moves: see keep
	size    int             // of the strings, probably
	used    int             // by them
	goesOn  bool            // after the error of a method
	failed  int             // start of the first value with a failed method
	err     error           // of that method
}

//nolint:funlen // a case for each kind
func (d *decoder) value(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	c := d.data[i]
	if c == 'n' && p.kind > itself {
		return i + len("null"), true
	}
	switch p.kind {
	case structure:
		return d.members(i, p, v)
	case slice:
		return d.elements(i, p, v)
	case pointer:
		if !d.dry {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		return d.value(i, p.elem, v)
	case text:
		if c == '"' && !d.dry {
			if end = jsonsplit.ASCII(d.data, i); end > 0 {
				v.SetString(d.keep(d.data[i+1 : end-1]))
				return end, true
			}
		}
	default: // need the whole of the value
	}
	end = jsonsplit.End(d.data, i)
	raw := d.data[i:end:end]
	if d.dry {
		return end, p.maker.fits(raw, p.goType)
	}
	switch p.kind {
	case itself:
		return end, d.called(i, v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw)) //nolint:forcetypeassert // as planned
	case text, itsText:
		return end, c == '"' && d.text(i, raw, p, v)
	case boolean:
		v.SetBool(c == 't')
		return end, c == 't' || c == 'f'
	case number:
		if c != '"' {
			v.SetString(d.keep(raw))
			return end, isNumber(c)
		}
	case integer:
		n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
		v.SetInt(n)
		return end, err == nil
	case unsigned:
		n, err := strconv.ParseUint(string(raw), 10, v.Type().Bits())
		v.SetUint(n)
		return end, err == nil
	case float:
		f, err := strconv.ParseFloat(string(raw), v.Type().Bits())
		v.SetFloat(f)
		return end, err == nil && isNumber(c)
	default: // foreign
	}
	return end, json.Unmarshal(raw, v.Addr().Interface()) == nil
}

func isNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// called notes the error of the method of the value at i.
func (d *decoder) called(i int, err error) (ok bool) {
	if err != nil && d.err == nil {
		d.failed, d.err = i, err
	}
	return err == nil || d.goesOn
}

// goesOn reports whether encoding/json decodes the rest of a text after a failed method, as from
// Go 1.27 on.
var goesOn = sync.OnceValue(func() bool {
	var probe []failing
	_ = json.Unmarshal([]byte("[1,2]"), &probe)
	return len(probe) == 2 && probe[1] == 2
})

type failing int

func (f *failing) UnmarshalJSON(data []byte) error {
	*f = failing(data[0] - '0')
	return errors.New("lending: a method that fails")
}

// members fills the fields of a struct. If a field occurs twice, encoding/json merges its
// values, so the decoder leaves the struct to encoding/json.
func (d *decoder) members(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	if d.data[i] != '{' {
		return i, false
	}
	var filled uint64
	next := 0 // the likely field: members mostly come in the order of the fields
	for i = jsonsplit.Space(d.data, i+1); d.data[i] != '}'; i = jsonsplit.Next(d.data, i) {
		var f int
		if i, f = d.member(i, p, next); f < 0 {
			i = jsonsplit.End(d.data, i)
			continue
		}
		if filled&(1<<f) != 0 {
			return i, false
		}
		filled |= 1 << f
		var into reflect.Value
		if !d.dry {
			into = v.Field(p.fields[f].index)
		}
		if i, ok = d.value(i, p.fields[f].plan, into); !ok {
			return i, false
		}
		next = f + 1
	}
	return i + 1, true
}

// member returns the start of the value of the member at i, and the number of its field, -1 for
// none.
func (d *decoder) member(i int, p *Plan, next int) (value, field int) {
	if next < len(p.fields) {
		if value = jsonsplit.Named(d.data, i, p.fields[next].name); value > 0 {
			return value, next
		}
	}
	name, value := jsonsplit.Member(d.data, i)
	return value, p.find(name, next)
}

// find returns the number of the field for the member called name, -1 for none.
func (p *Plan) find(name []byte, next int) int {
	for n := range p.fields {
		if n += next; n >= len(p.fields) {
			n -= len(p.fields)
		}
		if string(name) == p.fields[n].name {
			return n
		}
	}
	folded := string(name)
	for n := range p.fields {
		if strings.EqualFold(p.fields[n].name, folded) {
			return n
		}
	}
	return -1
}

func (d *decoder) elements(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	if d.data[i] != '[' {
		return i, false
	}
	n := 0
	for i = jsonsplit.Space(d.data, i+1); d.data[i] != ']'; i = jsonsplit.Next(d.data, i) {
		var into reflect.Value
		if !d.dry {
			if n == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(n + 1)
			into = v.Index(n)
		}
		if i, ok = d.value(i, p.elem, into); !ok {
			return i, false
		}
		n++
	}
	if n == 0 && !d.dry {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list is not nil
	}
	return i + 1, true
}

// text takes the string at i unchanged. A string with escapes or invalid UTF-8 is for encoding/json.
func (d *decoder) text(i int, raw []byte, p *Plan, v reflect.Value) (ok bool) {
	plain := raw[1 : len(raw)-1 : len(raw)-1]
	switch {
	case bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain):
		return d.called(i, json.Unmarshal(raw, v.Addr().Interface()))
	case p.kind == itsText:
		return d.called(i, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(plain)) //nolint:forcetypeassert // as planned
	}
	v.SetString(d.keep(plain))
	return true
}

// chunk is the largest allocation shared by the strings of a value. A string keeps its whole
// chunk in memory, so a chunk is no larger than the strings of earlier values.
const chunk = 1 << 10

// keep returns a copy of b, a part of the data.
func (d *decoder) keep(b []byte) string {
	d.used += len(b)
	if d.strings.Cap()-d.strings.Len() < len(b) {
		d.strings.Reset()
		d.strings.Grow(max(len(b), min(chunk, d.size, len(d.data))))
	}
	from := d.strings.Len()
	d.strings.Write(b)
	return d.strings.String()[from:]
}

// sizeHint is the size of the strings of earlier values, and a quarter.
func (p *Plan) sizeHint() int {
	if size := int(p.size.Load()); size > 0 {
		return size + size/4
	}
	return chunk
}

// remember notes the size of the strings of a value, and gradually forgets larger sizes.
func (p *Plan) remember(used int) {
	size := int(p.size.Load())
	p.size.Store(int32(min(chunk, max(used, size-size/8, 1))))
}
