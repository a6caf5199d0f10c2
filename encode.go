package lending

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// encode writes a request record as the service reads it: fields by their json
// tags, secrets revealed, the members of Extra last.
//
// encoding/json cannot do it, because there a [Secret] writes "[redacted]".
func encode(record any) ([]byte, error) {
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
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return encodingError(field, "must be valid UTF-8")
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !utf8.ValidString(key.String() + v.MapIndex(key).String()) {
				return encodingError(field, "must be valid UTF-8")
			}
		}
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
	b.WriteByte('{')
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		if strings.Contains(options, "omit") && (v.Field(i).IsZero() || isEmptyMap(v.Field(i))) {
			continue
		}
		encodeName(b, name)
		if err := encodeValue(b, v.Field(i), path+name); err != nil {
			return err
		}
	}
	if extra := v.FieldByName("Extra"); extra.IsValid() && !extra.IsNil() {
		if err := encodeExtra(b, extra.Interface(), names, path); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// encodeExtra writes the members of extra into the open object in b. A name that is
// taken by a typed field in any case is refused: the service reads both as one field.
func encodeExtra(b *bytes.Buffer, extra any, taken []string, path string) error {
	text, err := json.Marshal(extra)
	if err != nil || jsonType(text) != "an object" {
		return encodingError(path+"Extra", "must marshal to a JSON object")
	}
	for name, value := range jsonsplit.Members(text) {
		for _, other := range taken {
			if strings.EqualFold(string(name), other) {
				return &ArgumentError{Fields: []FieldError{{path + "Extra." + other, "stands in a field of its own", CodeConflict}}}
			}
		}
		taken = append(taken, string(name))
		encodeName(b, string(name))
		b.Write(text[value.From:value.To])
	}
	return nil
}

func encodeName(b *bytes.Buffer, name string) {
	if last := b.Bytes()[b.Len()-1]; last != '{' {
		b.WriteByte(',')
	}
	_ = encodeJSON(b, name, "")
	b.WriteByte(':')
}

func encodeJSON(b *bytes.Buffer, v any, field string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return encodingError(field, "cannot be written as JSON")
	}
	b.Write(text)
	return nil
}

func encodingError(field, message string) error {
	return &ArgumentError{Fields: []FieldError{{field, message, CodeEncoding}}}
}

func isEmptyMap(v reflect.Value) bool { return v.Kind() == reflect.Map && v.Len() == 0 }
