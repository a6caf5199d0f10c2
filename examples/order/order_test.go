package order_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMain(m *testing.M) { leak.Main(m) }

const id = "order-1"

// backend is the backend of a partner with an order, at a service in a bubble.
type backend struct {
	*testing.T

	service  *lendingtest.Service
	opts     []lending.Option
	table    *order.Table
	password func(sending int, loan string) string // entered by the customer, or "" before
	lock     func(ctx context.Context, order string) (func(), error)
	chaos    *chaos      // nil for a quiet run
	hangs    atomic.Bool // the first step, until its deadline
	entries  store.Store
	tokens   lending.TokenStore

	mu       sync.Mutex
	entered  map[int]string // by sending
	ended    order.State
	stops    int // results without a retry
	persons  int
	consumer atomic.Pointer[http.Handler]
}

// ends are the ends of an order.
var ends = []struct {
	name    string
	prepare func(b *backend)
	state   order.State
	reason  string
	counts  map[string]int // of the routes with other counts than one
	stops   int            // errors without a retry, also if the order goes on
	person  string         // a route without a fault: its lost rejection needs a person
	older   bool           // the service has the forms of ASP.NET Core 2.3
	lasts   time.Duration  // the longest duration after the last cause; 0: as after lost responses
}{
	{name: "happy", prepare: func(*backend) {}, state: order.Done},
	{
		name: "declined", prepare: func(b *backend) { b.service.SetDecision(lendingtest.Decision{Declined: true}) },
		state: order.Over, reason: "Declined", counts: before(onboarding.Company),
	},
	{
		name: "declined after hours", prepare: func(b *backend) {
			b.service.SetDecision(lendingtest.Decision{Declined: true, After: 2 * time.Hour})
		},
		state: order.Over, reason: "Declined", counts: before(onboarding.Company), lasts: 2 * time.Hour,
	},
	{
		name: "offer after hours", prepare: func(b *backend) {
			b.service.SetDecision(lendingtest.Decision{After: 2 * time.Hour})
		},
		state: order.Done, lasts: 2 * time.Hour,
	},
	{
		name: "offers without an id", prepare: func(b *backend) {
			b.service.Answer("GET /api/Application/application-offer/{applicationId}",
				wire.Answer(http.StatusOK, `{"planId":1}`))
		},
		state: order.Done,
	},
	{
		name: "offer expired before a document", prepare: func(b *backend) { b.expireAt(onboarding.Document, 1) },
		state: order.Done, counts: map[string]int{onboarding.Process: 2}, stops: 1,
	},
	{
		name: "offer expired before the signature", prepare: func(b *backend) { b.expireAt(onboarding.Sign, 1) },
		state: order.Done, counts: map[string]int{onboarding.Process: 2}, stops: 1,
	},
	{
		name: "offer expired, with a decision after 20 seconds", prepare: func(b *backend) {
			b.service.SetDecision(lendingtest.Decision{After: 20 * time.Second})
			b.expireAt(onboarding.Sign, 1)
		},
		state: order.Done, counts: map[string]int{onboarding.Process: 2}, stops: 1,
	},
	{
		name:    "offer expired, and the response of the next processing lost",
		prepare: func(b *backend) { b.loseAnotherProcessing() },
		state:   order.Done, counts: map[string]int{onboarding.Process: 2}, stops: 1,
	},
	{
		name: "the same, with a decision after hours", prepare: func(b *backend) {
			b.service.SetDecision(lendingtest.Decision{After: 2 * time.Hour})
			b.loseAnotherProcessing()
		},
		state: order.Done, counts: map[string]int{onboarding.Process: 2}, stops: 1, lasts: 4 * time.Hour,
	},
	{
		name: "offer expired each time", prepare: func(b *backend) { b.expireAt(onboarding.Sign, -1) },
		state: order.Over, reason: "OfferExpired", stops: 3,
		counts: with(before(onboarding.Sign), onboarding.Process, 3),
	},
	{
		name: "customer that exists",
		prepare: func(b *backend) {
			b.service.AddCustomer(lendingtest.Customer{Email: b.table.Get(id).Email})
		},
		state: order.Done, counts: map[string]int{onboarding.CreateCustomer: 0}, stops: 1, person: onboarding.CreateCustomer,
	},
	{
		name: "invalid customer",
		prepare: func(b *backend) {
			b.change(func(o *order.Order) { o.Email = strings.Repeat("x", 51) + "@example.com" })
		},
		state: order.Over, reason: "at most 50 characters", counts: before(onboarding.CreateCustomer), stops: 1,
	},
	{
		name: "wrong password", prepare: func(b *backend) { b.enterFirst(func(string) string { return "000000" }) },
		state: order.Done, stops: 1,
	},
	{
		name: "wrong password twice", prepare: func(b *backend) {
			b.password = func(sending int, loan string) string {
				if sending < 2 {
					return "000000"
				}
				return b.service.OTP(loan)
			}
		},
		state: order.Done, stops: 2,
	},
	{
		name: "replaced password", prepare: func(b *backend) {
			b.enterFirst(func(loan string) string {
				defer func() { _ = b.resend(loan) }()
				return b.service.OTP(loan)
			})
		},
		state: order.Done, stops: 1,
	},
	{
		name: "expired password", prepare: func(b *backend) {
			b.enterFirst(func(loan string) string {
				defer b.service.Advance(10 * time.Minute)
				return b.service.OTP(loan)
			})
		},
		state: order.Done, stops: 1,
	},
	{
		name: "password after hours", prepare: func(b *backend) {
			began := b.service.Now()
			b.password = func(_ int, loan string) string {
				if b.service.Now().Sub(began) < 2*time.Hour {
					return ""
				}
				return b.service.OTP(loan)
			}
		},
		state: order.Done, stops: 1, lasts: 2 * time.Hour,
	},
	{
		name:    "wrong passwords only",
		prepare: func(b *backend) { b.password = func(int, string) string { return "000000" } },
		state:   order.Over, reason: "InvalidOtp", counts: before(onboarding.Confirm), stops: 3,
	},
	{
		name: "withdrawal refused", prepare: func(b *backend) {
			b.service.Fail(onboarding.Withdraw, lendingtest.Fault{Reached: func() {
				b.service.UpdateLoan(b.service.Snapshot().Loans[0].ID, func(l *lendingtest.Loan) { l.IsEnabled = false })
			}})
		},
		state: order.Over, reason: "LoanDisabled", counts: before(onboarding.Withdraw), stops: 1,
	},
	{
		name: "amount above the balance",
		prepare: func(b *backend) {
			b.change(func(o *order.Order) { o.Amount = "9000000.00" })
		},
		state: order.Over, reason: "InsufficientBalance", counts: before(onboarding.Withdraw), stops: 1,
		person: onboarding.Withdraw,
	},
	{
		name:    "rate limit",
		prepare: func(b *backend) { b.service.Assume("rate limit", "10 a minute") },
		state:   order.Done, lasts: 10 * time.Minute,
	},
	{
		name: "older host", older: true, state: order.Done, prepare: func(b *backend) {
			b.opts = append(b.opts, lending.WithMissing("Customers.GetByEmail", http.StatusNotFound))
		},
	},
	{
		name: "older host without WithMissing", older: true, state: order.Open, prepare: func(*backend) {},
		counts: before(onboarding.CreateCustomer),
	},
}

