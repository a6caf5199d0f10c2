package guarantees_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// Payment and Balance are what a caller has made of records that he has seen.
type (
	Payment struct {
		ID     string         `json:"id"`
		Amount json.Number    `json:"amount"`
		Posted lending.Time   `json:"postedUtc"`
		Whole  lending.Record `json:"-"`
	}
	Balance struct {
		Available json.Number `json:"availableBalance"`
	}
	// narrow has a field that not all records fit.
	narrow struct {
		N    int8           `json:"n"`
		Loan lending.LoanID `json:"loan"`
	}
)

const paymentJSON = `{"id":"p1","amount":1234567890123456789.10,"postedUtc":"2026-03-04T05:06:07.5","memo":"hush"}`

// asTaken has one of each shape that the methods of the services return, so that it
// compiles; TestEveryRecordIsTaken holds that there is no other.
func asTaken(ctx context.Context, client *lending.Client, opts *lending.ListOptions) error {
	id := catalog.Loan
	balance, err := lending.As[Balance](client.Loans.TotalBalance(ctx, id))
	failed := err
	payments, err := lending.ListAs[Payment](client.Loans.Transactions(ctx, id, nil))
	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactions(ctx, id, nil)) {
		failed = errors.Join(failed, err)
		payments = append(payments, payment)
	}
	failed = errors.Join(failed, err)
	whole, paged := lending.As[struct{ Data []Payment }](client.Loans.TransactionsPaged(ctx, id, nil))
	pointer, pointed := lending.As[*Payment](client.Loans.Get(ctx, id))
	anything, done := lending.As[map[string]any](client.Do(ctx, lending.RawRequest{Effect: lending.Read, Method: "GET", Path: "/api/Loan/get-loan/{loanId}", Args: []string{id.String()}}))
	for _, all := range []iter.Seq2[Payment, error]{
		lending.AllAs[Payment](client.Loans.AllTransactionsPaged(ctx, id, nil)),
		lending.AllAs[Payment](client.Loans.AllWithdrawals(ctx, id, nil)),
		lending.AllAs[Payment](client.Communication.AllMessages(ctx, catalog.Application, opts)),
		lending.AllAs[Payment](client.Applications.AllByPartner(ctx, catalog.Partner, opts)),
	} {
		for _, err := range all {
			failed = errors.Join(failed, err)
		}
	}
	if len(payments)+len(whole.Data)+len(anything) == 0 || balance.Available == "" || pointer == nil {
		failed = errors.Join(failed, errWrong)
	}
	return errors.Join(failed, paged, pointed, done)
}

func TestEveryShapeIsTaken(t *testing.T) {
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := `{"id":` + someID + `,"applicationId":` + someID + `,"availableBalance":1}`
		switch skip := r.URL.Query().Get("skip"); {
		case skip != "" && skip != "0":
			body = `[]`
		case strings.Contains(r.URL.Path, "paged"), strings.Contains(r.URL.Path, "withdrawals"):
			body = `{"data":[` + paymentJSON + `],"totalCount":1}`
		case strings.Contains(r.URL.Path, "transactions"), strings.Contains(r.URL.Path, "all-messages"), strings.Contains(r.URL.Path, "partner"):
			body = `[` + paymentJSON + `]`
		}
		wire.Answer(http.StatusOK, body)(w, r)
	})
	require.NoError(t, asTaken(t.Context(), client, nil))
}

// TestEveryRecordIsTaken holds that As or ListAs takes the results of every method that
// has one which is no scalar, and none that is put together of several.
func TestEveryRecordIsTaken(t *testing.T) {
	takes := reflect.TypeFor[interface{ Decode(v any) error }]()
	others := []string{
		"bool", "string", "[]lending.EventName", "lending.Secret", "uuid.UUID",
		reflect.TypeFor[lending.OfferID]().String(), reflect.TypeFor[lending.ApplicationID]().String(), "*lending.InvoiceWithdrawal", "*lending.EnsuredSubscription",
	}
	taken := 0
	for service := range reflect.TypeFor[lending.Client]().Fields() {
		for method := range service.Type.Methods() {
			if !service.IsExported() || method.Type.NumOut() != 2 {
				continue
			}
			result := method.Type.Out(0)
			switch {
			case result.Implements(takes), result.Kind() == reflect.Slice && result.Elem().Implements(takes):
				taken++
			default:
				assert.Contains(t, others, result.String(), "of %s.%s", service.Name, method.Name)
			}
		}
	}
	assert.Greater(t, taken, 30)
}

