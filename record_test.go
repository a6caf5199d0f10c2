package lending_test

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// payment is what a caller has made of records that he has seen.
type (
	payment struct {
		ID     string         `json:"id"`
		Amount json.Number    `json:"amount"`
		Posted lending.Time   `json:"postedUtc"`
		Whole  lending.Record `json:"-"`
	}
	// narrow has a field that not all records fit.
	narrow struct {
		N    int8           `json:"n"`
		Loan lending.LoanID `json:"loan"`
	}
)

const someID = `"11111111-2222-4333-8444-555555555555"`

const paymentJSON = `{"id":"p1","amount":1234567890123456789.10,"postedUtc":"2026-03-04T05:06:07.5","memo":"hush"}`

// As or ListAs takes the result of every method with a record or a list, except results made of
// several.
func TestEveryRecordIsTaken(t *testing.T) {
	takes := reflect.TypeFor[interface{ Decode(v any) error }]()
	others := []string{
		"bool", "string", "[]lending.EventName", "lending.Secret", "uuid.UUID",
		reflect.TypeFor[lending.OfferID]().String(), reflect.TypeFor[lending.ApplicationID]().String(),
		"*lending.InvoiceWithdrawal", "*lending.EnsuredSubscription",
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
			wire.Answer(http.StatusOK, `{"id":"`+catalog.Loan.String()+`","applicationId":`+someID+`,"memo":"hush"}`)(w,
				r)
			return
		}
		wire.Answer(http.StatusOK, `[`+paymentJSON+`,{"memo":2}]`)(w, r)
	})
	first, err := lending.As[payment](client.Loans.Get(t.Context(), catalog.Loan))
	require.NoError(t, err)
	assert.Contains(t, string(first.Whole.Raw()), `"memo":"hush"`)
	pointer, err := lending.As[*payment](client.Loans.Get(t.Context(), catalog.Loan))
	require.NoError(t, err)
	assert.Equal(t, first.Whole.Raw(), pointer.Whole.Raw())

	payments, err := lending.ListAs[payment](client.Loans.Transactions(t.Context(), catalog.Loan, nil))
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

	none, err := lending.As[*payment](recordOf(t, `null`), nil)
	require.NoError(t, err)
	assert.Nil(t, none)
	filled := payment{Amount: "3"}
	require.NoError(t, recordOf(t, `{"id":"p1"}`).Decode(&filled))
	assert.Equal(t, json.Number("3"), filled.Amount, "what is not sent stays, as with json.Unmarshal")
}

// TestAsHandsErrorsOn: the error of a call is no other for being typed.
func TestAsHandsErrorsOn(t *testing.T) {
	failure := &lending.Error{Method: "POST", Outcome: lending.OutcomeRejected}
	first, err := lending.As[payment]((*lending.LoanResponse)(nil), failure)
	assert.Same(t, failure, err)
	assert.Zero(t, first)
	payments, err := lending.ListAs[payment]([]lending.Transaction(nil), failure)
	assert.Same(t, failure, err)
	assert.Nil(t, payments)
	payments, err = lending.ListAs[payment]([]lending.Transaction(nil), nil)
	require.NoError(t, err)
	assert.Nil(t, payments, "nobody sent a list")
	payments, err = lending.ListAs[payment]([]lending.Transaction{}, nil)
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
	assert.Equal(t, [4]any{17, "lines[1].count", "a number", "int"}, [4]any{
		failed.Index, failed.Field, failed.Got,
		failed.Want,
	})
	assert.Equal(t, list[17], string(failed.Record().Raw()))
	var mismatch *json.UnmarshalTypeError
	require.ErrorAs(t, err, &mismatch)

	_, err = lending.As[order](recordOf(t, `["hush"]`), nil)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, [3]any{-1, "", "an array"}, [3]any{failed.Index, failed.Field, failed.Got})
	require.EqualError(t, err, `lending: record: an array does not fit lending_test.order`)
	_, err = lending.As[order](recordOf(t, "\n [1]"), nil)
	require.EqualError(t, err, `lending: record: an array does not fit lending_test.order`)
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
}

