package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
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
	*testing.T

	service *lendingtest.Service
	options idempotency.Options
	entries *copied
	vault   atomic.Value // the password
	sends   atomic.Int64 // of mutations

	mu      sync.Mutex
	random  *rand.Rand
	table   *partner.Table
	came    []partner.Order   // as accepted
	known   int               // applications from before the log
	madeFor map[string]string // orders by application
	decided []string          // the keys that persons have decided
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

// accept is the shop, which inserts an order.
func (n *night) accept(o partner.Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.Accepted = time.Now()
	n.came = append(n.came, o)
	n.table.Save(o)
}

// rows returns the orders of the table.
func (n *night) rows() (rows []partner.Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.came {
		rows = append(rows, n.table.Get(o.ID))
	}
	return rows
}

// fleet is three replicas up to a crash, and a person.
type fleet struct {
	*night

	log     *idempotency.Log // of a replica
	crashed atomic.Bool
	locked  sync.Map
	stop    context.CancelFunc
	working sync.WaitGroup
}

func (n *night) start() *fleet {
	f := &fleet{night: n}
	ctx, stop := context.WithCancel(n.Context())
	f.stop = stop
	tokens := lending.NewMemoryTokenStore()
	for range 3 {
		log := fake.Must(idempotency.NewLog(&mortalStore{n.entries, &f.crashed}, &n.options))
		client := fake.SignIn(n.T, n.service, n.fromVault, lending.WithIdempotency(log), lending.WithTokenStore(tokens),
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(f.roundTrip)}))
		phone := func(_ context.Context, _ partner.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
			return lending.NewSecret(n.service.OTP(loan.String())), nil
		}
		p := &partner.Partner{Client: client, Log: log, Ask: phone}
		worker := fake.Must(p.Worker(n.table, &orders.Options{Lock: f.lock}))
		f.working.Go(func() { _ = worker.Run(ctx) })
		f.working.Go(func() {
			for ctx.Err() == nil {
				next, _ := log.Check(ctx, client)
				_ = backoff.Sleep(ctx, max(next, time.Second))
			}
		})
		f.log = log
	}
	f.working.Go(func() {
		for backoff.Sleep(ctx, 10*time.Minute) == nil {
			f.decide()
		}
	})
	return f
}

func (f *fleet) crash() {
	f.crashed.Store(true)
	f.stop()
	f.working.Wait()
}

func (f *fleet) lock(_ context.Context, order string) (unlock func(), err error) {
	if _, isLocked := f.locked.LoadOrStore(order, true); isLocked {
		return nil, orders.ErrBusy
	}
	return func() { f.locked.Delete(order) }, nil
}

func (n *night) fromVault(c *lending.Credentials) {
	c.Current = func(context.Context) (string, lending.Secret, error) {
		return lendingtest.Username, lending.NewSecret(n.vault.Load().(string)), nil
	}
}

// rotates changes the password at the service, and in the vault a second later.
func (n *night) rotates(password string) {
	n.service.AddAccount(lendingtest.Account{
		Username: lendingtest.Username, Password: password, PartnerID: lendingtest.PartnerID,
	})
	n.service.RevokeTokens()
	bubble.Elapse(time.Second)
	n.vault.Store(password)
}

// pauses has the log paused for a while. No mutation is sent.
func (f *fleet) pauses(isPaused bool) {
	if !isPaused {
		require.NoError(f, f.log.Pause(f.Context(), idempotency.Decision{By: "eva", Why: "doubles"}))
	}
	bubble.Elapse(2 * time.Second)
	before := f.sends.Load()
	bubble.Elapse(time.Minute)
	assert.Equal(f, before, f.sends.Load(), "sent by a paused log")
	require.NoError(f, f.log.Resume(f.Context()))
}

// roundTrip loses one response of fifty, and half of these requests. What is on its way at the crash
// is executed.
func (f *fleet) roundTrip(r *http.Request) (*http.Response, error) {
	if f.crashed.Load() {
		return nil, errEnded
	}
	isMutation := isCommand(r) && !strings.Contains(r.URL.Path, "/Authenication/")
	if isMutation {
		f.sends.Add(1)
	}
	bubble.Elapse(time.Duration(f.roll() * float64(300*time.Millisecond)))
	fault := f.roll()
	if isMutation && fault < 0.01 {
		return nil, syscall.ECONNRESET
	}
	resp, err := f.service.Transport().RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/create-application") && resp != nil && resp.StatusCode == http.StatusOK {
		f.madeNow()
	}
	if isMutation && fault < 0.02 || f.crashed.Load() {
		return nil, syscall.ECONNRESET
	}
	return resp, err
}

// madeNow notes the orders of new applications. The log sends one creation of a customer's application at a time.
func (n *night) madeNow() {
	state := n.service.Snapshot()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range state.Applications[n.known+len(n.madeFor):] {
		c := slices.IndexFunc(state.Customers, func(c lendingtest.Customer) bool { return c.ID == a.CustomerID })
		n.madeFor[a.ID] = n.entries.sender(func(id string) bool { return n.table.Get(id).Email == state.Customers[c].Email })
	}
}