// TestWholeRecordIsKept: what a struct has no field for is still there, without a second
// call.
func TestWholeRecordIsKept(t *testing.T) {
	calls := 0
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if strings.Contains(r.URL.Path, "get-loan/") {
			wire.Answer(http.StatusOK, `{"id":`+someID+`,"applicationId":`+someID+`,"memo":"hush"}`)(w, r)
			return
		}
		wire.Answer(http.StatusOK, `[`+paymentJSON+`,{"memo":2}]`)(w, r)
	})
	payment, err := lending.As[Payment](client.Loans.Get(t.Context(), catalog.Loan))
	require.NoError(t, err)
	assert.Contains(t, string(payment.Whole.Raw()), `"memo":"hush"`)
	pointer, err := lending.As[*Payment](client.Loans.Get(t.Context(), catalog.Loan))
	require.NoError(t, err)
	assert.Equal(t, payment.Whole.Raw(), pointer.Whole.Raw())

	payments, err := lending.ListAs[Payment](client.Loans.Transactions(t.Context(), catalog.Loan, nil))
	require.NoError(t, err)
	require.Len(t, payments, 2)
	assert.Equal(t, 3, calls)
	assert.Equal(t, json.Number("1234567890123456789.10"), payments[0].Amount)
	assert.Equal(t, time.Date(2026, 3, 4, 5, 6, 7, 5e8, time.UTC), payments[0].Posted.Time)
	assert.JSONEq(t, paymentJSON, string(payments[0].Whole.Raw()))
	var more struct{ Memo int }
	require.NoError(t, payments[1].Whole.Decode(&more))
	assert.Equal(t, 2, more.Memo)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", payments, payments, payments), "hush")
	written, err := json.Marshal(payments)
	require.NoError(t, err)
	assert.NotContains(t, string(written), "hush", "the tag keeps it out")

	none, err := lending.As[*Payment](recordOf(t, `null`), nil)
	require.NoError(t, err)
	assert.Nil(t, none)
	filled := Payment{Amount: "3"}
	require.NoError(t, recordOf(t, `{"id":"p1"}`).Decode(&filled))
	assert.Equal(t, json.Number("3"), filled.Amount, "what is not sent stays, as with json.Unmarshal")
}

// TestAsHandsErrorsOn: the error of a call is no other for being typed.
func TestAsHandsErrorsOn(t *testing.T) {
	failure := &lending.Error{Method: "POST", Outcome: lending.OutcomeRejected}
	payment, err := lending.As[Payment]((*lending.LoanResponse)(nil), failure)
	assert.Same(t, failure, err)
	assert.Zero(t, payment)
	payments, err := lending.ListAs[Payment]([]lending.Transaction(nil), failure)
	assert.Same(t, failure, err)
	assert.Nil(t, payments)
	payments, err = lending.ListAs[Payment]([]lending.Transaction(nil), nil)
	require.NoError(t, err)
	assert.Nil(t, payments, "nobody sent a list")
	payments, err = lending.ListAs[Payment]([]lending.Transaction{}, nil)
	require.NoError(t, err)
	assert.NotNil(t, payments, "an empty one came")
}

