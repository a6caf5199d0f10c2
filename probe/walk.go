package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
)

// step is a part of the walk. A run does each step once, also after a kill.
type step struct {
	name, says string
	do         func(ctx context.Context, again bool) error // again: an earlier run has begun the step
}

// steps does the steps that no earlier run has ended. An error of a step ends the walk.
func (p *prober) steps(ctx context.Context, all []step) error {
	for _, s := range all {
		if p.run.Done[s.name] {
			p.t.Logf("Done by the earlier run: %s.", s.name)
			continue
		}
		p.t.Logf("%s", s.says)
		again := p.run.Begun[s.name]
		err := p.run.change(func() { p.run.Begun[s.name] = true })
		if err == nil {
			err = s.do(ctx, again)
		}
		if err != nil {
			return fmt.Errorf("lending/probe: the step %q failed: %w; run again with the same file to go on: it lists what was created", s.name, err)
		}
		if err := p.run.change(func() { p.run.Done[s.name] = true }); err != nil {
			return err
		}
	}
	return nil
}

// plain is a step that always ends.
func plain(name, says string, do func(context.Context)) step {
	return step{name, says, func(ctx context.Context, _ bool) error { do(ctx); return nil }}
}

// mutate calls a mutation with an idempotency key of the run, and calls it again while the log
// says so, for at most the lag limit.
func (p *prober) mutate(ctx context.Context, name string, call func(context.Context) error) error {
	end := time.Now().Add(p.o.LagLimit)
	ctx = lending.WithIdempotencyKey(ctx, "probe/"+p.run.Run+"/"+name)
	for {
		err := call(ctx)
		next := lending.NextOf(err)
		after := max(next.After, time.Second)
		if err == nil || next.Person || !next.Retry || time.Now().Add(after).After(end) || !wait(ctx, after) {
			return err
		}
		p.t.Logf("  %s", next)
	}
}

// made lists a record. A run that goes on after a kill may make the same record again.
func (p *prober) made(what string, id fmt.Stringer) error {
	next := Made{what, id.String(), time.Now().UTC().Truncate(time.Second)}
	if slices.ContainsFunc(p.run.Made, func(m Made) bool {
		return m.What == what && m.ID == next.ID && !m.At.Before(p.run.Started)
	}) {
		return nil
	}
	return p.run.change(func() { p.run.Made = append(p.run.Made, next) })
}

// lag measures how long reads do not show a new record.
func (p *prober) lag(ctx context.Context, name string, again bool, seen func() bool) error {
	lag, ok := p.until(ctx, seen)
	switch {
	case !ok:
		p.fact("read lag: "+name, "longer than the lag limit")
		return fmt.Errorf("the new record does not appear within %s; raise -lag-limit", p.o.LagLimit)
	case again:
		p.unseen("read lag", "the run was interrupted")
		return nil
	}
	p.fact("read lag: "+name, lag.String())
	return p.run.change(func() { p.run.Lag = max(p.run.Lag, lag) })
}

// walk creates a customer and an application, and goes up to the offer.
func (p *prober) walk(ctx context.Context) error {
	local, host, _ := strings.Cut(p.o.Email, "@")
	p.run.Email = cmp.Or(p.run.Email, fmt.Sprintf("%s+probe-%s@%s", local, p.run.Run, host))
	hooks := &hooks{prober: p}
	all := []step{
		plain("wrong password", "Signing in as a user who does not exist.", p.wrongPassword),
		{"customer", "Creating a marked customer, and reading until the customer appears.", p.createCustomer},
		{"duplicate customer", "Creating the same customer again.", p.duplicate},
		plain("empty lists", "Reading the customer's empty lists.", func(ctx context.Context) {
			p.ask(ctx, "empty list: get-customer-applications", form, read(p.client.Applications.ListByCustomer, p.run.Customer))
			p.ask(ctx, "empty list: get-customer-loans", form, read(p.client.Loans.ListByCustomer, p.run.Customer))
		}),
		{"webhooks", "Subscribing the customer to webhooks.", hooks.subscribe},
		{"application", "Creating an application, and reading until the application appears.", p.createApplication},
		plain("late execution", "Sending a new name three times, and leaving before the response.", p.late),
		plain("same name", "Sending the same name twice.", func(ctx context.Context) {
			for range 2 {
				p.ask(ctx, "same value: update-application-name", answer, func(ctx context.Context) error {
					_, err := p.client.Applications.UpdateName(ctx, p.run.Application, "Lending probe "+p.run.Run)
					return err
				})
			}
		}),
		{"messages", "Posting two messages.", p.messages},
		plain("bank data", "Sending the same bank data twice.", p.bankData),
		{"processing", "Processing the application, and reading until the offer appears.", p.process},
		{"second processing", "Processing the application a second time.", p.processAgain},
		plain("records", "Reading all records of the application.", func(ctx context.Context) {
			wait(ctx, p.run.Lag+p.run.Lag/4)
			p.customer(ctx, p.run.Customer)
		}),
		plain("webhooks received", "Ending the subscription, and waiting for repeated webhooks.", hooks.judge),
		{"cancellation", "Cancelling the application.", func(ctx context.Context, _ bool) error {
			err := p.client.Applications.Cancel(ctx, p.run.Application)
			if lending.OutcomeOf(err) == lending.OutcomeRejected { // an earlier run may have cancelled it
				return nil
			}
			return err
		}},
	}
	if p.o.WebhookURL == "" || p.o.Listen == nil {
		all = slices.DeleteFunc(all, func(s step) bool { return strings.HasPrefix(s.name, "webhooks") })
	}
	return p.steps(ctx, all)
}