// sender returns the order that has begun to create an application last.
func (c *copied) sender(isOf func(order string) bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, saved := range slices.Backward(c.saves) {
		id, isCreation := strings.CutSuffix(strings.TrimPrefix(saved.Key, ":"), "/create-application")
		if isCreation && saved.State == store.Sent && isOf(id) {
			return id
		}
	}
	return ""
}

// decide is the person, who looks into the books of the service.
func (f *fleet) decide() {
	keys, err := f.log.Keys(f.Context(), idempotency.Filter{States: []store.State{store.NeedsReview}, Limit: 1000})
	for _, key := range keys {
		said := idempotency.Resolution{By: "ada", Why: "the books", Verdict: idempotency.NotHappened(), Sends: key.Sends}
		id, step, _ := strings.Cut(key.Key, "/")
		if answer, happened := f.inTheBooks(id, step); happened {
			said.Verdict = idempotency.Happened(answer)
		}
		if err := f.log.Resolve(f.Context(), key.Key, said); err != nil {
			assert.True(f, f.crashed.Load() || errors.Is(err, idempotency.ErrInDoubt), "%s: %v", key.Key, err)
			continue
		}
		f.mu.Lock()
		f.decided = append(f.decided, key.Key)
		f.mu.Unlock()
	}
	if !f.crashed.Load() {
		assert.NoError(f, err)
	}
}

// applicationsOf returns the applications of an order.
func (n *night) applicationsOf(id string, state lendingtest.Snapshot) (of []lendingtest.Application) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range state.Applications {
		if n.madeFor[a.ID] == id {
			of = append(of, a)
		}
	}
	return of
}

func (n *night) inTheBooks(id, step string) (answer any, happened bool) {
	state := n.service.Snapshot()
	made := n.applicationsOf(id, state)
	switch {
	case len(made) == 0, step == "create-customer": // rejected, since the service had the customer
		return nil, false
	case step == "create-application":
		return made[0].ID, true
	case step == "withdraw":
		return map[string]json.Number{"advanceRate": "0.8"}, true
	case step == "confirm":
		return nil, withdrawalsOf(made[0], state) > 0
	}
	return nil, onboarding.Did(made[0], step)
}

func withdrawalsOf(of lendingtest.Application, state lendingtest.Snapshot) (k int) {
	for _, l := range state.Loans {
		if l.ApplicationID == of.ID {
			k += len(l.Withdrawals)
		}
	}
	return k
}

// wrong returns the orders that are not done, and those with a mutation that did not happen once.
func (n *night) wrong() (wrong []string) {
	state := n.service.Snapshot()
	for _, o := range n.rows() {
		made := n.applicationsOf(o.ID, state)
		if o.State != partner.Done || len(made) != 1 || made[0].ID != o.Application.String() || made[0].ProcessRuns != 1 ||
			len(made[0].Applicants) != 1 || withdrawalsOf(made[0], state) != 1 {
			wrong = append(wrong, fmt.Sprintf("%+v: %+v", o, made))
		}
	}
	return wrong
}

// erases removes a customer without open orders, unless a key is still open. The copy can have no key that names the
// customer. A later order of the customer goes on.
func (f *fleet) erases(email string) bool {
	isOpen := func(o partner.Order) bool { return o.Email == email && o.State == partner.Open }
	state := f.service.Snapshot()
	c := slices.IndexFunc(state.Customers, func(c lendingtest.Customer) bool { return c.Email == email })
	if c < 0 || slices.ContainsFunc(f.rows(), isOpen) {
		return false
	}
	ids := []string{state.Customers[c].ID}
	for _, a := range state.Applications {
		if a.CustomerID == ids[0] {
			ids = append(ids, a.ID)
		}
	}
	_, err := f.log.Erase(f.Context(), asked, ids...)
	return err == nil
}

// TestRestoredStoreDoesNothingTwice has three replicas carry orders out, which come every 20 seconds and wait for their
// offers. Each customer comes again later, and each fifth customer is older than the log. The log is paused, and the
// password changes. The replicas crash, and their store is restored from a copy. The partner's table of orders
// survives, or comes from the same copy. Where keys claim records, each order since the copy runs again, and no
// customer has two of them. Customers are erased between their orders.
func TestRestoredStoreDoesNothingTwice(t *testing.T) {
	count := seeds.FromEnvironment(t, onboardingsVariable, 40)
	for _, back := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
		for _, sameTable := range []bool{false, true} {
			for _, claim := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/table restored %v/claim %v", back, sameTable, claim), func(t *testing.T) {
					switch {
					case back == time.Hour && count < 200:
						t.Skip("40 customers come in 13 minutes: the trial of 10 minutes is the same")
					case race.Enabled && claim:
						t.Skip("the detector sees the same goroutines without a claim")
					case (back != 10*time.Minute || sameTable != claim) && count <= 40 && !longrun.Wanted():
						t.Skip("LENDING_TEST_LONG is not set")
					}
					synctest.Test(t, func(t *testing.T) { restoredNight(t, count, back, sameTable, claim) })
				})
			}
		}
	}
}

