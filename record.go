package lending

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonplan"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Record is a record of the service as it was received. The service publishes only
// some fields of most records: those are typed, beside a Record that keeps them all,
// to the last digit. Embedded in every record that the service answers with.
//
// fmt shows nothing of a Record, in whatever it stands; slog's JSON handler shows it in
// a list, see [Record.LogValue].
//
// A Record keeps the whole response that it came in, for example a page of 200 records,
// in memory; a [Record.Clone] does not.
type Record struct {
	answer   answerText // nil if there is none
	from, to int
}

// answerText leads to the text that records are views of. There are two pointers on
// the way, because fmt prints an unexported slice, and behind one pointer also, under
// the verbs that do not fit it.
type answerText **answered

type answered struct {
	text    []byte
	checked bool // it is known to be JSON
	command bool // it answers a command, which has happened
}

func newAnswerText(text []byte) answerText {
	both := &struct {
		answered
		at *answered
	}{answered: answered{text: text}}
	both.at = &both.answered
	return &both.at
}

// NewRecord returns raw, one JSON value, as a Record. It keeps raw, which must not be changed
// afterwards.
func NewRecord(raw json.RawMessage) Record { return Record{newAnswerText(raw), 0, len(raw)} }

// Raw returns the JSON of the record as it was received. It must not be modified.
func (r Record) Raw() json.RawMessage {
	if r.answer == nil {
		return nil
	}
	return json.RawMessage((*r.answer).text[r.from:r.to:r.to])
}

// Decode decodes the record into v, as [json.Unmarshal] does in the installed version of
// Go. [As] does the same in one line with the call. The error is a [*DecodeError], which
// never shows a value.
//
// A struct that is still zero is decoded several times as fast if it holds only strings,
// numbers, booleans, types that decode themselves, and pointers, slices and structs of
// those, without embedded fields and without ",string". Methods of v run as often as
// json.Unmarshal runs them. A method that panics does so in the caller's goroutine and
// leaves the record unchanged.
//
// A field of type Record with the tag `json:"-"` receives the record itself, with the
// members that v has no field for. Do not embed a Record, or a record that has one: its
// UnmarshalJSON would be promoted, and the other fields would stay empty. Decode returns
// an error for such a struct. Use a named field instead.
func (r Record) Decode(v any) error {
	into := reflect.ValueOf(v)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		err := &json.InvalidUnmarshalError{Type: reflect.TypeOf(v)}
		return r.undecoded(fmt.Sprintf("cannot decode into %T: want a pointer that is not nil", v), err)
	}
	target, raw := targets.Target(into.Type().Elem()), r.Raw()
	if bad := target.Swallower(into.Elem()); bad != nil {
		return r.undecoded(bad.String()+" embeds a record, whose UnmarshalJSON takes everything: give the field a name", errSwallowed)
	} else if r.answer == nil || !(*r.answer).checked && !jsonsplit.Valid(raw) {
		return r.undecoded("not JSON", errNotJSON)
	}
	if misfit := target.Unmarshal(raw, v); misfit != nil {
		return r.misfit(misfit)
	}
	if keeper := target.Keeper(into.Elem()); keeper.IsValid() {
		*keeper.Addr().Interface().(*Record) = r //nolint:forcetypeassert // as found
	}
	return nil
}

// targets are the types of callers that records were decoded into.
var targets = jsonplan.Records{Own: recordType, Harmless: func(t reflect.Type) bool {
	switch t.PkgPath() {
	case recordType.PkgPath(), "time", "math/big", "net/netip", "encoding/json", "github.com/google/uuid":
		return true
	}
	return false
}}

var errSwallowed = errors.New("an embedded record takes everything")

// Clone returns a copy of the record, so that the copy does not keep the rest of the
// response in memory:
//
//	list[7].Record = list[7].Clone()
func (r Record) Clone() Record {
	if r.answer == nil {
		return r
	}
	text := bytes.Clone(r.Raw())
	answer := newAnswerText(text)
	(*answer).checked, (*answer).command = (*r.answer).checked, (*r.answer).command
	return Record{answer: answer, to: len(text)}
}

// MarshalJSON writes the record as it was received: changed typed fields are not written.
// Nothing is lost, but [json.Marshal] folds white space and writes <, > and & as escapes;
// [Record.Raw] is exact to the byte.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.answer == nil {
		return []byte("null"), nil
	}
	return r.Raw(), nil
}

// UnmarshalJSON keeps data.
func (r *Record) UnmarshalJSON(data []byte) error {
	text := append([]byte(nil), data...)
	*r = Record{answer: newAnswerText(text), to: len(text)}
	return nil
}

// LogValue logs how large the record is: records hold personal data. slog asks for it
// where a record, or a pointer to one, is the value of an attribute. In a slice, a map
// or a struct it does not: the JSON handler writes those with json.Marshal, and so every
// record in them whole, as [Record.MarshalJSON] must for whoever stores it. Log how many
// they are, or their ids. Neither fmt nor the text handler shows what a record holds.
func (r Record) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("record of %d bytes", len(r.Raw())))
}

// unmarshalRecord is the UnmarshalJSON of a record that has typed fields.
func unmarshalRecord[T any](data []byte, into *T) error {
	text := append([]byte(nil), data...)
	var fresh T
	if _, err := decodeValue(newAnswerText(text), jsonsplit.Space(text, 0), reflect.ValueOf(&fresh).Elem()); err != nil {
		return err
	}
	*into = fresh
	return nil
}

// marshalRecord is the MarshalJSON of a record that has typed fields: as received,
// or from its fields if it was made by hand, as tests do.
func marshalRecord(r Record, record any) ([]byte, error) {
	if r.answer != nil {
		return r.Raw(), nil
	}
	var e encoder
	err := e.object(reflect.ValueOf(record))
	return e.Bytes(), err
}

