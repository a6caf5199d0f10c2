// Package jsonplan decodes JSON as encoding/json does, into plain structs several times
// as fast: it looks at a type once, and keeps a plan of which member fills which field.
//
// What is not plain it leaves to encoding/json: a value, where that does the same there
// as it would in the whole, and else the whole. So there is one meaning, and one set of
// errors, with every version of Go; the fuzz test compares.
package jsonplan

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// Plan says how values of one type are decoded. It may be used by several goroutines.
type Plan struct {
	kind   kind
	elem   *Plan // of a pointer or a slice
	fields []field
}

type kind uint8

const (
	foreign kind = iota // left to encoding/json
	awkward             // the same, and it means something else alone than where it stands
	itself              // has UnmarshalJSON
	itsText             // has UnmarshalText
	text                // a string
	number              // a json.Number
	boolean             // the others as reflect names them
	integer
	unsigned
	float
	pointer
	slice
	structure
)

// field is one that a member fills.
type field struct {
	name  string
	index int // in the struct
	plan  *Plan
}

// maxFields is as many as a set of 64 bits tells apart.
const maxFields = 64

// For returns the plan for values of type t.
func For(t reflect.Type) *Plan { return maker{}.plan(t) }

// maker keeps the plans of the types that it has met: a type may hold itself.
type maker map[reflect.Type]*Plan

func (m maker) plan(t reflect.Type) *Plan {
	p := m[t]
	if p != nil {
		return p
	}
	p = &Plan{kind: kindOf(t)}
	m[t] = p
	switch p.kind {
	case pointer, slice:
		if p.elem = m.plan(t.Elem()); p.elem.kind == awkward {
			p.kind = foreign
		}
	case structure:
		if !m.addFields(p, t) {
			p.kind = foreign
		}
	default: // nothing is in it
	}
	return p
}

func kindOf(t reflect.Type) kind {
	if t == reflect.TypeFor[json.Number]() {
		return number
	}
	if method, ok := methodOf(t); ok {
		return method
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return unsigned
	case reflect.Float32, reflect.Float64:
		return float
	case reflect.Pointer:
		if t.Name() == "" { // a named one hides the methods of what it points to
			return pointer
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // which is base64
			return slice
		}
	case reflect.Struct:
		return structure
	}
	return foreign
}

// methodOf says by which of its methods encoding/json decodes a t, if by any. It looks
// for them only where t has a name, or is pointed to.
func methodOf(t reflect.Type) (k kind, ok bool) {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return foreign, false
	}
	p := reflect.PointerTo(t)
	_, newer := p.MethodByName("UnmarshalJSONFrom") // which Go 1.27 prefers
	isJSON, isText := p.Implements(reflect.TypeFor[json.Unmarshaler]()), p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t.Name() == "":
		return awkward, newer || isJSON || isText
	case newer:
		return foreign, true
	case isJSON:
		return itself, true
	}
	return itsText, isText
}

// addFields adds the fields of the struct t to p, and reports whether all of them are
// plain: none is embedded, has an option that changes how it is decoded, or shares its
// name with another.
func (m maker) addFields(p *Plan, t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous, options != "" && options != "omitempty" && options != "omitzero":
			return false
		case tag == "-", tag == "" && !f.IsExported():
			continue
		case !f.IsExported():
			return false
		case name == "":
			name = f.Name
		}
		fp := m.plan(f.Type)
		if !isPlain(name) || fp.kind == awkward || len(p.fields) == maxFields {
			return false
		}
		for _, other := range p.fields {
			if strings.EqualFold(name, other.name) {
				return false
			}
		}
		p.fields = append(p.fields, field{name, i, fp})
	}
	return true
}

// isPlain reports whether name is one that every version of encoding/json takes from a tag.
func isPlain(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
