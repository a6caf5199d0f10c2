package jsonplan

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Misfit is the place where a JSON text does not fit a type. A Misfit quotes no value and no key
// of a map, unlike encoding/json.
type Misfit struct {
	Path string // to the value, with * for the key of a map
	Got  string // from [jsonsplit.Kind], or "a key"
	Want reflect.Type
	Err  error // of encoding/json, or of the failed method
}

// maxSteps is the depth of a path: an ellipsis replaces the rest.
const maxSteps = 32

// misfit returns the place of err. Inside a value that was left to encoding/json the offset of
// an [json.UnmarshalTypeError] tells the place. The error of a method tells none.
func (d *decoder) misfit(t reflect.Type, err error) *Misfit {
	m, place := &Misfit{Err: err}, d.failed
	wrong, told := err.(*json.UnmarshalTypeError)                    //nolint:errorlint // of encoding/json, not inside the error of a method
	told = told && d.foreign && wrong != nil && wrong.Type != nil && // which a method may leave out
		int64(place) < wrong.Offset && wrong.Offset <= int64(jsonsplit.End(d.data, place))+1
	if told {
		if place = min(int(wrong.Offset), len(d.data)) - 1; strings.IndexByte(",]} \t\r\n", d.data[place]) >= 0 {
			place-- // Go 1.26 counts the byte after a number for an interface
		}
	}
	if m.Path, m.Got, m.Want = find(d.data, place, t); told {
		m.Want = wrong.Type
	}
	return m
}

func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// find returns the path to the innermost value at place, the kind of the value, and its type in t.
func find(data []byte, place int, t reflect.Type) (path, got string, want reflect.Type) {
	at := jsonsplit.Space(data, 0)
	for steps := 0; ; steps++ {
		value, name, inner := part(data, at, place, t)
		switch {
		case place > at && inner == nil && t.Kind() == reflect.Map:
			return strings.TrimPrefix(path+".*", "."), "a key", t.Key()
		case inner == nil:
			return strings.TrimPrefix(path, "."), jsonsplit.Kind(data[at:]), t
		case steps == maxSteps:
			return strings.TrimPrefix(path, ".") + "…", jsonsplit.Kind(data[at:]), t
		}
		at, path, t = value, path+name, inner
	}
}

// part returns the start, the name and the type of the part of the value at i that has place in
// it. The type is nil if there is none.
func part(data []byte, i, place int, t reflect.Type) (value int, name string, inner reflect.Type) {
	if place <= i || hasMethod(t) {
		return 0, "", nil
	}
	inner = reflect.TypeFor[any]()
	if kind := t.Kind(); kind == reflect.Map || kind == reflect.Slice || kind == reflect.Array {
		inner = base(t.Elem())
	}
	n := 0
	for at := range jsonsplit.Elements(data[i:]) {
		if value = i + at.From; value <= place && place < i+at.To {
			return value, "[" + strconv.Itoa(n) + "]", inner
		}
		n++
	}
	for member, at := range jsonsplit.Members(data[i:]) {
		if value = i + at.From; value <= place && place < i+at.To {
			if t.Kind() == reflect.Struct {
				if field := fieldOf(t, string(member)); field != nil { // so its name is no value
					return value, "." + string(member), field
				}
			}
			return value, ".*", inner
		}
	}
	return 0, "", nil
}

// fieldOf returns the type of the field of t for a member, nil if there is none.
func fieldOf(t reflect.Type, member string) (found reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case !f.IsExported() || f.Anonymous && f.Tag.Get("json") == "" || f.Tag.Get("json") == "-":
		case nameOf(f) == member:
			return base(f.Type)
		case strings.EqualFold(nameOf(f), member):
			found = base(f.Type)
		}
	}
	return found
}
