package jsonplan

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Unmarshal decodes data, valid JSON, into the variable behind the pointer v, which has the type
// of the plan. The result is as from [json.Unmarshal]: the same value, or the same error and the
// same part of the value. Unmarshal returns nil if data fits.
func (p *Plan) Unmarshal(data []byte, v any) *Misfit {
	d := decoder{data: data, size: int(p.size.Load()), failed: jsonsplit.Space(data, 0), foreign: true}
	into := reflect.ValueOf(v).Elem()
	if p.kind > awkward && into.IsZero() { // encoding/json merges data with a value that is not zero
		if _, ok := d.value(d.failed, p, into); ok {
			p.size.Store(int64(min(d.used, chunk)))
			return nil
		}
		into.SetZero()
	}
	if err := json.Unmarshal(data, v); err != nil {
		return d.misfit(base(into.Type()), err)
	}
	return nil
}

// decoder fills zero values. Its methods take the start i of a value and return its end, and
// whether the value was decoded. If not, encoding/json decodes everything again and returns its
// error.
type decoder struct {
	data    []byte
	strings strings.Builder // written text never moves: see keep
	size    int             // of the strings, probably
	used    int             // by them
	failed  int             // the start of the first value that does not fit
	foreign bool            // encoding/json knows which part of that value does not fit
}

func (d *decoder) value(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	c := d.data[i]
	switch {
	case c == 'n' && p.kind > itself:
		return i + len("null"), true
	case p.kind == structure && c == '{':
		return d.members(i, p, v)
	case p.kind == slice && c == '[':
		return d.elements(i, p, v)
	case p.kind == pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(i, p.elem, v.Elem())
	}
	end = jsonsplit.End(d.data, i)
	if ok = d.whole(i, end, p, v); !ok {
		d.failed, d.foreign = i, p.kind <= awkward
	}
	return end, ok
}

// whole decodes the value from i to end, and reports whether it fits.
func (d *decoder) whole(i, end int, p *Plan, v reflect.Value) (ok bool) {
	raw := d.data[i:end:end]
	c := raw[0]
	switch p.kind {
	case itself:
		return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil //nolint:forcetypeassert // as planned
	case text, itsText:
		return c == '"' && d.text(i, end, p, v)
	case boolean:
		v.SetBool(c == 't')
		return c == 't' || c == 'f'
	case number:
		if c != '"' {
			v.SetString(d.keep(raw))
			return isNumber(c)
		}
	case integer:
		n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
		v.SetInt(n)
		return err == nil
	case float:
		f, err := strconv.ParseFloat(string(raw), v.Type().Bits())
		v.SetFloat(f)
		return err == nil && isNumber(c)
	default: // foreign, or another kind of value
	}
	return json.Unmarshal(raw, v.Addr().Interface()) == nil
}

func isNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// members fills the fields of a struct. If a field occurs twice, encoding/json merges its
// values, so the decoder leaves the struct to encoding/json.
func (d *decoder) members(i int, p *Plan, v reflect.Value) (end int, ok bool) {
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
		if i, ok = d.value(i, p.fields[f].plan, v.Field(p.fields[f].index)); !ok {
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

// find returns the number of the field for the member called name, -1 for none. The search begins at next: a response
// that leaves out fields keeps the order of the others.
func (p *Plan) find(name []byte, next int) int {
	for n := range p.fields {
		n = (n + next) % len(p.fields)
		if field := p.fields[n].name; string(name) == field || strings.EqualFold(field, string(name)) {
			return n
		}
	}
	return -1
}

func (d *decoder) elements(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	n := 0
	for i = jsonsplit.Space(d.data, i+1); d.data[i] != ']'; i = jsonsplit.Next(d.data, i) {
		v.Grow(1)
		v.SetLen(n + 1)
		if i, ok = d.value(i, p.elem, v.Index(n)); !ok {
			return i, false
		}
		n++
	}
	if n == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list is not nil
	}
	return i + 1, true
}

// text takes the string from i to end unchanged. A string with escapes or invalid UTF-8 is for
// encoding/json.
func (d *decoder) text(i, end int, p *Plan, v reflect.Value) (ok bool) {
	plain := d.data[i+1 : end-1 : end-1]
	switch {
	case bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain):
		return json.Unmarshal(d.data[i:end], v.Addr().Interface()) == nil
	case p.kind == itsText:
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(plain) == nil //nolint:forcetypeassert // as planned
	}
	v.SetString(d.keep(plain))
	return true
}

// chunk is the largest allocation shared by the strings of a value. A string keeps its chunk in
// memory, so a chunk is little larger than the strings of the last value.
const chunk = 1 << 10

// keep returns a copy of b, a part of the data.
func (d *decoder) keep(b []byte) string {
	if d.used += len(b); d.strings.Cap()-d.strings.Len() < len(b) {
		d.strings.Reset()
		d.strings.Grow(max(len(b), min(chunk, d.size+d.size/4)))
	}
	from := d.strings.Len()
	d.strings.Write(b)
	return d.strings.String()[from:]
}