func (p *prober) wrongPassword(ctx context.Context) {
	var user *lending.FullApplicationUser
	p.ask(ctx, "wrong password", func(r lending.Response, err error) string {
		if err == nil && user.Token.IsZero() {
			return "200 without a token"
		}
		return answer(r, nil)
	}, func(ctx context.Context) (err error) {
		user, err = p.client.Auth.Login(ctx, lending.LoginRequest{
			Username: "probe-" + p.run.Run + "@example.com", Password: lending.NewSecret(uuid.NewString()),
		})
		return err
	})
}

// marked is the customer of the run.
func (p *prober) marked() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Lending", LastName: "Probe " + p.run.Run, Email: p.run.Email, MobileNumber: "4155550100",
		Password: lending.NewSecret("Probe-" + uuid.NewString()), // the log compares no secrets
	}
}

func (p *prober) createCustomer(ctx context.Context, again bool) error {
	err := p.mutate(ctx, "customer", func(ctx context.Context) error {
		created, err := p.client.Applications.CreateCustomer(ctx, p.marked())
		if err == nil {
			p.run.Customer = created.ID
		}
		return err
	})
	if err == nil {
		err = p.made("customer", p.run.Customer)
	}
	if err == nil {
		err = p.lag(ctx, "get-customer-by-id", again, func() bool {
			_, err := p.client.Customers.GetByID(hushed(ctx), p.run.Customer)
			return err == nil
		})
	}
	if err != nil {
		return err
	}
	found := "not found"
	_, _ = p.until(ctx, func() bool {
		record, err := p.client.Customers.GetByEmail(hushed(ctx), p.run.Email)
		if err == nil {
			found = either(contains(record.Raw(), p.run.Customer.String()), "the id of the creation", "another id")
		}
		return err == nil
	})
	p.fact("e-mail identifies", found)
	return nil
}

// either returns one of two words.
func either(first bool, one, other string) string {
	if first {
		return one
	}
	return other
}

func (p *prober) duplicate(ctx context.Context, _ bool) error {
	var second *lending.UserResponse
	p.ask(ctx, "duplicate customer", func(r lending.Response, err error) string {
		if err != nil {
			return form(r, err)
		}
		return either(second.ID == p.run.Customer, "200 with the first id", "200 with a second customer")
	}, func(ctx context.Context) (err error) {
		second, err = p.client.Applications.CreateCustomer(ctx, p.marked())
		return err
	})
	if second == nil || second.ID.IsZero() || second.ID == p.run.Customer {
		return nil
	}
	return p.made("customer", second.ID)
}

func (p *prober) createApplication(ctx context.Context, again bool) error {
	err := p.mutate(ctx, "application", func(ctx context.Context) (err error) {
		p.run.Application, err = p.client.Applications.Create(ctx, lending.ApplicationRequest{
			CustomerID: p.run.Customer, BusinessName: "Lending probe " + p.run.Run, BusinessZip: "94105",
			ExtraInformation: map[string]string{"years": "7"},
		}, nil)
		return err
	})
	if err == nil {
		err = p.made("application", p.run.Application)
	}
	if err != nil {
		return err
	}
	count := 0
	err = p.lag(ctx, "get-customer-applications", again, func() bool {
		list, err := p.client.Applications.ListByCustomer(hushed(ctx), p.run.Customer)
		count = len(list)
		return err == nil && count > 0
	})
	p.fact("list grows", fmt.Sprintf("%d more", count))
	if err != nil {
		return err
	}
	p.ask(ctx, "absence: application-offer of an application without an offer", form, readWith(p.client.Applications.Offer, p.run.Application))
	p.ask(ctx, "empty list: get-all-messages", form, readWith(p.client.Communication.Messages, p.run.Application))
	return nil
}

// late leaves soon after the request is written, three times: over HTTP/1.1 net/http says that it wrote the
// request before it flushes it.
func (p *prober) late(ctx context.Context) {
	longest := time.Duration(0)
	for try := range 3 {
		name := fmt.Sprintf("Lending probe %s late %d", p.run.Run, try)
		leaving, leave := context.WithCancel(ctx)
		traced := httptrace.WithClientTrace(leaving, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
			time.AfterFunc(5*time.Millisecond, leave)
		}})
		_, _ = p.client.Applications.UpdateName(traced, p.run.Application, name)
		leave()
		after, ok := p.until(ctx, func() bool {
			record, err := p.client.Applications.Get(hushed(ctx), p.run.Application)
			return err == nil && contains(record.Raw(), name)
		})
		if ok {
			longest = max(longest, after-p.run.Lag)
			p.fact("late execution", longest.String())
		}
	}
	p.unseen("late execution", "no name appeared after its caller had gone")
}