// Nobody can mistake it for a reason to send again.
func TestMutationHasHappenedThatDoesNotDecode(t *testing.T) {
	const created = `{"id":` + someID + `,"n":12345,"loan":"hush"}`
	client := wire.Serve(t, wire.Answer(http.StatusOK, created))
	batch := wire.Serve(t, wire.Answer(http.StatusOK, `[`+created+`]`))
	type badLoan struct { // whose error is an *ArgumentError, as if nothing had been sent
		Loan lending.LoanID `json:"loan"`
	}
	raw := lending.RawRequest{Method: "POST", Path: "/api/Group/thing"}
	cloned, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.NoError(t, err)
	cloned.Record = cloned.Clone()
	for _, test := range []struct {
		name string
		err  error
	}{
		{"As", errorOf(lending.As[narrow](client.Applications.CreateCustomer(t.Context(), fake.Ada())))},
		{"argument", errorOf(lending.As[badLoan](client.Applications.CreateCustomer(t.Context(), fake.Ada())))},
		{"embedded", errorOf(lending.As[embeds](client.Applications.CreateCustomer(t.Context(), fake.Ada())))},
		{"ListAs", errorOf(lending.ListAs[narrow](batch.Bulk.CreateCustomers(t.Context(),
			[]lending.UserRequest{fake.Ada()})))},
		{"Do", errorOf(lending.As[narrow](client.Do(t.Context(), raw)))},
		{"Decode", cloned.Decode(&narrow{})},
		{"no place", cloned.Decode(narrow{})},
	} {
		for _, err := range []error{
			test.err, fmt.Errorf("customer: %w", test.err),
			errors.Join(errors.New("hush"), test.err),
		} {
			assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err), test.name)
			assert.Equal(t, lending.Next{Person: true}, lending.NextOf(err), test.name)
			require.ErrorIs(t, err, lending.ErrMayHaveHappened, test.name)
			require.NotErrorIs(t, err, lending.ErrOutcomeUnknown, test.name)
			var failed *lending.DecodeError
			require.ErrorAs(t, err, &failed, test.name)
			assert.True(t, strings.HasSuffix(failed.Error(), ": it happened"), failed)
			var saved lending.UserResponse
			require.NoError(t, failed.Record().Decode(&saved), test.name)
			assert.Equal(t, someID, `"`+saved.ID.String()+`"`, "the answer is not lost")
		}
	}
	_, err = lending.As[badLoan](client.Customers.GetByEmail(t.Context(), "ada@example.com"))
	require.EqualError(t, err, `lending: record: field "loan": a string does not fit `+
		reflect.TypeFor[lending.LoanID]().String())
	require.NotErrorIs(t, err, lending.ErrMayHaveHappened, "a read")
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	assert.Equal(t, lending.Next{Retry: true}, lending.NextOf(err))
	assert.False(t, lending.IsNotFound(err))
}

func errorOf[T any](_ T, err error) error { return err }

// TestMemberWithoutANameIsNoField: its mutation has happened, so its caller must not panic.
func TestMemberWithoutANameIsNoField(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusOK, `{"id":`+someID+`,"limits":[{"":true,"count":"12"}]}`))
	type limits struct {
		Limits []struct{ Count int } `json:"limits"`
	}
	_, err := lending.As[limits](client.Applications.CreateCustomer(t.Context(), fake.Ada()))
	require.EqualError(t, err, `lending: record: field "limits[0].count": a string does not fit int: it happened`)
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
}

// emptyError is a method that says neither place nor type.
type emptyError struct{}

func (*emptyError) UnmarshalJSON([]byte) error { return &json.UnmarshalTypeError{Offset: 3} }

func TestErrorOfAMethodNeedsNoPlace(t *testing.T) {
	err := recordOf(t, `{"promoted":1,"by":{"hush":1}}`).Decode(&struct {
		base
		By map[string]emptyError
	}{})
	require.ErrorContains(t, err, "lending: record: an object does not fit struct")
}

// TestDecodeErrorsShowNoValue holds for every verb and handler, and for every error in the
// chain. A time stamp has at most nine digits in a row.
func TestDecodeErrorsShowNoValue(t *testing.T) {
	const text = `{"map":{"hush@example.com":{"zip":"hush"}},"loan":"hush","when":"hush","posted":"hush",` +
		`"strict":"hush","n":777777777777,"any":{"hush":1e999}}`
	for _, test := range []struct {
		name string
		into any
	}{
		{"map", &struct{ Map map[string]inner }{}},
		{"key", &struct{ Map map[int]inner }{}},
		{"id", &struct{ Loan lending.LoanID }{}},
		{"time", &struct{ When time.Time }{}},
		{"our time", &struct {
			Posted lending.Time `json:"posted"`
		}{}},
		{"method", &struct{ Strict strictly }{}},
		{"number", &narrow{}},
		{"any", &struct{ Any any }{}},
		{"whole", &[]int{}},
		{"none", 5},
		{"embeds", &embeds{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := recordOf(t, text).Decode(test.into)
			require.Error(t, err)
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
				for _, hidden := range []string{
					"hush", "example.com", "777777777777", "1e999",
					fmt.Sprintf("%x", "hush"),
				} {
					assert.NotContains(t, b.String()+string(written), hidden)
				}
			}
		})
	}
}

