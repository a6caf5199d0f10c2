package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
)

func (p *prober) add(what string, id fmt.Stringer) error {
	made := Made{time.Now().UTC().Truncate(time.Second), p.o.BaseURL, what, id.String()}
	p.made = append(p.made, made)
	return p.file.add("", made)
}

// lag measures how long reads do not show a new record.
func (p *prober) lag(ctx context.Context, name string, seen func() bool) error {
	lag, ok := p.until(ctx, seen)
	if !ok {
		p.fact(assumption.ReadLag+": "+name, "longer than the lag limit")
		return fmt.Errorf("the new record does not appear within %s; raise -lag-limit", p.o.LagLimit)
	}
	p.longest = max(p.longest, lag)
	p.fact(assumption.ReadLag+": "+name, lag.String())
	return nil
}

// walk creates a customer and an application, and goes up to the offer.
func (p *prober) walk(ctx context.Context) error {
	// Listed before anything is created.
	err := p.file.add("\n", Made{time.Now().UTC().Truncate(time.Second), p.o.BaseURL, "walk", p.email})
	if err != nil {
		return err
	}
	w := &walk{prober: p}
	if err := w.steps(as(ctx, own)); err != nil {
		return fmt.Errorf("lending/probe: the walk has ended early: %w; %s lists what was created; start again for another walk", err, p.o.File)
	}
	return nil
}

type walk struct {
	*prober

	customer    lending.CustomerID
	application lending.ApplicationID
	offer       lending.OfferID
}

func (w *walk) steps(ctx context.Context) error {
	hooks := &hooks{walk: w}
	for _, step := range []struct {
		says string
		do   func(context.Context) error
	}{
		{"Signing in as a user who does not exist.", w.wrongPassword},
		{"Creating a marked customer, and reading until the customer appears.", w.createCustomer},
		{"Creating the same customer again.", w.duplicate},
		{"Reading the customer's empty lists.", w.emptyLists},
		{"Subscribing the customer to webhooks.", hooks.subscribe},
		{"Creating an application, and reading until the application appears.", w.createApplication},
		{"Sending a new name three times, and leaving before the response.", w.late},
		{"Sending the same name twice.", w.sameName},
		{"Sending the start date of the business, and reading the application.", w.days},
		{"Posting two messages.", w.messages},
		{"Sending the same bank data twice.", w.bankData},
		{"Processing the application, and reading until the offer appears.", w.process},
		{"Processing the application a second time.", w.processAgain},
		{"Calculating the slider of a line of credit with null as the body.", w.optionalBody},
		{"Reading all records of the application.", w.records},
		{"Ending the subscription, and waiting for repeated webhooks.", hooks.judge},
		{"Cancelling the application.", func(ctx context.Context) error { return w.client.Applications.Cancel(ctx, w.application) }},
	} {
		if strings.Contains(step.says, "ubscri") && (w.o.WebhookURL == "" || w.o.Listen == nil) {
			continue
		}
		w.t.Logf("%s", step.says)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) wrongPassword(ctx context.Context) error {
	var r lending.Response
	user, err := w.client.Auth.Login(lending.CaptureResponse(ctx, &r), lending.LoginRequest{
		Username: "probe-" + w.run + "@example.com", Password: lending.NewSecret(uuid.NewString()),
	})
	w.fact(assumption.WrongPassword, either(err == nil && user.Token.IsZero(), "200 "+assumption.WithoutToken, answer(r, nil)))
	return nil
}

func (w *walk) marked() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Lending", LastName: "Probe " + w.run, Email: w.email, MobileNumber: "4155550100",
		Password: lending.NewSecret("Probe-" + uuid.NewString()),
	}
}

func (w *walk) createCustomer(ctx context.Context) error {
	created, err := w.client.Applications.CreateCustomer(ctx, w.marked())
	if err != nil {
		return err
	}
	w.customer = created.ID
	if err := w.add("customer", w.customer); err != nil {
		return err
	}
	err = w.lag(ctx, "get-customer-by-id", func() bool {
		_, err := w.client.Customers.GetByID(as(ctx, quiet), w.customer)
		return err == nil
	})
	if err != nil {
		return err
	}
	found := "not found"
	_, _ = w.until(ctx, func() bool {
		record, err := w.client.Customers.GetByEmail(as(ctx, quiet), w.email)
		if err == nil {
			found = either(contains(record.Raw(), w.customer.String()), assumption.CreatedID, assumption.AnotherID)
		}
		return err == nil
	})
	w.fact(assumption.EmailIdentifies, found)
	return nil
}

