package lending_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// script answers each request as it is told, and keeps the queries.
type script struct {
	answer  func(query url.Values) (status int, body string)
	queries []url.Values
}

func (s *script) send(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	if s.queries = append(s.queries, query); len(s.queries) > 1000 {
		return nil, errors.New("the walk does not end")
	}
	status, body := s.answer(query)
	return wire.Reply(status, body)(r)
}

func (s *script) client(t *testing.T) *lending.Client {
	t.Helper()
	return wire.InMemory(t, s.send)
}

func count(query url.Values, name string) int {
	n, _ := strconv.Atoi(query.Get(name))
	return n
}

// records is a JSON array of the records from one number to another.
func records(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `,{"n":%d}`, i)
	}
	return "[" + strings.TrimPrefix(b.String(), ",") + "]"
}

// array answers with the page that is asked for of a list of total records.
func array(total int) func(url.Values) (int, string) {
	return func(query url.Values) (int, string) {
		from := min(count(query, "skip"), total)
		return http.StatusOK, records(from, min(from+count(query, "take"), total))
	}
}

// envelope does the same, in an envelope that claims another total.
func envelope(total int, claim string) func(url.Values) (int, string) {
	return func(query url.Values) (int, string) {
		_, data := array(total)(query)
		return http.StatusOK, `{"data":` + data + `,"totalCount":` + claim + `}`
	}
}

// numbers collects the records of a walk, and its error.
func numbers[T interface{ Decode(any) error }](tb testing.TB, walk iter.Seq2[T, error]) (got []int, failed error) {
	tb.Helper()
	for record, err := range walk {
		require.NoError(tb, failed, "nothing comes after an error")
		if err != nil {
			failed = err
			continue
		}
		var r struct{ N int }
		require.NoError(tb, record.Decode(&r))
		got = append(got, r.N)
	}
	return got, failed
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func loanID() lending.LoanID {
	return lending.LoanID(uuid.MustParse("11111111-2222-3333-4444-555555555555"))
}

func TestIteratorsOfEveryList(t *testing.T) {
	ctx := t.Context()
	partner := lending.PartnerID(loanID())
	application := lending.ApplicationID(loanID())
	for _, test := range []struct {
		name   string
		answer func(url.Values) (int, string)
		walk   func(*lending.Client) ([]int, error)
		calls  int
	}{
		{"AllTransactions", array(450), func(c *lending.Client) ([]int, error) {
			return numbers(t, c.Loans.AllTransactions(ctx, loanID(), nil))
		}, 4},
		{"AllTransactionsPaged", envelope(450, "450"), func(c *lending.Client) ([]int, error) {
			return numbers(t, c.Loans.AllTransactionsPaged(ctx, loanID(), nil))
		}, 3},
		{"AllWithdrawals", envelope(450, "450"), func(c *lending.Client) ([]int, error) {
			return numbers(t, c.Loans.AllWithdrawals(ctx, loanID(), nil))
		}, 3},
		{"AllMessages", array(450), func(c *lending.Client) ([]int, error) {
			return numbers(t, c.Communication.AllMessages(ctx, application, nil))
		}, 4},
		{"AllByPartner", array(450), func(c *lending.Client) ([]int, error) {
			return numbers(t, c.Applications.AllByPartner(ctx, partner, nil))
		}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := &script{answer: test.answer}
			got, err := test.walk(service.client(t))
			require.NoError(t, err)
			assert.Equal(t, upTo(450), got)
			assert.Len(t, service.queries, test.calls)
			for _, query := range service.queries {
				assert.Equal(t, "200", query.Get("take"))
			}
		})
	}
}

func TestIteratorOptions(t *testing.T) {
	ctx := t.Context()
	service := &script{answer: envelope(450, "450")}
	client := service.client(t)

	got, err := numbers(t, client.Loans.AllTransactionsPaged(ctx, loanID(), &lending.PagedOptions{
		Skip: 100, Take: 50,
		Descending: true,
	}))
	require.NoError(t, err)
	assert.Equal(t, upTo(450)[100:], got)
	assert.Len(t, service.queries, 7)
	for _, query := range service.queries {
		assert.Equal(t, "50", query.Get("take"))
		assert.Equal(t, "true", query.Get("descending"))
	}

	service.queries = nil
	_, err = numbers(t, client.Loans.AllTransactionsPaged(ctx, loanID(), &lending.PagedOptions{Take: 1000}))
	require.NoError(t, err)
	assert.Equal(t, "200", service.queries[0].Get("take"))

	service.queries = nil
	tooMany := math.MaxInt32
	tooMany++ // wherever an int has 32 bits it is negative now, and refused too
	for _, opts := range []lending.ListOptions{{Skip: -1}, {Take: -1}, {Skip: tooMany}} {
		t.Run(fmt.Sprint(opts), func(t *testing.T) {
			_, err = numbers(t, client.Loans.AllTransactions(ctx, loanID(), &opts))
			var argument *lending.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Equal(t, lending.CodeRange, argument.Fields[0].Code)
			_, err = client.Loans.Transactions(ctx, loanID(), &opts)
			require.ErrorAs(t, err, &argument)
		})
	}
	assert.Empty(t, service.queries)
}

