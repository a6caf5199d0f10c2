package idempotency_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestHangingReadDelaysNoOtherCheck has hanging reads for nine customers: Check makes eight checks at
// once, each of at most 10 seconds, and ends the doubt about the application of a tenth customer.
func TestHangingReadDelaysNoOtherCheck(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, nil))
		hang := make(map[string]bool)
		for i := range 10 {
			customer := service.AddCustomer(lendingtest.Customer{}).ID
			service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
			_, err := client.Applications.Create(lending.WithIdempotencyKey(t.Context(), fmt.Sprint("order-", i)),
				lending.ApplicationRequest{
					CustomerID: lending.CustomerID(uuid.MustParse(customer)), BusinessName: "Lovelace", BusinessZip: "94105",
				}, nil)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			hang[customer] = i < 9
		}
		hanging := wire.NewClient(t, "https://lending.example",
			lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})), lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if hang[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return service.Transport().RoundTrip(r)
			})}))
		bubble.Elapse(time.Second)
		begun := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second) // as the loop over the orders has
		defer stop()
		next, err := log.Check(ctx, hanging)
		require.Error(t, err)
		require.NoError(t, ctx.Err(), "it ends by itself")
		assert.Equal(t, time.Second, next, "a minute without a doubt; with one, the age of the doubt")
		assert.Equal(t, 20*time.Second, time.Since(begun))
		assert.Equal(t, store.Done, fake.Must(entries.Load(t.Context(), ":order-9")).State)
	})
}

// TestStoreThatFailsIsReported has a store with failures under Resolve and under Forget.
func TestStoreThatFailsIsReported(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		create := o.creates(t, client)
		require.NoError(t, create("order/done"))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("lost"), lending.ErrOutcomeUnknown)
		resolve := func() error { return log.Resolve(t.Context(), "lost", says(idempotency.Happened(o.application))) }
		forget := func() error {
			_, err := log.Forget(t.Context(), "order/done")
			return err
		}
		entries.load = func(string) error { return errStore }
		require.ErrorIs(t, resolve(), idempotency.ErrStore)
		require.ErrorIs(t, forget(), idempotency.ErrStore)
		entries.load = nil
		entries.save = func(entry store.Entry) error {
			return map[bool]error{true: errStore}[strings.Contains(entry.Key, "#")] // the entry of the lock
		}
		require.ErrorIs(t, resolve(), idempotency.ErrStore, "the verdict counts as a record of the lock")
		require.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":lost")).State)
		entries.save = func(entry store.Entry) error { return map[bool]error{true: errStore}[entry.Key == ":lost"] }
		require.ErrorIs(t, resolve(), idempotency.ErrStore)
		entries.save = nil
		corrupt := store.Entry{Key: ":corrupt", State: store.Done, Data: []byte("?")}
		require.NoError(t, entries.Store.Save(t.Context(), corrupt))
		bubble.Elapse(maxLateness)
		_, err := log.Forget(t.Context(), "corrupt")
		require.ErrorIs(t, err, store.ErrCorrupt)
		err = log.Resolve(t.Context(), "corrupt", says(idempotency.Happened(nil)))
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.NoError(t, resolve())
		bubble.Elapse(maxLateness)
		readOnly := &tampered{Store: entries, replace: func([]store.Entry) error { return errStore }}
		down := &tampered{load: func(string) error { return errStore }, list: func() error { return errStore }}
		for _, keys := range []string{"order/done", "order/"} {
			_, err = fake.Must(idempotency.NewLog(readOnly, nil)).Forget(t.Context(), keys)
			require.ErrorIs(t, err, idempotency.ErrStore)
			_, err = fake.Must(idempotency.NewLog(down, nil)).Forget(t.Context(), keys)
			require.ErrorIs(t, err, idempotency.ErrStore)
		}
	})
}

// silent is a store whose server answers nothing to a method.
type silent struct {
	store.Store
	method string
}

func (s silent) wait(ctx context.Context, method string) error {
	if method != s.method {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := s.Store.Load(ctx, key)
	return entry, cmp.Or(s.wait(ctx, "Load"), err)
}

func (s silent) Save(ctx context.Context, entry store.Entry) error {
	return cmp.Or(s.wait(ctx, "Save"), s.Store.Save(ctx, entry))
}

func (s silent) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	return 0, s.wait(ctx, "Replace")
}