// TestDecodeErrorsNameTheRecord reads alike with every version of Go.
func TestDecodeErrorsNameTheRecord(t *testing.T) {
	type order struct {
		Lines []struct {
			Count int `json:"count"`
		} `json:"lines"`
	}
	list := slices.Repeat([]string{`{"lines":[{"count":1}]}`}, 20)
	list[17] = `{"lines":[{"count":1},{"count":12345678901234567890}]}`
	client := wire.Serve(t, wire.Answer(http.StatusOK, `[`+strings.Join(list, ",")+`]`))
	orders, err := lending.ListAs[order](client.Loans.Transactions(t.Context(), catalog.Loan, nil))
	require.EqualError(t, err, `lending: record 17: field "lines[1].count": a number does not fit int`)
	assert.Nil(t, orders)
	var failed *lending.DecodeError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, [4]any{17, "lines[1].count", "a number", "int"}, [4]any{failed.Index, failed.Field, failed.Got, failed.Want})
	assert.Equal(t, list[17], string(failed.Record().Raw()))

	_, err = lending.As[order](recordOf(t, `["hush"]`), nil)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, [3]any{-1, "", "an array"}, [3]any{failed.Index, failed.Field, failed.Got})
	require.EqualError(t, err, `lending: record: an array does not fit guarantees_test.order`)
	_, err = lending.As[order](recordOf(t, "\n [1]"), nil)
	require.EqualError(t, err, `lending: record: an array does not fit guarantees_test.order`)
}

// TestIteratorsAreTyped: an error of the iterator ends it and says where to resume, a
// record that does not decode is passed by.
func TestIteratorsAreTyped(t *testing.T) {
	broken := false
	s := &script{answer: func(query url.Values) (int, string) {
		if count(query, "skip") == 240 && !broken {
			broken = true
			return http.StatusForbidden, `{"title":"no"}`
		}
		return array(260)(query)
	}}
	client, opts, n := s.client(t), &lending.ListOptions{Skip: 40}, 0
	var undecoded []int
	for range 2 {
		from := opts.Skip
		for record, err := range lending.AllAs[narrow](client.Loans.AllTransactions(t.Context(), catalog.Loan, opts)) {
			var page *lending.PageError
			var failed *lending.DecodeError
			switch {
			case errors.As(err, &page):
				require.ErrorIs(t, err, lending.ErrForbidden)
				opts.Skip = page.Skip
			case errors.As(err, &failed):
				assert.Zero(t, record)
				undecoded = append(undecoded, from+failed.Index)
			default:
				require.NoError(t, err)
				assert.Equal(t, 40+n, int(record.N))
				n++
			}
		}
	}
	assert.Equal(t, 128-40, n)
	require.Len(t, undecoded, 260-128)
	assert.Equal(t, [2]int{128, 259}, [2]int{undecoded[0], undecoded[len(undecoded)-1]}, "Skip and Index are its place")

	before := len(s.queries)
	for range lending.AllAs[narrow](client.Loans.AllTransactions(t.Context(), catalog.Loan, nil)) {
		break
	}
	assert.Len(t, s.queries, before+1, "breaking off costs nothing")
}

// TestCommandHasHappenedThatDoesNotDecode holds that nobody takes it for one to send again.
func TestCommandHasHappenedThatDoesNotDecode(t *testing.T) {
	const created = `{"id":` + someID + `,"n":12345,"loan":"hush"}`
	client := wire.Serve(t, wire.Answer(http.StatusOK, created))
	batch := wire.Serve(t, wire.Answer(http.StatusOK, `[`+created+`]`))
	type badLoan struct { // whose error is an *ArgumentError, as if nothing had been sent
		Loan lending.LoanID `json:"loan"`
	}
	raw := lending.RawRequest{Method: "POST", Path: "/api/Group/thing"}
	detached, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.NoError(t, err)
	detached.Detach()
	for name, err := range map[string]error{
		"As":       errorOf(lending.As[narrow](client.Applications.CreateCustomer(t.Context(), fake.Ada()))),
		"argument": errorOf(lending.As[badLoan](client.Applications.CreateCustomer(t.Context(), fake.Ada()))),
		"embedded": errorOf(lending.As[embeds](client.Applications.CreateCustomer(t.Context(), fake.Ada()))),
		"ListAs":   errorOf(lending.ListAs[narrow](batch.Bulk.CreateCustomers(t.Context(), []lending.UserRequest{fake.Ada()}))),
		"Do":       errorOf(lending.As[narrow](client.Do(t.Context(), raw))),
		"Decode":   detached.Decode(&narrow{}),
		"no place": detached.Decode(narrow{}),
	} {
		for _, err := range []error{err, fmt.Errorf("customer: %w", err), errors.Join(errors.New("hush"), err)} {
			assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err), name)
			require.ErrorIs(t, err, lending.ErrMayHaveHappened, name)
			require.NotErrorIs(t, err, lending.ErrOutcomeUnknown, name)
			var failed *lending.DecodeError
			require.ErrorAs(t, err, &failed, name)
			assert.True(t, strings.HasSuffix(failed.Error(), ": it happened"), failed)
			var saved lending.UserResponse
			require.NoError(t, failed.Record().Decode(&saved), name)
			assert.Equal(t, someID, `"`+saved.ID.String()+`"`, "the answer is not lost")
		}
	}
	_, err = lending.As[badLoan](client.Customers.GetByEmail(t.Context(), "ada@example.com"))
	require.EqualError(t, err, `lending: record: field "loan": a string does not fit `+reflect.TypeFor[lending.LoanID]().String())
	require.NotErrorIs(t, err, lending.ErrMayHaveHappened, "a read")
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	assert.False(t, lending.IsNotFound(err))
}