// once are the routes of an order, in order. The documents are two.
var once = []string{
	onboarding.CreateCustomer, onboarding.CreateApplication, onboarding.Process, onboarding.Company, onboarding.Applicant,
	onboarding.Document, onboarding.Sign, onboarding.Withdraw, onboarding.Confirm,
}

// before returns the counts of an order that ends before a route.
func before(route string) map[string]int {
	counts, ended := map[string]int{}, false
	for _, each := range once {
		if ended = ended || each == route; ended {
			counts[each] = 0
		}
	}
	return counts
}

func with(counts map[string]int, route string, n int) map[string]int {
	counts[route] = n
	return counts
}

// mayRepeat are routes with a harmless second execution after a lost response.
var mayRepeat = map[string]bool{onboarding.Company: true, onboarding.Withdraw: true}

// faults are those of the first request of each route.
var faults = []struct {
	name  string
	fault lendingtest.Fault
}{
	{"no fault", lendingtest.Fault{}},
	{"lost", lendingtest.Fault{ResetAfter: true}},
	{"never arrived", lendingtest.Fault{ResetBefore: true}},
	{"cut", lendingtest.Fault{CutBody: -1}},
	{"500 after execution", lendingtest.Fault{Status: http.StatusInternalServerError, Executes: true}},
	{"late", lendingtest.Fault{Late: 2 * time.Minute}},
}

