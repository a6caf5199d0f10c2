package idempotency_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
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
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// onboardingsVariable is the number of onboardings of TestFewOrdersNeedAPerson. The numbers in
// docs/dev/checks.md are those of 500.
const onboardingsVariable = "LENDING_TEST_ONBOARDINGS"

// TestFewOrdersNeedAPerson counts the decisions of persons in whole onboardings of 13 mutations. Each
// mutation meets a fault or the end of its process with the same probability. A service may accept or
// reject a second signature: SafeToRepeat ends a doubt about a signature only if the service accepts it.
func TestFewOrdersNeedAPerson(t *testing.T) {
	few, percents := 40, []int{15, 1}
	if !longrun.Wanted() {
		few, percents = 10, percents[:1]
	}
	count := seeds.FromEnvironment(t, onboardingsVariable, few)
	two := partner.SafeToRepeat
	three := append(slices.Clone(two), idempotency.SubmitRequiredDocument)
	four := append(slices.Clone(three), idempotency.SignContract)
	for _, test := range []struct {
		name         string
		safeToRepeat []idempotency.Route
		signsAgain   bool     // the service accepts a second signature
		checks       bool     // the partner has checks of its own for documents and signatures
		deciding     []string // the mutations that need a person
	}{
		{"nothing", nil, false, false, []string{"company", "document", "sign", "withdraw"}},
		{"AddCompanyDetails and WithdrawInvoice", two, false, false, []string{"document", "sign"}},
		{"these and SubmitRequiredDocument", three, false, false, []string{"sign"}},
		{"these and SignContract", four, true, false, nil},
		{"SignContract where a second signature is rejected", four, false, false, []string{"sign"}},
		{"the two, and checks", two, false, true, nil},
	} {
		for _, percent := range percents {
			t.Run(fmt.Sprintf("%s/%d percent", test.name, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := seeds.FromEnvironment(t, seeds.Variable, 1)
					c := &crowd{
						random: rand.New(rand.NewPCG(uint64(first), 0)), faults: float64(percent) / 100,
						service: lendingtest.New(), entries: store.NewMemory(), decided: map[string]int{}, checks: test.checks,
						signsAgain: test.signsAgain,
						options:    idempotency.Options{SafeToRepeat: test.safeToRepeat, MaxLateness: 20 * time.Second},
					}
					defer c.service.Close()
					orders, emails := partner.Orders(count)
					for _, order := range orders {
						c.onboard(t, order)
					}
					assert.Empty(t, c.wrong(emails), "seed %d", first)
					persons := 0
					for step, n := range c.decided {
						persons += n
						assert.Contains(t, test.deciding, step)
					}
					t.Logf("%d onboardings, %d faults, %d processes ended: %.1f decisions for 100 onboardings %v",
						count, c.failed, c.ended, 100*float64(persons)/float64(count), c.decided)
					assert.Positive(t, c.failed)
				})
			})
		}
	}
}

// crowd onboards customers in a row.
type crowd struct {
	service *lendingtest.Service
	entries store.Store
	options idempotency.Options
	random  *rand.Rand
	faults  float64

	checks, signsAgain bool

	decided       map[string]int // by mutation
	failed, ended int
}

// mortal is a process with a log: after its end it reaches neither the store nor the service.
type mortal struct {
	mortalStore

	of *crowd
}

var errEnded = errors.New("the process has ended")

// onboard is the loop of AGENTS.md, with a person who looks into the books of the service.
func (c *crowd) onboard(t *testing.T, order partner.Order) {
	t.Helper()
	tries := 0
	for {
		m := &mortal{mortalStore{c.entries, new(atomic.Bool)}, c}
		log := fake.Must(idempotency.NewLog(m, &c.options))
		client := fake.SignIn(t, c.service, nil, lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: m}))
		for !m.crashed.Load() {
			phone := func(_ context.Context, _ partner.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
				return lending.NewSecret(c.service.OTP(loan.String())), nil
			}
			p := &partner.Partner{Client: client, Log: log, Ask: phone, Persons: func(partner.Order) bool { return !c.checks }}
			now, err := p.Onboard(t.Context(), order)
			if err == nil {
				require.Equal(t, partner.Done, now.State)
				return
			}
			tries++
			require.Less(t, tries, 200, "the order does not end: %v", err)
			next := lending.NextOf(err)
			if next.Person && !m.crashed.Load() {
				c.decide(t, log, order)
				continue
			}
			if !next.Retry {
				order.End(err)
				require.Equal(t, partner.Open, order.State, err)
			}
			bubble.Elapse(cmp.Or(next.After, backoff.Doubled(tries, time.Second, 5*time.Minute)))
		}
	}
}

