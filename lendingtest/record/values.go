package record

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Cents is an amount of money. In JSON it is a number with two decimals.
type Cents int64

// String returns the amount with two decimals, for example 2500.00.
func (c Cents) String() string { return strconv.FormatFloat(float64(c)/100, 'f', 2, 64) }

// MarshalJSON encodes a number.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalJSON decodes a number, never a string.
func (c *Cents) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, ok := ParseCents(string(b))
	if !ok {
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[Cents]()}
	}
	*c = n
	return nil
}

// ParseCents parses a decimal with at most two decimals. Amounts are below ten trillion, where a
// float64 is exact to the cent.
func ParseCents(s string) (Cents, bool) {
	f, err := strconv.ParseFloat(s, 64)
	n := math.Round(f * 100)
	if err != nil || math.Abs(f) > 1e13 || math.Abs(n-f*100) > 1e-3 {
		return 0, false
	}
	return Cents(n), true
}

// Timestamp is encoded like a DateTime of unspecified kind in ASP.NET: seven digits and no zone.
// It means UTC.
type Timestamp struct{ time.Time }

// StampForm is the layout of a Timestamp.
const StampForm = "2006-01-02T15:04:05.0000000"

// MarshalJSON encodes the time without a zone. The zero time is 0001-01-01T00:00:00.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte(`"0001-01-01T00:00:00"`), nil
	}
	return []byte(t.UTC().Format(`"` + StampForm + `"`)), nil
}

// UnmarshalJSON decodes a time with or without a zone, or a date.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	var ok bool
	if t.Time, ok = ParseTime(s); !ok {
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[Timestamp]()}
	}
	return nil
}

// ParseTime parses a time with or without a zone, or a date.
func ParseTime(s string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

const zeroID = "00000000-0000-0000-0000-000000000000"

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseID returns a UUID in lower case, and false for any other text and for the all-zero UUID.
func ParseID(s string) (string, bool) {
	s = strings.ToLower(s)
	return s, uuidForm.MatchString(s) && s != zeroID
}