var decodeErrorText = regexp.MustCompile(`^lending: record: (not JSON|(field ` +
	`"([A-Za-z0-9]+|\[\d+\]|\*)((\.[A-Za-z0-9]+)|\[\d+\]|\.?\*)*": )?` +
	`(an? (string|number|boolean|object|array|key)|null) does not fit [^ ]+( \{\})?)$`)

// No text makes an error with more than fields and types, and the decoded value is that of
// encoding/json.
func FuzzDecodeError(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"inner":{"zip":"hush"}}`, `{"INNER":{"Zip":true}}`,
		`{"list":[null,{},{"zip":1},{"when":"hush"}]}`, `{"map":{"a.b\"c":{"zip":1.5}}}`,
		`{"numbered":{"hush@example.com":"b"}}`, `{"byLoan":{"hush":1}}`, `{"any":{"a":[1e999]}}`,
		`{"loan":12345,"uuid":"x"}`, `{"bytes":"!","quoted":"x"}`,
		`{"a\u0062":1,"\u0069nner":{"zip":"\ud800"}}`, `["hush"]`, `{"zip":`, `{"nested":{"deep":{"ptr":[]}}}`,
		`{"lists":[[1],[999]],"promoted":1000}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		decodesAlike[wanted](t, text)
		decodesAlike[embedding](t, text)
	})
}