func errorOf[T any](_ T, err error) error { return err }

func TestAsRefusesWhatEmbedsARecord(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusOK, `[`+paymentJSON+`]`))
	_, err := lending.ListAs[embeds](client.Loans.Transactions(t.Context(), catalog.Loan, nil))
	require.ErrorContains(t, err, "lending: record 0: guarantees_test.embeds embeds a record, whose UnmarshalJSON takes everything: give the field a name")
	for _, err := range lending.AllAs[struct {
		lending.Transaction
		Amount json.Number
	}](client.Loans.AllTransactions(t.Context(), catalog.Loan, nil)) {
		require.ErrorContains(t, err, "embeds a record")
		break
	}
	_, err = lending.As[embeds](recordOf(t, paymentJSON), nil)
	require.ErrorContains(t, err, "guarantees_test.embeds embeds a record")
	type tagged struct {
		lending.Record `json:"-"`
		Amount         json.Number
	}
	_, err = lending.As[tagged](recordOf(t, paymentJSON), nil)
	require.ErrorContains(t, err, "embeds a record", "the tag does not take its methods away")
}

// TestDecodeErrorsShowNoValue holds for every way to print one, and for what is in it.
func TestDecodeErrorsShowNoValue(t *testing.T) {
	const text = `{"map":{"hush@example.com":{"zip":"hush"}},"loan":"hush","when":"hush","posted":"hush","strict":"hush","n":7777,"any":{"hush":1e999}}`
	for name, into := range map[string]any{
		"map": &struct{ Map map[string]inner }{}, "key": &struct{ Map map[int]inner }{}, "id": &struct{ Loan lending.LoanID }{}, "time": &struct{ When time.Time }{},
		"our time": &struct {
			Posted lending.Time `json:"posted"`
		}{}, "method": &struct{ Strict strictly }{}, "number": &narrow{}, "any": &struct{ Any any }{}, "whole": &[]int{}, "none": 5, "embeds": &embeds{},
	} {
		err := recordOf(t, text).Decode(into)
		require.Error(t, err, name)
		for err := err; err != nil; err = errors.Unwrap(err) {
			var b strings.Builder
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
				fmt.Fprintf(&b, verb, err)
			}
			for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
				slog.New(handler).Info("x", "err", err, "in", struct{ Err error }{err})
			}
			written, failed := json.Marshal(err)
			require.NoError(t, failed)
			for _, hidden := range []string{"hush", "example.com", "7777", "1e999", fmt.Sprintf("%x", "hush")} {
				assert.NotContains(t, b.String()+string(written), hidden, name)
			}
		}
	}
}

var decodeErrorText = regexp.MustCompile(`^lending: record: (not JSON|(field "([A-Za-z0-9]+|\[\d+\]|\*)((\.[A-Za-z0-9]+)|\[\d+\]|\.?\*)*": )?` +
	`(an? (string|number|boolean|object|array|key)|null) does not fit [^ ]+( \{\})?)$`)