// TestEveryOrderEnds takes an order to each end, with a fault in the first call of each mutation: without a
// fault and with a third of the faults in every run, and with all in a long run.
// Nothing runs twice, no person is needed, and no key stays in doubt.
func TestEveryOrderEnds(t *testing.T) {
	t.Parallel()
	for i, end := range ends {
		for j, f := range faults {
			switch {
			case longrun.Wanted(), race.Enabled && f.name == "lost": // the detector sees the same goroutines with each fault
			case race.Enabled, j > 0 && (i+j)%3 > 0:
				continue
			}
			t.Run(end.name+"/"+f.name, func(t *testing.T) {
				framework := map[bool]string{true: "2.3"}[end.older]
				inBackend(t, framework, func(b *backend) {
					end.prepare(b)
					for _, route := range once {
						if route != end.person {
							b.service.Fail(route, f.fault)
						}
					}
					b.service.Fail("POST /api/Loan/resend-withdrawal-otp/{loanId}", f.fault)
					b.run(1, end.lasts+90*time.Minute)
					o := b.table.Get(id)
					assert.Equal(t, end.state, o.State)
					assert.Contains(t, o.Reason, end.reason)
					if f.name == "no fault" {
						assert.Equal(t, end.stops, b.stops)
					}
					assert.Zero(t, b.persons)
					for _, route := range once {
						want, special := end.counts[route]
						if !special {
							want = 1
						}
						if route == onboarding.Document {
							want *= 2
						}
						executed := b.service.Executed(route)
						assert.True(t, executed == want || mayRepeat[route] && executed == want+1 && want > 0,
							"%s: %d, not %d", route, executed, want)
					}
				})
			})
		}
	}
}

func inBackend(t *testing.T, framework string, test func(b *backend)) {
	t.Helper()
	b := &backend{}
	deliver := &http.Client{Transport: inProcess(func() http.Handler { return *b.consumer.Load() })}
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		all, _ := order.Orders(1)
		all[0].Accepted = time.Now()
		b.T, b.service, b.table = t, service, order.NewTable(all...)
		b.password = func(_ int, loan string) string { return service.OTP(loan) }
		b.entries, b.tokens, b.entered = store.NewMemory(), lending.NewMemoryTokenStore(), map[int]string{}
		test(b)
	}, lendingtest.WithDeliveryClient(deliver), lendingtest.WithTokenLifetime(time.Hour),
		lendingtest.WithFramework(framework))
}

// run carries the order out, for so long at most, in one replica or more. The consumer is a process of
// its own.
func (b *backend) run(replicas int, longest time.Duration) {
	ctx, stop := context.WithTimeout(b.Context(), longest)
	defer stop()
	var running sync.WaitGroup
	fleet := make([]*replica, replicas)
	for i := range fleet {
		fleet[i] = b.start(ctx, &running)
	}
	about := b.start(ctx, nil)
	target := lending.ForPartner(fake.Must(lending.ParsePartnerID(lendingtest.PartnerID)))
	handle := func(ctx context.Context, event *webhook.Event) (err error) {
		b.mu.Lock()
		all := slices.Clone(fleet)
		b.mu.Unlock()
		for _, each := range all {
			err = errors.Join(err, each.worker.OnEvent(b.table.Of)(ctx, event))
		}
		return err
	}
	consumer := fake.Must(webhook.NewConsumer(about.client, target,
		lending.WebhookSubscription{WebhookURI: "https://partner.example/webhooks"}, webhook.NewMemoryInbox(),
		handle, &webhook.ConsumerOptions{Check: about.log.Check, Sweep: about.log.Sweep}))
	b.consumer.Store(new(http.Handler(consumer)))
	running.Go(func() { require.NoError(b, consumer.Run(ctx, nil)) })
	for ctx.Err() == nil && b.table.Get(id).State == order.Open {
		bubble.Elapse(10 * time.Second)
		if b.chaos != nil && b.chaos.float() < 0.2 {
			i := b.chaos.intN(replicas)
			fleet[i].kill()
			started := b.start(ctx, &running)
			b.mu.Lock()
			fleet[i] = started
			b.mu.Unlock()
		}
		b.decide(about.log)
	}
	bubble.Elapse(2 * time.Minute) // no further step
	stop()
	running.Wait()
	require.NoError(b, b.service.Wait(context.WithoutCancel(b.Context())))
	open := fake.Must(about.log.Keys(b.Context(), idempotency.Filter{States: idempotency.InDoubtStates()}))
	if replicas == 1 { // a killed replica leaves a doubt of an ended order
		assert.Empty(b, open, "an operator sees nothing")
	}
}

