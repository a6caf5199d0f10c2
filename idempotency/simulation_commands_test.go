package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// simulated is a mutation with a key of a [schedule]. All processes make the same of a key.
type simulated struct {
	key     string
	send    func(context.Context, *lending.Client) (id string, err error)
	done    func(lendingtest.Snapshot) (n int, answer any) // how often it happened, and what was answered
	repeats bool                                           // declared so: by its route, or with SafeToRepeat
	group   string                                         // of commands that set the same value
	options []keyOption

	// Under the lock of the schedule.
	begun, returned time.Time       // when it was called first, and when first with success
	sent            map[string]bool // the calls by which it was executed
	executed        int             // how often
	noAnswer        bool            // somebody has said that it happened, without its answer
	replay          *string         // the first
}

// happened drops a result.
func happened[T any](_ T, err error) (string, error) { return "", err }

// commandOf returns the command of a key, as make describes it the first time.
func (s *schedule) commandOf(key string, describe func(*simulated)) *simulated {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands[key] == nil {
		m := &simulated{key: key, sent: map[string]bool{}}
		describe(m)
		switch s.rolled(key) % 4 {
		case 0:
			check := func(ctx context.Context) (idempotency.Verdict, error) { return s.lookUp(ctx, m) }
			m.options = append(m.options, withCheck(check))
		case 1:
			if strings.HasPrefix(key, "withdraw") {
				m.repeats = true
				m.options = append(m.options, idempotency.SafeToRepeat)
			}
		}
		s.commands[key] = m
	}
	return s.commands[key]
}

// lookUp is what a caller finds out who knows fields that nobody published.
func (s *schedule) lookUp(ctx context.Context, m *simulated) (idempotency.Verdict, error) {
	c := callerIn(ctx)
	c.point("before it looks for " + m.key)
	if c.chance(10) {
		return idempotency.Verdict{}, errors.New("the look failed")
	}
	v := s.verdict(c, m, c.random.IntN(4) == 0)
	c.point("after it has looked for " + m.key)
	return v, nil
}

// verdict is what the books of the service say. isLost leaves the response out.
func (s *schedule) verdict(c *caller, m *simulated, isLost bool) idempotency.Verdict {
	n, answer := m.done(s.service.Snapshot())
	if m.group != "" {
		n = s.executions(m)
	}
	c.note("knows that %s was done %d times", m.key, n)
	switch {
	case n == 0:
		return idempotency.NotHappened()
	case isLost:
		s.mu.Lock()
		defer s.mu.Unlock()
		m.noAnswer = true
		return idempotency.Happened(nil)
	}
	return idempotency.Happened(answer)
}

// isShown reports whether reads tell whether the mutation happened, and its answer.
func (m *simulated) isShown() bool {
	return m.key == "customer" || strings.HasPrefix(m.key, "application")
}

// giveUp ends a caller: only a person helps.
func (c *caller) giveUp(m *simulated) {
	c.note("cannot go on with %s", m.key)
	c.p.sched.mu.Lock()
	c.p.sched.held = append(c.p.sched.held, m.key)
	c.p.sched.mu.Unlock()
	runtime.Goexit()
}

// idIn returns the id in a response.
func idIn(answer any) string {
	if record, ok := answer.(map[string]any); ok {
		answer = record["id"]
	}
	id, _ := answer.(string)
	return id
}

// do calls until the command is done, and returns the id in its answer. It returns false if
// the service refuses it, and may only do so where that is expected.
func (c *caller) do(m *simulated, mayRefuse bool) (id string, ok bool) {
	s := c.p.sched
	for tries := 0; ; tries++ {
		c.point("between calls")
		id, err := c.call(m)
		failed, _ := errors.AsType[*lending.Error](err)
		switch {
		case err == nil:
			return id, true
		case errors.Is(err, idempotency.ErrAnswerLost) && failed.RetryAfter == 0:
			s.mu.Lock()
			saidNoAnswer := m.noAnswer
			s.mu.Unlock()
			if m.isShown() && !saidNoAnswer {
				s.violate("an answer lost that reads show", c, "%s: %v", m.key, err)
			}
			_, answer := m.done(s.service.Snapshot())
			return idIn(answer), true
		case failed == nil:
			s.violate("refused as an argument", c, "%s: %v", m.key, err)
			c.giveUp(m)
		case failed.Outcome == lending.OutcomeRejected && failed.StatusCode == http.StatusBadRequest && mayRefuse:
			return "", false
		case !s.over.Load():
			tries = 0
		case errors.Is(err, idempotency.ErrNeedsReview), errors.Is(err, idempotency.ErrLocked) && tries > 12:
			c.giveUp(m)
		case tries > 30:
			s.violate("no end", c, "%s still fails long after the faults: %v", m.key, err)
			c.giveUp(m)
		}
		wait := time.Duration(c.random.Int64N(int64(20 * time.Second)))
		if s.over.Load() || c.random.IntN(2) == 0 {
			wait = max(failed.RetryAfter, time.Second)
		}
		if errors.Is(err, idempotency.ErrNeedsReview) {
			wait += time.Minute
		}
		bubble.Elapse(wait)
	}
}