// FuzzDecodeError holds that no text makes an error that shows more than fields and types,
// and that what is decoded is what encoding/json makes of it.
func FuzzDecodeError(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"inner":{"zip":"hush"}}`, `{"INNER":{"Zip":true}}`, `{"list":[null,{},{"zip":1},{"when":"hush"}]}`, `{"map":{"a.b\"c":{"zip":1.5}}}`,
		`{"numbered":{"hush@example.com":"b"}}`, `{"byLoan":{"hush":1}}`, `{"any":{"a":[1e999]}}`, `{"loan":12345,"uuid":"x"}`, `{"bytes":"!","quoted":"x"}`,
		`{"a\u0062":1,"\u0069nner":{"zip":"\ud800"}}`, `["hush"]`, `{"zip":`, `{"nested":{"deep":{"ptr":[]}}}`, `{"lists":[[1],[999]],"promoted":1000}`,
	} {
		f.Add([]byte(seed))
	}
	for _, seed := range []string{ // what a plain struct and encoding/json could see in different ways
		`{"text":"a","text":"b"}`, `{"list":[{"zip":1,"when":"2026-03-04T05:06:07Z"}],"list":[{"zip":2}]}`, `{"TEXT":"a","Count":2}`, `{"t\u0065xt":"a\u0000b"}`,
		"{\"text\":\"a\xffb\"}", `{"count":1e0}`, `{"count":-0,"number":-0.0}`, `{"number":"5"}`, `{"number":"x"}`, `{"number":true}`, `{"flag":"true"}`, `{"flag":null,"text":null}`,
		`{"lists":[[],null,[1,2]],"list":[]}`, `{"lists":null,"inner":null}`, `{"loan":null,"inner":{"when":null}}`, "{\"te\u017ft\":\"x\"}", `{"extra":{"a":["}"]},"text":"x"}`,
		`{"text":5}`, `{"inner":[]}`, `{"list":{}}`, `{"count":99999999999999999999}`, `[{}]`, ` { "text" : "a" } `, `{"promoted":5,"count":"6"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		decodesAlike[wanted](t, text)
		decodesAlike[ordinary](t, text)
		decodesAlike[embedding](t, text)
		decodesAlike[quoting](t, text)
	})
}

// What is not plain about these is one thing alone.
type (
	embedding struct {
		base
		Text string `json:"text"`
	}
	quoting struct {
		Count int    `json:"count,string"`
		Text  string `json:"text"`
	}
)

type ordinary struct {
	Text   string         `json:"text"`
	Number json.Number    `json:"number"`
	Flag   bool           `json:"flag"`
	Count  int            `json:"count"`
	Inner  inner          `json:"inner"`
	List   []*inner       `json:"list"`
	Lists  [][]int8       `json:"lists"`
	Loan   lending.LoanID `json:"loan"`
}

// decodesAlike holds that a record that holds text decodes into a T as encoding/json does.
func decodesAlike[T any](t *testing.T, text []byte) {
	t.Helper()
	var record lending.Record
	require.NoError(t, record.UnmarshalJSON(text))
	var mine, same T
	err, failed := record.Decode(&mine), json.Unmarshal(text, &same)
	require.Equal(t, failed == nil, err == nil, "%v, encoding/json says %v", err, failed)
	require.Equal(t, same, mine)
	if err != nil {
		require.Regexp(t, decodeErrorText, err.Error())
	}
}

// TestPartialResultsAreThose of encoding/json, of a struct that is plain and of one that is not.
func TestPartialResultsAreThose(t *testing.T) {
	type plainOne struct {
		A string
		N int8
		B string
	}
	type oddOne struct {
		base
		plainOne
		A string
		N int8 `json:",string"`
	}
	for _, text := range []string{`{"A":"a","N":1000,"B":"b"}`, `{"B":"b","N":"x","A":"a","Promoted":1000}`, `{"A":"a","N":{},"B":[]}`} {
		var got, want plainOne
		require.Error(t, recordOf(t, text).Decode(&got))
		require.Error(t, json.Unmarshal([]byte(text), &want))
		assert.Equal(t, want, got, text)
		var odd, like oddOne
		err, failed := recordOf(t, text).Decode(&odd), json.Unmarshal([]byte(text), &like)
		require.Equal(t, failed != nil, err != nil)
		assert.Equal(t, like, odd, text)
	}
}

