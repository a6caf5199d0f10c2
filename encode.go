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

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// encode writes a request record as the service reads it: fields by their json
// tags, secrets revealed, the members of Extra, and what else the service sent if it
// is a record that was received.
//
// encoding/json cannot do it, because there a [Secret] writes "[redacted]".
func encode(record any) ([]byte, error) {
	if raw, ok := record.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	v := reflect.Indirect(reflect.ValueOf(record))
	write := encodeObject // also where the record has a MarshalJSON, which redacts
	if v.Kind() == reflect.Slice {
		write = encodeArray
	}
	err := write(&b, v, "")
	return b.Bytes(), err
}

func encodeValue(b *bytes.Buffer, v reflect.Value, field string) error {
	switch x := v.Interface().(type) {
	case Secret:
		return encodeJSON(b, x.Reveal(), field)
	case json.Marshaler, encoding.TextMarshaler:
		return encodeJSON(b, x, field)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return encodeValue(b, v.Elem(), field)
	case reflect.Struct:
		return encodeObject(b, v, field)
	case reflect.Slice:
		return encodeArray(b, v, field)
	}
	return encodeJSON(b, v.Interface(), field)
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
	var names []string
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
	text, err := marshal(extra, path+"Extra")
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
	_ = encodeJSON(b, name, "")
	b.WriteByte(':')
}

func encodeJSON(b *bytes.Buffer, v any, field string) error {
	text, err := marshal(v, field)
	b.Write(text)
	return err
}

// marshal refuses what encoding/json would change without saying so: a Secret, of
// which it writes "[redacted]", and bytes that are not UTF-8.
func marshal(v any, field string) ([]byte, error) {
	text, err := json.Marshal(v)
	plain, isPlain := v.(string) // a revealed Secret comes so
	switch {
	case err != nil:
		return nil, encodingError(field, "cannot be written as JSON")
	case !isPlain && bytes.Contains(text, []byte(`"`+redacted+`"`)):
		return nil, encodingError(field, "holds a Secret, which would be sent as "+redacted+": reveal it")
	case !utf8.ValidString(plain), !isPlain && bytes.Contains(text, []byte(`\ufffd`)):
		return nil, encodingError(field, "must be valid UTF-8")
	}
	return text, nil
}

func encodingError(field, message string) error {
	return &ArgumentError{Fields: []FieldError{{field, message, CodeEncoding}}}
}
