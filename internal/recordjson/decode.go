package recordjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Misshape is a value with the wrong JSON type. A Misshape quotes nothing.
type Misshape struct {
	redact.Safe

	Path, Want, Got string
}

// Error names the place and the types.
func (m *Misshape) Error() string {
	return strings.TrimPrefix(fmt.Sprintf("%s: want %s, got %s", m.Path, m.Want, m.Got), ": ")
}

// Within adds the outer field or element to the path. Within returns nil for nil.
func (m *Misshape) Within(outer string) *Misshape {
	if m != nil {
		m.Path = strings.TrimSuffix(outer+"."+m.Path, ".")
	}
	return m
}

// Keeper learns the places of decoded records in their text.
type Keeper interface {
	// Keep sets record, of the type Record of the Types, to a part of the text.
	Keep(record reflect.Value, from, to int)
}

// Decode fills v, a zero value, from the value at i in text, valid JSON. Field names match in
// any case, as at the service.
func (t *Types) Decode(text []byte, i int, v reflect.Value, keeper Keeper) *Misshape {
	d := decoder{t, text, keeper}
	_, m := d.value(i, v)
	return m
}

// IsRecord reports whether of is Record, or a struct with a Record as its first field.
func (t *Types) IsRecord(of reflect.Type) bool {
	return of == t.Record || of.Kind() == reflect.Struct && of.NumField() > 0 && of.Field(0).Type == t.Record
}

// decoder reads a text. Its methods take the start i of a value and return its end.
type decoder struct {
	*Types
	text   []byte
	keeper Keeper
}

func (d *decoder) value(i int, v reflect.Value) (end int, m *Misshape) {
	got := jsonsplit.Kind(d.text[i:])
	var want string
	switch t := v.Type(); {
	case d.IsRecord(t) && (got == "an object" || t == d.Record):
		return d.members(i, v)
	case v.Kind() == reflect.Slice && d.IsRecord(t.Elem()) && got == "an array":
		return d.elements(i, v)
	case got == "null":
	case d.IsRecord(t):
		want = "an object"
	case v.Kind() == reflect.Slice && d.IsRecord(t.Elem()):
		want = "an array"
	default:
		end = jsonsplit.End(d.text, i)
		want = d.scalar(d.text[i:end], v)
	}
	if want != "" {
		m = &Misshape{Want: want, Got: got}
	}
	return jsonsplit.End(d.text, i), m
}

// scalar fills v from raw, which is not null. It returns the wanted kind if raw does not fit,
// else "".
func (d *decoder) scalar(raw []byte, v reflect.Value) (want string) {
	ok := true
	switch into := v.Addr().Interface().(type) {
	case *bool:
		*into = raw[0] == 't'
		ok = *into || raw[0] == 'f'
	case *int:
		ok = parseCount(raw, into) == nil
	case *time.Time:
		if Time(raw, into) != nil {
			return "a time"
		}
	case encoding.TextUnmarshaler:
		plain, err := jsonsplit.Text(raw)
		ok = err == nil && into.UnmarshalText(plain) == nil
	case json.Unmarshaler:
		if ok = into.UnmarshalJSON(raw) == nil; !ok && v.Type() == d.Secret {
			return "a string that is not redacted"
		}
	default:
		ok = json.Unmarshal(raw, into) == nil
	}
	if ok {
		return ""
	}
	return kindOf(v.Type())
}

// keep sets the record in v, or v itself.
func (d *decoder) keep(v reflect.Value, from, to int) {
	if v.Type() != d.Record {
		v = v.Field(0)
	}
	d.keeper.Keep(v, from, to)
}

func (d *decoder) members(from int, v reflect.Value) (end int, m *Misshape) {
	if v.Type() == d.Record || v.NumField() == 1 { // without published fields
		end = jsonsplit.End(d.text, from)
		d.keep(v, from, end)
		return end, nil
	}
	var few [8]string // so that most records cost no allocation
	fields := few[:0]
	for i := 1; i < v.NumField(); i++ {
		wire, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields = append(fields, wire)
	}
	i := jsonsplit.Space(d.text, from+1)
	for d.text[i] != '}' {
		name, value := jsonsplit.Member(d.text, i)
		end = 0
		for i, wire := range fields {
			if !strings.EqualFold(string(name), wire) {
				continue
			}
			end, m = d.value(value, v.Field(i+1))
			if m != nil && v.Type().Field(i+1).Tag.Get("decode") != "if-it-fits" {
				return end, m.Within(wire)
			}
		}
		if end == 0 {
			end = jsonsplit.End(d.text, value)
		}
		i = jsonsplit.Next(d.text, end)
	}
	d.keep(v, from, i+1)
	return i + 1, nil
}

func (d *decoder) elements(from int, v reflect.Value) (end int, m *Misshape) {
	n := 0
	i := jsonsplit.Space(d.text, from+1)
	for ; d.text[i] != ']'; i = jsonsplit.Next(d.text, end) {
		if n == v.Cap() {
			// The expected number if all elements have the same length, up to a page.
			v.Grow(max(1, min((len(d.text)-i)/(jsonsplit.End(d.text, i)-i+1), d.Page)))
		}
		v.SetLen(n + 1)
		if end, m = d.value(i, v.Index(n)); m != nil {
			return end, m.Within(fmt.Sprintf("[%d]", n))
		}
		if d.text[i] == 'n' { // null, perhaps as a record, whose Raw is then null
			d.keep(v.Index(n), i, end)
		}
		n++
	}
	if n == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list is not nil
	}
	return i + 1, nil
}

// Time reads the JSON string of a time of the service.
func Time(raw []byte, into *time.Time) error {
	text, err := jsonsplit.Text(raw)
	if err == nil {
		err = PlainTime(string(text), into)
	}
	return err
}

// PlainTime reads a time of the service: with a zone, or without a zone in UTC.
func PlainTime(text string, into *time.Time) error {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05.999999999", text)
	}
	if err == nil {
		*into = t.UTC()
	}
	return err
}

// parseCount reads the number in raw as the nearest int: an impossible count must not cost its
// records.
func parseCount(raw []byte, into *int) error {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64) // 1e30, 12.0
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return err
		}
		n = int64(max(min(f, 1<<62), -1<<62))
	}
	*into = int(max(min(n, math.MaxInt), math.MinInt))
	return nil
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Slice:
		return "an array"
	case reflect.Map:
		return "an object"
	case reflect.Array:
		return "a UUID"
	default:
		return "a string"
	}
}
