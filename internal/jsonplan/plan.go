// Package jsonplan decodes JSON as encoding/json does, and several times as fast into plain
// structs: a plan maps members to fields once for each type. The package leaves everything else
// to encoding/json, also texts that do not fit, so values and errors are as in the installed
// version of Go. A test compares. In addition, a [Misfit] names the place where a text does not
// fit.
//
// If a text does not fit, a method of a caller's type may run twice: for the plan, and for
// encoding/json.
package jsonplan

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
)

// Plan is the way to decode values of a type. Several goroutines may use a Plan at a time.
type Plan struct {
	kind   kind
	elem   *Plan // of a pointer or a slice
	fields []field
	size   atomic.Int64 // of the strings in the last value: see keep
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
	float
	pointer
	slice
	structure
)

type field struct {
	name  string
	index int // in the struct
	plan  *Plan
}

// maxFields is the size of a set of 64 bits.
const maxFields = 64

// For returns the plan for values of type t.
func For(t reflect.Type) *Plan { return maker{}.plan(t) }

// maker keeps the plans of all types on its way, because a type may hold itself.
type maker map[reflect.Type]*Plan

func (m maker) plan(t reflect.Type) *Plan {
	if p := m[t]; p != nil {
		return p
	}
	p := &Plan{kind: kindOf(t)}
	m[t] = p
	if p.kind == pointer || p.kind == slice {
		p.elem = m.plan(t.Elem())
	}
	if p.elem != nil && p.elem.kind == awkward || p.kind == structure && !m.addFields(p, t) {
		p.kind = foreign
	}
	return p
}

func kindOf(t reflect.Type) kind {
	if method, ok := methodOf(t); ok {
		return method
	}
	switch t.Kind() {
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return number
		}
		return text
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer
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

// methodOf returns the kind of the method to which encoding/json leaves a t, if any.
// encoding/json uses methods only of named types and pointers. A json.Number has a method in Go
// 1.27 alone.
func methodOf(t reflect.Type) (k kind, ok bool) {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || t == reflect.TypeFor[json.Number]() {
		return foreign, false
	}
	p := reflect.PointerTo(t)
	_, newer := p.MethodByName("UnmarshalJSONFrom") // which Go 1.27 prefers
	isJSON := p.Implements(reflect.TypeFor[json.Unmarshaler]())
	isText := p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
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

func hasMethod(t reflect.Type) bool {
	_, ok := methodOf(t)
	return ok
}

// addFields adds the fields of the struct t to p, and reports whether all of them are plain: not
// embedded, without an option that changes the decoding, and with different names.
func (m maker) addFields(p *Plan, t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		_, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous, options != "" && options != "omitempty" && options != "omitzero":
			return false
		case tag == "-", tag == "" && !f.IsExported():
			continue
		case !f.IsExported():
			return false
		}
		name, fp := nameOf(f), m.plan(f.Type)
		isSame := func(other field) bool { return strings.EqualFold(name, other.name) }
		if !isPlain(name) || fp.kind == awkward || len(p.fields) == maxFields || slices.ContainsFunc(p.fields, isSame) {
			return false
		}
		p.fields = append(p.fields, field{name, i, fp})
	}
	return true
}

func nameOf(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return cmp.Or(tag, f.Name)
}

// isPlain reports whether every version of encoding/json accepts name in a tag.
func isPlain(name string) bool {
	return strings.Trim(name, "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == ""
}
