// Package jsonplan decodes JSON as encoding/json does, and several times as fast into plain
// structs: a plan maps members to fields once for each type. The package leaves everything else
// to encoding/json, also texts that do not fit, so values and errors are as in the installed
// version of Go. A fuzz test compares. In addition, a [Misfit] names the place where a text does
// not fit.
//
// A method of a caller's type runs as often as in encoding/json, even if the text does not fit.
package jsonplan

import (
	"encoding"
	"encoding/json"
	"iter"
	"reflect"
	"strings"
	"sync/atomic"
)

// Plan is the way to decode values of a type. Several goroutines may use a Plan at a time.
type Plan struct {
	maker  *maker
	goType reflect.Type
	kind   kind
	elem   *Plan // of a pointer or a slice
	fields []field
	calls  bool         // a method inside must not run twice
	size   atomic.Int32 // of the strings in a value, see keep
}

type kind uint8

const (
	foreign kind = iota // left to encoding/json
	awkward             // the same, with another meaning outside its place
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

// field is a field of a struct.
type field struct {
	name  string
	index int // in the struct
	plan  *Plan
}

// maxFields is the size of a set of 64 bits.
const maxFields = 64

// For returns the plan for values of type t. UnmarshalJSON and UnmarshalText of a harmless type
// only fill their own value, and so may run more than once.
func For(t reflect.Type, harmless func(reflect.Type) bool) *Plan {
	m := &maker{harmless, map[reflect.Type]*Plan{}}
	p := m.plan(t)
	p.calls = m.calls(t, map[reflect.Type]bool{})
	if p.calls && m.callsUnseen(t, map[reflect.Type]bool{}) {
		p.kind = foreign // encoding/json calls the methods once in any case
	}
	return p
}

// maker keeps the plans of all types on its way, because a type may hold itself.
type maker struct {
	harmless func(reflect.Type) bool
	plans    map[reflect.Type]*Plan
}

// calls reports whether t contains a caller's type with methods.
func (m *maker) calls(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch {
	case seen[t]:
		return false
	case decodesItself(t):
		return !m.harmless(t)
	}
	seen[t] = true
	for part := range partsOf(t) {
		if m.calls(part, seen) {
			return true
		}
	}
	return false
}

// callsUnseen reports whether a foreign part of the plan for t calls such methods.
func (m *maker) callsUnseen(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch p := m.plan(t); p.kind {
	case foreign, awkward:
		return m.calls(t, map[reflect.Type]bool{})
	case pointer, slice, structure:
		for part := range partsOf(t) {
			if m.callsUnseen(part, seen) {
				return true
			}
		}
	default: // holds nothing
	}
	return false
}

// partsOf yields the types of the values inside a t that encoding/json fills.
func partsOf(t reflect.Type) iter.Seq[reflect.Type] {
	return func(yield func(reflect.Type) bool) {
		switch t.Kind() {
		case reflect.Map:
			_ = yield(t.Key()) && yield(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			yield(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				ignored := !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" // the fields of an embedded struct are promoted
				if !ignored && !yield(f.Type) {
					return
				}
			}
		default: // holds nothing
		}
	}
}

func (m *maker) plan(t reflect.Type) *Plan {
	p := m.plans[t]
	if p != nil {
		return p
	}
	p = &Plan{maker: m, goType: t, kind: kindOf(t)}
	m.plans[t] = p
	switch p.kind {
	case pointer, slice:
		if p.elem = m.plan(t.Elem()); p.elem.kind == awkward {
			p.kind = foreign
		}
	case structure:
		if !m.addFields(p, t) {
			p.kind = foreign
		}
	default: // has no parts
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
		if t.Name() == "" { // a named pointer hides the methods of its element
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

// methodOf returns the kind of the method with which encoding/json decodes a t, if any.
// encoding/json uses methods only of named types and pointers.
func methodOf(t reflect.Type) (k kind, ok bool) {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return foreign, false
	}
	newer, isJSON, isText := methods(t)
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

func methods(t reflect.Type) (newer, isJSON, isText bool) {
	p := reflect.PointerTo(t)
	_, newer = p.MethodByName("UnmarshalJSONFrom") // which Go 1.27 prefers
	return newer, p.Implements(reflect.TypeFor[json.Unmarshaler]()), p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// decodesItself reports whether encoding/json can leave t to a method of t.
func decodesItself(t reflect.Type) bool {
	if t == reflect.TypeFor[json.Number]() { // in Go 1.27 it does
		return false
	}
	newer, isJSON, isText := methods(t)
	return newer || isJSON || isText
}

// addFields adds the fields of the struct t to p, and reports whether all of them are plain: not
// embedded, without an option that changes the decoding, and with different names.
func (m *maker) addFields(p *Plan, t reflect.Type) bool {
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

// isPlain reports whether every version of encoding/json accepts name in a tag.
func isPlain(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