func (p *prober) messages(ctx context.Context, _ bool) error {
	texts := []string{"First message of probe " + p.run.Run, "Second message of probe " + p.run.Run}
	for i, text := range texts {
		accepted := p.accepts(ctx, "post-messages", fmt.Sprint("message ", i), func(ctx context.Context) error {
			return p.client.Communication.Post(idempotency.SafeToRepeat(ctx), p.run.Application,
				&lending.CommunicationRequest{Extra: map[string]string{"message": text}})
		})
		if !accepted {
			return nil
		}
		if i == 0 && !wait(ctx, time.Second) { // so that the messages differ in time
			return context.Cause(ctx)
		}
	}
	var shown []string
	_, ok := p.until(ctx, func() bool {
		list, err := raws(p.client.Communication.Messages(hushed(ctx), p.run.Application, nil))
		shown = nil
		for _, record := range list {
			for _, text := range texts {
				if contains(record, text) {
					shown = append(shown, text)
				}
			}
		}
		return err == nil && len(shown) >= 2 && shown[0] != shown[len(shown)-1] // a repeated message is no pair
	})
	if !ok {
		p.unseen("message order", "the list does not show both texts")
		return nil
	}
	p.fact("message order", either(shown[0] == texts[0], "oldest first", "newest first"))
	return nil
}

// accepts sends unpublished fields, and reports whether the service accepts them.
func (p *prober) accepts(ctx context.Context, action, key string, call func(context.Context) error) bool {
	var r lending.Response
	err := p.mutate(lending.CaptureResponse(ctx, &r), key, call)
	p.fact("request fields: "+action, either(err == nil, "accepted", answer(r, err)))
	return err == nil
}

func (p *prober) bankData(ctx context.Context) {
	data := p.o.BankData
	if data == nil {
		data = assumedBankData()
	}
	counts := []int{}
	for _, which := range []string{"first", "second"} {
		if !p.accepts(ctx, "add-or-update-banking-data", "bank data "+which, func(ctx context.Context) error {
			_, err := p.client.Applications.AddOrUpdateBankingData(ctx, p.run.Application, data, nil)
			return err
		}) {
			return
		}
		wait(ctx, p.run.Lag+p.run.Lag/4)
		accounts, err := p.client.Approval.BankAccounts(hushed(ctx), p.run.Application)
		if err != nil {
			p.unseen("same value", reason(err))
			return
		}
		counts = append(counts, len(accounts))
	}
	p.fact("same value: add-or-update-banking-data", fmt.Sprintf("%d accounts, then %d", counts[0], counts[1]))
}

func assumedBankData() *lending.BankingDataRequest {
	type fields map[string]any
	transactions := []fields{}
	for month := range 3 {
		transactions = append(transactions, fields{
			"date": fmt.Sprintf("2026-%02d-03", month+7), "description": "Probe", "amount": "12500.00",
		})
	}
	return &lending.BankingDataRequest{Extra: fields{"accounts": []fields{{
		"accountName": "Probe", "accountNumber": "000123456789", "routingNumber": "110000000", "accountType": "checking",
		"balance": "48210.55", "transactions": transactions,
	}}}}
}

func (p *prober) process(ctx context.Context, again bool) error {
	var id lending.OfferID
	before, _ := p.client.Applications.Status(ctx, p.run.Application)
	err := p.mutate(ctx, "process", func(ctx context.Context) (err error) {
		id, err = p.client.Applications.Process(ctx, p.run.Application)
		return err
	})
	if err != nil {
		p.unseen("process answers", reason(err))
		p.unseen("second processing", "there is no first offer")
		return nil
	}
	if err := p.made("offer", id); err != nil {
		return err
	}
	var raw json.RawMessage
	err = p.lag(ctx, "application-offer", again, func() bool {
		offer, err := p.client.Applications.Offer(hushed(ctx), p.run.Application, nil)
		if err == nil {
			raw = offer.Raw()
		}
		return err == nil
	})
	switch after, unread := p.client.Applications.Status(ctx, p.run.Application); {
	case again || unread != nil:
		p.unseen("processing shows", "the status could not be compared")
	case after != before:
		p.fact("processing shows", "another status")
	default:
		p.fact("processing shows", either(err == nil, "an offer and the same status", "neither offer nor status"))
	}
	if err == nil {
		p.fact("process answers", either(contains(raw, id.String()), "the id of the offer", "another id"))
		return p.run.change(func() { p.run.Offer = id })
	}
	return err
}

func (p *prober) processAgain(ctx context.Context, _ bool) error {
	if p.run.Offer.IsZero() {
		return nil
	}
	second := p.run.Offer
	p.ask(ctx, "second processing", func(r lending.Response, err error) string {
		if err != nil {
			return answer(r, err)
		}
		return either(second == p.run.Offer, "200 with the same id", "200 with another id")
	}, func(ctx context.Context) error {
		id, err := p.client.Applications.Process(ctx, p.run.Application)
		if err == nil {
			second = id
		}
		return err
	})
	if second == p.run.Offer {
		return nil
	}
	return p.made("offer", second)
}
