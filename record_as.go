package lending

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonplan"
	"github.com/lendingapi/lending-go/internal/recordjson"
)

// As decodes the record of a call into a struct of the caller's. It takes both results
// of the call, whichever returns a record of this package or a [Page]:
//
//	balance, err := lending.As[Balance](client.Loans.TotalBalance(ctx, id))
//
// The error of the call comes back as it is, with the zero T. A record that does not
// decode is a [*DecodeError], and the T is zero too. T is filled as by [Record.Decode]: a
// field of it that is called, for example, Record, of the type [Record] and with the tag
// `json:"-"`, receives the whole record beside the fields that T knows.
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

// ListAs decodes the records of a list, each as [As] does one:
//
//	payments, err := lending.ListAs[Payment](client.Loans.Transactions(ctx, id, nil))
//
// If a record does not decode, ListAs returns no list, and the Index of the [*DecodeError]
// names the record. A null in the list is a zero T. A list that nobody sent is nil, an
// empty list is not.
//
// The strings of a T share one allocation of up to 1 KiB. Use [strings.Clone] to keep a
// single string without the others.
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

// AllAs decodes the records of an iterator, each as [As] does one:
//
//	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactions(ctx, id, nil)) {
//
// Its errors are those of the iterator, which end it and say where it can be resumed, see
// [PageError], and a [*DecodeError] for each record that does not decode, in the place of
// that record. Such a record ends nothing: who goes on gets the next. Its Index counts
// from where the iterator began, which is the Skip of its options.
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

// DecodeError says that a record does not decode into a type of the caller's, and where
// not. Its text reads alike with every version of Go, names types and fields, and never
// shows a value, nor the key of a map:
//
//	lending: record 17: field "lines[1].count": a number does not fit int
//
// The call that the record came from has succeeded. If it was a command, it has happened,
// which [OutcomeOf] and [ErrMayHaveHappened] say: do not send it again, and find in
// [DecodeError.Record] what was answered.
type DecodeError struct {
	safe

	Index int    // of the record in its list, from 0; -1 if it stands in none
	Field string // where in it, for example "lines[1].count", with * for the key of a map; empty for the whole
	Got   string // what stands there: "a string", "an object", "null", "a key" and so on; empty if nothing there is wrong
	Want  string // the Go type that it does not fit

	record Record
	cause  error // hidden; nil in one that a caller made
}

// undecoded is the error of a record that cannot be decoded at all.
func (r Record) undecoded(why string, err error) *DecodeError {
	return &DecodeError{Index: -1, record: r, cause: hidden(why, err)}
}

// misfit is the error of a record that does not decode into a type.
func (r Record) misfit(m *jsonplan.Misfit) *DecodeError {
	e := &DecodeError{Index: -1, Field: m.Path, Got: m.Got, Want: m.Want.String(), record: r}
	e.cause = hidden(e.where(), m.Err)
	return e
}

// at says of a decoding that failed which record of a list it was.
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

// Record returns the record that does not decode. It holds what the service answered.
func (e *DecodeError) Record() Record { return e.record }

// Unwrap returns what the decoder said, whose text is as safe as that of Error. In it
// errors.As finds the error of a caller's UnmarshalJSON, or encoding/json's own, which
// may quote.
func (e *DecodeError) Unwrap() error { return e.cause }

// Is reports whether target is [ErrMayHaveHappened], and the record answers a command.
func (e *DecodeError) Is(target error) bool { return target == ErrMayHaveHappened && e.happened() }

// Format prints [DecodeError.Error] under every verb.
func (e *DecodeError) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

func (e *DecodeError) happened() bool { return e.record.answer != nil && (*e.record.answer).command }

// Time is a time as the service writes it, in a struct of the caller's: with a zone, or
// without one, which means UTC and which [time.Time] refuses. It is in UTC, so that two
// can be compared with ==. The service's 0001-01-01T00:00:00 is the zero Time, and null
// leaves it as it is.
type Time struct{ time.Time }

// UnmarshalJSON reads a time. Its error does not quote it.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	return hideTime(recordjson.Time(data, &t.Time))
}

// UnmarshalText reads a time that is no JSON: the key of a map, or from elsewhere.
func (t *Time) UnmarshalText(text []byte) error {
	return hideTime(recordjson.PlainTime(string(text), &t.Time))
}

func hideTime(err error) error {
	if err != nil {
		err = errors.New("lending: not a time")
	}
	return err
}