type embedding struct {
	base
	Text  string `json:"text"`
	Inner inner  `json:"inner"`
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

// TestTimesWithoutAZoneAreTyped as the library reads its own.
func TestTimesWithoutAZoneAreTyped(t *testing.T) {
	type dated struct {
		At   lending.Time            `json:"at"`
		Till *lending.Time           `json:"till"`
		By   map[lending.Time]string `json:"by"`
	}
	for _, test := range []struct {
		text string
		want time.Time
	}{
		{`"2026-03-04T05:06:07.1234567"`, time.Date(2026, 3, 4, 5, 6, 7, 123456700, time.UTC)},
		{`"2026-03-04T06:06:07+01:00"`, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
		{`"2026-03-04T05:06:07Z"`, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
		{`"0001-01-01T00:00:00"`, time.Time{}},
		{`null`, time.Time{}},
		{`"2026-03-04T05:06:0\u0037"`, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, err := lending.As[dated](recordOf(t, `{"at":`+test.text+`,"by":{"2026-03-04T05:06:07":"key"}}`), nil)
			require.NoError(t, err)
			assert.Equal(t, test.want, got.At.Time)
			assert.Nil(t, got.Till)
			assert.Len(t, got.By, 1)
		})
	}
	for _, text := range []string{`"yesterday"`, `""`, `5`, `{}`, `"2026-13-04T05:06:07"`} {
		t.Run(text, func(t *testing.T) {
			_, err := lending.As[dated](recordOf(t, `{"till":`+text+`}`), nil)
			require.ErrorContains(t, err, `field "till": `)
			require.ErrorContains(t, err, ` does not fit lending.Time`)
			require.EqualError(t, new(lending.Time).UnmarshalJSON([]byte(text)), "lending: not a time")
		})
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

// A record whose decoding panicked decodes as before.
func TestPanicSpoilsNothing(t *testing.T) {
	type holder struct {
		Text  string `json:"text"`
		Panic panics `json:"panic"`
	}
	record := recordOf(t, `{"text":"mine","panic":"now"}`)
	assert.PanicsWithValue(t, io.ErrClosedPipe, func() { _, _ = lending.As[holder](record, nil) })
	read, err := lending.As[struct{ Text, Panic string }](record, nil)
	require.NoError(t, err)
	assert.Equal(t, struct{ Text, Panic string }{"mine", "now"}, read)
}

// recordOf is a record that holds text.
func recordOf(t *testing.T, text string) lending.Record {
	t.Helper()
	var record lending.Record
	require.NoError(t, record.UnmarshalJSON([]byte(text)))
	return record
}

type (
	strictly struct{ N int }
	inner    struct {
		Zip  int       `json:"zip"`
		When time.Time `json:"when"`
	}
	base   struct{ Promoted int8 }
	wanted struct {
		Inner    inner                  `json:"inner"`
		List     []*inner               `json:"list"`
		Lists    [][]int8               `json:"lists"`
		Map      map[string]*inner      `json:"map"`
		Numbered map[int]string         `json:"numbered"`
		ByLoan   map[lending.LoanID]int `json:"byLoan"`
		Array    [2]bool                `json:"array"`
		Loan     lending.LoanID         `json:"loan"`
		UUID     uuid.UUID              `json:"uuid"`
		Address  netip.Addr             `json:"address"`
		Strict   strictly               `json:"strict"`
		Exact    json.Number            `json:"exact"`
		Bytes    []byte                 `json:"bytes"`
		Any      any                    `json:"any"`
		Secret   lending.Secret         `json:"secret"`
		User     lending.UserResponse   `json:"user"`
		Untagged uint8
		Nested   struct{ Deep struct{ Ptr **int } }
	}
)

func (s *strictly) UnmarshalJSON(data []byte) error {
	if string(data) == `"panic"` {
		panic("hush")
	}
	return fmt.Errorf("hush: %s", data)
}

// TestDecodeErrorsNameTheField reads alike with every version of Go.
func TestDecodeErrorsNameTheField(t *testing.T) {
	const loanID = "lending.ID[github.com/lendingapi/lending-go.loan]"
	for _, test := range []struct {
		text string
		want string
	}{
		{`{"inner":{"zip":"hush"}}`, `field "inner.zip": a string does not fit int`},
		{`{"inner":{"when":"2024-01-02T03:04:05"}}`, `field "inner.when": a string does not fit time.Time`},
		{`{"INNER":{"Zip":true}}`, `field "INNER.Zip": a boolean does not fit int`},
		{`{"inner":["hush"]}`, `field "inner": an array does not fit lending_test.inner`},
		{`{"list":[null,{},{"zip":1},{"when":"hush"}]}`, `field "list[3].when": a string does not fit time.Time`},
		{`{"lists":[[1],[2,3,4444]]}`, `field "lists[1][2]": a number does not fit int8`},
		{`{"map":{"a@example.com":{},"hush":{"zip":1.5}}}`, `field "map.*.zip": a number does not fit int`},
		{`{"map":{"hush@example.com":"hush"}}`, `field "map.*": a string does not fit lending_test.inner`},
		{`{"map":{"hush":{"when":"hush"}}}`, `field "map": an object does not fit map[string]*lending_test.inner`},
		{`{"numbered":{"1":"a","hush@example.com":"b"}}`, `field "numbered.*": a key does not fit int`},
		{`{"byLoan":{"hush@example.com":1}}`, `field "byLoan": an object does not fit map[` + loanID + `]int`},
		{`{"array":[true,"hush"]}`, `field "array[1]": a string does not fit bool`},
		{`{"loan":"hush"}`, `field "loan": a string does not fit ` + loanID},
		{`{"loan":12345}`, `field "loan": a number does not fit ` + loanID},
		{`{"uuid":"hush"}`, `field "uuid": a string does not fit uuid.UUID`},
		{`{"address":"hush"}`, `field "address": a string does not fit netip.Addr`},
		{`{"strict":{"hush":"hush"}}`, `field "strict": an object does not fit lending_test.strictly`},
		{`{"exact":"hush"}`, `field "exact": a string does not fit json.Number`},
		{`{"bytes":"hush!"}`, `field "bytes": a string does not fit []uint8`},
		{`{"any":{"hush@example.com":[1,1e999]}}`, `field "any.*[1]": a number does not fit float64`},
		{`{"any":1e999}`, `field "any": a number does not fit float64`},
		{`{"secret":7}`, `field "secret": a number does not fit lending.Secret`},
		{`{"user":{"id":"hush"}}`, `field "user": an object does not fit lending.UserResponse`},
		{`{"untagged":-1}`, `field "untagged": a number does not fit uint8`},
		{`{"untagged":99999999999999999999}`, `field "untagged": a number does not fit uint8`},
		{`{"nested":{"deep":{"ptr":"hush"}}}`, `field "nested.deep.ptr": a string does not fit int`},
		{`{"hush":"hush","inner":{"hush":1,"zip":{}}}`, `field "inner.zip": an object does not fit int`},
		{`{"a\u0062":1,"\u0069nner":{"zip":"\ud800hush"}}`, `field "inner.zip": a string does not fit int`},
		{`["hush"]`, `an array does not fit lending_test.wanted`},
		{`"hush"`, `a string does not fit lending_test.wanted`},
	} {
		t.Run(test.text, func(t *testing.T) {
			require.EqualError(t, recordOf(t, test.text).Decode(&wanted{}), "lending: record: "+test.want)
		})
	}
	const noPointer = ": want a pointer that is not nil"
	for _, test := range []struct {
		text string
		into any
		want string
	}{
		{`{"inner":{"zip":"hush"},"promoted":1}`, &embedding{}, `field "inner.zip": a string does not fit int`},
		{`{"promoted":1000}`, &embedding{}, `field "promoted": a number does not fit int8`},
		{ // encoding/json knows no place
			`{"inner":{"when":"hush"}}`, &embedding{}, `an object does not fit lending_test.embedding`,
		},
		{`[1,2,"hush"]`, &[]int{}, `field "[2]": a string does not fit int`},
		{`4444`, new(int8), `a number does not fit int8`},
		{`{"hush`, &wanted{}, `not JSON`},
		{``, &wanted{}, `not JSON`},
		{`{}`, int8(0), `cannot decode into int8` + noPointer},
		{`{}`, nil, `cannot decode into <nil>` + noPointer},
		{`{}`, (*wanted)(nil), `cannot decode into *lending_test.wanted` + noPointer},
	} {
		t.Run(fmt.Sprintf("%s into %T", test.text, test.into), func(t *testing.T) {
			require.EqualError(t, recordOf(t, test.text).Decode(test.into), "lending: record: "+test.want)
		})
	}
}

type (
	embeds struct {
		lending.Record
		Amount json.Number
	}
	embedsPointer struct {
		*lending.LoanResponse
		Amount json.Number
	}
	embedsDeeper struct {
		embeds
		Rate json.Number
	}
	promotes       struct{ holdsEmbeds }
	promoting      struct{ unexported }
	unexported     struct{ Bad embeds }
	holdsEmbeds    struct{ Bad embeds }
	redefined      lending.LoanResponse
	generic[T any] struct {
		lending.Page[lending.Transaction]
		More T
	}
	listing struct {
		Loans map[string][]*embeds `json:"loans"`
	}
	cyclic struct {
		Next *cyclic
		Bad  []embeds
	}
	embedsItself struct {
		lending.Record
		Amount json.Number
	}
	named struct {
		Whole  lending.Record       `json:"whole"`
		Loan   lending.LoanResponse `json:"loan"`
		Listed []lending.LoanResponse
		Next   *named
	}
)

func (e *embedsItself) UnmarshalJSON(data []byte) error {
	var fields struct{ Amount json.Number }
	err := json.Unmarshal(data, &fields)
	e.Amount = fields.Amount
	return err
}

// TestDecodeRefusesWhatEmbedsARecord: all but the Record would silently stay zero.
func TestDecodeRefusesWhatEmbedsARecord(t *testing.T) {
	record := recordOf(t, `{"amount":1.50,"loans":{"a":[{"amount":2.50}]},"itself":{"amount":3.50},"whole":[4.50],`+
		`"loan":{"id":"`+loanID().String()+`"}}`)
	type anonymous = struct {
		lending.Record
		A int
	}
	type tagged struct {
		lending.Record `json:"-"` // does not take its methods away
		Amount         json.Number
	}
	for _, test := range []struct {
		into any
		want string
	}{
		{&embeds{}, "lending_test.embeds"},
		{new([]embedsPointer), "lending_test.embedsPointer"},
		{&embedsDeeper{}, "lending_test.embedsDeeper"},
		{&promotes{}, "lending_test.embeds"},
		{&redefined{}, "lending_test.redefined"},
		{&generic[int]{}, "lending_test.generic[int]"},
		{&listing{}, "lending_test.embeds"},
		{&cyclic{}, "lending_test.embeds"},
		{&anonymous{}, "struct { lending.Record; A int }"},
		{&tagged{}, "lending_test.tagged"},
		{&promoting{}, "lending_test.embeds"},
		{&embedsItself{}, "lending_test.embedsItself"},
	} {
		for range 2 { // the second time from memory
			err := record.Decode(test.into)
			require.ErrorContains(t, err, "lending: record: "+test.want+
				" embeds a record, whose UnmarshalJSON takes everything: give the field a name")
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "what was done before is not undone")
		}
	}
	_, err := lending.ListAs[embeds]([]lending.Record{record}, nil)
	require.ErrorContains(t, err, "lending: record 0: lending_test.embeds embeds a record")
	var good named
	require.NoError(t, record.Decode(&good))
	assert.Equal(t, "[4.50]", string(good.Whole.Raw()))
	assert.Equal(t, loanID(), good.Loan.ID)
	var page lending.Page[lending.Transaction]
	require.NoError(t, recordOf(t, `{"data":[],"totalCount":3}`).Decode(&page))
	assert.Equal(t, 3, page.TotalCount)
}

// The time grows with the length of the text, and not with its square: As takes no context. The
// path ends after 32 steps.
func TestMisfitsInDeepTextsCostLittle(t *testing.T) {
	const depth = 9000 // near the 10,000 of encoding/json
	type deep struct {
		Next *deep `json:"next"`
		N    int8  `json:"n"`
	}
	for _, tt := range []struct {
		name, text, want string
		into             any
	}{
		{
			"structs", strings.Repeat(`{"next":`, depth) + `{"n":1000}` + strings.Repeat(`}`, depth),
			`field "` + strings.Repeat("next.", 31) + `next…": `, &deep{},
		},
		{
			"interfaces", `{"any":` + strings.Repeat(`[`, depth) + `1e999` + strings.Repeat(`]`, depth) + `}`,
			`field "any` + strings.Repeat("[0]", 31) + `…": `, &struct {
				Any any `json:"any"`
			}{},
		},
		{"a list", `[` + strings.Repeat(`{"n":1},`, 20_000) + `{"n":1000}]`, `field "[20000].n": `, &[]deep{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record, start := recordOf(t, tt.text), time.Now()
			require.ErrorContains(t, record.Decode(tt.into), tt.want)
			assert.Less(t, time.Since(start), time.Minute, "measured: 3 to 60 ms, and minutes if each step costs a pass")
		})
	}
}

type ownLines []struct {
	Count int `json:"count"`
}

func (*ownLines) UnmarshalJSON([]byte) error { return nil }

func TestMissingNamesGuessedFields(t *testing.T) {
	type line struct {
		Count int   `json:"count"`
		Whole *line `json:"whole"`
	}
	type shared struct {
		Total json.Number `json:"total"`
	}
	type guess struct {
		ID     string          `json:"id"`
		Note   *string         `json:"note,omitempty"`
		Lines  []*line         `json:"lines"`
		ByName map[string]line `json:"byName"`
		Posted lending.Time    `json:"posted"`
		Whole  lending.Record  `json:"-"`
		Label  string          // of the caller
		shared
	}
	all := []string{"id", "note", "lines", "byName", "posted", "total"}
	for _, tt := range []struct {
		records string
		want    []string
	}{
		{`[]`, all},
		{`[{}]`, all},
		{`[null, 7, "id"]`, all},
		{`[{"ID": 1, "Total": 2}, {"note": null, "posted": {}}]`, []string{"lines", "byName"}},
		{`[{"id": 1, "note": 1, "posted": 1, "total": 1, "lines": [], "byName": null}]`, nil},
		{
			`[{"id": 1, "note": 1, "posted": 1, "total": 1, "lines": [null, {"count": 1}], "byName": {"a": {"counts": 1}}}]`,
			[]string{"lines.whole", "byName.count", "byName.whole"},
		},
		{
			`[{"id": 1, "note": 1, "posted": 1, "total": 1, "lines": [{}, {"count": 1, "whole": {"whole": 1}}],
			"byName": {"a": {"count": 1}, "b": {"whole": {"count": 1}}}}]`,
			[]string{"lines.whole.count", "byName.whole.whole"},
		},
	} {
		t.Run(tt.records, func(t *testing.T) {
			var records []lending.Record
			require.NoError(t, json.Unmarshal([]byte(tt.records), &records))
			assert.Equal(t, tt.want, lending.Missing[guess](records...))
			assert.Equal(t, tt.want, lending.Missing[*guess](records...))
		})
	}
	assert.Empty(t, lending.Missing[struct {
		Lines ownLines `json:"lines"`
	}](lending.NewRecord([]byte(`{"lines": [{}]}`))), "UnmarshalJSON chooses the fields")
	assert.Equal(t, []string{"id"}, lending.Missing[struct {
		ID string `json:"id"`
	}](lending.NewRecord([]byte("{")), lending.Record{}), "no JSON")
	assert.Equal(t, []string{"amount"}, lending.Missing[struct {
		ID     string      `json:"id"`
		Amount json.Number `json:"amount"`
	}](&lending.UserResponse{Record: lending.NewRecord([]byte(` {"id": 1}`))}), "a typed record")
}

// TestNullInAListIsAZeroRecord: one hole does not lose the list.
func TestNullInAListIsAZeroRecord(t *testing.T) {
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("skip") != "" {
			wire.Answer(http.StatusOK, `[]`)(w, r)
			return
		}
		wire.Answer(http.StatusOK, `[{"amount":1},null, null ,{"amount":2}]`)(w, r)
	})
	list, err := client.Loans.Transactions(t.Context(), catalog.Loan, nil)
	require.NoError(t, err)
	require.Len(t, list, 4)
	assert.JSONEq(t, `null`, string(list[1].Raw()))
	written, err := json.Marshal(list)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"amount":1},null,null,{"amount":2}]`, string(written))
	payments, err := lending.ListAs[payment](list, nil)
	require.NoError(t, err)
	require.Len(t, payments, 4)
	assert.Equal(t, json.Number(""), payments[1].Amount)
	assert.Equal(t, json.Number("2"), payments[3].Amount)
	var broken *lending.PageError // an iterator takes null for no record
	for _, err := range client.Loans.AllTransactions(t.Context(), catalog.Loan, nil) {
		if err != nil {
			require.ErrorAs(t, err, &broken)
		}
	}
	require.ErrorContains(t, broken, "[1]: want an object, got null")

	batch := wire.Serve(t, wire.Answer(http.StatusOK, `[{"id":`+someID+`},null]`))
	applications, err := batch.Applications.ListByPartner(t.Context(), catalog.Partner, nil)
	if err == nil {
		_, err = lending.ListAs[payment](applications, nil)
	}
	require.NoError(t, err, "a record with published fields")
}

// TestKeptStringsHoldLittle: one string of a record keeps the strings of that record, and nothing
// of the page.
func TestKeptStringsHoldLittle(t *testing.T) {
	list := make([]lending.Record, 20_000)
	for i := range list {
		list[i] = recordOf(t, fmt.Sprintf(`{"id":"%03d","memo":%q}`, i%1000, strings.Repeat("x", 2000)))
	}
	type short struct {
		ID string `json:"id"`
	}
	alive := func() (n uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	kept := make([]string, len(list))
	before := alive()
	for i := range list {
		one, err := lending.As[short](list[i], nil)
		require.NoError(t, err)
		kept[i] = one.ID
	}
	grown := int64(alive()) - int64(before)
	assert.Less(t, grown/int64(len(kept)), int64(100), "bytes for each string of three")
	runtime.KeepAlive(kept)
	runtime.KeepAlive(list)
}

func TestRecordsMadeByHand(t *testing.T) {
	written, err := json.Marshal(lending.UserResponse{ID: catalog.OtherCustomer})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"22222222-2222-4333-8444-555555555555"}`, string(written))
	written, err = json.Marshal(lending.OfferResponse{})
	require.NoError(t, err)
	assert.Equal(t, "null", string(written))
}