func (w *walk) emptyLists(ctx context.Context) error {
	ctx = as(ctx, quiet)
	w.ask(ctx, assumption.EmptyList+": get-customer-applications", form, read(w.client.Applications.ListByCustomer, w.customer))
	w.ask(ctx, assumption.EmptyList+": get-customer-loans", form, read(w.client.Loans.ListByCustomer, w.customer))
	return nil
}

func (w *walk) sameName(ctx context.Context) error {
	for range 2 {
		w.ask(ctx, assumption.SameValue+": update-application-name", answer, func(ctx context.Context) error {
			_, err := w.client.Applications.UpdateName(ctx, w.application, "Lending probe "+w.run)
			return err
		})
	}
	return nil
}

// days looks in the application for the day that was sent, the day before and the day after.
func (w *walk) days(ctx context.Context) error {
	_, err := w.client.Applications.UpdateData(ctx, w.application, lending.ApplicationData{
		Name: "Lending probe " + w.run, ZipCode: "94105", StartDate: time.Date(1990, 2, 28, 0, 0, 0, 0, time.UTC),
	})
	wait(ctx, w.longest+w.longest/4)
	record, unread := w.client.Applications.Get(as(ctx, quiet), w.application)
	if err := errors.Join(err, unread); err != nil {
		w.unseen("days", reason(err))
		return nil
	}
	w.fact("days", "not shown")
	for day, shown := range map[string]string{"1990-02-27": "a day early", "1990-02-28": "the same day", "1990-03-01": "a day late"} {
		if contains(record.Raw(), day) {
			w.fact("days", shown)
		}
	}
	return nil
}

func (w *walk) optionalBody(ctx context.Context) error {
	if w.offer.IsZero() {
		w.unseen("optional bodies", "there is no offer to calculate with")
		return nil
	}
	var r lending.Response
	_, err := w.client.Calculation.LineOfCreditSlider(lending.CaptureResponse(ctx, &r), w.application, nil)
	w.fact("optional bodies", answer(r, err))
	return nil
}

func (w *walk) records(ctx context.Context) error {
	wait(ctx, w.longest+w.longest/4)
	w.readCustomer(ctx, w.customer)
	return nil
}

func (w *walk) duplicate(ctx context.Context) error {
	var r lending.Response
	second, err := w.client.Applications.CreateCustomer(lending.CaptureResponse(ctx, &r), w.marked())
	switch {
	case err != nil:
		w.fact(assumption.DuplicateCustomer, form(r, err))
	case second.ID == w.customer:
		w.fact(assumption.DuplicateCustomer, "200 with the first id")
	default:
		w.fact(assumption.DuplicateCustomer, assumption.SecondRecord)
		return w.add("customer", second.ID)
	}
	return nil
}

func (w *walk) createApplication(ctx context.Context) (err error) {
	w.application, err = w.client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: w.customer, BusinessName: "Lending probe " + w.run, BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	if err != nil {
		return err
	}
	if err := w.add("application", w.application); err != nil {
		return err
	}
	count := 0
	err = w.lag(ctx, "get-customer-applications", func() bool {
		list, err := w.client.Applications.ListByCustomer(as(ctx, quiet), w.customer)
		count = len(list)
		return err == nil && count > 0
	})
	w.fact("list grows", fmt.Sprintf("%d more", count))
	if err != nil {
		return err
	}
	w.ask(ctx, assumption.Absence+": "+assumption.NoOffer, form, readWith(w.client.Applications.Offer, w.application))
	w.ask(ctx, assumption.EmptyList+": get-all-messages", form, readWith(w.client.Communication.Messages, w.application))
	return nil
}

// late leaves soon after the request is written, three times: over HTTP/1.1 net/http says that it wrote the
// request before it flushes it.
func (w *walk) late(ctx context.Context) error {
	longest := time.Duration(0)
	for try := range 3 {
		name := fmt.Sprintf("Lending probe %s late %d", w.run, try)
		leaving, leave := context.WithCancel(ctx)
		traced := httptrace.WithClientTrace(leaving, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
			time.AfterFunc(5*time.Millisecond, leave)
		}})
		_, _ = w.client.Applications.UpdateName(traced, w.application, name)
		leave()
		after, ok := w.until(ctx, func() bool {
			record, err := w.client.Applications.Get(as(ctx, quiet), w.application)
			return err == nil && contains(record.Raw(), name)
		})
		if ok {
			longest = max(longest, after-w.longest)
			w.fact(assumption.LateExecution, longest.String())
		}
	}
	w.unseen(assumption.LateExecution, "no name appeared after its caller had gone")
	return nil
}

