package order_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
)

// replica is a process of the partner. After its end it reaches neither the service nor the log.
type replica struct {
	store.Store

	of      *backend
	hangs   atomic.Bool // at the next use of the log, until the end of the step
	dead    atomic.Bool
	stop    context.CancelFunc
	log     *idempotency.Log
	client  *lending.Client
	partner *order.Partner
	worker  *orders.Worker
}

// start starts a replica. Without running it has no worker.
func (b *backend) start(ctx context.Context, running *sync.WaitGroup) *replica {
	r := &replica{Store: b.entries, of: b}
	r.log = fake.Must(idempotency.NewLog(r, &idempotency.Options{SafeToRepeat: order.SafeToRepeat}))
	opts := append(slices.Clone(b.opts), lending.WithIdempotency(r.log), lending.WithTokenStore(b.tokens))
	if running != nil {
		opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: r}))
	}
	r.client = fake.SignIn(b.T, b.service, nil, opts...)
	r.partner = &order.Partner{
		Client: r.client, Log: r.log,
		Ask: func(_ context.Context, _ order.Order, loan lending.LoanID, sending int) (lending.Secret, error) {
			return lending.NewSecret(b.ask(sending, loan.String())), nil
		},
	}
	r.worker = fake.Must(r.partner.Worker(b.table, &orders.Options{Report: b.report, Lock: b.lock}))
	ctx, r.stop = context.WithCancel(ctx)
	if running != nil {
		r.hangs.Store(b.hangs.Swap(false))
		running.Go(func() { _ = r.worker.Run(ctx) })
	}
	return r
}

func (r *replica) kill() {
	r.dead.Store(true)
	r.stop()
}

var errDead = errors.New("the process has ended")

func (r *replica) Load(ctx context.Context, key string) (*store.Entry, error) {
	if r.hangs.CompareAndSwap(true, false) {
		<-ctx.Done()
	}
	if r.dead.Load() {
		return nil, errDead
	}
	return r.Store.Load(ctx, key)
}

func (r *replica) Save(ctx context.Context, entry store.Entry) error {
	if r.dead.Load() {
		return errDead
	}
	return r.Store.Save(ctx, entry)
}

// RoundTrip sends a request of the replica. In a chaos each request takes a while, and some fail.
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	r.of.mu.Lock()
	c, send := r.of.chaos, r.of.service.Transport().RoundTrip
	r.of.mu.Unlock()
	if c == nil {
		return send(request)
	}
	if err := backoff.Sleep(request.Context(), time.Duration(c.float()*float64(time.Second))); err != nil {
		return nil, err
	}
	fails := c.faults > 0 && request.Method+" "+request.URL.Path != "POST /api/Authenication/login" && c.float() < c.faults
	if r.dead.Load() || fails && c.intN(3) == 0 {
		return nil, errDead
	}
	response, err := send(request)
	if err == nil && (r.dead.Load() || fails) {
		_ = response.Body.Close()
		return nil, errDead
	}
	return response, err
}

// chaos has the responses of replicas come late, and a share of them get lost. Replicas are killed.
type chaos struct {
	mu     sync.Mutex
	random *rand.Rand
	faults float64
}

func (c *chaos) float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

func (c *chaos) intN(n int) int { return int(c.float() * float64(n)) }

// decide is a person, who is needed for a lost rejection: the mutation has not happened.
func (b *backend) decide(log *idempotency.Log) {
	if b.chaos == nil {
		return
	}
	keys := fake.Must(log.Keys(b.Context(), idempotency.Filter{States: []store.State{store.NeedsReview}}))
	for _, key := range keys {
		if key.NotHappenedAfter > 0 {
			continue
		}
		assert.Zero(b, b.service.Executed(key.Route), key.Route)
		said := idempotency.Resolution{By: "kim", Why: "looked it up", Verdict: idempotency.NotHappened(), Sends: key.Sends}
		require.NoError(b, log.Resolve(b.Context(), key.Key, said))
	}
}

// memoryLock is a lock of two replicas in a process.
func memoryLock() func(context.Context, string) (func(), error) {
	var mu sync.Mutex
	return func(context.Context, string) (func(), error) {
		if !mu.TryLock() {
			return nil, orders.ErrBusy
		}
		return mu.Unlock, nil
	}
}

