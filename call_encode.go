package lending

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// encode writes what a request carries as the service reads it: of a request record
// the fields by their json tags, secrets revealed, the members of Extra, and what else
// the service sent if it is a record that was received. Request records and secrets
// are found in maps and slices too.
//
// encoding/json cannot do it, because there a [Secret] writes "[redacted]" and Extra
// nothing.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(512)
	err := encodeValue(&b, reflect.ValueOf(value), "")
	return b.Bytes(), err
}

func encodeValue(b *bytes.Buffer, v reflect.Value, field string) error {
	if !v.IsValid() {
		b.WriteString("null")
		return nil
	}
	switch x := v.Interface().(type) {
	case Secret:
		return encodeString(b, x.Reveal(), field)
	case string:
		return encodeString(b, x, field)
	case interface {
		IsZero() bool
		UUID() uuid.UUID
	}:
		if x.IsZero() {
			return &ArgumentError{Fields: []FieldError{{field, "must not be the zero UUID", CodeRequired}}}
		}
	}
	if isRequestRecord(v.Type()) {
		return encodeObject(b, v, field)
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return encodeJSON(b, v.Interface(), field)
	}
	switch {
	case (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil():
		return encodeValue(b, v.Elem(), field)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 && !v.IsNil():
		return encodeArray(b, v, field)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String && !v.IsNil():
		return encodeMap(b, v, field)
	}
	return encodeJSON(b, v.Interface(), field)
}

// isRequestRecord reports whether t is a record of this package that is sent: it has
// room for Extra.
func isRequestRecord(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.PkgPath() != recordType.PkgPath() {
		return false
	}
	extra, ok := t.FieldByName("Extra")
	return ok && extra.Tag.Get("json") == "-"
}

func encodeMap(b *bytes.Buffer, v reflect.Value, field string) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b.WriteByte('{')
	for _, key := range keys {
		if !utf8.ValidString(key.String()) {
			return encodingError(field, "must be valid UTF-8")
		}
		encodeName(b, key.String())
		if err := encodeValue(b, v.MapIndex(key), strings.TrimPrefix(field+"."+key.String(), ".")); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func encodeArray(b *bytes.Buffer, v reflect.Value, field string) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encodeValue(b, v.Index(i), fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func encodeObject(b *bytes.Buffer, v reflect.Value, path string) error {
	if path != "" {
		path += "."
	}
	names := make([]string, 0, v.NumField())
	var received json.RawMessage
	if isRecord(v.Type()) {
		received = v.Field(0).Interface().(Record).Raw()
	}
	b.WriteByte('{')
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		if strings.Contains(options, "omit") && isAbsent(v.Field(i), received) {
			continue
		}
		encodeName(b, name)
		if err := encodeValue(b, v.Field(i), path+name); err != nil {
			return err
		}
	}
	if extra := v.FieldByName("Extra"); extra.IsValid() && !extra.IsNil() {
		var err error
		if names, err = encodeExtra(b, extra.Interface(), names, path); err != nil {
			return err
		}
	}
	for name, value := range jsonsplit.Members(received) {
		if indexFold(names, string(name)) < 0 {
			encodeName(b, string(name))
			b.Write(received[value.From:value.To])
		}
	}
	b.WriteByte('}')
	return nil
}

// isAbsent reports whether a field with the option omitzero or omitempty is left out.
// In a record that was received false is a value: it may have been true.
func isAbsent(v reflect.Value, received json.RawMessage) bool {
	return v.IsZero() && (received == nil || v.Kind() != reflect.Bool) || v.Kind() == reflect.Map && v.Len() == 0
}

// encodeExtra writes the members of extra into the open object in b and adds their
// names to taken. A name that is taken in any case is refused: the service reads both
// as one field.
func encodeExtra(b *bytes.Buffer, extra any, taken []string, path string) ([]string, error) {
	var written bytes.Buffer
	err := encodeValue(&written, reflect.ValueOf(extra), path+"Extra")
	text := written.Bytes()
	if err == nil && text[0] != '{' && string(text) != "null" { // null is a nil map
		err = encodingError(path+"Extra", "must marshal to a JSON object")
	}
	if err != nil {
		return nil, err
	}
	for name, value := range jsonsplit.Members(text) {
		if i := indexFold(taken, string(name)); i >= 0 {
			return nil, &ArgumentError{Fields: []FieldError{{path + "Extra." + taken[i], "stands in a field of its own", CodeConflict}}}
		}
		taken = append(taken, string(name))
		encodeName(b, string(name))
		b.Write(text[value.From:value.To])
	}
	return taken, nil
}

func indexFold(names []string, name string) int {
	return slices.IndexFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

func encodeName(b *bytes.Buffer, name string) {
	if last := b.Bytes()[b.Len()-1]; last != '{' {
		b.WriteByte(',')
	}
	_ = encodeString(b, name, "") // whoever calls has looked at it
	b.WriteByte(':')
}

// encodeString leaves to encoding/json only the strings that need more than quotes.
func encodeString(b *bytes.Buffer, s, field string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return encodeJSON(b, s, field)
		}
	}
	b.WriteByte('"')
	b.WriteString(s)
	b.WriteByte('"')
	return nil
}

// encodeJSON leaves v to encoding/json, unless that would change it without saying so.
func encodeJSON(b *bytes.Buffer, v any, field string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return encodingError(field, "cannot be written as JSON")
	}
	if flaw := flawOf(reflect.ValueOf(v)); flaw != "" {
		return encodingError(field, flaw)
	}
	b.Write(text)
	return nil
}

// flawOf says what in v encoding/json would change: a Secret, of which it writes
// "[redacted]", a request record, of which it leaves out Extra, and bytes that are not
// UTF-8. v is known to marshal, so it holds no cycle.
func flawOf(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return ""
	case v.Type() == reflect.TypeFor[Secret]():
		return "holds a Secret in a struct, which would be sent as " + redacted + ": reveal it, or use a map"
	case isRequestRecord(v.Type()):
		return "holds a request record in a struct, which would lose its Extra: use a map"
	}
	var parts []reflect.Value
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return "must be valid UTF-8"
		}
	case reflect.Pointer, reflect.Interface:
		parts = append(parts, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				parts = append(parts, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 {
				parts = append(parts, v.Index(i))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			parts = append(parts, key, v.MapIndex(key))
		}
	}
	for _, part := range parts {
		if flaw := flawOf(part); flaw != "" {
			return flaw
		}
	}
	return ""
}

func encodingError(field, message string) error {
	return &ArgumentError{Fields: []FieldError{{field, message, CodeEncoding}}}
}