func (s silent) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	entries, err := s.Store.List(ctx, filter)
	return entries, cmp.Or(s.wait(ctx, "List"), err)
}

// TestSilentStoreHoldsNoCaller has callers without a deadline.
func TestSilentStoreHoldsNoCaller(t *testing.T) {
	for _, test := range []struct {
		method string
		lasts  time.Duration
		call   func(ctx context.Context, log *idempotency.Log) error
	}{
		{"Load", 10 * time.Second, func(ctx context.Context, log *idempotency.Log) error {
			_, err := log.Lookup(ctx, "key")
			return err
		}},
		{"Save", 10 * time.Second, func(ctx context.Context, log *idempotency.Log) error {
			return log.Pause(ctx, idempotency.Decision{By: "kim", Why: "test"})
		}},
		{"List", time.Minute, func(ctx context.Context, log *idempotency.Log) error {
			_, err := log.Keys(ctx, idempotency.Filter{})
			return err
		}},
		{"Replace", time.Minute, func(ctx context.Context, log *idempotency.Log) error {
			_, err := log.Sweep(ctx)
			return err
		}},
	} {
		t.Run(test.method, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				require.NoError(t, newOrder(service).creates(t, client)("key"))
				bubble.Elapse(31 * 24 * time.Hour)
				begun := time.Now()
				log := fake.Must(idempotency.NewLog(silent{entries, test.method}, nil))
				require.ErrorIs(t, test.call(t.Context(), log), idempotency.ErrStore)
				assert.LessOrEqual(t, time.Since(begun), 2*test.lasts, "two calls")
			})
		})
	}
}

// TestCheckEndsAbandonedDoubts calls Check as a worker does, with a client of its own. If a read
// can tell, the mutation is done or free. Otherwise the mutation needs a review. No lock is held.
func TestCheckEndsAbandonedDoubts(t *testing.T) {
	const withdrawRoute = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		prepareOrder(t, client, &o)
		lose := func(route string, fault lendingtest.Fault, call func(context.Context) error, key string) {
			service.Fail(route, fault)
			require.ErrorIs(t, call(lending.WithIdempotencyKey(t.Context(), key)), lending.ErrMayHaveHappened)
		}
		create := func(customer lending.CustomerID) func(context.Context) error {
			return func(ctx context.Context) error {
				request := o.request()
				request.CustomerID = customer
				_, err := client.Applications.Create(ctx, request, nil)
				return err
			}
		}
		someone := func() lending.CustomerID {
			return fake.Must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID))
		}
		before, after := lendingtest.Fault{ResetBefore: true}, lendingtest.Fault{ResetAfter: true}
		lose(createApplicationRoute, after, create(someone()), "done")
		lose(createApplicationRoute, before, create(someone()), "free")
		lose(createApplicationRoute, lendingtest.Fault{CutBody: 3}, create(someone()), "cut")
		lose(createApplicationRoute, lendingtest.Fault{Late: time.Minute}, create(someone()), "late")
		lose(withdrawRoute, after, func(ctx context.Context) error {
			_, err := client.Loans.WithdrawInvoice(ctx, o.loan, lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
			return err
		}, "person")
		lose(renameRoute, before, func(ctx context.Context) error {
			_, err := client.Applications.UpdateName(ctx, o.application, "New")
			return err
		}, "value")
		lose(fake.CreateRoute, after, func(ctx context.Context) error {
			_, err := client.Applications.CreateCustomer(ctx, fake.Ada())
			return err
		}, "address")
		for calls, begun := 0, time.Now(); time.Since(begun) <= 2*maxLateness; calls++ {
			require.Less(t, calls, 40, "it does not spin")
			next := fake.Must(log.Check(t.Context(), client))
			require.Positive(t, next)
			bubble.Elapse(next)
		}
		executed := service.Executed(createApplicationRoute)
		for key, want := range map[string]store.State{
			"done": store.Done, "free": store.Free, "cut": store.Done, "late": store.Done,
			"person": store.NeedsReview, "value": store.InDoubt, "address": store.InDoubt,
		} {
			entry := fake.Must(entries.Load(t.Context(), ":"+key))
			assert.Equal(t, want, entry.State, key)
			assert.Equal(t, key == "value", entry.Lock != "", key)
			assert.NotContains(t, string(entry.Data), fake.Ada().Email)
		}
		assert.Equal(t, executed, service.Executed(createApplicationRoute), "it sends nothing")
		_, err := log.Check(t.Context(), nil)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
	})
}

