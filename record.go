package lending

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonplan"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/recordjson"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Record is a record of the service as received. The service publishes only some fields of most
// records. Published fields are typed; the embedded Record keeps all fields, to the last digit.
// If a type of this package has only a Record, or only Extra, none of its fields are published.
//
// fmt prints nothing of a Record, even nested. slog's JSON handler prints records in slices,
// maps and structs: see [Record.LogValue].
//
// A Record keeps its whole response in memory, for example a page of 200 records; a
// [Record.Clone] does not.
type Record struct {
	answer   answerText // nil if there is none
	from, to int
}

// answerText leads to the text of a response, of which records are views. Two pointers hide the
// text: fmt prints an unexported slice, even behind a pointer, under unsuitable verbs.
type answerText **answered

type answered struct {
	text     []byte
	checked  bool // the text is valid JSON
	mutation bool // the text is the response of a mutation, which has happened
	at       *answered
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

// NewRecord returns raw, a JSON value, as a Record. The caller must not change raw afterwards.
func NewRecord(raw json.RawMessage) Record { return Record{newAnswerText(raw), 0, len(raw)} }

// Raw returns the JSON of the record as received. The caller must not modify the bytes.
func (r Record) Raw() json.RawMessage {
	if r.answer == nil {
		return nil
	}
	return json.RawMessage((*r.answer).text[r.from:r.to:r.to])
}

// Decode decodes the record into v, as [json.Unmarshal] does in the installed version of Go.
// [As] decodes in the same line as the call. The error is a [*DecodeError], which never shows a
// value.
//
// Decode is several times as fast for a zero struct of strings, signed integers, floats, json.Number,
// booleans, types with an UnmarshalJSON, and pointers, slices and structs of these, without embedded fields and
// without ",string". If the record does not fit, methods of v may run twice. A panic of a method leaves
// the record unchanged.
//
// A field of type Record with the tag `json:"-"` receives the whole record. Do not embed Record:
// its UnmarshalJSON would be promoted and your other fields would stay empty. Decode returns an
// error for such a struct. Use a named field instead.
func (r Record) Decode(v any) error {
	into := reflect.ValueOf(v)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		err := &json.InvalidUnmarshalError{Type: reflect.TypeOf(v)}
		return r.undecoded(fmt.Sprintf("cannot decode into %T: want a pointer that is not nil", v), err)
	}
	target, raw := targets.Target(into.Type().Elem()), r.Raw()
	if bad := target.Swallower; bad != nil {
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

// targets are the callers' types into which records were decoded.
var targets = jsonplan.Records{Own: recordType}

var errSwallowed = errors.New("an embedded record takes everything")

// Clone returns a copy of the record without the rest of its response:
//
//	list[7].Record = list[7].Clone()
func (r Record) Clone() Record {
	if r.answer == nil {
		return r
	}
	text := bytes.Clone(r.Raw())
	answer := newAnswerText(text)
	(*answer).checked, (*answer).mutation = (*r.answer).checked, (*r.answer).mutation
	return Record{answer: answer, to: len(text)}
}

// MarshalJSON writes the record as received, without changes to typed fields. [json.Marshal]
// folds white space and escapes <, > and &; [Record.Raw] is exact.
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

// LogValue logs the size of the record, because records hold personal data. slog calls LogValue
// only if the record, or a pointer to the record, is the value of an attribute. In a slice, a
// map or a struct, slog's JSON handler writes records in full: log their number or their ids
// instead.
func (r Record) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("record of %d bytes", len(r.Raw())))
}

const (
	maxAnswer = 64 << 20 // the largest response, decompressed
	maxTake   = 200      // the largest page of the loan lists and the message list
)

// types are the types of this package with their own JSON.
var types = recordjson.Types{
	Secret: reflect.TypeFor[Secret](), Record: recordType, MaxSize: maxAnswer, Page: maxTake,
}

var recordType = reflect.TypeFor[Record]()

// encode writes a value of a request as JSON for the service.
func encode(value any) ([]byte, error) {
	body, err := types.Value(value)
	return body, refused(err)
}

// encodeWithoutSecrets is encode with "[redacted]" for each secret.
func encodeWithoutSecrets(value any) ([]byte, error) {
	body, err := types.WithoutSecrets(value)
	return body, refused(err)
}

