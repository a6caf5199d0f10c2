// Package plain encodes values for programs in any language: durations like "1m30s", bytes as text.
// It also leaves out the fields missing from a response.
package plain

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// JSON encodes values that cannot fail.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("lendingtest: " + err.Error())
	}
	return b
}

// Decode returns a JSON value with exact numbers.
func Decode(body []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// span is a duration whose JSON is the text of time.Duration.
type span time.Duration

func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *span) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	*d = span(parsed)
	return err
}

// text is a byte slice whose JSON is a string.
type text []byte

func (t text) MarshalText() ([]byte, error) { return t, nil }

func (t *text) UnmarshalText(b []byte) error {
	*t = append(text{}, b...)
	return nil
}

var (
	durations = reflect.TypeFor[time.Duration]()
	byteTexts = reflect.TypeFor[[]byte]()
	shadows   sync.Map // shadowKey to reflect.Type
)

type shadowKey struct {
	t    reflect.Type
	wire bool
}

// shadowOf returns the type without methods for the encoding of t. With wire the fields tagged wire:"-" are missing. The
// fields tagged json:"-" are missing in any case.
func shadowOf(t reflect.Type, wire bool) reflect.Type {
	if known, ok := shadows.Load(shadowKey{t, wire}); ok {
		return known.(reflect.Type)
	}
	var fields []reflect.StructField
	for f := range t.Fields() {
		if !f.IsExported() || f.Tag.Get("json") == "-" || wire && f.Tag.Get("wire") == "-" {
			continue
		}
		switch f.Type {
		case durations:
			f.Type = reflect.TypeFor[span]()
		case byteTexts:
			f.Type = reflect.TypeFor[text]()
		}
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	shadow := reflect.StructOf(fields)
	shadows.Store(shadowKey{t, wire}, shadow)
	return shadow
}

func of(v reflect.Value, wire bool) reflect.Value {
	to := reflect.New(shadowOf(v.Type(), wire)).Elem()
	for f, value := range to.Fields() {
		value.Set(v.FieldByName(f.Name).Convert(f.Type))
	}
	return to
}

// Marshal encodes a struct.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(of(reflect.Indirect(reflect.ValueOf(v)), false).Interface())
}

// Wire returns a record without the fields that a response does not have.
func Wire[T any](row *T) any { return of(reflect.ValueOf(row).Elem(), true).Interface() }

// Unmarshal decodes a struct and rejects unknown names.
func Unmarshal(b []byte, v any) error {
	original := reflect.ValueOf(v).Elem()
	read := reflect.New(shadowOf(original.Type(), false))
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(read.Interface()); err != nil {
		return err
	}
	for f, value := range read.Elem().Fields() {
		to := original.FieldByName(f.Name)
		to.Set(value.Convert(to.Type()))
	}
	return nil
}
