// Package canonical writes requests in a form that outlives a release: a struct with another order of
// fields, other names in Go or a new field that the caller leaves empty has the same form.
package canonical

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Rule is the form of a release. Entries of a release are compared by its rule.
type Rule int

const (
	// Current is the rule of this release.
	Current Rule = iota
	// V01 is the rule of the release 0.1.
	V01
)

// JSON returns the canonical form of body, a JSON text, or nil if body is empty:
//   - the members of an object are sorted by name
//   - a member with a zero value (null, false, 0, "", {} or []) and a secret are left out: the
//     service takes a missing member for its zero value
//   - a number is digits and an exponent, so 1e3, 1000 and 1000.0 are the same
//   - a time has the zone UTC
//
// The elements of a list keep their zero values, except in the form of the release 0.1.
func (r Rule) JSON(body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return body
	}
	if value = r.normal(value); value == nil {
		return nil
	}
	text, _ := json.Marshal(value) //nolint:errchkjson // value was decoded from JSON
	return text
}

// normal returns the canonical form of a decoded value, nil for a zero value.
func (r Rule) normal(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if member = r.normal(member); member == nil {
				delete(value, name)
			} else {
				value[name] = member
			}
		}
		if len(value) > 0 {
			return value
		}
	case []any:
		for i, element := range value {
			if value[i] = r.normal(element); value[i] == nil && r != V01 {
				value[i] = zero(element)
			}
		}
		if len(value) > 0 {
			return value
		}
	case json.Number:
		if text := number(string(value)); text != "0" {
			return json.Number(text)
		}
	case string:
		if value != "" && value != redact.Placeholder {
			return plainText(value)
		}
	case bool:
		if value {
			return value
		}
	}
	return nil
}

// zero returns the canonical form of a zero value in a list.
func zero(value any) any {
	switch value := value.(type) {
	case json.Number:
		return json.Number("0")
	case string: // perhaps a secret
		return strings.TrimPrefix(value, redact.Placeholder)
	}
	return value
}

// number returns the canonical form of a JSON number: an integer without zeros at its end, and an
// exponent.
func number(text string) string {
	mantissa, power, hasPower := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if hasPower {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil { // an exponent of many digits
			return text
		}
	}
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	all := whole + fraction
	digits := strings.TrimRight(all, "0")
	exponent += len(all) - len(digits) - len(fraction)
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		return "0"
	}
	return mantissa[:len(mantissa)-len(unsigned)] + digits + "e" + strconv.Itoa(exponent)
}

// Text returns text, or the canonical form of a time or a number. In the form of the release 0.1 a
// number is a text.
func (r Rule) Text(text string) string {
	if r != V01 && json.Valid([]byte(text)) && strings.Trim(text, "+-.0123456789eE") == "" {
		return number(text)
	}
	return plainText(text)
}

func plainText(text string) string {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC().Format(time.RFC3339Nano)
	}
	return text
}
