package jsonplan

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Misfit is the place where a JSON text does not fit a type. A Misfit quotes no value, unlike
// encoding/json, whose words also change with the version of Go and which knows no place for
// types with methods.
type Misfit struct {
	Path string // to the value, with * for the key of a map
	Got  string // from [jsonsplit.Kind], or "a key"
	Want reflect.Type
	Err  error // of encoding/json, or of the failed method
}

// maxSteps is the depth of a path: an ellipsis replaces the rest.
const maxSteps = 32

// misfit finds the first value of data that does not fit the type of the plan, in a single pass
// and without methods that must not run twice. failed is the place of a failed method, or
// negative. If only a method can have failed, the misfit is the smallest value around all values
// decoded by such methods.
func (p *Plan) misfit(data []byte, failed int, err error) *Misfit {
	f := finder{maker: p.maker, data: data, failed: failed, fields: map[reflect.Type][]reflect.StructField{}}
	start := jsonsplit.Space(data, 0)
	f.value(start, p.goType)
	m := Misfit{Got: jsonsplit.Kind(data[start:]), Want: base(p.goType), Err: err}
	switch {
	case f.found != nil:
		m.Path, m.Got, m.Want = pathOf(f.steps), f.found.Got, f.found.Want
	case len(f.suspects) > 0:
		last := f.suspects[len(f.suspects)-1]
		m.Path, m.Got, m.Want = pathOf(f.suspects), jsonsplit.Kind(data[last.value:]), last.goType
	}
	return &m
}

func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// step leads from a value to a value inside.
type step struct {
	name   string
	value  int // its start
	goType reflect.Type
}

func pathOf(steps []step) string {
	var path strings.Builder
	for n, s := range steps {
		if n == maxSteps {
			path.WriteString("…")
			break
		}
		if n > 0 && s.name[0] != '[' {
			path.WriteByte('.')
		}
		path.WriteString(s.name)
	}
	return path.String()
}

// finder walks through a text and a type together. Its methods take the start i of a value and
// return its end, and whether the value fits.
type finder struct {
	*maker
	data   []byte
	failed int
	found  *Misfit
	steps  []step // to the value, and in the end to the misfit

	suspected bool
	suspects  []step // the common part of the paths to all suspected values

	fields map[reflect.Type][]reflect.StructField
}

// is notes a misfit: the present value, of the kind got, does not fit t.
func (f *finder) is(got string, t reflect.Type) (end int, ok bool) {
	f.found = &Misfit{Got: got, Want: t}
	return 0, false
}

// suspect notes that a method decoded the present value.
func (f *finder) suspect() {
	if !f.suspected {
		f.suspected, f.suspects = true, append(f.suspects, f.steps...)
	}
	for n := range f.suspects {
		if n == len(f.steps) || f.steps[n] != f.suspects[n] {
			f.suspects = f.suspects[:n]
			break
		}
	}
}

// in goes a step further, and back again if the value fits.
func (f *finder) in(name string, i int, t reflect.Type) (end int, ok bool) {
	f.steps = append(f.steps, step{name, i, base(t)})
	end, ok = f.value(i, t)
	if ok {
		f.steps = f.steps[:len(f.steps)-1]
	}
	return end, ok
}

func (f *finder) value(i int, t reflect.Type) (end int, ok bool) {
	t = base(t)
	c := f.data[i]
	if decodesItself(t) && !f.harmless(t) {
		return f.method(i, t)
	}
	if t.Kind() == reflect.Interface && t.NumMethod() == 0 {
		switch c { // of the values inside, only a number can be out of range
		case '{':
			return f.members(i, reflect.TypeFor[map[string]any]())
		case '[':
			return f.elements(i, reflect.TypeFor[[]any]())
		}
	}
	if c != 'n' && !decodesItself(t) {
		switch t.Kind() {
		case reflect.Struct, reflect.Map:
			return f.members(i, t)
		case reflect.Slice, reflect.Array:
			if c != '"' || t.Kind() == reflect.Array || t.Elem().Kind() != reflect.Uint8 {
				return f.elements(i, t)
			}
		default: // a scalar
		}
	}
	end = jsonsplit.End(f.data, i)
	if !f.fits(f.data[i:end:end], t) {
		return f.is(jsonsplit.Kind(f.data[i:]), t)
	}
	return end, true
}

// method takes a value for a method of t that must not run again.
func (f *finder) method(i int, t reflect.Type) (end int, ok bool) {
	if i == f.failed || f.refuses(f.data[i], t) {
		return f.is(jsonsplit.Kind(f.data[i:]), t)
	}
	f.suspect()
	return jsonsplit.End(f.data, i), true
}