func TestSweepRemovesResponses(t *testing.T) {
	opts := &idempotency.Options{KeepAnswers: time.Hour, MaxAnswer: 200}
	withStore(t, opts, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, opts))
		user := fake.Newcomer()
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		swept := fake.Must(log.Sweep(t.Context()))
		assert.Zero(t, swept)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		bubble.Elapse(time.Hour)
		for _, want := range []int{1, 0} {
			assert.Equal(t, want, fake.Must(log.Sweep(t.Context())))
		}
		kept := string(fake.Must(log.Lookup(t.Context(), "the/key")).Answer())
		assert.Contains(t, kept, `"id"`)
		assert.NotContains(t, kept, "firstName", "nothing of a person is kept")
		customer := fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, service.Snapshot().Customers[0].ID, customer.ID.String())
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		loan := service.AddLoan(lendingtest.Loan{CustomerID: service.Snapshot().Customers[0].ID})
		invoice := func() error {
			id := fake.Must(lending.ParseApplicationID(loan.ApplicationID))
			_, err := client.Calculation.Invoice(lending.WithIdempotencyKey(t.Context(), "large"), id, fake.Invoice())
			return err
		}
		require.NoError(t, invoice())
		require.NoError(t, invoice(), "it was too large to be kept, and is calculated again")
	})
}

// TestSweepSkipsOtherNamespacesAndYoungEntries has answers of another namespace, and answers that are younger
// than MaxLateness: a late owner may still compare itself with them.
func TestSweepSkipsOtherNamespacesAndYoungEntries(t *testing.T) {
	opts := &idempotency.Options{KeepAnswers: time.Second, Namespace: "a"}
	withStore(t, opts, func(t *testing.T, _ *lendingtest.Service, entries *tampered, _ *lending.Client) {
		for _, key := range []string{"a:1", "b:1"} {
			data := []byte(`{"request":{"route":"POST /a"},"response":{"status":200}}`)
			entry := store.Entry{Key: key, State: store.Done, Data: data}
			require.NoError(t, entries.Save(t.Context(), entry))
		}
		log := fake.Must(idempotency.NewLog(entries, opts))
		bubble.Elapse(maxLateness - time.Second)
		assert.Zero(t, fake.Must(log.Sweep(t.Context())))
		bubble.Elapse(time.Second)
		assert.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		assert.Equal(t, store.Done, fake.Must(entries.Load(t.Context(), "b:1")).State)
	})
}

// TestSweepGoesOn has more entries that cannot be read than a page, and entries that another
// process changes meanwhile: all others are forgotten.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unreadable, readable, changed = 1100, 1300, 3
		entries := store.NewMemory()
		for i := range unreadable + readable {
			entry := store.Entry{Key: fmt.Sprintf(":%04d", i), State: store.Done, Data: []byte("?")}
			if i >= unreadable {
				entry.Data = []byte(`{"request":{"route":"POST /a"},"response":{"status":200}}`)
			}
			require.NoError(t, entries.Save(t.Context(), entry))
		}
		bubble.Elapse(time.Hour)
		changes := 0
		other := &tampered{Store: entries, replace: func(page []store.Entry) error {
			if changes < changed && len(page) > 0 {
				changes++
				return entries.Save(t.Context(), fake.Must(loaded(entries, page[len(page)-1].Key)))
			}
			return nil
		}}
		log := fake.Must(idempotency.NewLog(other, &idempotency.Options{KeepAnswers: time.Hour}))
		n, err := log.Sweep(t.Context())
		require.ErrorIs(t, err, store.ErrCorrupt)
		last := changes
		require.Positive(t, last)
		assert.Equal(t, readable-last, n)
		changes = changed // no more
		bubble.Elapse(time.Hour)
		n, err = log.Sweep(t.Context())
		require.ErrorIs(t, err, store.ErrCorrupt)
		assert.Equal(t, last, n, "they were saved an hour ago")
	})
}