func TestIteratorCanBeBrokenOffAndRangedAgain(t *testing.T) {
	service := &script{answer: array(450)}
	walk := service.client(t).Loans.AllTransactions(t.Context(), loanID(), nil)
	n := 0
	for _, err := range walk {
		require.NoError(t, err)
		if n++; n == 200 {
			break // before the second page is needed
		}
	}
	assert.Len(t, service.queries, 1)
	got, err := numbers(t, walk)
	require.NoError(t, err)
	assert.Equal(t, upTo(450), got)
}

// TestIteratorEndsAtTheTotal gives totals that are reached, too small beside a full page, and too large.
func TestIteratorEndsAtTheTotal(t *testing.T) {
	for _, test := range []struct {
		claim          string
		records, calls int
		isShort        bool
	}{
		{"450", 450, 3, false},
		{"449", 450, 3, false},
		{"401", 450, 3, false},
		{"400", 400, 2, false},
		{"399", 400, 2, false},
		{"200", 450, 3, false},
		{"12.75", 450, 3, false},
		{"1", 450, 3, false},
		{"0", 450, 3, false},
		{"451", 450, 4, true},
		{"1e30", 450, 4, true},
		{"1e999", 450, 4, true},
		{"9223372036854775807", 450, 4, true},
		{"99999999999999999999", 450, 4, true},
		{"-1", 450, 4, false},
		{"-1e30", 450, 4, false},
		{"null", 450, 4, false},
	} {
		t.Run(test.claim, func(t *testing.T) {
			service := &script{answer: envelope(450, test.claim)}
			got, err := numbers(t, service.client(t).Loans.AllTransactionsPaged(t.Context(), loanID(), nil))
			if test.isShort {
				require.EqualError(t, err,
					"lending: page at 450: the service has returned an empty page before the end of the list")
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, upTo(test.records), got)
			assert.Len(t, service.queries, test.calls)
		})
	}
	service := &script{answer: func(q url.Values) (int, string) {
		// for ever others
		return http.StatusOK, `{"data":` + records(count(q, "skip"), count(q, "skip")+150) + `,"totalCount":400}`
	}}
	got, err := numbers(t, service.client(t).Loans.AllWithdrawals(t.Context(), loanID(), nil))
	require.NoError(t, err)
	assert.Equal(t, upTo(450), got)
	assert.Len(t, service.queries, 3)
}

// TestIteratorNeverEndsShort gives pages that end a list against its own total, or hold no record.
func TestIteratorNeverEndsShort(t *testing.T) {
	for _, test := range []struct {
		name, page, want string
		skip             int
	}{
		{
			"an empty page", `{"data":[],"totalCount":500}`,
			"the service has returned an empty page before the end of the list", 200,
		},
		{"null", `{"data":[{},null],"totalCount":500}`, "[1]: want an object, got null", 200},
		{"the list has become shorter", `{"data":[],"totalCount":199}`, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := &script{answer: func(q url.Values) (int, string) {
				if count(q, "skip") == 0 {
					return envelope(500, "500")(q)
				}
				return http.StatusOK, test.page
			}}
			got, err := numbers(t, service.client(t).Loans.AllTransactionsPaged(t.Context(), loanID(), nil))
			assert.Equal(t, upTo(200), got)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			var page *lending.PageError
			require.ErrorAs(t, err, &page)
			assert.Equal(t, test.skip, page.Skip)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestTotalCountSaturates(t *testing.T) {
	for _, test := range []struct {
		claim string
		want  int
	}{{"7", 7}, {"-7", -7}, {"7.9", 7}, {"1e3", 1000}, {"null", 0}} {
		t.Run(test.claim, func(t *testing.T) {
			page, err := (&script{answer: envelope(1, test.claim)}).client(t).Loans.TransactionsPaged(t.Context(),
				loanID(), nil)
			require.NoError(t, err)
			assert.Equal(t, test.want, page.TotalCount)
		})
	}
	page, err := (&script{answer: envelope(1, "1e40")}).client(t).Loans.TransactionsPaged(t.Context(), loanID(), nil)
	require.NoError(t, err)
	assert.Greater(t, page.TotalCount, math.MaxInt/2) // on 32 bits too
	_, err = (&script{answer: envelope(1, `"7"`)}).client(t).Loans.TransactionsPaged(t.Context(), loanID(), nil)
	require.ErrorContains(t, err, "totalCount: want an integer, got a string")
}

func TestIteratorNoticesARepeatedPage(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(url.Values) (int, string)
	}{
		{"skip is ignored", func(url.Values) (int, string) { return http.StatusOK, records(0, 200) }},
		{"the last page repeats", func(q url.Values) (int, string) {
			from := min(count(q, "skip"), 400)
			return http.StatusOK, records(from, from+200)
		}},
		{"two pages take turns", func(q url.Values) (int, string) {
			from := count(q, "skip") % 400
			return http.StatusOK, records(from, from+200)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := numbers(t, (&script{answer: test.answer}).client(t).Loans.AllTransactions(t.Context(), loanID(),
				nil))
			require.ErrorIs(t, err, lending.ErrRepeatedPage)
			assert.Equal(t, upTo(len(got)), got, "no record came twice")
			var page *lending.PageError
			require.ErrorAs(t, err, &page)
			assert.Equal(t, len(got), page.Skip)
			assert.Equal(t, fmt.Sprintf("lending: page at %d: the service repeats a page", len(got)), err.Error())
		})
	}
}

// TestIteratorProperty walks lists of any length over services that return pages of
// any size, claim any total and fail at any call: every record comes once and in
// order, or an error says from where to go on, and the walk always ends.
func TestIteratorProperty(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		total, calls := random.IntN(60), 0
		failing := -1
		if random.IntN(2) == 0 {
			failing = random.IntN(20)
		}
		stuck, page := failing < 0 && random.IntN(3) == 0, ""
		service := &script{}
		service.answer = func(q url.Values) (int, string) {
			if calls++; calls > 200 {
				t.Fatal("the walk does not end")
			}
			if calls == failing {
				return []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnauthorized}[random.IntN(3)], `{}`
			}
			from := min(count(q, "skip"), total)
			to := min(from+1+random.IntN(2*count(q, "take")), total)
			if stuck && page != "" && from >= total/2 {
				return http.StatusOK, page // the same for ever
			}
			claim := []string{
				strconv.Itoa(total), strconv.Itoa(total), strconv.Itoa(-1 - random.IntN(9)), "1e99",
				"null",
			}[random.IntN(5)]
			page = `{"data":` + records(from, to) + `,"totalCount":` + claim + `}`
			return http.StatusOK, page
		}
		client := service.client(t)
		opts := &lending.PagedOptions{Take: 1 + random.IntN(20)}
		var all []int
		for range 3 { // resumed twice
			got, err := numbers(t, client.Loans.AllTransactionsPaged(t.Context(), loanID(), opts))
			all = append(all, got...)
			require.Equal(t, upTo(len(all)), all, "seed %d", seed)
			if err == nil {
				require.Len(t, all, total, "seed %d", seed)
				break
			}
			var page *lending.PageError
			require.ErrorAs(t, err, &page)
			require.Equal(t, len(all), page.Skip, "seed %d", seed)
			if errors.Is(err, lending.ErrRepeatedPage) {
				require.True(t, stuck, "seed %d", seed)
				break
			}
			opts.Skip = page.Skip
		}
	}
}