// refuses reports whether encoding/json refuses a value with the first byte c without calling
// the method of t.
func (m *maker) refuses(c byte, t reflect.Type) bool {
	newer, isJSON, _ := methods(t)
	return !newer && !isJSON && c != '"' && c != 'n'
}

// fits reports whether raw, a value without parts, fits t, as far as possible without a method
// that must not run again.
func (m *maker) fits(raw []byte, t reflect.Type) bool {
	if decodesItself(t) && !m.harmless(t) {
		return !m.refuses(raw[0], t)
	}
	switch c := raw[0]; kindOf(t) { // without an allocation
	case text:
		if c != 'n' {
			return c == '"'
		}
	case boolean:
		if c != 'n' {
			return c == 't' || c == 'f'
		}
	case number:
		if isNumber(c) {
			return true
		}
	case integer:
		if isNumber(c) {
			_, err := strconv.ParseInt(string(raw), 10, t.Bits())
			return err == nil
		}
	case itself:
		return reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil //nolint:forcetypeassert // as its kind says
	default: // encoding/json says
	}
	return json.Unmarshal(raw, reflect.New(t).Interface()) == nil
}

func (f *finder) members(i int, t reflect.Type) (end int, ok bool) {
	if f.data[i] != '{' {
		return f.is(jsonsplit.Kind(f.data[i:]), t)
	}
	for i = jsonsplit.Space(f.data, i+1); f.data[i] != '}'; i = jsonsplit.Next(f.data, i) {
		name, value := jsonsplit.Member(f.data, i)
		if t.Kind() == reflect.Map {
			i, ok = f.entry(string(name), value, t)
		} else {
			i, ok = f.field(string(name), value, t)
		}
		if !ok {
			return 0, false
		}
	}
	return i + 1, true
}

// entry takes an entry of a map.
func (f *finder) entry(key string, value int, t reflect.Type) (end int, ok bool) {
	if end, ok = f.in("*", value, t.Elem()); !ok {
		return end, false
	}
	switch keyType := t.Key(); {
	case decodesItself(keyType) && !f.harmless(keyType):
		f.suspect()
	case keyType.Kind() == reflect.String && !decodesItself(keyType):
	default:
		quoted, _ := json.Marshal(key) //nolint:errchkjson // a string
		entry := append(append([]byte("{"), quoted...), ":null}"...)
		if !f.fits(entry, reflect.MapOf(keyType, reflect.TypeFor[any]())) {
			f.steps = append(f.steps, step{name: "*"})
			return f.is("a key", keyType)
		}
	}
	return end, true
}

// field takes a member of a struct.
func (f *finder) field(name string, value int, t reflect.Type) (end int, ok bool) {
	field, quoted := f.fieldOf(t, name)
	switch {
	case field == nil:
		return jsonsplit.End(f.data, value), true
	case !quoted:
		return f.in(name, value, field)
	}
	end = jsonsplit.End(f.data, value)
	member, _ := json.Marshal(name) //nolint:errchkjson // a string
	member = append(append(append(append([]byte("{"), member...), ':'), f.data[value:end]...), '}')
	if !f.fits(member, t) {
		f.steps = append(f.steps, step{name: name})
		return f.is(jsonsplit.Kind(f.data[value:]), base(field))
	}
	return end, true
}

func (f *finder) elements(i int, t reflect.Type) (end int, ok bool) {
	if f.data[i] != '[' {
		return f.is(jsonsplit.Kind(f.data[i:]), t)
	}
	n := 0
	for i = jsonsplit.Space(f.data, i+1); f.data[i] != ']'; i = jsonsplit.Next(f.data, i) {
		if t.Kind() == reflect.Array && n >= t.Len() { // encoding/json ignores the rest
			i = jsonsplit.End(f.data, i)
			continue
		}
		if i, ok = f.in("["+strconv.Itoa(n)+"]", i, t.Elem()); !ok {
			return 0, false
		}
		n++
	}
	return i + 1, true
}

// fieldOf returns the type of the field for the member called name, nil if there is none, and
// whether the value is quoted.
func (f *finder) fieldOf(t reflect.Type, name string) (found reflect.Type, quoted bool) {
	fields, known := f.fields[t]
	if !known {
		fields = reflect.VisibleFields(t)
		f.fields[t] = fields
	}
	for _, field := range fields {
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		isQuoted := strings.Contains(options, "string")
		switch {
		case !field.IsExported() || field.Tag.Get("json") == "-" || field.Anonymous && tag == "" && base(field.Type).Kind() == reflect.Struct:
		case tag == name || tag == "" && field.Name == name:
			return field.Type, isQuoted
		case found == nil && (strings.EqualFold(tag, name) || tag == "" && strings.EqualFold(field.Name, name)):
			found, quoted = field.Type, isQuoted
		}
	}
	return found, quoted
}
