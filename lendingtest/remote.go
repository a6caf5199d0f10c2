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
	"strings"
	"time"
)

// Remote steers a service in another process through its [Service.Control]. Its methods
// do there what those of [Service] do here; where these panic, those return an error.
type Remote struct {
	// Token is what [WithControlToken] was given, if it was.
	Token string `json:"-"`
	// HTTPClient is used instead of http.DefaultClient, for example one that trusts
	// the certificate of a sandbox on https.
	HTTPClient *http.Client `json:"-"`

	url string
}

// Dial returns the remote control at a URL, for example
// "http://127.0.0.1:8080/_control/" of the sandbox. Nothing is sent yet.
func Dial(controlURL string) *Remote {
	return &Remote{url: strings.TrimSuffix(controlURL, "/")}
}

// Format prints "lendingtest remote" under every verb, and no token.
func (c Remote) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "lendingtest remote") }

// Fail plans a fault, as [Service.Fail] does. Reached and Until of it cannot be sent.
func (c *Remote) Fail(ctx context.Context, route string, f Fault) error {
	return c.post(ctx, "fail", faultOrder{route, &f}, nil)
}

// ClearFaults forgets every planned fault.
func (c *Remote) ClearFaults(ctx context.Context) error {
	return c.post(ctx, "clear-faults", nothing{}, nil)
}

// Answer replaces a route's answer; nil brings the service's back. See [Service.Answer].
func (c *Remote) Answer(ctx context.Context, route string, a *FixedAnswer) error {
	return c.post(ctx, "answer", answerOrder{route, a}, nil)
}

// Arrived tells how often a route was called. See [Service.Arrived].
func (c *Remote) Arrived(ctx context.Context, route string) (n int, err error) {
	err = c.get(ctx, "arrived", url.Values{"route": {route}}, &n)
	return n, err
}

// Executed tells how often a route did its work. See [Service.Executed].
func (c *Remote) Executed(ctx context.Context, route string) (n int, err error) {
	err = c.get(ctx, "executed", url.Values{"route": {route}}, &n)
	return n, err
}

// ExecutedFor tells the same by resource. See [Service.ExecutedFor].
func (c *Remote) ExecutedFor(ctx context.Context, route string) (counts map[string]int, err error) {
	err = c.get(ctx, "executed-for", url.Values{"route": {route}}, &counts)
	return counts, err
}

// OTP returns the one-time password sent last for a loan, or "".
func (c *Remote) OTP(ctx context.Context, loanID string) (code string, err error) {
	err = c.get(ctx, "otp", url.Values{"loan": {loanID}}, &code)
	return code, err
}

// TwoFactorCode returns the code sent last to a user, or "".
func (c *Remote) TwoFactorCode(ctx context.Context, username string) (code string, err error) {
	err = c.get(ctx, "two-factor-code", url.Values{"username": {username}}, &code)
	return code, err
}

// Snapshot returns the state as it is now.
func (c *Remote) Snapshot(ctx context.Context) (snap Snapshot, err error) {
	err = c.get(ctx, "snapshot", nil, &snap)
	return snap, err
}

// Restore replaces the state by that of a snapshot. See [Service.Restore].
func (c *Remote) Restore(ctx context.Context, snap Snapshot) error {
	return c.post(ctx, "restore", snap, nil)
}

// Reset brings the service back to the state that it started with. See [Service.Reset].
func (c *Remote) Reset(ctx context.Context) error { return c.post(ctx, "reset", nothing{}, nil) }

// Advance moves the service's time. See [Service.Advance].
func (c *Remote) Advance(ctx context.Context, d time.Duration) error {
	return c.post(ctx, "advance", timeOrder{span(d)}, nil)
}

// AddLoan adds a loan and returns it as it is then. See [Service.AddLoan].
func (c *Remote) AddLoan(ctx context.Context, l Loan) (Loan, error) {
	form := loanForm(l)
	err := c.post(ctx, "add-loan", form, &form)
	return Loan(form), err
}

// ExpireOffer lets an application's offer expire now.
func (c *Remote) ExpireOffer(ctx context.Context, applicationID string) error {
	return c.post(ctx, "expire-offer", applicationOrder{applicationID}, nil)
}

// Deliveries returns what was posted so far. See [Service.Deliveries].
func (c *Remote) Deliveries(ctx context.Context) (all []Delivery, err error) {
	err = c.get(ctx, "deliveries", nil, &all)
	return all, err
}

// Redeliver posts a delivery again, which the service knows by its number. See
// [Service.Redeliver].
func (c *Remote) Redeliver(ctx context.Context, d Delivery) error {
	return c.post(ctx, "redeliver", deliveryOrder{d.Number}, nil)
}

// Wait returns when nothing is on its way any more. See [Service.Wait].
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
		return fmt.Errorf("lendingtest: %s is no control of a service: it answered %s", c.url, resp.Status)
	}
	return errors.New("lendingtest: " + strings.TrimPrefix(failed.Error, "lendingtest: "))
}
