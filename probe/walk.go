package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
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
		if s.do == nil {
			continue
		}
		if p.run.Done[s.name] {
			p.say("Done by the earlier run: %s.", s.name)
			continue
		}
		p.say("%s", s.says)
		again := p.run.Begun[s.name]
		if err := p.run.change(func() { p.run.Begun[s.name] = true }); err != nil {
			return err
		}
		if err := s.do(ctx, again); err != nil {
			return fmt.Errorf("lending/probe: %s: %w; run again with the same file to go on: it lists what was created", s.name, err)
		}
		if err := p.run.change(func() { p.run.Done[s.name] = true }); err != nil {
			return err
		}
	}
	return nil
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
		p.say("  %s", next)
	}
}

func (p *prober) made(what, id string) error {
	return p.run.change(func() { p.run.Made = append(p.run.Made, Made{what, id, time.Now().UTC().Truncate(time.Second)}) })
}

// lag measures how long reads do not show a new record.
func (p *prober) lag(ctx context.Context, name string, again bool, seen func() bool) error {
	lag, ok := p.until(ctx, seen)
	switch {
	case !ok:
		p.fact("read lag", name, "longer than the lag limit")
		return fmt.Errorf("the new record does not appear within %s; raise -lag-limit", p.o.LagLimit)
	case again:
		p.unseen("read lag", "the run was interrupted")
		return nil
	}
	p.fact("read lag", name, lag.String())
	return p.run.change(func() { p.run.Lag = max(p.run.Lag, lag) })
}

// settle waits until reads show the mutations so far.
func (p *prober) settle(ctx context.Context) { wait(ctx, p.run.Lag+p.run.Lag/4) }

// walk creates a customer and an application, and goes up to the offer.
func (p *prober) walk(ctx context.Context) error {
	local, host, _ := strings.Cut(p.o.Email, "@")
	if p.run.Email == "" {
		p.run.Email = fmt.Sprintf("%s+probe-%s@%s", local, p.run.Run, host)
	}
	password := lending.NewSecret("Probe-" + uuid.NewString()) // the log compares no secrets
	customer := lending.UserRequest{
		FirstName: "Lending", LastName: "Probe " + p.run.Run, Email: p.run.Email, Password: password, MobileNumber: "4155550100",
	}
	hooks := &hooks{}
	return p.steps(ctx, []step{
		{"wrong password", "Signing in as a user who does not exist.", func(ctx context.Context, _ bool) error {
			p.wrongPassword(ctx)
			return nil
		}},
		{"customer", "Creating a marked customer, and reading until the customer appears.", func(ctx context.Context, again bool) error {
			return p.createCustomer(ctx, customer, again)
		}},
		{"duplicate customer", "Creating the same customer again.", func(ctx context.Context, _ bool) error {
			return p.duplicate(ctx, customer)
		}},
		{"empty lists", "Reading the customer's empty lists.", func(ctx context.Context, _ bool) error {
			p.absent(ctx, "empty list", "get-customer-applications", func(ctx context.Context) error {
				_, err := p.client.Applications.ListByCustomer(ctx, p.run.Customer)
				return err
			})
			p.absent(ctx, "empty list", "get-customer-loans", func(ctx context.Context) error {
				_, err := p.client.Loans.ListByCustomer(ctx, p.run.Customer)
				return err
			})
			return nil
		}},
		{"webhooks", "Subscribing the customer to webhooks.", hooks.subscribe(p)},
		{"application", "Creating an application, and reading until the application appears.", p.createApplication},
		{"late execution", "Sending a new name three times, and leaving before the response.", p.late},
		{"same name", "Sending the same name twice.", p.sameName},
		{"messages", "Posting two messages.", p.messages},
		{"bank data", "Sending the same bank data twice.", p.bankData},
		{"processing", "Processing the application, and reading until the offer appears.", p.process},
		{"second processing", "Processing the application a second time.", p.processAgain},
		{"records", "Reading all records of the application.", func(ctx context.Context, _ bool) error {
			p.settle(ctx)
			p.customer(ctx, p.run.Customer)
			return nil
		}},
		{"webhooks received", "Ending the subscription, and waiting for repeated webhooks.", hooks.judge(p)},
		{"cancellation", "Cancelling the application twice.", p.cancel},
	})
}