// call makes one call with the key.
func (c *caller) call(m *simulated) (string, error) {
	s := c.p.sched
	ctx, cancel := c.within()
	defer cancel()
	var response lending.Response
	c.begin(m)
	id, err := m.send(lending.CaptureResponse(withKey(ctx, m.key, m.options...), &response), c.p.client)
	c.note("%s: %v, %v", m.key, c.action, err)
	s.returned(c, m, string(response.Body), id, err)
	return id, err
}

// within returns the context of a call.
func (c *caller) within() (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), callerKey{}, c)
	limits := []time.Duration{0, time.Minute, 15 * time.Second, 3 * time.Second}
	if limit := limits[c.random.IntN(len(limits))]; limit > 0 && !c.p.sched.over.Load() {
		return context.WithTimeout(ctx, limit)
	}
	return context.WithCancel(ctx)
}

// What the callers of a process do, each after the other. They share keys, and locks.

// apply takes a customer from nothing to an offer.
func (c *caller) apply() {
	app := c.application(1)
	bank := c.p.sched.commandOf("bank", func(m *simulated) {
		m.repeats = true
		m.send = func(ctx context.Context, client *lending.Client) (string, error) {
			return happened(client.Applications.AddOrUpdateBankingData(ctx, app, bankData(), nil))
		}
		m.done = inApplication(app, func(a lendingtest.Application) (int, any) { return len(a.Accounts), true })
	})
	c.do(bank, false)
	process := c.p.sched.commandOf("process", func(m *simulated) {
		m.send = func(ctx context.Context, client *lending.Client) (string, error) {
			offer, err := client.Applications.Process(ctx, app)
			c.p.sched.mu.Lock()
			defer c.p.sched.mu.Unlock()
			if offer.IsZero() && m.noAnswer {
				return "", err
			}
			return offer.String(), err
		}
		m.done = inApplication(app, func(a lendingtest.Application) (int, any) {
			if a.Offer == nil {
				return 0, nil
			}
			return a.ProcessRuns, a.Offer.ID
		})
	})
	c.do(process, false)
}

// applyAgain makes a second application for the same customer.
func (c *caller) applyAgain() { c.application(2) }

func (c *caller) application(number int) lending.ApplicationID {
	email := fmt.Sprintf("ada-%d@example.com", c.p.sched.seed)
	create := c.p.sched.commandOf("customer", func(m *simulated) {
		user := fake.Ada()
		user.Email = email
		m.send = func(ctx context.Context, client *lending.Client) (string, error) {
			customer, err := client.Applications.CreateCustomer(ctx, user)
			if err != nil {
				return "", err
			}
			return customer.ID.String(), nil
		}
		m.done = func(world lendingtest.Snapshot) (n int, answer any) {
			for _, customer := range world.Customers {
				if customer.Email == email {
					n, answer = n+1, map[string]any{"id": customer.ID}
				}
			}
			return n, answer
		}
	})
	id, _ := c.do(create, false)
	customer := lending.CustomerID(uuid.MustParse(id))
	key := fmt.Sprintf("application-%d", number)
	create = c.p.sched.commandOf(key, func(m *simulated) {
		request := lending.ApplicationRequest{
			CustomerID: customer, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
			ExtraInformation: map[string]string{"order": key},
		}
		m.send = func(ctx context.Context, client *lending.Client) (string, error) {
			id, err := client.Applications.Create(ctx, request, nil)
			return id.String(), err
		}
		m.done = func(world lendingtest.Snapshot) (n int, answer any) {
			for _, app := range world.Applications {
				if app.ExtraInformation["order"] == key {
					n, answer = n+1, app.ID
				}
			}
			return n, answer
		}
	})
	id, _ = c.do(create, false)
	return lending.ApplicationID(uuid.MustParse(id))
}

