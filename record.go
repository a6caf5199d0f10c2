package lending

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonplan"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/recordjson"
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
	at      *answered
}

func newAnswerText(text []byte) answerText {
	a := &answered{text: text}
	a.at = a
	return &a.at
}

// Keep implements [recordjson.Keeper].
func (a *answered) Keep(record reflect.Value, from, to int) {
	*record.Addr().Interface().(*Record) = Record{&a.at, from, to} //nolint:forcetypeassert // see types
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

// types are the types of this package that are written and read in a way of their own.
var types = recordjson.Types{
	Secret: reflect.TypeFor[Secret](), Record: recordType, MaxSize: maxAnswer, Page: MaxTake,
}

var recordType = reflect.TypeFor[Record]()

// encode writes what a request carries as the service reads it.
func encode(value any) ([]byte, error) {
	body, err := types.Value(value)
	return body, refused(err)
}

// encodeWithoutSecrets is encode, but with "[redacted]" for each secret.
func encodeWithoutSecrets(value any) ([]byte, error) {
	body, err := types.WithoutSecrets(value)
	return body, refused(err)
}

// refused is the error of a value that cannot be sent.
func refused(err error) error {
	e, ok := errors.AsType[*recordjson.Error](err)
	if !ok {
		return err
	}
	code := map[recordjson.Kind]string{recordjson.Missing: CodeRequired, recordjson.Conflict: CodeConflict}[e.Kind]
	return &ArgumentError{Fields: []FieldError{{e.Path, e.Message, cmp.Or(code, CodeEncoding)}}}
}

// decodeValue fills v, which is fresh, from the value that begins at i in text.
func decodeValue(text answerText, i int, v reflect.Value) *shapeError {
	if m := types.Decode((*text).text, i, v, *text); m != nil {
		return &shapeError{path: m.Path, want: m.Want, got: m.Got}
	}
	return nil
}

// unmarshalRecord is the UnmarshalJSON of a record that has typed fields.
func unmarshalRecord[T any](data []byte, into *T) error {
	text := append([]byte(nil), data...)
	var fresh T
	if err := decodeValue(newAnswerText(text), jsonsplit.Space(text, 0), reflect.ValueOf(&fresh).Elem()); err != nil {
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
	body, err := types.Fields(record)
	return body, refused(err)
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