func (p *prober) wrongPassword(ctx context.Context) {
	var r lending.Response
	name := "probe-" + p.run.Run + "@example.com"
	user, err := p.client.Auth.Login(lending.CaptureResponse(hushed(ctx), &r), lending.LoginRequest{
		Username: name, Password: lending.NewSecret(uuid.NewString()),
	})
	switch {
	case r.StatusCode == 0:
		p.unseen("wrong password", reason(err))
	case err == nil && user.Token.IsZero():
		p.fact("wrong password", "", "200 without a token")
	default:
		p.fact("wrong password", "", fmt.Sprint(r.StatusCode))
	}
}

func (p *prober) createCustomer(ctx context.Context, customer lending.UserRequest, again bool) error {
	err := p.mutate(ctx, "customer", func(ctx context.Context) error {
		created, err := p.client.Applications.CreateCustomer(ctx, customer)
		if err == nil {
			p.run.Customer = created.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := p.made("customer", p.run.Customer.String()); err != nil {
		return err
	}
	err = p.lag(ctx, "get-customer-by-id", again, func() bool {
		_, err := p.client.Customers.GetByID(hushed(ctx), p.run.Customer)
		return err == nil
	})
	if err != nil {
		return err
	}
	found := "not found"
	_, _ = p.until(ctx, func() bool {
		record, err := p.client.Customers.GetByEmail(hushed(ctx), p.run.Email)
		if err == nil && contains(record.Raw(), p.run.Customer.String()) {
			found = "the id of the creation"
		} else if err == nil {
			found = "another id"
		}
		return err == nil
	})
	p.fact("e-mail identifies", "", found)
	return nil
}

func (p *prober) duplicate(ctx context.Context, customer lending.UserRequest) error {
	var r lending.Response
	second, err := p.client.Applications.CreateCustomer(lending.CaptureResponse(ctx, &r), customer)
	switch {
	case err == nil && second.ID == p.run.Customer:
		p.fact("duplicate customer", "", "200 with the first id")
	case err == nil:
		p.fact("duplicate customer", "", "200 with a second customer")
		return p.made("customer", second.ID.String())
	case r.StatusCode == 0:
		p.unseen("duplicate customer", reason(err))
	default:
		p.fact("duplicate customer", "", form(r.StatusCode, r.Header, r.Body))
	}
	return nil
}

func (p *prober) createApplication(ctx context.Context, again bool) error {
	err := p.mutate(ctx, "application", func(ctx context.Context) (err error) {
		p.run.Application, err = p.client.Applications.Create(ctx, lending.ApplicationRequest{
			CustomerID: p.run.Customer, BusinessName: "Lending probe " + p.run.Run, BusinessZip: "94105",
			ExtraInformation: map[string]string{"years": "7"},
		}, nil)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.made("application", p.run.Application.String()); err != nil {
		return err
	}
	count := 0
	err = p.lag(ctx, "get-customer-applications", again, func() bool {
		list, err := p.client.Applications.ListByCustomer(hushed(ctx), p.run.Customer)
		count = len(list)
		return err == nil && count > 0
	})
	p.fact("list grows", "", fmt.Sprintf("%d more", count))
	if err != nil {
		return err
	}
	p.absent(ctx, "absence", "application-offer of an application without an offer", func(ctx context.Context) error {
		_, err := p.client.Applications.Offer(ctx, p.run.Application, nil)
		return err
	})
	p.absent(ctx, "empty list", "get-all-messages", func(ctx context.Context) error {
		_, err := p.client.Communication.Messages(ctx, p.run.Application, nil)
		return err
	})
	return nil
}

// late leaves right after the request is written, three times.
func (p *prober) late(ctx context.Context, _ bool) error {
	longest := time.Duration(0)
	for try := range 3 {
		name := fmt.Sprintf("Lending probe %s late %d", p.run.Run, try)
		leaving, leave := context.WithCancel(ctx)
		traced := httptrace.WithClientTrace(leaving, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }})
		_, _ = p.client.Applications.UpdateName(traced, p.run.Application, name)
		leave()
		after, ok := p.until(ctx, func() bool {
			record, err := p.client.Applications.Get(hushed(ctx), p.run.Application)
			return err == nil && contains(record.Raw(), name)
		})
		if ok {
			longest = max(longest, after-p.run.Lag)
			p.fact("late execution", "", longest.String())
		}
	}
	p.unseen("late execution", "no name appeared after its caller had gone")
	return nil
}

func (p *prober) sameName(ctx context.Context, _ bool) error {
	for _, which := range []string{"first", "second"} {
		var r lending.Response
		_, err := p.client.Applications.UpdateName(lending.CaptureResponse(ctx, &r), p.run.Application, "Lending probe "+p.run.Run)
		if r.StatusCode == 0 {
			p.unseen("same value", reason(err))
			return nil
		}
		if which == "second" {
			p.fact("same value", "update-application-name", answer(r.StatusCode, err))
		}
	}
	return nil
}

// answer describes the response to a mutation.
func answer(status int, err error) string {
	if err != nil && status/100 == 2 {
		return fmt.Sprint(status, " with a refusal")
	}
	return fmt.Sprint(status)
}

func (p *prober) messages(ctx context.Context, _ bool) error {
	texts := []string{"First message of probe " + p.run.Run, "Second message of probe " + p.run.Run}
	for i, text := range texts {
		var r lending.Response
		err := p.mutate(lending.CaptureResponse(ctx, &r), fmt.Sprint("message ", i), func(ctx context.Context) error {
			return p.client.Communication.Post(idempotency.SafeToRepeat(ctx), p.run.Application,
				&lending.CommunicationRequest{Extra: map[string]string{"message": text}})
		})
		if err != nil {
			p.fact("request fields", "post-messages", answer(r.StatusCode, err))
			return nil
		}
		p.fact("request fields", "post-messages", "accepted")
		if i == 0 && !wait(ctx, time.Second) { // so that the messages differ in time
			return context.Cause(ctx)
		}
	}
	var raw []string
	_, ok := p.until(ctx, func() bool {
		list, err := raws(p.client.Communication.Messages(hushed(ctx), p.run.Application, nil))
		raw = nil
		for _, record := range list {
			for _, text := range texts {
				if contains(record, text) {
					raw = append(raw, text)
				}
			}
		}
		return err == nil && len(raw) >= 2
	})
	switch {
	case !ok:
		p.unseen("message order", "the list does not show both texts")
	case raw[0] == texts[0]:
		p.fact("message order", "", "oldest first")
	default:
		p.fact("message order", "", "newest first")
	}
	return nil
}

func (p *prober) bankData(ctx context.Context, _ bool) error {
	data := p.o.BankData
	if data == nil {
		data = assumedBankData()
	}
	counts := []int{}
	for _, which := range []string{"first", "second"} {
		var r lending.Response
		err := p.mutate(lending.CaptureResponse(ctx, &r), "bank data "+which, func(ctx context.Context) error {
			_, err := p.client.Applications.AddOrUpdateBankingData(ctx, p.run.Application, data, nil)
			return err
		})
		if err != nil {
			p.fact("request fields", "add-or-update-banking-data", answer(r.StatusCode, err))
			return nil
		}
		p.fact("request fields", "add-or-update-banking-data", "accepted")
		p.settle(ctx)
		accounts, err := p.client.Approval.BankAccounts(hushed(ctx), p.run.Application)
		if err != nil {
			p.unseen("same value", reason(err))
			return nil
		}
		counts = append(counts, len(accounts))
	}
	p.fact("same value", "add-or-update-banking-data", fmt.Sprintf("%d accounts, then %d", counts[0], counts[1]))
	return nil
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
	if err := p.made("offer", id.String()); err != nil {
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
	switch after, read := p.client.Applications.Status(ctx, p.run.Application); {
	case again || read != nil:
		p.unseen("processing shows", "the status could not be compared")
	case after != before:
		p.fact("processing shows", "", "another status")
	case err == nil:
		p.fact("processing shows", "", "an offer and the same status")
	default:
		p.fact("processing shows", "", "neither offer nor status")
	}
	if err == nil {
		p.fact("process answers", "", map[bool]string{true: "the id of the offer", false: "another id"}[contains(raw, id.String())])
		return p.run.change(func() { p.run.Offer = id })
	}
	return err
}

func (p *prober) processAgain(ctx context.Context, _ bool) error {
	if p.run.Offer.IsZero() {
		return nil
	}
	var r lending.Response
	second, err := p.client.Applications.Process(lending.CaptureResponse(ctx, &r), p.run.Application)
	switch {
	case r.StatusCode == 0:
		p.unseen("second processing", reason(err))
	case r.StatusCode != http.StatusOK || err != nil:
		p.fact("second processing", "", answer(r.StatusCode, err))
	case second == p.run.Offer:
		p.fact("second processing", "", "200 with the same id")
	default:
		p.fact("second processing", "", "200 with another id")
		return p.made("offer", second.String())
	}
	return nil
}

func (p *prober) cancel(ctx context.Context, _ bool) error {
	for _, which := range []string{"first", "second"} {
		var r lending.Response
		err := p.client.Applications.Cancel(lending.CaptureResponse(ctx, &r), p.run.Application)
		if r.StatusCode == 0 {
			return err
		}
		if which == "second" {
			p.fact("second cancellation", "", answer(r.StatusCode, err))
		}
	}
	return nil
}
