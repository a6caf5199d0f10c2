package idempotency_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// fastStore has a clock with twice the speed of the processes' clocks.
type fastStore struct{ store.Store }

func (s fastStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := s.Store.Load(ctx, key)
	if entry != nil {
		entry.Age *= 2
	}
	return entry, err
}

// told returns the history of a key, a change in a line.
func told(t *testing.T, log *idempotency.Log, key string) string {
	t.Helper()
	var all strings.Builder
	for _, c := range fake.Must(log.Lookup(t.Context(), key)).History {
		fmt.Fprintf(&all, "%v ago: %s, sent %d, %q by %q", c.Age, c.State, c.Sends, c.Why, c.By)
		if c.Dropped > 0 {
			fmt.Fprintf(&all, ", then %d more", c.Dropped)
		}
		all.WriteString("\n")
	}
	return all.String()
}

// TestHistoryListsTheChanges by the clock of the store, with each review's own reason and person. It
// outlives the response.
func TestHistoryListsTheChanges(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		entries.Store = fastStore{entries.Store}
		log, o := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service)
		resend := func() error {
			_, err := client.Loans.ResendWithdrawalOTP(lending.WithIdempotencyKey(t.Context(), "the/key"), o.loan)
			return err
		}
		decide := func(by, why string, v idempotency.Verdict, isCorrect bool) {
			t.Helper()
			bubble.Elapse(maxLateness)
			sends := fake.Must(log.Lookup(t.Context(), "the/key")).Sends
			require.NoError(t, log.Resolve(t.Context(), "the/key",
				idempotency.Resolution{By: by, Why: why, Verdict: v, Correct: isCorrect, Sends: sends}))
		}
		const route = "POST /api/Loan/resend-withdrawal-otp/{loanId}"
		service.Fail(route, lendingtest.Fault{Status: 400})
		require.Error(t, resend())
		bubble.Elapse(time.Minute)
		service.Fail(route, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		decide("ada", "the customer has no code", idempotency.NotHappened(), false)
		service.Fail(route, lendingtest.Fault{Status: 503})
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		assert.Empty(t, fake.Must(log.Lookup(t.Context(), "the/key")).ResolvedBy, "the verdict was on an earlier send")
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		key := fake.Must(log.Lookup(t.Context(), "the/key"))
		assert.Equal(t, "no published field shows it", key.Why)
		assert.Empty(t, key.ResolvedBy)
		decide("bob", "still no code", idempotency.NotHappened(), false)
		decide("cleo", "it came", idempotency.Happened(nil), true)
		key = fake.Must(log.Lookup(t.Context(), "the/key"))
		assert.Equal(t, []any{"it came", "cleo", true}, []any{key.Why, key.ResolvedBy, key.Correctable})
		require.NoError(t, resend())
		key = fake.Must(log.Lookup(t.Context(), "the/key"))
		assert.Equal(t, []any{"it came", "cleo", false}, []any{key.Why, key.ResolvedBy, key.Correctable})
		assert.Equal(t, `32m0s ago: sent, sent 1, "" by ""
32m0s ago: free, sent 1, "the service responded with 400" by ""
30m0s ago: sent, sent 2, "" by ""
30m0s ago: in_doubt, sent 2, "connection reset" by ""
30m0s ago: needs_review, sent 2, "no published field shows it" by ""
20m0s ago: free, sent 2, "the customer has no code" by "ada"
20m0s ago: sent, sent 3, "" by ""
20m0s ago: in_doubt, sent 3, "the service responded with 503" by ""
20m0s ago: needs_review, sent 3, "no published field shows it" by ""
10m0s ago: free, sent 3, "still no code" by "bob"
0s ago: done, sent 3, "it came" by "cleo"
0s ago: done, sent 3, "a call has used the verdict" by ""
`, told(t, log, "the/key"))
		was := told(t, log, "the/key")
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		assert.Equal(t, strings.Count(was, "\n")+1, strings.Count(told(t, log, "the/key"), "\n"))
		assert.Contains(t, told(t, log, "the/key"), `0s ago: forgotten, sent 3, "" by ""`)
		assert.Contains(t, told(t, log, "the/key"), `ago: done, sent 3, "it came" by "cleo"`)
	})
}

