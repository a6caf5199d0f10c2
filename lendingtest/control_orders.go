package lendingtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// The bodies of orders.
type (
	faultOrder struct {
		Route string `json:"route"`
		Fault *Fault `json:"fault"`
	}
	answerOrder struct {
		Route  string       `json:"route"`
		Answer *FixedAnswer `json:"answer"` // null restores the route
	}
	timeOrder struct {
		By  span   `json:"by"`
		For string `json:"for,omitempty"`
	}
	deliveryOrder struct {
		Number int `json:"number"`
	}
	applicationOrder struct {
		ApplicationID string `json:"applicationId"`
	}
	accountOrder struct {
		For string `json:"for,omitempty"` // a user name; empty means all accounts
	}
	updateOrder struct {
		ID  string          `json:"id"`
		Set json.RawMessage `json:"set"`
	}
	decisionOrder struct {
		After    span `json:"after,omitempty"`
		Declined bool `json:"declined,omitempty"`
	}
	repayOrder struct {
		LoanID   string  `json:"loanId"`
		Amount   Cents   `json:"amount"`
		Every    span    `json:"every,omitempty"`
		Interest float64 `json:"interest,omitempty"`
	}
	modeOrder struct {
		DeliveryMode
		Delay span `json:"delay,omitempty"`
	}
	playOrder struct {
		Steps []Step `json:"steps"`
	}
	nothing struct{}
)

// FixedAnswer is the response that [Remote.Answer] sets for a route.
type FixedAnswer struct {
	Status      int         `json:"status,omitempty"` // 200 by default
	ContentType string      `json:"contentType,omitempty"`
	Header      http.Header `json:"header,omitempty"`
	Body        string      `json:"body,omitempty"`
}

func (a *FixedAnswer) serve(w http.ResponseWriter, _ *http.Request) {
	maps.Copy(w.Header(), canonical(a.Header))
	if a.ContentType != "" {
		w.Header().Set("Content-Type", a.ContentType)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, a.Body)
}

// orders has the orders of Control by name. CONTROL.md lists all of them.
func orders() map[string]order {
	all := map[string]order{
		"arrived": show(func(s *Service, q url.Values) any { return s.Arrived(q.Get("route")) }, "route"),
		"executed": show(func(s *Service, q url.Values) any {
			if q.Has("for") {
				return s.ExecutedFor(q.Get("route"))[q.Get("for")]
			}
			return s.Executed(q.Get("route"))
		}, "route", "for?"),
		"executed-for":    show(func(s *Service, q url.Values) any { return s.ExecutedFor(q.Get("route")) }, "route"),
		"otp":             show(func(s *Service, q url.Values) any { return s.OTP(q.Get("loan")) }, "loan"),
		"two-factor-code": show(func(s *Service, q url.Values) any { return s.TwoFactorCode(q.Get("username")) }, "username"),
		"snapshot":        show(func(s *Service, _ url.Values) any { return s.Snapshot() }),
		"deliveries":      show(func(s *Service, _ url.Values) any { return s.Deliveries() }),
		"requests":        show(func(s *Service, q url.Values) any { return s.Find(filterOf(q)) }, "route?", "outcome?", "for?", "before?", "limit?"),
		"sent":            show(func(s *Service, _ url.Values) any { return s.Sent() }),
		"faults":          show(func(s *Service, _ url.Values) any { return s.sendableFaults() }),
		"routes":          show(func(s *Service, _ url.Values) any { return s.Routes() }),
	}
	maps.Copy(all, changes())
	return all
}

// changes has the orders that are POSTs.
func changes() map[string]order {
	return map[string]order{
		"fail":         refusable((*Service).plan),
		"clear-faults": change(func(s *Service, _ nothing) { s.ClearFaults() }),
		"answer":       refusable((*Service).fix),
		"reset": change(func(s *Service, o accountOrder) {
			if o.For != "" {
				s.ResetFor(o.For)
			} else {
				s.Reset()
			}
		}),
		"advance":       refusable(func(s *Service, o timeOrder) error { return s.advance(o.By.duration(), o.For) }),
		"expire-offer":  change(func(s *Service, o applicationOrder) { s.ExpireOffer(o.ApplicationID) }),
		"expire-tokens": change(func(s *Service, o accountOrder) { s.ExpireTokens(o.names()...) }),
		"add-account":   post(func(s *Service, _ context.Context, a Account) (any, error) { return s.AddAccount(a), nil }),
		"add-loan":      post(func(s *Service, _ context.Context, l loanForm) (any, error) { return loanForm(s.AddLoan(Loan(l))), nil }),
		"update":        refusable(func(s *Service, o updateOrder) error { return s.set(o.ID, o.Set) }),
		"decision":      change(func(s *Service, o decisionOrder) { s.SetDecision(Decision{o.After.duration(), o.Declined}) }),
		"repay": change(func(s *Service, o repayOrder) {
			s.Repay(Repayment{o.LoanID, o.Amount, o.Every.duration(), o.Interest})
		}),
		"delivery-mode": change(func(s *Service, o modeOrder) {
			o.DeliveryMode.Delay = o.Delay.duration()
			s.SetDeliveryMode(o.DeliveryMode)
		}),
		"redeliver": refusable(func(s *Service, o deliveryOrder) error { return s.redeliver(o.Number) }),
		"play":      refusable(func(s *Service, o playOrder) error { return s.play(o.Steps) }),
		"restore":   refusable(func(s *Service, snap Snapshot) error { return s.Restore(snap) }),
		"wait":      post(func(s *Service, ctx context.Context, _ nothing) (any, error) { return nil, s.Wait(ctx) }),
	}
}