// TestFilledValuesAreMerged as encoding/json does: what is not sent stays.
func TestFilledValuesAreMerged(t *testing.T) {
	const text = `{"text":"new","inner":{"zip":2},"list":[{"zip":3},{}],"lists":[[7]]}`
	fill := func() ordinary {
		when := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		return ordinary{Flag: true, Inner: inner{When: when}, List: []*inner{{Zip: 1, When: when}, {Zip: 4}}, Lists: [][]int8{{1, 2}, {3}}}
	}
	got, want := fill(), fill()
	require.NoError(t, recordOf(t, text).Decode(&got))
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	assert.Equal(t, want, got)
	assert.False(t, got.List[0].When.IsZero())
}

// TestTimesWithoutAZoneAreTyped as the library reads its own.
func TestTimesWithoutAZoneAreTyped(t *testing.T) {
	type dated struct {
		At   lending.Time            `json:"at"`
		Till *lending.Time           `json:"till"`
		By   map[lending.Time]string `json:"by"`
	}
	for text, want := range map[string]time.Time{
		`"2026-03-04T05:06:07.1234567"`: time.Date(2026, 3, 4, 5, 6, 7, 123456700, time.UTC), `"2026-03-04T06:06:07+01:00"`: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		`"2026-03-04T05:06:07Z"`: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), `"0001-01-01T00:00:00"`: {}, `null`: {}, `"2026-03-04T05:06:0\u0037"`: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	} {
		got, err := lending.As[dated](recordOf(t, `{"at":`+text+`,"by":{"2026-03-04T05:06:07":"key"}}`), nil)
		require.NoError(t, err, text)
		assert.Equal(t, want, got.At.Time, text)
		assert.Nil(t, got.Till)
		assert.Len(t, got.By, 1)
	}
	for _, text := range []string{`"yesterday"`, `""`, `5`, `{}`, `"2026-13-04T05:06:07"`} {
		_, err := lending.As[dated](recordOf(t, `{"till":`+text+`}`), nil)
		require.ErrorContains(t, err, `field "till": `)
		require.ErrorContains(t, err, ` does not fit lending.Time`)
		require.EqualError(t, new(lending.Time).UnmarshalJSON([]byte(text)), "lending: not a time")
	}
	written, err := json.Marshal(dated{})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, new(dated)))
}

type panics struct{ N int }

func (p *panics) UnmarshalJSON(data []byte) error {
	if string(data) == `"now"` {
		panic(io.ErrClosedPipe)
	}
	return json.Unmarshal(data, &p.N)
}

// TestPanicSpoilsNothing: whoever decodes meanwhile, and after, gets his own.
func TestPanicSpoilsNothing(t *testing.T) {
	type holder struct {
		Text  string `json:"text"`
		Panic panics `json:"panic"`
		More  string `json:"more"`
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				mine := fmt.Sprintf("text %d of %d", n, i)
				good, bad := recordOf(t, `{"text":"`+mine+`","panic":1,"more":"`+mine+`"}`), recordOf(t, `{"text":"bad","panic":"now","more":"bad"}`)
				first, err := lending.As[holder](good, nil)
				assert.PanicsWithValue(t, io.ErrClosedPipe, func() { _, _ = lending.As[holder](bad, nil) })
				again, failed := lending.As[holder](good, nil)
				if err != nil || failed != nil || first != again || first.Text != mine || first.More != mine {
					t.Error(err, failed, first, again)
				}
			}
		})
	}
	all.Wait()
}

// TestOwnDecoderReadsRaw: whoever has a decoder of his own needs no other way in.
func TestOwnDecoderReadsRaw(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusOK, `[`+paymentJSON+`]`))
	list, err := client.Loans.Transactions(t.Context(), catalog.Loan, nil)
	require.NoError(t, err)
	strict := json.NewDecoder(strings.NewReader(string(list[0].Raw())))
	strict.DisallowUnknownFields()
	require.ErrorContains(t, strict.Decode(&Balance{}), "unknown field")
}