// encodeCompared is encode for a fingerprint: see [recordjson.Types.Compared].
func encodeCompared(value any) ([]byte, error) {
	body, err := types.Compared(value)
	return body, refused(err)
}

// refused returns the error of encode as an [*ArgumentError].
func refused(err error) error {
	e, ok := errors.AsType[*recordjson.Error](err)
	if !ok {
		return err
	}
	code := map[recordjson.Kind]string{recordjson.Missing: CodeRequired, recordjson.Conflict: CodeConflict}[e.Kind]
	return &ArgumentError{Fields: []FieldError{{e.Path, e.Message, cmp.Or(code, CodeUnsafe)}}}
}

// decodeValue fills v, a zero value, from the JSON value at i in text.
func decodeValue(text answerText, i int, v reflect.Value) *shapeError {
	return types.Decode((*text).text, i, v, *text)
}

// unmarshalRecord is the UnmarshalJSON of a record with typed fields.
func unmarshalRecord[T any](data []byte, into *T) error {
	text := append([]byte(nil), data...)
	var fresh T
	if err := decodeValue(newAnswerText(text), jsonsplit.Space(text, 0), reflect.ValueOf(&fresh).Elem()); err != nil {
		return err
	}
	*into = fresh
	return nil
}

// marshalRecord is the MarshalJSON of a record with typed fields: as received, or from its
// fields if a test made the record.
func marshalRecord(r Record, record any) ([]byte, error) {
	if r.answer != nil {
		return r.Raw(), nil
	}
	body, err := types.Fields(record)
	return body, refused(err)
}

// As decodes the record of a call into a struct of the caller. Its arguments are the results of
// a call with a record or a [Page]:
//
//	balance, err := lending.As[Balance](client.Loans.TotalBalance(context.Background(), id))
//
// If the call failed, As returns the zero T and the call's error. If the record does not decode,
// the error is a [*DecodeError]. As fills T as [Record.Decode] does.
func As[T any, R interface{ Decode(v any) error }](record R, err error) (T, error) {
	var t T
	if err == nil {
		err = record.Decode(&t)
	}
	if err != nil {
		return *new(T), err
	}
	return t, nil
}

// ListAs decodes the records of a list as [As] does:
//
//	payments, err := lending.ListAs[Payment](client.Loans.Transactions(ctx, id, nil))
//
// If a record does not decode, ListAs returns no list, and the Index of the [*DecodeError] names
// the record. A null in the list is a zero T. A missing list is nil, an empty list is not.
//
// The strings of a T share an allocation of up to 1 KiB. Use [strings.Clone] to keep a single
// string.
func ListAs[T any, R interface{ Decode(v any) error }](records []R, err error) ([]T, error) {
	if err != nil || records == nil {
		return nil, err
	}
	list := make([]T, len(records))
	for i := range records {
		if err := records[i].Decode(&list[i]); err != nil {
			return nil, at(i, err)
		}
	}
	return list, nil
}

// AllAs decodes the records of an iterator as [As] does:
//
//	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactionsPaged(ctx, id, nil)) {
//
// If a page fails, the iterator ends with a [*PageError]. If a record does not decode, the
// iterator yields a [*DecodeError] in its place and continues. Index counts from the Skip of the
// options.
func AllAs[T any, R interface{ Decode(v any) error }](seq iter.Seq2[R, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var t T
		i := 0
		for record, err := range seq {
			if t = *new(T); err == nil {
				err = at(i, record.Decode(&t))
			}
			if err != nil {
				t = *new(T)
			}
			if !yield(t, err) {
				return
			}
			i++
		}
	}
}

// Missing returns the JSON names of the tagged fields of T that none of the records has, for a test of guessed names:
//
//	assert.Empty(t, lending.Missing[account](accounts...))
//
// Decoding ignores a wrong name, and leaves the field empty. A null counts as a value. Fields of an
// inner struct have the names of the path, for example "lines.count". Give records with a value
// for every field, for example of lendingtest.
func Missing[T any, R interface{ Raw() json.RawMessage }](records ...R) []string {
	texts := make([]json.RawMessage, 0, len(records))
	for _, record := range records {
		if raw := record.Raw(); jsonsplit.Valid(raw) {
			texts = append(texts, raw)
		}
	}
	return jsonplan.Missing(reflect.TypeFor[T](), texts)
}

