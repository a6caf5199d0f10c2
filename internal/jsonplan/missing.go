package jsonplan

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Missing returns the paths of the tagged fields of t that are in none of texts, which are valid JSON. The fields of an inner
// struct count only if a text has such an object. A type with an UnmarshalJSON or UnmarshalText of its own has no fields.
func Missing(t reflect.Type, texts []json.RawMessage) []string {
	t, objects := element(base(t), texts)
	if t.Kind() != reflect.Struct || hasMethod(t) {
		return nil
	}
	var missing []string
	for _, f := range reflect.VisibleFields(t) {
		tag, outer := f.Tag.Get("json"), t.Field(f.Index[0])
		if tag == "" || tag == "-" || !f.IsExported() || len(f.Index) > 1 && outer.Tag.Get("json") != "" {
			continue
		}
		name, values := nameOf(f), []json.RawMessage(nil)
		for _, object := range objects {
			for member, at := range jsonsplit.Members(object) {
				if strings.EqualFold(string(member), name) {
					values = append(values, object[at.From:at.To])
				}
			}
		}
		if len(values) == 0 {
			missing = append(missing, name)
		} else if inner, objects := element(f.Type, values); len(objects) > 0 {
			for _, path := range Missing(inner, objects) {
				missing = append(missing, name+"."+path)
			}
		}
	}
	return missing
}

// element returns the type in the pointers, lists and maps of t, and the objects there.
func element(t reflect.Type, texts []json.RawMessage) (reflect.Type, []json.RawMessage) {
	var inside []json.RawMessage
	for _, text := range texts {
		switch kind := t.Kind(); {
		case kind == reflect.Slice || kind == reflect.Array:
			for at := range jsonsplit.Elements(text) {
				inside = append(inside, text[at.From:at.To])
			}
		case kind == reflect.Map:
			for _, at := range jsonsplit.Members(text) {
				inside = append(inside, text[at.From:at.To])
			}
		case kind == reflect.Pointer || jsonsplit.Kind(text[jsonsplit.Space(text, 0):]) == "an object":
			inside = append(inside, text)
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if len(inside) > 0 && !hasMethod(t) {
			return element(t.Elem(), inside)
		}
	}
	return t, inside
}