// TestSweepHoldsAPage sweeps answers of 1 MB, which take less room than two pages at a time.
func TestSweepHoldsAPage(t *testing.T) {
	const n = 24 // twice the limit of a page
	entries := store.NewMemory()
	answer := strings.Repeat("eHh4", 1<<18)
	for i := range n {
		entry := store.Entry{Key: fmt.Sprint(":", i), State: store.Done}
		entry.Data = fmt.Appendf(nil, `{"request":{"route":"POST /a"},"response":{"status":200,"body":"%s"}}`, answer)
		require.NoError(t, entries.Save(t.Context(), entry))
	}
	largest, live := uint64(0), func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	watched := &tampered{Store: entries, replace: func([]store.Entry) error { largest = max(largest, live()); return nil }}
	opts := &idempotency.Options{KeepAnswers: time.Nanosecond, MaxLateness: time.Nanosecond}
	assert.Equal(t, n, fake.Must(fake.Must(idempotency.NewLog(watched, opts)).Sweep(t.Context())))
	assert.Less(t, largest, before+3*store.PageBytes, "the store itself holds %d bytes", before)
}

// TestSweepDeletesEffectsOfLocks creates an application, whose lock remembers it for
// MaxLateness.
func TestSweepDeletesEffectsOfLocks(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		fake.Must(client.Applications.Create(lending.WithIdempotencyKey(t.Context(), "a/create"),
			newOrder(service).request(), nil))
		remembered := func() int {
			filter := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 10}
			return len(fake.Must(entries.List(t.Context(), filter)))
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(maxLateness - time.Second)
		fake.Must(log.Sweep(t.Context()))
		require.Equal(t, 1, remembered())
		bubble.Elapse(time.Second)
		fake.Must(log.Sweep(t.Context()))
		assert.Zero(t, remembered())
	})
}

// TestForgetEndsAnOrder deletes the keys of an order and leaves those of all others, whose
// names are alike.
func TestForgetEndsAnOrder(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		rename := func(key string) {
			t.Helper()
			fake.Must(client.Applications.UpdateName(lending.WithIdempotencyKey(t.Context(), key), o.application, key))
		}
		keys := []string{"order-4/a", "order-4/b", "order-42/a", "order-4", "order-4-a", "order-4a"}
		for _, key := range keys {
			rename(key)
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(maxLateness)
		for _, test := range []struct {
			keys string
			want int
		}{{"order-4/", 2}, {"order-4/", 0}, {"order-4", 1}, {"order", 0}, {"none", 0}, {"order-", 3}} {
			n, err := log.Forget(t.Context(), test.keys)
			require.NoError(t, err)
			assert.Equal(t, test.want, n, test.keys)
		}
		sent := service.Executed(renameRoute)
		rename("order-4/a")
		assert.Equal(t, sent+1, service.Executed(renameRoute), "the caller has said that nobody calls it again")
		_, err := log.Forget(t.Context(), "")
		require.ErrorContains(t, err, "must not be empty")
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":order-5", State: store.Done, Data: []byte("?")}))
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":order-5/a", State: store.Done, Data: []byte("?")}))
		bubble.Elapse(maxLateness)
		for _, keys := range []string{"order-5", "order-5/"} {
			_, err = log.Forget(t.Context(), keys)
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	})
}

