package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	partner "github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// copied is a store of which a copy of any earlier time can be made.
type copied struct {
	store.Store

	mu    sync.Mutex
	saves []savedAt
	last  map[string]time.Time
}

type savedAt struct {
	store.Entry
	at time.Time
}

func newCopied() *copied { return &copied{Store: store.NewMemory(), last: map[string]time.Time{}} }

func (c *copied) Save(ctx context.Context, entry store.Entry) error {
	return c.saveAt(ctx, entry, time.Now())
}

func (c *copied) saveAt(ctx context.Context, entry store.Entry, at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Store.Save(ctx, entry)
	if err == nil {
		c.saves, c.last[entry.Key] = append(c.saves, savedAt{entry, at}), at
	}
	return err
}

func (c *copied) aged(e *store.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Age = time.Since(c.last[e.Key])
}

func (c *copied) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := c.Store.Load(ctx, key)
	if entry != nil {
		c.aged(entry)
	}
	return entry, err
}

func (c *copied) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	page, err := c.Store.List(ctx, filter)
	for i := range page {
		c.aged(&page[i])
	}
	return page, err
}

// copyOf returns the store as it was at a time.
func (c *copied) copyOf(t *testing.T, at time.Time) *copied {
	t.Helper()
	earlier := newCopied()
	for _, saved := range c.saves {
		if !saved.at.After(at) {
			require.NoError(t, earlier.saveAt(t.Context(), saved.Entry, saved.at))
		}
	}
	return earlier
}

// night is a partner's backend whose store is restored.
type night struct {
	service *lendingtest.Service
	options idempotency.Options

	mu      sync.Mutex
	random  *rand.Rand
	rows    map[string]partner.Order
	was     []map[string]partner.Order // the table at each minute
	decided map[string]int
}

// fleet is three replicas up to a crash.
type fleet struct {
	*night
	logs    []*idempotency.Log
	clients []*lending.Client
	crashed atomic.Bool
	working sync.WaitGroup
}

func (n *night) fleet(t *testing.T, entries store.Store) *fleet {
	t.Helper()
	f := &fleet{night: n}
	for range 3 {
		log := fake.Must(idempotency.NewLog(&mortalStore{entries, &f.crashed}, &n.options))
		f.logs = append(f.logs, log)
		f.clients = append(f.clients, wire.NewClient(t, "https://lending.example", lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(f.roundTrip)}),
			lending.WithTokenSource(lending.StaticToken(n.service.Token(lendingtest.Username)))))
	}
	return f
}

// mortalStore answers no process that has ended.
type mortalStore struct {
	store.Store
	crashed *atomic.Bool
}

func (m *mortalStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	if m.crashed.Load() {
		return nil, errEnded
	}
	return m.Store.Load(ctx, key)
}

func (m *mortalStore) Save(ctx context.Context, entry store.Entry) error {
	if m.crashed.Load() {
		return errEnded
	}
	return m.Store.Save(ctx, entry)
}

func (n *night) roll() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.Float64()
}

// roundTrip loses one response of fifty, and half of these requests. What is on its way at the crash
// is executed.
func (f *fleet) roundTrip(r *http.Request) (*http.Response, error) {
	if f.crashed.Load() {
		return nil, errEnded
	}
	bubble.Elapse(time.Duration(f.roll() * float64(300*time.Millisecond)))
	fault := f.roll()
	if isCommand(r) && fault < 0.01 {
		return nil, syscall.ECONNRESET
	}
	resp, err := f.service.Transport().RoundTrip(r)
	if isCommand(r) && fault < 0.02 || f.crashed.Load() {
		return nil, syscall.ECONNRESET
	}
	return resp, err
}

// run carries an order out until the fleet crashes.
func (f *fleet) run(t *testing.T, id string) {
	t.Helper()
	phone := func(_ context.Context, _ partner.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
		return lending.NewSecret(f.service.OTP(loan.String())), nil
	}
	for !f.crashed.Load() {
		f.mu.Lock()
		row := f.rows[id]
		f.mu.Unlock()
		if row.State != partner.Open {
			return
		}
		replica := int(f.roll() * 3)
		p := &partner.Partner{Client: f.clients[replica], Log: f.logs[replica], Ask: phone}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		now, err := p.Onboard(ctx, row)
		stop()
		next := lending.NextOf(err)
		if f.crashed.Load() {
			return
		}
		if err != nil && !next.Retry {
			now.End(err)
			if !assert.Equal(t, partner.Open, now.State, err) {
				return
			}
		}
		f.mu.Lock()
		f.rows[id] = now
		f.mu.Unlock()
		if next.Person {
			bubble.Elapse(10 * time.Minute)
			f.decide(t, f.logs[replica], now)
		}
		if err != nil {
			bubble.Elapse(max(next.After, 15*time.Second))
		}
	}
}

// decide is the person, who looks into the books of the service.
func (f *fleet) decide(t *testing.T, log *idempotency.Log, order partner.Order) {
	t.Helper()
	filter := idempotency.Filter{Prefix: order.ID + "/", States: []store.State{store.NeedsReview}}
	for _, key := range fake.Must(log.Keys(t.Context(), filter)) {
		step := strings.TrimPrefix(key.Key, order.ID+"/")
		said := idempotency.Resolution{By: "ada", Why: "the books", Verdict: idempotency.NotHappened(), Sends: key.Sends}
		if answer, happened := inTheBooks(f.service.Snapshot(), order.Email, step); happened {
			said.Verdict = idempotency.Happened(answer)
		}
		if err := log.Resolve(t.Context(), key.Key, said); err != nil {
			assert.ErrorIs(t, err, idempotency.ErrInDoubt, key.Key)
			continue
		}
		f.mu.Lock()
		f.decided[strings.Split(step, "/")[0]]++
		f.mu.Unlock()
	}
}

