package lendingtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Remote controls a service in another process through its [Service.Control]. Its methods
// correspond to the methods of [Service], but return an error if those panic.
type Remote struct {
	// Token is the token of [WithControlToken], if set.
	Token string `json:"-"`
	// HTTPClient replaces http.DefaultClient, for example with a client that trusts the
	// certificate of a sandbox on https.
	HTTPClient *http.Client `json:"-"`

	url string
}

// Dial returns the remote control at a URL, for example "http://127.0.0.1:8080/_control/" for
// the sandbox. Dial sends no request.
func Dial(controlURL string) *Remote {
	return &Remote{url: strings.TrimSuffix(controlURL, "/")}
}

// Format prints "lendingtest remote" for every verb, and never the token.
func (c Remote) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "lendingtest remote") }

// Fail plans a fault, as [Service.Fail] does. A fault with Reached or Until returns an error.
func (c *Remote) Fail(ctx context.Context, route string, f Fault) error {
	return c.post(ctx, "fail", faultOrder{route, &f}, nil)
}

// ClearFaults removes all planned faults.
func (c *Remote) ClearFaults(ctx context.Context) error {
	return c.post(ctx, "clear-faults", nothing{}, nil)
}

// Answer replaces the responses of a route; nil restores the route. See [Service.Answer].
func (c *Remote) Answer(ctx context.Context, route string, a *FixedAnswer) error {
	return c.post(ctx, "answer", answerOrder{route, a}, nil)
}

// Arrived returns the number of requests of a route. See [Service.Arrived].
func (c *Remote) Arrived(ctx context.Context, route string) (n int, err error) {
	err = c.get(ctx, "arrived", url.Values{"route": {route}}, &n)
	return n, err
}

// Executed returns how often a route ran. See [Service.Executed].
func (c *Remote) Executed(ctx context.Context, route string) (n int, err error) {
	err = c.get(ctx, "executed", url.Values{"route": {route}}, &n)
	return n, err
}

// ExecutedFor returns the same count by resource. See [Service.ExecutedFor].
func (c *Remote) ExecutedFor(ctx context.Context, route string) (counts map[string]int, err error) {
	err = c.get(ctx, "executed-for", url.Values{"route": {route}}, &counts)
	return counts, err
}

// OTP returns the last one-time password for a loan, or "".
func (c *Remote) OTP(ctx context.Context, loanID string) (code string, err error) {
	err = c.get(ctx, "otp", url.Values{"loan": {loanID}}, &code)
	return code, err
}

// TwoFactorCode returns the last code for a user, or "".
func (c *Remote) TwoFactorCode(ctx context.Context, username string) (code string, err error) {
	err = c.get(ctx, "two-factor-code", url.Values{"username": {username}}, &code)
	return code, err
}

// Snapshot returns the current state.
func (c *Remote) Snapshot(ctx context.Context) (snap Snapshot, err error) {
	err = c.get(ctx, "snapshot", nil, &snap)
	return snap, err
}

// Restore replaces the state with a snapshot. See [Service.Restore].
func (c *Remote) Restore(ctx context.Context, snap Snapshot) error {
	return c.post(ctx, "restore", snap, nil)
}

// Reset restores the state in which the service started. See [Service.Reset].
func (c *Remote) Reset(ctx context.Context) error { return c.post(ctx, "reset", nothing{}, nil) }

// ResetFor deletes an account's records. See [Service.ResetFor].
func (c *Remote) ResetFor(ctx context.Context, username string) error {
	return c.post(ctx, "reset", accountOrder{username}, nil)
}

// Advance moves the service's clock. See [Service.Advance].
func (c *Remote) Advance(ctx context.Context, d time.Duration) error {
	return c.post(ctx, "advance", timeOrder{By: span(d)}, nil)
}

// AdvanceFor moves the clock of an account. See [Service.AdvanceFor].
func (c *Remote) AdvanceFor(ctx context.Context, username string, d time.Duration) error {
	return c.post(ctx, "advance", timeOrder{span(d), username}, nil)
}

// ExpireTokens makes the tokens of a user expire now, or all tokens for "".
func (c *Remote) ExpireTokens(ctx context.Context, username string) error {
	return c.post(ctx, "expire-tokens", accountOrder{username}, nil)
}

// AddAccount adds an account and returns it with all fields. See [Service.AddAccount].
func (c *Remote) AddAccount(ctx context.Context, a Account) (Account, error) {
	err := c.post(ctx, "add-account", a, &a)
	return a, err
}