func (w *walk) messages(ctx context.Context) error {
	texts := []string{"First message of probe " + w.run, "Second message of probe " + w.run}
	for i, text := range texts {
		accepted := w.accepts(ctx, "post-messages", func(ctx context.Context) error {
			return w.client.Communication.Post(ctx, w.application, &lending.CommunicationRequest{Extra: map[string]string{"message": text}})
		})
		if !accepted {
			return nil
		}
		if i == 0 && !wait(ctx, time.Second) { // so that the messages differ in time
			return context.Cause(ctx)
		}
	}
	var shown []string
	_, ok := w.until(ctx, func() bool {
		list, err := raws(w.client.Communication.Messages(as(ctx, quiet), w.application, nil))
		shown = nil
		for _, record := range list {
			for _, text := range texts {
				if contains(record, text) {
					shown = append(shown, text)
				}
			}
		}
		return err == nil && len(shown) == 2
	})
	if !ok {
		w.unseen(assumption.MessageOrder, "the list does not show both texts")
		return nil
	}
	w.fact(assumption.MessageOrder, either(shown[0] == texts[0], assumption.OldestFirst, assumption.NewestFirst))
	return nil
}

func (w *walk) accepts(ctx context.Context, action string, call func(context.Context) error) bool {
	var r lending.Response
	err := call(lending.CaptureResponse(ctx, &r))
	w.fact("request fields: "+action, either(err == nil, accepted, answer(r, err)))
	return err == nil
}

func (w *walk) bankData(ctx context.Context) error {
	data := cmp.Or(w.o.BankData, &lending.BankingDataRequest{Extra: assumedBankData})
	counts := []int{}
	for range 2 {
		if !w.accepts(ctx, "add-or-update-banking-data", func(ctx context.Context) error {
			_, err := w.client.Applications.AddOrUpdateBankingData(ctx, w.application, data, nil)
			return err
		}) {
			return nil
		}
		wait(ctx, w.longest+w.longest/4)
		accounts, err := w.client.Approval.BankAccounts(as(ctx, quiet), w.application)
		if err != nil {
			w.unseen(assumption.SameValue, reason(err))
			return nil
		}
		counts = append(counts, len(accounts))
	}
	w.fact(assumption.SameValue+": add-or-update-banking-data", fmt.Sprintf("%d accounts, then %d", counts[0], counts[1]))
	return nil
}

var assumedBankData = json.RawMessage(`{"accounts":[{
	"accountName":"Probe","accountNumber":"000123456789","routingNumber":"110000000","accountType":"checking","balance":"48210.55",
	"transactions":[{"date":"2026-07-03","description":"Probe","amount":"12500.00"}]
}]}`)

func (w *walk) process(ctx context.Context) error {
	before, unread := w.client.Applications.Status(ctx, w.application)
	id, err := w.client.Applications.Process(ctx, w.application)
	if err != nil {
		w.unseen(assumption.ProcessAnswers, reason(err))
		w.unseen(assumption.SecondProcessing, "there is no first offer")
		return nil
	}
	if err := w.add("offer", id); err != nil {
		return err
	}
	var raw json.RawMessage
	err = w.lag(ctx, "application-offer", func() bool {
		offer, err := w.client.Applications.Offer(as(ctx, quiet), w.application, nil)
		if err == nil {
			raw = offer.Raw()
		}
		return err == nil
	})
	switch after, err2 := w.client.Applications.Status(ctx, w.application); {
	case unread != nil || err2 != nil:
		w.unseen("processing shows", "the status could not be compared")
	case after != before:
		w.fact("processing shows", "another status")
	default:
		w.fact("processing shows", either(err == nil, "an offer and the same status", "neither offer nor status"))
	}
	if err == nil {
		w.fact(assumption.ProcessAnswers, either(contains(raw, id.String()), assumption.OfferID, assumption.AnotherID))
		w.offer = id
	}
	return err
}

func (w *walk) processAgain(ctx context.Context) error {
	if w.offer.IsZero() {
		return nil
	}
	var r lending.Response
	second, err := w.client.Applications.Process(lending.CaptureResponse(ctx, &r), w.application)
	switch {
	case err != nil:
		w.fact(assumption.SecondProcessing, answer(r, err))
	case second == w.offer:
		w.fact(assumption.SecondProcessing, assumption.SameOffer)
	default:
		w.fact(assumption.SecondProcessing, "200 with another id")
		return w.add("offer", second)
	}
	return nil
}
