// Package redact marks errors with a safe text. The text of any other error can quote requests
// or responses.
package redact

import (
	"errors"
	"reflect"
	"slices"
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

// common are the words of errors of transports for tests, in lower case. No value of a call consists of them.
var common = strings.Fields(`a an any body call called calls cannot client connection could did do does error expected
	failed fake for found from get has http in interaction is isn't it match matched matches matching method missing
	mock mocked more no none not of on only post recorded recording registered reply request requested requests responder
	responders response route routes stub stubs test that the there this to transport unexpected unhandled unknown url
	was were with without`)

// Plain returns the first words of the innermost text of err, if errors.New or fmt.Errorf made the text, with
// [Placeholder] for each word that is not common: "no stub for Mueller" becomes "no stub for [redacted]".
// Plain returns "" if no word is common.
func Plain(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	var shown []string
	isCommon := func(word string) bool { return slices.Contains(common, strings.ToLower(strings.Trim(word, ",.:;()"))) }
	for word := range strings.FieldsSeq(err.Error()) {
		if !isCommon(word) {
			word = Placeholder
		}
		if n := len(shown); n == 0 || shown[n-1] != word {
			shown = append(shown, word)
		}
	}
	if reflect.TypeOf(err) != plain || !slices.ContainsFunc(shown, isCommon) {
		return ""
	}
	return strings.Join(shown[:min(len(shown), 20)], " ")
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
