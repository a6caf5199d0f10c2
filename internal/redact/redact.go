// Package redact marks errors with a safe text. The text of any other error can quote requests
// or responses.
package redact

import (
	"errors"
	"reflect"
	"strings"
)

// Safe marks a type of errors with a safe text: embed Safe in the type.
type Safe struct{}

func (Safe) safe() {}

// Text is an error with a safe text.
type Text string

// Error returns the text.
func (t Text) Error() string { return string(t) }

func (Text) safe() {}

// textOf returns the outermost safe text in the tree of err, without the prefix of its package.
func textOf(err error) (text string, ok bool) {
	if _, safe := err.(interface{ safe() }); safe {
		return withoutPrefix(err.Error()), true
	}
	switch wrapper := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			return textOf(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			if inner == nil {
				continue
			}
			if text, ok := textOf(inner); ok {
				return text, true
			}
		}
	}
	return "", false
}

var plain = reflect.TypeOf(errors.New(""))

// Plain returns the innermost text of err, for example "no responder found". ok is false unless errors.New
// made the text, the text is a few words without digits, and no word of four letters or more is part of
// values. So the text has no value of a request, and hardly ever a value of a response.
func Plain(err error, values []string) (text string, ok bool) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	text = err.Error()
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune(" ,.:;'-()", r))
	}
	if reflect.TypeOf(err) != plain || len(text) > 80 || strings.ContainsFunc(text, odd) {
		return "", false
	}
	all := strings.ToLower(strings.Join(values, "\n"))
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if len(word) > 3 && strings.Contains(all, word) {
			return "", false
		}
	}
	return text, true
}

// withoutPrefix cuts "lending: " or "lending/package: ".
func withoutPrefix(text string) string {
	rest, ok := strings.CutPrefix(text, "lending")
	if !ok {
		return text
	}
	name, rest, found := strings.Cut(rest, ": ")
	if !found || name != "" && (name[0] != '/' || strings.Contains(name, " ")) {
		return text
	}
	return rest
}