func TestCloneLeavesThePage(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `[{"n":1},{"n":2}]`))
	list, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
	require.NoError(t, err)
	require.Len(t, list, 2)
	before := list[1].Raw()
	list[1].Record = list[1].Clone()
	assert.Equal(t, `{"n":2}`, string(list[1].Raw()))
	assert.NotSame(t, &before[0], &list[1].Raw()[0])
	assert.Equal(t, `{"n":1}`, string(list[0].Raw()))
}

func TestLists(t *testing.T) {
	for _, test := range []struct {
		body string
		want int
	}{{`[]`, 0}, {`null`, 0}, {``, 0}, {"\t[ {} , {} ]\n", 2}, {"\uFEFF[{}]", 1}} {
		t.Run(test.body, func(t *testing.T) {
			client := wire.Serve(t, wire.Answer(200, test.body))
			list, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
			require.NoError(t, err)
			assert.Len(t, list, test.want)
			assert.Equal(t, test.body == "[]", list != nil && len(list) == 0,
				"an empty list is not nil, and no list is: %s")
		})
	}
	client := wire.Serve(t, wire.Answer(200, `[{},[]]`))
	_, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
	assert.ErrorContains(t, err, "[1]: want an object, got an array")
}

func TestScalars(t *testing.T) {
	for _, test := range []struct{ contentType, body, want string }{
		{"application/json", `"In Review"`, "In Review"},
		{"application/json", `""`, ""},
		{"application/json", ``, ""},
		{"text/plain; charset=utf-8", `In Review`, "In Review"},
		{"text/plain", `123`, "123"},
		{"text/plain", "  padded \n", "  padded \n"},
		{"text/plain", "null", "null"},
		{"text/plain", "a <b>", "a <b>"},
	} {
		t.Run(test.contentType+" "+test.body, func(t *testing.T) {
			client := wire.Serve(t, wire.Plain(test.contentType, test.body))
			status, err := client.Applications.Status(t.Context(), catalog.OtherApplication)
			require.NoError(t, err)
			assert.Equal(t, test.want, status)
		})
	}
	for _, body := range []string{"hello", "null", "{}x"} {
		t.Run(body, func(t *testing.T) {
			client := wire.Serve(t, wire.Plain("text/plain", body))
			_, err := client.Applications.Offer(t.Context(), catalog.OtherApplication, nil)
			require.Error(t, err, "text is no record")
		})
	}
	client := wire.Serve(t, wire.Answer(200, `"00000000-0000-0000-0000-000000000000"`))
	_, err := client.Applications.Process(t.Context(), catalog.OtherApplication)
	require.ErrorContains(t, err, "want a UUID, got the zero UUID")
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))

	client = wire.Serve(t, wire.Plain("text/plain", "3fa85f64-5717-4562-b3fc-2c963f66afa6"))
	offer, err := client.Applications.Process(t.Context(), catalog.OtherApplication)
	require.NoError(t, err)
	assert.Equal(t, "3fa85f64-5717-4562-b3fc-2c963f66afa6", offer.String())

	client = wire.Serve(t, wire.Answer(200, `null`))
	_, err = client.Applications.Status(t.Context(), catalog.OtherApplication)
	require.ErrorIs(t, err, lending.ErrNoContent)
	_, err = client.Applications.UpdateName(t.Context(), catalog.OtherApplication, "x")
	require.ErrorIs(t, err, lending.ErrNoContent)
}