func restoredNight(t *testing.T, count int, back time.Duration, sameTable, claim bool) {
	t.Helper()
	n := &night{
		T: t, service: lendingtest.New(lendingtest.WithTokenLifetime(time.Hour)),
		entries: newCopied(), table: partner.NewTable(),
		madeFor: map[string]string{},
		random:  rand.New(rand.NewPCG(uint64(seeds.FromEnvironment(t, seeds.Variable, 1)), 0)),
		options: idempotency.Options{SafeToRepeat: partner.SafeToRepeat},
	}
	defer n.service.Close()
	n.vault.Store(lendingtest.Password)
	n.service.SetDecision(lendingtest.Decision{After: 3 * time.Minute})
	const each = 20 * time.Second
	crash, again := time.Duration(count)*each, 7*time.Minute+each/2
	if claim {
		again += crash
	}
	first, emails := partner.Orders(count)
	for i, o := range first {
		if i%5 == 0 && !claim {
			known := n.service.AddCustomer(lendingtest.Customer{Email: o.Email})
			n.service.AddLoan(lendingtest.Loan{CustomerID: known.ID})
			n.known++
		}
		second := o
		second.ID += "-again"
		time.AfterFunc(time.Duration(i)*each, func() { n.accept(o) })
		time.AfterFunc(time.Duration(i)*each+again, func() { n.accept(second) })
	}
	copied := time.Now().Add(crash - back)
	var then []partner.Order // the table of the copy
	time.AfterFunc(crash-back, func() { then = n.rows() })
	f := n.start()
	bubble.Elapse(crash / 8) // the copy has no pause
	f.pauses(false)
	n.rotates("the next")
	bubble.Elapse(crash - crash/8 - 63*time.Second)
	f.crash()

	now, inGap := partner.NewTable(), map[string]bool{}
	for i, o := range n.rows() {
		switch isOld := i < len(then); {
		case isOld && then[i].State != partner.Open:
		case sameTable && isOld:
			o = then[i]
		case sameTable: // the customer comes again
			o = n.came[i]
		case claim: // each order since the copy runs again
			o.State = partner.Open
		}
		if i >= len(then) || then[i].State == partner.Open {
			inGap[o.ID] = true
		}
		o.Version = 0
		now.Save(o)
	}
	n.entries, n.table, n.decided = n.entries.copyOf(t, copied), now, nil
	log := fake.Must(idempotency.NewLog(n.entries, &n.options))
	require.NoError(t, log.Restored(t.Context(), idempotency.Restoration{By: "kim", Copy: copied, Claim: claim}))
	f = n.start()
	f.pauses(true)
	bubble.Elapse(time.Minute)
	n.rotates("another")
	isOpen := func(o partner.Order) bool { return o.State == partner.Open }
	erased := map[string]bool{}
	for minute := range 24 * 60 {
		bubble.Elapse(time.Minute)
		if len(n.rows()) == 2*count && !slices.ContainsFunc(n.rows(), isOpen) {
			break
		}
		if email := emails[minute%count]; !claim && f.erases(email) { // after an erasure, keys claim nothing
			erased[email] = true
		}
	}
	bubble.Elapse(2 * maxLateness)
	assert.True(t, claim || erased[emails[0]] || f.erases(emails[0]))
	f.crash()
	require.NoError(t, n.service.Wait(t.Context()))
	wrong := n.wrong()
	assert.Empty(t, wrong)
	bubble.Elapse(maxLateness)
	log = fake.Must(idempotency.NewLog(n.entries, &n.options))
	year := idempotency.AuditOptions{
		From: copied.AddDate(-1, 0, 0), To: time.Now(), Client: fake.SignIn(t, n.service, n.fromVault),
	}
	lost := 0 // keys that the copy did not have, and whose orders had ended
	for d, err := range log.Audit(t.Context(), year) {
		require.NoError(t, err)
		assert.True(t, d.Kind == idempotency.Unexplained || len(wrong) > 0, "%+v", d)
		lost += d.Count
	}
	assert.True(t, lost == 0 || !claim || len(wrong) > 0, "each order since the copy has run again: %d", lost)
	made := n.service.ExecutedFor(fake.CreateRoute)
	for i, email := range emails {
		assert.Equal(t, claim || i%5 > 0, made[email] == 1, "%s was created %d times", email, made[email])
	}
	decided := slices.DeleteFunc(n.decided, func(key string) bool {
		id, _, _ := strings.Cut(key, "/")
		return !inGap[id]
	})
	t.Logf("%d orders, %d since the copy: %d decisions of persons, %.0f for 100 of these %v; %d customers erased", 2*count,
		len(inGap), len(decided), 100*float64(len(decided))/float64(len(inGap)), decided, len(erased))
}