func inTheBooks(state lendingtest.Snapshot, email, step string) (answer any, happened bool) {
	c := slices.IndexFunc(state.Customers, func(c lendingtest.Customer) bool { return c.Email == email })
	if c < 0 {
		return nil, false
	}
	a := slices.IndexFunc(state.Applications, func(a lendingtest.Application) bool {
		return a.CustomerID == state.Customers[c].ID
	})
	switch {
	case step == "create-customer":
		return map[string]string{"id": state.Customers[c].ID}, true
	case a < 0:
		return nil, false
	case step == "create-application":
		return state.Applications[a].ID, true
	case step == "confirm":
		return nil, slices.ContainsFunc(state.Loans, func(l lendingtest.Loan) bool {
			return l.ApplicationID == state.Applications[a].ID && len(l.Withdrawals) > 0
		})
	case step == "withdraw":
		return map[string]json.Number{"advanceRate": "0.8"}, true
	}
	return nil, onboarding.Happened(state, email, step)
}

// TestRestoredStoreDoesNothingTwice has three replicas onboard customers, who come every 20 seconds
// and wait for their offers. They crash in the middle, and their store is restored from a copy. The
// partner's table of orders survives, or comes from the same copy.
func TestRestoredStoreDoesNothingTwice(t *testing.T) {
	count := seeds.FromEnvironment(t, onboardingsVariable, 40)
	for _, test := range []struct {
		back      time.Duration
		sameTable bool
	}{
		{time.Minute, false},
		{10 * time.Minute, false},
		{time.Hour, false},
		{time.Minute, true},
		{10 * time.Minute, true},
		{time.Hour, true},
	} {
		t.Run(fmt.Sprintf("%v/table restored %v", test.back, test.sameTable), func(t *testing.T) {
			switch {
			case test.back == time.Hour && count <= 40:
				t.Skip("40 onboardings come in 13 minutes: the trial of 10 minutes is the same")
			case test.sameTable == (test.back == time.Minute) && count <= 40 && !longrun.Wanted():
				t.Skip("LENDING_TEST_LONG is not set")
			}
			synctest.Test(t, func(t *testing.T) {
				n := &night{
					service: lendingtest.New(lendingtest.WithTokenLifetime(24 * time.Hour)),
					decided: map[string]int{}, rows: map[string]partner.Order{},
					random:  rand.New(rand.NewPCG(uint64(seeds.FromEnvironment(t, seeds.Variable, 1)), 0)),
					options: idempotency.Options{SafeToRepeat: partner.SafeToRepeat},
				}
				defer n.service.Close()
				n.service.SetDecision(lendingtest.Decision{After: 3 * time.Minute})
				orders, emails := partner.Orders(count)
				first := newCopied()
				const each = 20 * time.Second
				f := n.fleet(t, first)
				minutes := int((time.Duration(count) * each * 3 / 4).Minutes())
				came := 0
				for minute := range minutes {
					for ; came < count && time.Duration(came)*each <= time.Duration(minute)*time.Minute; came++ {
						f.accept(t, orders[came])
					}
					n.mu.Lock()
					n.was = append(n.was, maps.Clone(n.rows))
					n.mu.Unlock()
					bubble.Elapse(time.Minute)
				}
				f.crashed.Store(true)
				f.working.Wait()
				back := min(test.back, time.Duration(minutes)*time.Minute)
				at := time.Now().Add(-back)
				entries := first.copyOf(t, at)
				if test.sameTable {
					for _, o := range orders[:came] { // the customers of the lost orders have come again
						n.rows[o.ID] = o
					}
					maps.Copy(n.rows, n.was[len(n.was)-int(back.Minutes())])
				}
				bubble.Elapse(10 * time.Second)
				f = n.fleet(t, entries)
				restored(t, f.logs[0], idempotency.Restoration{By: "kim", Copy: at, Claim: true})
				for id := range n.rows {
					f.working.Go(func() { f.run(t, id) })
				}
				for ; came < count; came++ {
					f.accept(t, orders[came])
					bubble.Elapse(each)
				}
				f.working.Wait()
				require.NoError(t, n.service.Wait(t.Context()))
				c := &crowd{service: n.service, options: n.options}
				assert.Empty(t, c.wrong(emails))
				persons := 0
				for _, k := range n.decided {
					persons += k
				}
				presumed := 0
				for _, key := range fake.Must(f.logs[0].Keys(t.Context(), idempotency.Filter{Limit: 100 * count})) {
					if slices.ContainsFunc(key.History, func(c idempotency.Change) bool {
						return strings.HasPrefix(c.Why, "the store is a copy of")
					}) {
						presumed++
					}
				}
				t.Logf("%d onboardings, %d keys in doubt by the order, %d decisions of persons %v",
					count, presumed, persons, n.decided)
				assert.Positive(t, presumed)
				assert.LessOrEqual(t, persons, count/10)
			})
		})
	}
}

func (f *fleet) accept(t *testing.T, order partner.Order) {
	t.Helper()
	f.mu.Lock()
	f.rows[order.ID] = order
	f.mu.Unlock()
	f.working.Go(func() { f.run(t, order.ID) })
}