func TestSecrets(t *testing.T) {
	secret := lending.NewSecret("hush")
	assert.Equal(t, "[redacted]", fmt.Sprint(secret))
	assert.Equal(t, "hush", secret.Reveal())
	assert.Empty(t, fmt.Sprint(lending.Secret{}))

	written, err := json.Marshal(lending.LoginRequest{Username: "u", Password: secret})
	require.NoError(t, err)
	var back lending.LoginRequest
	require.ErrorContains(t, json.Unmarshal(written, &back), "redacted when it was written")
	require.NoError(t, json.Unmarshal([]byte(`{"password":"hush"}`), &back))
	assert.Equal(t, "hush", back.Password.Reveal())
	require.Error(t, json.Unmarshal([]byte(`{"password":["hush"]}`), &back))
}

func TestIDsInADatabase(t *testing.T) {
	const text = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	id := lending.LoanID(uuid.MustParse(text))
	for _, test := range []struct {
		id   lending.LoanID
		want driver.Value
	}{{id, text}, {lending.LoanID{}, nil}} {
		t.Run(fmt.Sprint(test.want), func(t *testing.T) {
			value, err := driver.DefaultParameterConverter.ConvertValue(test.id)
			require.NoError(t, err)
			assert.Equal(t, test.want, value)
			got := lending.LoanID(uuid.New()) // what stood there before
			require.NoError(t, got.Scan(value))
			assert.Equal(t, test.id, got)
		})
	}
	value, err := driver.DefaultParameterConverter.ConvertValue((*lending.LoanID)(nil))
	require.NoError(t, err)
	assert.Nil(t, value, "NULL")
	for _, stored := range []driver.Value{[]byte(text), "3FA85F64-5717-4562-B3FC-2C963F66AFA6", id[:]} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			var got lending.LoanID
			require.NoError(t, got.Scan(stored))
			assert.Equal(t, id, got)
		})
	}
	for _, stored := range []driver.Value{
		"", "hush", "{" + text + "}", []byte("hush"), []byte{}, id[:15], int64(4711), 3.5, true, "urn:uuid:" + text,
	} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			err := new(lending.LoanID).Scan(stored)
			var refused *lending.ArgumentError
			require.ErrorAs(t, err, &refused, "%v")
			assert.Contains(t, err.Error(), "lending: id must be a UUID")
			for _, hidden := range []string{"hush", "3fa8", "4711"} {
				assert.NotContains(t, err.Error(), hidden)
			}
		})
	}
}
