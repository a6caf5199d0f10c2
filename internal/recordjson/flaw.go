package recordjson

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"unicode/utf8"
)

const notUTF8 = "must be valid UTF-8"

// flawOf finds a part of v that encoding/json would change: a secret (it writes a placeholder),
// a request record (it leaves out Extra), and invalid UTF-8. flawOf also finds nesting deep
// enough to exhaust the stack of encoding/json.
//
// flawOf visits everything once and does not recurse, because v may contain itself.
func (t *Types) flawOf(v reflect.Value) string {
	type part struct {
		reflect.Value
		depth int
	}
	var seen map[identity]bool
	for parts := []part{{v, 0}}; len(parts) > 0; {
		p := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		if !p.IsValid() {
			continue
		}
		switch flaw := t.flawAt(p.Value); {
		case flaw != "":
			return flaw
		case p.depth > maxNesting:
			return tooDeep
		case marshals(p.Value):
			p.depth = math.MinInt // its JSON may differ from its content
		}
		if kind := p.Kind(); (kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Slice) && !p.IsNil() {
			id := identityOf(p.Value)
			if seen[id] {
				continue
			}
			if seen == nil {
				seen = map[identity]bool{}
			}
			seen[id] = true
		}
		for _, inner := range partsOf(p.Value) {
			parts = append(parts, part{inner, p.depth + 1})
		}
	}
	return ""
}

// identity tells pointers, maps and slices apart.
type identity struct {
	at     uintptr
	length int
	of     reflect.Type
}

func identityOf(v reflect.Value) identity {
	id := identity{at: v.Pointer(), of: v.Type()}
	if v.Kind() == reflect.Slice {
		id.length = v.Len()
	}
	return id
}

// flawAt is the flaw of v itself, not of its parts.
func (t *Types) flawAt(v reflect.Value) string {
	switch {
	case v.Type() == t.Secret:
		return "holds a Secret in a struct, which would not be sent as it is: reveal it, or use a map"
	case t.isRequest(v.Type()):
		return "holds a request record in a struct, which would lose its Extra: use a map"
	case v.Kind() == reflect.String && !utf8.ValidString(v.String()):
		return notUTF8
	}
	return ""
}

func marshals(v reflect.Value) bool {
	t := v.Type()
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// partsOf returns the parts of v that encoding/json may write.
func partsOf(v reflect.Value) (parts []reflect.Value) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer || kind == reflect.Interface:
		return []reflect.Value{v.Elem()}
	case kind == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i) // embedded, its own fields may be exported
			if (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-" {
				parts = append(parts, v.Field(i))
			}
		}
	case kind == reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			parts = append(parts, entry.Key(), entry.Value())
		}
	case (kind == reflect.Slice || kind == reflect.Array) && v.Type().Elem().Kind() > reflect.Complex128: // no numbers
		for i := range v.Len() {
			parts = append(parts, v.Index(i))
		}
	}
	return parts
}