// TestEveryOrderEndsInTwoReplicas takes an order to each end in two replicas, whose steps overlap, with and
// without a lock. In a chaos, responses get lost and replicas are killed. With a stale row, the first step ends
// after the order. The money moves once if the order is done, and not otherwise: in a long run for 4,500 orders.
func TestEveryOrderEndsInTwoReplicas(t *testing.T) {
	t.Parallel()
	first, runs := seeds.FromEnvironment(t, seeds.Variable, 1), 1
	if longrun.Wanted() {
		runs = 51 // of 90 orders
	}
	var all, done, early atomic.Int64
	t.Run("ends", func(t *testing.T) {
		for _, end := range ends {
			if end.lasts > 0 || end.older { // the order waits for others most of the time, or needs another client
				continue
			}
			for _, lock := range []string{"lock", "no lock"} {
				for _, how := range []string{"", "/chaos", "/stale row"} {
					t.Run(end.name+"/"+lock+how, func(t *testing.T) {
						t.Parallel()
						for seed := first; seed < first+runs; seed++ {
							inBackend(t, "", func(b *backend) {
								end.prepare(b)
								if b.hangs.Store(how == "/stale row"); !b.hangs.Load() {
									faults := map[string]float64{"/chaos": 0.05}[how]
									b.chaos = &chaos{random: rand.New(rand.NewPCG(uint64(seed), 0)), faults: faults}
								}
								if lock == "lock" {
									b.lock = memoryLock()
								}
								b.run(2, end.lasts+6*time.Hour)
								o, paid := b.table.Get(id), b.service.Executed(onboarding.Confirm)
								all.Add(1)
								if o.State == order.Done {
									done.Add(1)
								}
								require.Equal(t, o.State == order.Done, paid == 1, "seed %d: %+v, paid %d times", seed, o, paid)
								if o.State == order.Over && o.State != end.state { // killed, or without a response
									assert.Regexp(t, "InvalidOtp|OfferExpired", o.Reason)
									early.Add(1)
									t.Logf("seed %d: %+v", seed, o)
									return // a doubt has lasted longer than a password or an offer
								}
								require.Equal(t, end.state, o.State, "seed %d: %+v", seed, o)
								assert.Contains(t, o.Reason, end.reason)
							})
						}
					})
				}
			}
		}
	})
	t.Logf("%d orders, %d done, each with one withdrawal; %d over, each without; %d of these by a password or an offer "+
		"that expired in a doubt", all.Load(), done.Load(), all.Load()-done.Load(), early.Load())
}

// TestPasswordMovesTheMoneySoon has a customer enter the password at the page of a replica, while the other
// replica may be in a step of the order: the money moves within 2 seconds.
func TestPasswordMovesTheMoneySoon(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"lock", "no lock"} {
		t.Run(lock, func(t *testing.T) {
			var longest time.Duration
			for seed := range 20 {
				inBackend(t, "", func(b *backend) {
					var typed, paid time.Time
					b.password = func(_ int, loan string) string {
						if typed.IsZero() {
							return ""
						}
						return b.service.OTP(loan)
					}
					b.service.Fail(onboarding.Confirm, lendingtest.Fault{
						Reached: func() { paid = time.Now() }, AnswerDelay: time.Millisecond,
					})
					if lock == "lock" {
						b.lock = memoryLock()
					}
					ctx, stop := context.WithTimeout(b.Context(), time.Hour)
					var running sync.WaitGroup
					first, second := b.start(ctx, &running), b.start(ctx, &running)
					random := rand.New(rand.NewPCG(uint64(seed), 0))
					for b.service.Executed(onboarding.Withdraw) == 0 {
						bubble.Elapse(time.Second)
					}
					b.mu.Lock()
					b.chaos = &chaos{random: rand.New(rand.NewPCG(uint64(seed), 1))}
					b.mu.Unlock()
					bubble.Elapse(time.Duration(random.IntN(100)) * time.Second)
					first.worker.Hint(id) // a step that overlaps
					bubble.Elapse(time.Duration(random.IntN(1000)) * time.Millisecond)
					b.mu.Lock()
					typed, b.chaos = time.Now(), nil
					b.mu.Unlock()
					second.worker.Hint(id)
					bubble.Elapse(time.Minute)
					stop()
					running.Wait()
					require.Equal(t, order.Done, b.table.Get(id).State)
					longest = max(longest, paid.Sub(typed))
				})
			}
			assert.LessOrEqual(t, longest, 2*time.Second)
			t.Logf("from the password to the money: at most %v", longest)
		})
	}
}