// Update sets fields of the customer, application, loan or subscription with this identifier,
// and posts the events of the change. The names are the names in a snapshot.
func (c *Remote) Update(ctx context.Context, id string, set map[string]any) error {
	fields, err := json.Marshal(set)
	if err != nil {
		return err
	}
	return c.post(ctx, "update", updateOrder{id, fields}, nil)
}

// SetDecision sets how the service decides about applications. See [Service.SetDecision].
func (c *Remote) SetDecision(ctx context.Context, d Decision) error {
	return c.post(ctx, "decision", decisionOrder{span(d.After), d.Declined}, nil)
}

// Repay makes repayments of a loan. See [Service.Repay].
func (c *Remote) Repay(ctx context.Context, r Repayment) error {
	return c.post(ctx, "repay", repayOrder{r.LoanID, r.Amount, span(r.Every), r.Interest}, nil)
}

// SetDeliveryMode sets the mode of deliveries from now on. See [Service.SetDeliveryMode].
func (c *Remote) SetDeliveryMode(ctx context.Context, m DeliveryMode) error {
	return c.post(ctx, "delivery-mode", modeOrder{m, span(m.Delay)}, nil)
}

// Play adds the steps of a scenario. See [Service.Play].
func (c *Remote) Play(ctx context.Context, scenario []byte) error {
	return c.post(ctx, "play", map[string]json.RawMessage{"steps": scenario}, nil)
}

// Requests returns requests of the request log. See [Service.Find].
func (c *Remote) Requests(ctx context.Context, f RequestFilter) (all []Request, err error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"route": f.Route, "outcome": f.Outcome, "for": f.For, "before": strconv.Itoa(f.Before), "limit": strconv.Itoa(f.Limit),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err = c.get(ctx, "requests", query, &all)
	return all, err
}

// Sent returns the sent codes and links.
func (c *Remote) Sent(ctx context.Context) (all []Sent, err error) {
	err = c.get(ctx, "sent", nil, &all)
	return all, err
}

// Faults returns the planned faults.
func (c *Remote) Faults(ctx context.Context) (all []PlannedFault, err error) {
	err = c.get(ctx, "faults", nil, &all)
	return all, err
}

// Routes returns the routes in the form that the other methods take.
func (c *Remote) Routes(ctx context.Context) (all []string, err error) {
	err = c.get(ctx, "routes", nil, &all)
	return all, err
}

// AddLoan adds a loan and returns it with all fields. See [Service.AddLoan].
func (c *Remote) AddLoan(ctx context.Context, l Loan) (Loan, error) {
	form := loanForm(l)
	err := c.post(ctx, "add-loan", form, &form)
	return Loan(form), err
}

// ExpireOffer makes an application's offer expire now.
func (c *Remote) ExpireOffer(ctx context.Context, applicationID string) error {
	return c.post(ctx, "expire-offer", applicationOrder{applicationID}, nil)
}

// Deliveries returns the posted deliveries. See [Service.Deliveries].
func (c *Remote) Deliveries(ctx context.Context) (all []Delivery, err error) {
	err = c.get(ctx, "deliveries", nil, &all)
	return all, err
}

// Redeliver posts the delivery with this number again. See [Service.Redeliver].
func (c *Remote) Redeliver(ctx context.Context, d Delivery) error {
	return c.post(ctx, "redeliver", deliveryOrder{d.Number}, nil)
}

// Wait returns when no delivery and no late mutation is in progress. See [Service.Wait].
func (c *Remote) Wait(ctx context.Context) error { return c.post(ctx, "wait", nothing{}, nil) }

func (c *Remote) get(ctx context.Context, name string, query url.Values, result any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/"+name+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	return c.do(r, result)
}

func (c *Remote) post(ctx context.Context, name string, body, result any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+name, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return c.do(r, result)
}

func (c *Remote) do(r *http.Request, result any) error {
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := cmp.Or(c.HTTPClient, http.DefaultClient).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && result != nil {
		return json.NewDecoder(resp.Body).Decode(result)
	}
	if resp.StatusCode == http.StatusNoContent && result == nil {
		return nil
	}
	var failed controlFailure
	if json.NewDecoder(resp.Body).Decode(&failed) != nil || failed.Error == "" {
		return fmt.Errorf("lendingtest: %s is not the control of a service: it answered %s; check the URL and the flag -control", c.url, resp.Status)
	}
	return errors.New("lendingtest: " + strings.TrimPrefix(failed.Error, "lendingtest: "))
}