// decide is the person.
func (c *crowd) decide(t *testing.T, log *idempotency.Log, order partner.Order) {
	t.Helper()
	filter := idempotency.Filter{Prefix: order.ID + "/", States: idempotency.InDoubtStates()}
	keys := fake.Must(log.Keys(t.Context(), filter))
	require.Len(t, keys, 1)
	require.True(t, keys[0].NeedsPerson)
	bubble.Elapse(keys[0].NotHappenedAfter)
	step := strings.TrimPrefix(keys[0].Key, order.ID+"/")
	said := idempotency.Resolution{By: "ada", Why: "the books", Verdict: idempotency.NotHappened(), Sends: keys[0].Sends}
	if step != "withdraw" && onboarding.Happened(c.service.Snapshot(), order.Email, step) {
		said.Verdict = idempotency.Happened(nil)
	}
	err := log.Resolve(t.Context(), keys[0].Key, said)
	if err != nil && step == "withdraw" { // the service has confirmed it
		said.Verdict = idempotency.Happened(map[string]json.Number{"advanceRate": "0.8"})
		err = log.Resolve(t.Context(), keys[0].Key, said)
	}
	require.NoError(t, err)
	c.decided[strings.Split(step, "/")[0]]++
}

func isCommand(r *http.Request) bool {
	return r.Method == http.MethodPost || strings.Contains(r.URL.Path, "/process-application/") ||
		strings.Contains(r.URL.Path, "/update-application-name")
}

// RoundTrip is the way to the service. A process that ends sends its mutation or not.
func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	c := m.of
	if m.crashed.Load() {
		return nil, errEnded
	}
	if !isCommand(r) || strings.Contains(r.URL.Path, "/Authenication/") || c.random.Float64() >= c.faults {
		return c.send(r)
	}
	c.failed++
	switch kind := c.random.IntN(7); kind {
	case 0: // never arrived
	case 1, 2: // the response is lost, or a proxy has lost it
		resp, err := c.send(r)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		if kind == 2 {
			return wire.Reply(http.StatusServiceUnavailable, "{}")(r)
		}
	case 3: // cut
		resp, err := c.send(r)
		if err == nil {
			resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 1), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}
		return resp, err
	case 4: // late
		later := r.Clone(context.WithoutCancel(r.Context()))
		if r.Body != nil {
			body, _ := io.ReadAll(r.Body)
			later.Body = io.NopCloser(bytes.NewReader(body))
		}
		time.AfterFunc(time.Duration(c.random.Int64N(int64(c.options.MaxLateness/2))), func() {
			if resp, err := c.send(later); err == nil {
				_ = resp.Body.Close()
			}
		})
	case 5, 6: // the process ends
		c.ended++
		if kind == 5 {
			if resp, err := c.send(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		m.crashed.Store(true)
	}
	return nil, syscall.ECONNRESET
}

// send sends a request to the service.
func (c *crowd) send(r *http.Request) (*http.Response, error) {
	resp, err := c.service.Transport().RoundTrip(r)
	isSignature := strings.Contains(r.URL.Path, "/sign-contract/")
	if err == nil && c.signsAgain && isSignature && resp.StatusCode == http.StatusBadRequest {
		_ = resp.Body.Close()
		return wire.Reply(http.StatusOK, "true")(r)
	}
	return resp, err
}

// wrong returns the mutations that a customer does not have once, except for those that may be repeated.
func (c *crowd) wrong(emails []string) (wrong []string) {
	for _, route := range []string{
		onboarding.CreateCustomer, onboarding.CreateApplication, onboarding.Process, onboarding.Applicant, onboarding.Confirm,
		onboarding.Company, onboarding.Document, onboarding.Sign, onboarding.Withdraw,
	} {
		wanted := 1
		if route == onboarding.Document {
			wanted = 2
		}
		isRepeatable := route == onboarding.Withdraw || slices.Contains(c.options.SafeToRepeat, idempotency.Route(route))
		executed := c.service.ExecutedFor(route)
		for _, email := range emails {
			if n := executed[email]; n < wanted || n > wanted && !isRepeatable {
				wrong = append(wrong, fmt.Sprintf("%s of %s: %d", route, email, n))
			}
		}
	}
	return wrong
}

// TestRouteThatIsSafeToRepeatNeedsNoPerson has a mutation in doubt before the log gets the option: from
// then on nobody is asked, and the next call repeats the mutation.
func TestRouteThatIsSafeToRepeatNeedsNoPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		o, entries := newOrder(service), store.NewMemory()
		send := func(log *idempotency.Log) error {
			ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
			return processWith(t, service, log).Applications.SendLink(ctx, o.application)
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, send(log), lending.ErrOutcomeUnknown)
		require.True(t, fake.Must(log.Keys(t.Context(), doubtful))[0].NeedsPerson)
		repeating := fake.Must(idempotency.NewLog(entries, &idempotency.Options{
			SafeToRepeat: []idempotency.Route{idempotency.SendLink},
		}))
		bubble.Elapse(maxLateness)
		fake.Must(repeating.Check(t.Context(), processWith(t, service, repeating)))
		require.False(t, fake.Must(repeating.Keys(t.Context(), doubtful))[0].NeedsPerson)
		require.NoError(t, send(repeating))
		assert.Equal(t, 2, service.Executed(linkRoute))
	})
}