// shapeError says that a value of the answer is not of the JSON type it should be.
type shapeError struct {
	safe

	path, want, got string
}

func (e *shapeError) Error() string {
	return strings.TrimPrefix(fmt.Sprintf("%s: want %s, got %s", e.path, e.want, e.got), ": ")
}

// within adds the field or the element that the value stands in.
func (e *shapeError) within(outer string) *shapeError {
	if e != nil {
		e.path = strings.TrimSuffix(outer+"."+e.path, ".")
	}
	return e
}

var recordType = reflect.TypeFor[Record]()

// isRecord reports whether t is a struct that begins with a Record, or Record itself.
func isRecord(t reflect.Type) bool {
	return t == recordType || t.Kind() == reflect.Struct && t.NumField() > 0 && t.Field(0).Type == recordType
}

// decodeValue fills v, which is fresh, from the value that begins at i in text, which is
// valid JSON, and returns where that ends. Field names match in any case, as the
// service's own do.
func decodeValue(text answerText, i int, v reflect.Value) (end int, err *shapeError) {
	all := (*text).text
	got := jsonsplit.Kind(all[i:])
	var want string
	switch t := v.Type(); {
	case isRecord(t) && (got == "an object" || t == recordType):
		return decodeMembers(text, i, v)
	case v.Kind() == reflect.Slice && isRecord(t.Elem()) && got == "an array":
		return decodeElements(text, i, v)
	case got == "null":
	case isRecord(t):
		want = "an object"
	case v.Kind() == reflect.Slice && isRecord(t.Elem()):
		want = "an array"
	default:
		end = jsonsplit.End(all, i)
		want = decodeScalar(all[i:end], v)
	}
	if want != "" {
		err = &shapeError{want: want, got: got}
	}
	return jsonsplit.End(all, i), err
}

// decodeScalar fills v from raw, which is not null. It returns what it wanted instead
// of raw, and nothing if raw was it.
func decodeScalar(raw []byte, v reflect.Value) (want string) {
	ok := true
	switch into := v.Addr().Interface().(type) {
	case *Secret:
		if into.UnmarshalJSON(raw) != nil {
			return "a string that is not " + redacted
		}
	case *bool:
		*into = raw[0] == 't'
		ok = *into || raw[0] == 'f'
	case *int:
		ok = parseCount(raw, into) == nil
	case *time.Time:
		if parseTime(raw, into) != nil {
			return "a time"
		}
	case encoding.TextUnmarshaler:
		plain, err := jsonsplit.Text(raw)
		ok = err == nil && into.UnmarshalText(plain) == nil
	default:
		ok = json.Unmarshal(raw, into) == nil
	}
	if ok {
		return ""
	}
	return jsonTypeOf(v.Type())
}

// recordIn returns the Record that v is or begins with.
func recordIn(v reflect.Value) *Record {
	if v.Type() != recordType {
		v = v.Field(0)
	}
	return v.Addr().Interface().(*Record) //nolint:forcetypeassert // by its type
}

// decodeMembers fills v, which is a Record or begins with one.
func decodeMembers(text answerText, from int, v reflect.Value) (end int, err *shapeError) {
	all := (*text).text
	if v.Type() == recordType || v.NumField() == 1 { // nothing is published of it
		end = jsonsplit.End(all, from)
		*recordIn(v) = Record{text, from, end}
		return end, nil
	}
	var few [8]string // so that most records cost no allocation
	fields := few[:0]
	for i := 1; i < v.NumField(); i++ {
		wire, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields = append(fields, wire)
	}
	i := jsonsplit.Space(all, from+1)
	for all[i] != '}' {
		name, value := jsonsplit.Member(all, i)
		end = 0
		for i, wire := range fields {
			if !strings.EqualFold(string(name), wire) {
				continue
			}
			end, err = decodeValue(text, value, v.Field(i+1))
			if err != nil && v.Type().Field(i+1).Tag.Get("decode") != "if-it-fits" {
				return end, err.within(wire)
			}
		}
		if end == 0 {
			end = jsonsplit.End(all, value)
		}
		i = jsonsplit.Next(all, end)
	}
	*recordIn(v) = Record{text, from, i + 1}
	return i + 1, nil
}

func decodeElements(text answerText, from int, v reflect.Value) (end int, err *shapeError) {
	all := (*text).text
	n := 0
	i := jsonsplit.Space(all, from+1)
	for ; all[i] != ']'; i = jsonsplit.Next(all, end) {
		if n == v.Cap() {
			// As many as there will be if all are as long as this one, up to a page.
			v.Grow(max(1, min((len(all)-i)/(jsonsplit.End(all, i)-i+1), MaxTake)))
		}
		v.SetLen(n + 1)
		if end, err = decodeValue(text, i, v.Index(n)); err != nil {
			return end, err.within(fmt.Sprintf("[%d]", n))
		}
		if all[i] == 'n' { // a record that is null, among others: its Raw says so
			*recordIn(v.Index(n)) = Record{text, i, end}
		}
		n++
	}
	if n == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list is not nil
	}
	return i + 1, nil
}

// parseTime reads the string of one of the service's times.
func parseTime(raw []byte, into *time.Time) error {
	text, err := jsonsplit.Text(raw)
	if err == nil {
		err = readTime(string(text), into)
	}
	return err
}

// readTime reads the service's times: with a zone or without, which means UTC.
func readTime(text string, into *time.Time) error {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05.999999999", text)
	}
	if err == nil {
		*into = t.UTC()
	}
	return err
}

func jsonTypeOf(t reflect.Type) string {
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
	}
	return "a string"
}