// TestPageWithoutData: an object of another kind, or half of one, is not an empty list.
func TestPageWithoutData(t *testing.T) {
	for _, test := range []struct {
		body string
		want string
	}{
		{`{}`, "data: want an array, got nothing"},
		{`{"items":[1]}`, "data: want an array, got nothing"},
		{`{"totalCount":5}`, "data: want an array, got nothing"},
		{`{"data":null}`, "data: want an array, got null"},
		{`{"Data":null,"TotalCount":5}`, "data: want an array, got null"},
		{`{"data":null,"totalCount":null}`, "data: want an array, got null"},
		{`{"data":null,"totalCount":-1}`, "data: want an array, got null"},
		{`{"data":{},"totalCount":0}`, "data: want an array, got an object"},
		{`{"data":null,"totalCount":0}`, ""},
		{`{"TotalCount":0}`, ""},
		{`{"data":[]}`, ""},
	} {
		t.Run(test.body, func(t *testing.T) {
			client := (&script{answer: func(url.Values) (int, string) { return http.StatusOK, test.body }}).client(t)
			got, err := numbers(t, client.Loans.AllTransactionsPaged(t.Context(), loanID(), nil))
			assert.Empty(t, got)
			_, direct := client.Loans.Withdrawals(t.Context(), loanID(), nil)
			if test.want == "" {
				require.NoError(t, err)
				require.NoError(t, direct)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, direct, test.want)
		})
	}
}

// The service gives at most MaxTake where it has a cap: whoever asked for more and
// skipped as many would lose the rest.
func TestTakeIsHeldToTheCap(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusOK, `{"data":[],"totalCount":0}`))
	over := 200 + 1
	list, paged := &lending.ListOptions{Take: over}, &lending.PagedOptions{Take: over}
	for _, err := range []error{
		errorOf(client.Loans.Transactions(t.Context(), loanID(), list)),
		errorOf(client.Loans.TransactionsPaged(t.Context(), loanID(), paged)),
		errorOf(client.Loans.Withdrawals(t.Context(), loanID(), paged)),
		errorOf(client.Communication.Messages(t.Context(), catalog.Application, list)),
	} {
		assert.Equal(t, "take range", catalog.Refused(t, err))
	}
	_, err := client.Loans.Withdrawals(t.Context(), loanID(), &lending.PagedOptions{Take: 200})
	require.NoError(t, err)

	partner := wire.Serve(t, wire.Answer(http.StatusOK, `[]`))
	_, err = partner.Applications.ListByPartner(t.Context(), catalog.Partner, list)
	require.NoError(t, err, "no cap there")
}