// DecodeError names the record and the field that do not decode into a type of the caller. The
// text names types and fields, and never shows a value or the key of a map:
//
//	lending: record 17: field "lines[1].count": a number does not fit int
//
// An ellipsis replaces the end of a path of more than 32 steps. In a struct with embedded fields,
// in a map and in an interface, the error of a method names only that value.
//
// The call itself succeeded. If the call was a mutation, its outcome is [OutcomeDone]: do not
// send the mutation again. [DecodeError.Record] returns the record.
type DecodeError struct {
	safe

	Index int    // of the record in its list, from 0; -1 outside a list
	Field string // for example "lines[1].count", with * for the key of a map; empty for the whole record
	Got   string // the JSON type of the field: "a string", "an object", "null", "a key" and so on; may be empty
	Want  string // the Go type of the field

	record Record
	cause  error // hidden; nil if a caller made the error
}

// undecoded is the error of a record that cannot be decoded into any type.
func (r Record) undecoded(why string, err error) *DecodeError {
	return &DecodeError{Index: -1, record: r, cause: hidden(why, err)}
}

// misfit is the error of a record that does not decode into a type.
func (r Record) misfit(m *jsonplan.Misfit) *DecodeError {
	e := &DecodeError{Index: -1, Field: m.Path, Got: m.Got, Want: m.Want.String(), record: r}
	e.cause = hidden(e.where(), m.Err)
	return e
}

// at adds the index of the record in its list to err.
func at(index int, err error) error {
	if e, ok := err.(*DecodeError); ok { //nolint:errorlint // of this list, and not of one in what a caller's type decodes
		e.Index = index
	}
	return err
}

// Error names the record, the field and the types, and no value.
func (e *DecodeError) Error() string {
	text := "lending: record"
	if e.Index >= 0 {
		text += fmt.Sprintf(" %d", e.Index)
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	} else {
		text += ": " + e.where()
	}
	if e.happened() {
		text += ": it happened"
	}
	return text
}

// where names the field and the types.
func (e *DecodeError) where() string {
	text := e.Got + " does not fit " + e.Want
	if e.Field != "" {
		text = fmt.Sprintf("field %q: %s", e.Field, text)
	}
	return text
}

// Record returns the record that does not decode, as the service sent it.
func (e *DecodeError) Record() Record { return e.record }

// Unwrap returns the error of the decoder, with the same text as Error. errors.As finds the
// error of a caller's UnmarshalJSON, or of encoding/json, which may quote values.
func (e *DecodeError) Unwrap() error { return e.cause }

// Is reports whether target is [ErrMayHaveHappened] and the record is of a mutation.
func (e *DecodeError) Is(target error) bool {
	switch target {
	case ErrMayHaveHappened, knows(OutcomeDone):
		return e.happened()
	}
	return target == knows(OutcomeUnknown)
}

// Format prints [DecodeError.Error] under every verb.
func (e *DecodeError) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

func (e *DecodeError) happened() bool { return e.record.answer != nil && (*e.record.answer).mutation }

// Time is a time of the service, in a struct of the caller. The service writes times with a
// zone, or without a zone in UTC, which [time.Time] refuses. A Time is in UTC, so two Times can
// be compared with ==. The service's 0001-01-01T00:00:00 is the zero Time. null leaves a Time
// unchanged.
type Time struct{ time.Time }

// UnmarshalJSON reads a time. The error does not quote data.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	return hideTime(recordjson.Time(data, &t.Time))
}

// UnmarshalText reads a time outside JSON, or from the key of a map.
func (t *Time) UnmarshalText(text []byte) error {
	return hideTime(recordjson.PlainTime(string(text), &t.Time))
}

func hideTime(err error) error {
	if err != nil {
		err = errors.New("lending: not a time")
	}
	return err
}

var errNotJSON error = redact.Text("the answer is not JSON")

// missingID describes the value in r in the place of a lost identifier.
func (r Record) missingID(name string, lost bool) *shapeError {
	if !lost {
		return nil
	}
	got := cmp.Or(r.member(name), "nothing")
	if got != "nothing" && got != "null" {
		got = "the zero UUID"
	}
	return &shapeError{Path: name, Want: "a UUID", Got: got}
}

// member is the JSON type of the member called name in any case, empty if there is none.
func (r Record) member(name string) (got string) {
	for other, value := range jsonsplit.Members(r.Raw()) {
		if strings.EqualFold(string(other), name) {
			got = jsonsplit.Kind(r.Raw()[value.From:])
		}
	}
	return got
}
