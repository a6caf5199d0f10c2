// Package format gives stored values a version. A newer release reads the values of an older
// release. An older release refuses values of a newer version.
//
// The version of a format is the number of the release that introduced the format. A value without
// a version has the version 1. A release that only adds a member to a JSON object keeps the
// version: [Decode] keeps the member for the next save.
package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Version is a release: 1 is v0.1, 12 is v0.12, 1002 is v1.2.
type Version int

// String returns the release, for example "v0.1".
func (v Version) String() string { return fmt.Sprintf("v%d.%d", v/1000, v%1000) }

// Check returns a [*NewerError] for a stored value of version v if this release reads the versions
// up to known only. The name of the value is in the error, for example "the entry".
func (v Version) Check(known Version, name string) error {
	if v <= known {
		return nil
	}
	return &NewerError{name: name, version: v}
}

// NewerError is the error of a stored value that a newer release has written. The reader leaves
// the value unchanged.
type NewerError struct {
	redact.Safe
	name    string
	version Version
}

// Error names the value, the release and the next step.
func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer release, at least %v; update this replica", e.name, e.version)
}

// NeedsPerson makes lending.NextOf tell a person.
func (*NewerError) NeedsPerson() {}

// Unknown has the members of a stored JSON object without a field in this release.
type Unknown struct{ stored []byte }

// Decode decodes the JSON object stored into value, a pointer to a struct.
func Decode(stored []byte, value any) (Unknown, error) {
	strict := json.NewDecoder(bytes.NewReader(stored))
	strict.DisallowUnknownFields()
	if strict.Decode(value) == nil && len(bytes.TrimSpace(stored[strict.InputOffset():])) == 0 {
		return Unknown{}, nil
	}
	reflect.ValueOf(value).Elem().SetZero()
	err := json.Unmarshal(stored, value)
	return Unknown{stored}, err
}

// Encode encodes value, a pointer to a struct, with the unknown members. A member stays as long as
// its object is encoded: a member of an omitted object goes.
func (u Unknown) Encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil || u.stored == nil {
		return text, err
	}
	return merged(reflect.TypeOf(value), text, u.stored)
}

// merged returns the JSON object text of type t with the unknown members of stored.
func merged(t reflect.Type, text, stored []byte) ([]byte, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var now, was map[string]json.RawMessage
	if t.Kind() != reflect.Struct || json.Unmarshal(text, &now) != nil || json.Unmarshal(stored, &was) != nil || now == nil {
		return text, nil //nolint:nilerr // not an object
	}
	for name, value := range was {
		known := memberOf(t, name)
		if known == nil {
			now[name] = value
		} else if inner, ok := now[known.name]; ok {
			now[known.name], _ = merged(known.of, inner, value)
		}
	}
	return json.Marshal(now)
}

type member struct {
	name string
	of   reflect.Type
}

// memberOf returns the member of a field of t, or nil for an unknown name.
func memberOf(t reflect.Type, name string) *member {
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag != "" && strings.EqualFold(tag, name) {
			return &member{tag, field.Type}
		}
	}
	return nil
}