func (o accountOrder) names() []string {
	if o.For == "" {
		return nil
	}
	return []string{o.For}
}

func (s *Service) plan(o faultOrder) error {
	if err := o.Fault.check(); err != nil {
		return err
	}
	s.Fail(o.Route, *o.Fault)
	return nil
}

func (s *Service) fix(o answerOrder) error {
	if o.Answer == nil {
		s.Answer(o.Route, nil)
		return nil
	}
	if err := checkStatus(o.Answer.Status); err != nil {
		return err
	}
	s.Answer(o.Route, o.Answer.serve)
	return nil
}

// filterOf reads a filter from a query. It panics if a number is malformed.
func filterOf(q url.Values) RequestFilter {
	f := RequestFilter{Route: q.Get("route"), Outcome: q.Get("outcome"), For: q.Get("for")}
	for name, n := range map[string]*int{"before": &f.Before, "limit": &f.Limit} {
		var err error
		if *n, err = strconv.Atoi(cmp.Or(q.Get(name), "0")); err != nil || *n < 0 {
			panic("lendingtest: " + name + " is not a number from 0")
		}
	}
	return f
}

// sendableFaults returns the planned faults without the fields that have no JSON.
func (s *Service) sendableFaults() []PlannedFault {
	all := append([]PlannedFault{}, s.Faults()...)
	for i := range all {
		all[i].Fault.Reached, all[i].Fault.Until = nil, nil
		if all[i].Fault.Body != nil {
			all[i].Fault.Body = bytes.ToValidUTF8(all[i].Fault.Body, []byte("?"))
		}
	}
	return all
}

// set changes fields of a record. The names are the names in a snapshot.
func (s *Service) set(id string, fields json.RawMessage) (err error) {
	s.mu.Lock()
	customer, application := s.customers.get(id) != nil, s.applications.get(id) != nil
	loan, subscription := s.loans.get(id) != nil, s.subscriptions.get(id) != nil
	s.mu.Unlock()
	switch {
	case customer:
		s.UpdateCustomer(id, func(c *Customer) { err = setFields(fields, id, (*customerForm)(c), &c.ID) })
	case application:
		s.UpdateApplication(id, func(a *Application) {
			whole := a.clone()
			if err = setFields(fields, id, (*applicationForm)(&whole), &whole.ID); err == nil {
				*a = whole
			}
		})
	case loan:
		s.UpdateLoan(id, func(l *Loan) { err = setFields(fields, id, (*loanForm)(l), &l.ID) })
	case subscription:
		s.UpdateSubscription(id, func(sub *Subscription) { err = setFields(fields, id, (*subscriptionForm)(sub), &sub.ID) })
	default:
		return fmt.Errorf("no customer, application, loan or subscription %q", id)
	}
	return err
}

// setFields changes all fields or none, and never the identifier.
func setFields[T any](fields json.RawMessage, id string, row *T, rowID *string) error {
	before := *row
	d := json.NewDecoder(bytes.NewReader(fields))
	d.DisallowUnknownFields()
	err := d.Decode(row)
	if err == nil && *rowID != id {
		err = errors.New("update cannot change the id; leave out the id in set")
	}
	if err != nil {
		*row = before
		return fmt.Errorf("set: %w", err)
	}
	return nil
}

// show returns an order that answers with the result of f. The query may have no other
// parameters.
func show(f func(*Service, url.Values) any, query ...string) order {
	return order{method: http.MethodGet, query: query, do: func(s *Service, r *http.Request) (any, error) {
		return f(s, r.URL.Query()), nil
	}}
}

// change returns an order without a response body.
func change[T any](f func(*Service, T)) order {
	return post(func(s *Service, _ context.Context, body T) (any, error) {
		f(s, body)
		return nil, nil
	})
}

// refusable returns an order that answers with nothing or an error.
func refusable[T any](f func(*Service, T) error) order {
	return post(func(s *Service, _ context.Context, body T) (any, error) { return nil, f(s, body) })
}

func post[T any](f func(*Service, context.Context, T) (any, error)) order {
	return order{method: http.MethodPost, do: func(s *Service, r *http.Request) (any, error) {
		body, err := read[T](r)
		if err != nil {
			return nil, err
		}
		return f(s, r.Context(), body)
	}}
}

// check rejects a fault that would never happen or that cannot be sent.
func (f *Fault) check() error {
	switch {
	case f == nil:
		return errors.New("fail needs fault")
	case f.Late < 0 || f.AnswerDelay < 0 || f.DelayBefore < 0 || f.RetryAfter < 0:
		return errors.New("a duration is negative")
	case f.Times < -1:
		return errors.New("times must be a number from 1, or -1 for always")
	case f.CutBody < -1:
		return errors.New("cutBody must be a number of bytes, or -1 for an empty body")
	case f.changesNothing():
		return errors.New("the fault changes nothing; set status, answerDelay, delayBefore, late, cutBody, patch, resetBefore or resetAfter")
	}
	return cmp.Or(f.Patch.check(), checkStatus(f.Status))
}

// changesNothing reports whether the fault has no effect.
func (f *Fault) changesNothing() bool {
	return f.Status == 0 && f.AnswerDelay == 0 && f.DelayBefore == 0 && f.Late == 0 && f.CutBody == 0 && f.Patch == nil && !f.ResetBefore && !f.ResetAfter
}

func checkStatus(status int) error {
	if status != 0 && (status < 200 || status > 999) {
		return fmt.Errorf("a status of %d cannot be answered", status)
	}
	return nil
}