func inApplication(
	id lending.ApplicationID, find func(lendingtest.Application) (int, any),
) func(lendingtest.Snapshot) (int, any) {
	return func(world lendingtest.Snapshot) (int, any) {
		i := slices.IndexFunc(world.Applications, func(a lendingtest.Application) bool { return a.ID == id.String() })
		return find(world.Applications[i])
	}
}

// rename gives a business one name after the other.
func (c *caller) rename() {
	s := c.p.sched
	for number := range 3 {
		name := fmt.Sprintf("Name %d", number)
		c.do(s.commandOf(fmt.Sprintf("name-%d", number), func(m *simulated) {
			m.group, m.repeats = "name", true
			m.send = func(ctx context.Context, client *lending.Client) (string, error) {
				if number == 1 {
					return happened(client.Applications.UpdateNameAndZipCode(ctx, s.application, name, "10115"))
				}
				return happened(client.Applications.UpdateName(ctx, s.application, name))
			}
			m.done = func(lendingtest.Snapshot) (int, any) { return 0, true } // the executions tell
		}), false)
	}
}

// withdraw and withdrawAgain take two amounts from one loan.
func (c *caller) withdraw()      { c.withdrawal(1) }
func (c *caller) withdrawAgain() { c.withdrawal(2) }

func (c *caller) withdrawal(number int) {
	s := c.p.sched
	application := lending.ApplicationID(uuid.MustParse(s.loan.ApplicationID))
	loan := lending.LoanID(uuid.MustParse(s.loan.ID))
	const amount = 1000_00
	c.do(s.commandOf("calculation", func(m *simulated) {
		m.repeats, m.group = true, "calculation"
		m.send = func(ctx context.Context, client *lending.Client) (string, error) {
			return happened(client.Calculation.Invoice(ctx, application, calculation(amount)))
		}
		m.done = func(lendingtest.Snapshot) (int, any) { return 0, map[string]any{} }
	}), false)
	date := time.Date(2026, 9, number, 0, 0, 0, 0, time.UTC)
	for try := 1; ; try++ {
		begun := lending.InvoiceWithdrawal{
			LoanID: loan, Amount: json.Number(lendingtest.Cents(amount).String()),
			AdvanceRate: "0.8",
		}
		c.do(s.commandOf(fmt.Sprintf("withdraw-%d, %d", number, try), func(m *simulated) {
			m.send = func(ctx context.Context, client *lending.Client) (string, error) {
				return happened(client.Loans.WithdrawInvoice(ctx, loan,
					lending.InvoiceWithdrawalRequest{Calculation: *calculation(amount)}))
			}
			m.done = func(lendingtest.Snapshot) (int, any) {
				return s.executions(m), map[string]any{"advanceRate": 0.8}
			}
		}), false)
		confirm := s.commandOf(fmt.Sprintf("confirm-%d", number), func(m *simulated) {
			m.send = func(ctx context.Context, client *lending.Client) (string, error) {
				return happened(client.Loans.ConfirmInvoiceWithdrawal(ctx, begun, lending.WithdrawInvoiceRequestData{
					DateUTC: date, OTP: lending.NewSecret(s.service.OTP(s.loan.ID)),
				}))
			}
			m.done = func(world lendingtest.Snapshot) (n int, answer any) {
				for _, w := range world.Loans[0].Withdrawals {
					if w.DateUTC.Equal(date) {
						n, answer = n+1, map[string]any{"data": w.ID}
					}
				}
				return n, answer
			}
		})
		if _, ok := c.do(confirm, true); ok {
			return
		}
		if s.over.Load() && try > 30 {
			s.violate("no end", c, "no confirmation of %d", number)
			c.giveUp(confirm)
		}
	}
}

func calculation(cents int) *lending.CalculationRequest {
	return &lending.CalculationRequest{Amount: json.Number(lendingtest.Cents(cents).String()), Terms: 6}
}
