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

// Unmarshal decodes data, which is valid JSON, into what v points to, whose type is that
// of the plan, with the result of [json.Unmarshal]: the same value, or the same error and
// what there is of the value.
func (p *Plan) Unmarshal(data []byte, v any) error {
	into := reflect.ValueOf(v).Elem()
	if p.kind != foreign && p.kind != awkward && into.IsZero() { // what holds something is merged with
		d := decoder{data: data}
		if _, ok := d.value(jsonsplit.Space(data, 0), p, into); ok {
			return nil
		}
		into.SetZero()
	}
	return json.Unmarshal(data, v)
}

// decoder fills fresh values. Its methods return where the value ends that begins at i,
// and whether it was decoded: if not, encoding/json decodes everything again, and says
// why it does not fit, if it does not.
type decoder struct {
	data    []byte
	strings strings.Builder // what is written stays where it is: see keep
}

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
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(i, p.elem, v.Elem())
	case text, itsText:
		return d.text(i, p, v)
	default: // need the whole of the value
	}
	end = jsonsplit.End(d.data, i)
	raw := d.data[i:end:end]
	switch p.kind {
	case itself:
		return end, v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil //nolint:forcetypeassert // as planned
	case boolean:
		v.SetBool(c == 't')
		return end, c == 't' || c == 'f'
	case number:
		if c != '"' {
			v.SetString(d.keep(raw))
			return end, c == '-' || '0' <= c && c <= '9'
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
		return end, err == nil && (c == '-' || '0' <= c && c <= '9')
	default: // foreign
	}
	return end, json.Unmarshal(raw, v.Addr().Interface()) == nil
}

// members fills the fields of a struct. A field that is filled twice is merged, which is
// left to encoding/json.
func (d *decoder) members(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	if d.data[i] != '{' {
		return i, false
	}
	var filled uint64
	next := 0 // the field that is likely: members come in the order of the fields, mostly
	for i = jsonsplit.Space(d.data, i+1); d.data[i] != '}'; i = jsonsplit.Next(d.data, i) {
		name, value := jsonsplit.Member(d.data, i)
		f := p.find(name, next)
		if i = value; f < 0 {
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

// find returns the number of the field that the member called name fills, -1 for none.
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
		if n == v.Cap() {
			v.Grow(1)
		}
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

// text takes a string as it stands; encoding/json one that is escaped or not UTF-8.
func (d *decoder) text(i int, p *Plan, v reflect.Value) (end int, ok bool) {
	end = jsonsplit.End(d.data, i)
	if d.data[i] != '"' {
		return end, false
	}
	plain := d.data[i+1 : end-1 : end-1]
	switch {
	case bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain):
		return end, json.Unmarshal(d.data[i:end:end], v.Addr().Interface()) == nil
	case p.kind == itsText:
		return end, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(plain) == nil //nolint:forcetypeassert // as planned
	}
	v.SetString(d.keep(plain))
	return end, true
}

// chunk is how much memory the strings of a record share at most: one allocation for
// many, and not much that one of them keeps from being freed.
const chunk = 1 << 10

// keep returns a copy of b, which is a part of the data.
func (d *decoder) keep(b []byte) string {
	if d.strings.Cap()-d.strings.Len() < len(b) {
		d.strings.Reset()
		d.strings.Grow(max(len(b), min(chunk, len(d.data))))
	}
	from := d.strings.Len()
	d.strings.Write(b)
	return d.strings.String()[from:]
}
