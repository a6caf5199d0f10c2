// Package jsonmisfit finds where a JSON text does not fit a Go type.
package jsonmisfit

import (
	"encoding"
	"encoding/json"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Misfit says where a JSON text does not fit a type, and quotes no value.
// encoding/json says it in other words with every version of Go, not for types with
// methods of their own, and quotes.
type Misfit struct {
	Path string // to the field; the key of a map, which is a value, is shown as *
	Got  string // as [jsonsplit.Kind] says it, or "a key"
	Want reflect.Type
}

// Of finds the first part of raw, which is valid JSON, that does not decode into
// what t has for it. That raw as a whole does not decode into t is known.
func Of(raw []byte, t reflect.Type) Misfit {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !DecodesItself(t) {
		for p := range jsonParts(raw, t) {
			if fits(p.alone, t) {
				continue
			}
			m := Misfit{Got: "a key", Want: p.key}
			if p.key == nil || !fits(p.raw, p.t) {
				m = Of(p.raw, p.t)
			}
			m.Path = strings.TrimSuffix(p.step+"."+m.Path, ".")
			m.Path = strings.ReplaceAll(m.Path, ".[", "[")
			return m
		}
	}
	return Misfit{Got: jsonsplit.Kind(raw), Want: t}
}

func fits(raw []byte, t reflect.Type) bool {
	return json.Unmarshal(raw, reflect.New(t).Interface()) == nil
}

// jsonPart is a member or an element.
type jsonPart struct {
	step  string
	raw   []byte
	alone []byte       // as the only one, in what it stands in
	t     reflect.Type // that raw decodes into
	key   reflect.Type // of the map that it stands in, nil if in none
}

// jsonParts yields the parts of raw that t has a place for.
func jsonParts(raw []byte, t reflect.Type) iter.Seq[jsonPart] {
	if t.Kind() == reflect.Interface { // what it holds can only be these, with a number out of range
		t = map[byte]reflect.Type{'{': reflect.TypeFor[map[string]any](), '[': reflect.TypeFor[[]any]()}[raw[0]]
	}
	return func(yield func(jsonPart) bool) {
		switch {
		case t == nil:
		case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
			n := -1
			for at := range jsonsplit.Elements(raw) {
				part := raw[at.From:at.To]
				if n++; !yield(jsonPart{"[" + strconv.Itoa(n) + "]", part, []byte("[" + string(part) + "]"), t.Elem(), nil}) {
					return
				}
			}
		case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
			for name, at := range jsonsplit.Members(raw) {
				quoted, _ := json.Marshal(string(name))
				p := jsonPart{step: "*", raw: raw[at.From:at.To], alone: []byte("{" + string(quoted) + ":" + string(raw[at.From:at.To]) + "}")}
				if t.Kind() == reflect.Map {
					p.t, p.key = t.Elem(), t.Key()
				} else {
					p.step, p.t = string(name), typeOfField(t, string(name))
				}
				if p.t != nil && !yield(p) {
					return
				}
			}
		}
	}
}

// typeOfField returns the type of the field that encoding/json fills from the member
// that is called name, nil if there is none.
func typeOfField(t reflect.Type, name string) (found reflect.Type) {
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !field.IsExported() || field.Tag.Get("json") == "-" || field.Anonymous && tag == "":
		case tag == name || tag == "" && field.Name == name:
			return field.Type
		case found == nil && (strings.EqualFold(tag, name) || tag == "" && strings.EqualFold(field.Name, name)):
			found = field.Type
		}
	}
	return found
}

// DecodesItself reports whether encoding/json leaves t to a method of t.
func DecodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