// TestForgetRefusesAnUnfinishedOrder has an unfinished mutation of the order: nothing is
// deleted, and the error says when to call again.
func TestForgetRefusesAnUnfinishedOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		state store.State
		lock  string
		data  string
		want  error
		after time.Duration
	}{
		{"in flight", store.Sent, "lock", `"send":{"lease":60000000000}`, idempotency.ErrInProgress, time.Minute},
		{"its process has died", store.Sent, "lock", `"send":{}`, idempotency.ErrNeedsReview, 0},
		{"in doubt", store.InDoubt, "lock", `"send":{"number":1}`, idempotency.ErrNeedsReview, 0},
		{"needs review", store.NeedsReview, "", `"send":{"number":1}`, idempotency.ErrNeedsReview, 0},
		{"about to be sent", store.Free, "lock", `"send":{}`, idempotency.ErrInProgress, maxLateness},
		{"has just ended", store.Done, "", `"send":{"number":1}`, idempotency.ErrInProgress, maxLateness},
		{"sent twice", store.Done, "lock", `"hold":330000000000`, idempotency.ErrInProgress, maxLateness + 30*time.Second},
		{"cannot be read", store.InDoubt, "lock", `?`, idempotency.ErrInDoubt, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, _ *lendingtest.Service, entries *tampered, _ *lending.Client) {
				save := func(key string, state store.State, lock, data string) {
					require.NoError(t, entries.Save(t.Context(), store.Entry{
						Key: key, State: state, Lock: lock, Data: fmt.Appendf(nil, `{"request":{"route":"POST /a"}%s}`, data),
					}))
				}
				save(":a/0", store.Done, "", "")
				save(":a/2", store.Forgotten, "", "")
				bubble.Elapse(maxLateness)
				save(":a/1", test.state, test.lock, ","+test.data)
				log := fake.Must(idempotency.NewLog(entries, nil))
				for range 2 {
					n, err := log.Forget(t.Context(), "a/")
					require.ErrorIs(t, err, test.want)
					assert.Zero(t, n)
					var failed *idempotency.Error
					require.ErrorAs(t, err, &failed)
					assert.Equal(t, "a/1", failed.Key)
					assert.Equal(t, test.after, failed.RetryAfter)
				}
				n, err := log.Forget(t.Context(), "a/1")
				require.Error(t, err)
				assert.Zero(t, n)
				if test.after > 0 {
					bubble.Elapse(test.after)
					_, err = log.Forget(t.Context(), "a/")
					assert.Equal(t, test.state == store.Sent, err != nil, "it has died or ended")
				}
			})
		})
	}
}

// TestSweepKeepsNoRecordWithoutAnID sweeps a response with more than ids. The log still knows that
// the mutation happened.
func TestSweepKeepsNoRecordWithoutAnID(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		answer := json.RawMessage(`[{"name":"Ada"},{"id":"00000001-0001-4000-8000-000000000009","name":"Grace"}]`)
		check := func(context.Context) (idempotency.Verdict, error) { return idempotency.Happened(answer), nil }
		ctx, requests := withKey(t.Context(), "batch"), []lending.ApplicationRequest{o.request()}
		service.Fail("POST /api/ApplicationBulk/create-applications", lendingtest.Fault{ResetAfter: true})
		_, err := client.Bulk.CreateApplications(ctx, requests)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		fake.Must(client.Bulk.CreateApplications(idempotency.WithCheck(ctx, check), requests))
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		assert.Nil(t, fake.Must(log.Lookup(t.Context(), "batch")).Answer())
		_, err = client.Bulk.CreateApplications(ctx, requests)
		require.ErrorIs(t, err, idempotency.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, fake.Must(log.Lookup(t.Context(), "batch")).Outcome)
	})
}

// TestDoneEntryIsSmall creates an application for a customer who has hundreds: the entry does
// not keep the snapshot, and a tombstone keeps only the fields for the comparison of requests.
func TestDoneEntryIsSmall(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		for range 400 {
			fake.Must(client.Applications.Create(t.Context(), o.request(), nil))
		}
		create := func() lending.ApplicationID {
			return fake.Must(client.Applications.Create(lending.WithIdempotencyKey(t.Context(), "a/create"), o.request(), nil))
		}
		id := create()
		size := func() int { return len(fake.Must(entries.Load(t.Context(), ":a/create")).Data) }
		assert.Less(t, size(), 800)
		assert.Equal(t, id, create())
		remembered := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 10}
		assert.Less(t, len(fake.Must(entries.List(t.Context(), remembered))[0].Data), 400)

		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(fake.Must(idempotency.NewLog(entries, nil)).Sweep(t.Context())))
		assert.Less(t, size(), 500)
		assert.Equal(t, id, create(), "an id says nothing of a person")
	})
}