// ask is the customer, who enters a password for each sending once.
func (b *backend) ask(sending int, loan string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entered[sending] == "" {
		b.entered[sending] = b.password(sending, loan)
	}
	return b.entered[sending]
}

func (b *backend) report(r orders.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Err != nil && !r.Next.Retry {
		b.stops++
	}
	if r.Next.Person {
		b.persons++
	}
	if r.Err != nil && !r.Repeated {
		b.Log(r.Err)
	}
	state := b.table.Get(id).State
	if b.ended != order.Open {
		assert.Contains(b, []order.State{b.ended, order.Done}, state, "an order that has ended goes on")
	}
	b.ended = state
}

// change changes the order of the test before its first step.
func (b *backend) change(change func(o *order.Order)) {
	o := b.table.Get(id)
	change(&o)
	require.True(b, b.table.Save(o))
}

// enterFirst has the customer enter another text as the first password.
func (b *backend) enterFirst(first func(loan string) string) {
	b.password = func(sending int, loan string) string {
		if sending == 0 {
			return first(loan)
		}
		return b.service.OTP(loan)
	}
}

// expireAt has the offer expire before the first requests of a route.
func (b *backend) expireAt(route string, times int) {
	b.service.Fail(route, lendingtest.Fault{Times: times, Reached: func() {
		id := b.service.Snapshot().Applications[0].ID
		b.service.UpdateApplication(id, func(a *lendingtest.Application) { a.Offer.ExpiresUTC.Time = b.service.Now() })
	}})
}

func (b *backend) loseAnotherProcessing() {
	b.expireAt(onboarding.Sign, 1)
	b.service.Fail(onboarding.Process, lendingtest.Fault{})
	b.service.Fail(onboarding.Process, lendingtest.Fault{ResetAfter: true})
}

// resend is the customer, who has the service send another password.
func (b *backend) resend(loan string) error {
	client := fake.SignIn(b.T, b.service, nil)
	_, err := client.Loans.ResendWithdrawalOTP(b.Context(), fake.Must(lending.ParseLoanID(loan)))
	return err
}

type inProcess func() http.Handler

func (handler inProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	handler().ServeHTTP(answer, request)
	return answer.Result(), nil
}

// TestAgentsPage runs the test of AGENTS.md, without fake time.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	service := lendingtest.NewServer()
	defer service.Close()
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // executed, response lost
	log, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{
		MaxLateness:  time.Millisecond, // the service for tests runs no mutation late
		SafeToRepeat: order.SafeToRepeat,
	})
	require.NoError(t, err)
	client, err := lending.New(service.URL, lending.WithIdempotency(log),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	require.NoError(t, err)
	defer client.Close()

	enter := func(_ context.Context, _ order.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
		return lending.NewSecret(service.OTP(loan.String())), nil
	}
	ctx, stop := context.WithCancel(t.Context())
	all, _ := order.Orders(1)
	table := order.NewTable(all...)
	partner := &order.Partner{Client: client, Log: log, Ask: enter}
	worker, err := partner.Worker(table, &orders.Options{Report: func(r orders.Result) {
		if table.Get(r.Order).State != order.Open {
			stop()
		}
	}})
	require.NoError(t, err)
	require.ErrorIs(t, worker.Run(ctx), context.Canceled)
	require.Equal(t, order.Done, table.Get(all[0].ID).State)
	require.Equal(t, 1, service.Executed("POST /api/Application/create-customer"))
}