// TestHistoryHasTheChangesOfOthers while the owner of the send stood still.
func TestHistoryHasTheChangesOfOthers(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, o := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service)
		entries.save = func(entry store.Entry) error {
			if entry.State == store.Done {
				entries.save = nil
				bubble.Elapse(2*time.Minute + maxLateness)
				fake.Must(log.Check(t.Context(), client))
				bubble.Elapse(time.Minute)
			}
			return nil
		}
		require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application))
		assert.Equal(t, `8m0s ago: sent, sent 1, "" by ""
1m0s ago: needs_review, sent 1, "no published field shows it" by ""
0s ago: done, sent 1, "" by ""
`, told(t, log, "the/key"))
	})
}

// TestSlowReadCountsOnce has the two reads of the store before a review take time.
func TestSlowReadCountsOnce(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, ctx := newOrder(service), lending.WithIdempotencyKey(t.Context(), "the/key")
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, client.Applications.SendLink(ctx, o.application), lending.ErrOutcomeUnknown)
		entries.load = func(string) error { bubble.Elapse(900 * time.Millisecond); return nil }
		require.ErrorIs(t, client.Applications.SendLink(ctx, o.application), idempotency.ErrNeedsReview)
		entries.load = nil
		assert.Contains(t, told(t, fake.Must(idempotency.NewLog(entries, nil)), "the/key"), "1.8s ago: in_doubt, ")
	})
}

// TestHistoryIsBounded keeps the first 4 and the last 12 changes of a rejected key.
func TestHistoryIsBounded(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, o, most := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service), 0
		entries.saved = func(entry store.Entry) error { most = max(most, len(entry.Data)); return nil }
		for range 40 {
			service.Fail(createApplicationRoute, lendingtest.Fault{Status: 400})
			require.Error(t, o.creates(t, client)("the/key"))
			bubble.Elapse(time.Minute)
		}
		all := fake.Must(log.Lookup(t.Context(), "the/key")).History
		require.Len(t, all, 16)
		assert.Equal(t, idempotency.Change{State: store.Sent, Age: 40 * time.Minute, Sends: 1}, all[0])
		assert.Equal(t, idempotency.Change{
			State: store.Free, Age: 39 * time.Minute, Sends: 2, Why: "the service responded with 400", Dropped: 64,
		}, all[3])
		assert.Equal(t, idempotency.Change{State: store.Sent, Age: 6 * time.Minute, Sends: 35}, all[4])
		assert.Equal(t, time.Minute, all[15].Age)
		assert.Less(t, most, 2000)
	})
}

// TestHistoryCostsNoSave counts the saves of a call with its answer, of a call whose answer a check
// finds, and of a review.
func TestHistoryCostsNoSave(t *testing.T) {
	for _, test := range []struct {
		name, route string
		call        func(context.Context, *lending.Client, order) error
		answered    int // saves
		lost        int
	}{
		{"no lock", linkRoute, func(ctx context.Context, c *lending.Client, o order) error {
			return c.Applications.SendLink(ctx, o.application)
		}, 2, 3},
		{"a lock and a record", createApplicationRoute, func(ctx context.Context, c *lending.Client, o order) error {
			_, err := c.Applications.Create(ctx, o.request(), nil)
			return err
		}, 5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o, saves := newOrder(service), 0
				entries.saved = func(store.Entry) error { saves++; return nil }
				call := func(key string) error { return test.call(lending.WithIdempotencyKey(t.Context(), key), client, o) }
				require.NoError(t, call("a/answered"))
				assert.Equal(t, test.answered, saves)
				bubble.Elapse(time.Hour)
				saves = 0
				service.Fail(test.route, lendingtest.Fault{ResetAfter: true})
				require.ErrorIs(t, call("a/lost"), lending.ErrOutcomeUnknown)
				_ = call("a/lost")
				assert.Equal(t, test.lost, saves)
			})
		})
	}
}
