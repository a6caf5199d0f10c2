package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// The bodies of orders.
type (
	faultOrder struct {
		Route string            `json:"route"`
		Fault lendingtest.Fault `json:"fault"`
	}
	timeOrder struct {
		By time.Duration `json:"by"`
	}
	factOrder struct {
		Fact  string `json:"fact"`
		Value string `json:"value"`
	}
	eventOrder struct {
		Event string         `json:"event"`
		ID    string         `json:"id"`
		Data  map[string]any `json:"data"`
	}
	repayOrder struct {
		LoanID string            `json:"loanId"`
		Amount lendingtest.Cents `json:"amount"`
	}
	serviceOrder struct {
		ID string `json:"id"`
	}
	// updateOrder sets fields of a record. The names are the names in a snapshot.
	updateOrder struct {
		ID  string          `json:"id"`
		Set json.RawMessage `json:"set"`
	}
	nothing struct{}
)

// orders has the orders by method and name. CONTROL.md lists all of them.
func orders() map[string]order {
	return map[string]order{
		"GET arrived":         show(func(c *Control, q url.Values) any { return c.service.Arrived(q.Get("route")) }, "route"),
		"GET executed":        show(executed, "route", "about?"),
		"GET otp":             show(func(c *Control, q url.Values) any { return c.service.OTP(q.Get("loan")) }, "loan"),
		"GET two-factor-code": show(func(c *Control, q url.Values) any { return c.service.TwoFactorCode(q.Get("username")) }, "username"),
		"GET snapshot":        show(func(c *Control, _ url.Values) any { return c.service.Snapshot() }),
		"GET deliveries":      show(func(c *Control, _ url.Values) any { return c.service.Deliveries() }),
		"GET requests":        show(requests, "limit?"),
		"GET sent":            show(func(c *Control, _ url.Values) any { return c.service.Sent() }),
		"GET routes":          show(func(c *Control, _ url.Values) any { return c.service.Routes() }),
		"GET services":        {do: listServices},
		"POST services":       post(func(c *Control, _ nothing, r *http.Request) (any, error) { return openService(c, r) }),
		"POST delete-service": change(func(c *Control, o serviceOrder) error { return c.options.Services.close(o.ID) }),
		"POST fail":           change(func(c *Control, o faultOrder) error { c.service.Fail(o.Route, o.Fault); return nil }),
		"POST clear-faults":   change(func(c *Control, _ nothing) error { c.service.ClearFaults(); return nil }),
		"POST assume":         change(func(c *Control, o factOrder) error { c.service.Assume(o.Fact, o.Value); return nil }),
		"POST emit":           change(func(c *Control, o eventOrder) error { c.service.Emit(o.Event, o.ID, o.Data); return nil }),
		"POST reset":          change(func(c *Control, _ nothing) error { c.service.Reset(); return nil }),
		"POST advance":        change(func(c *Control, o timeOrder) error { c.service.Advance(o.By); return nil }),
		"POST revoke-tokens":  change(func(c *Control, _ nothing) error { c.service.RevokeTokens(); return nil }),
		"POST add-account": post(func(c *Control, a lendingtest.Account, _ *http.Request) (any, error) {
			return c.service.AddAccount(a), nil
		}),
		"POST add-loan":      post(func(c *Control, l lendingtest.Loan, _ *http.Request) (any, error) { return c.service.AddLoan(l), nil }),
		"POST update":        change(func(c *Control, o updateOrder) error { return c.service.Update(o.ID, o.Set) }),
		"POST decision":      change(func(c *Control, d lendingtest.Decision) error { c.service.SetDecision(d); return nil }),
		"POST repay":         change(func(c *Control, o repayOrder) error { c.service.Repay(o.LoanID, o.Amount); return nil }),
		"POST delivery-mode": change(func(c *Control, m lendingtest.DeliveryMode) error { c.service.SetDeliveryMode(m); return nil }),
		"POST wait":          post(func(c *Control, _ nothing, r *http.Request) (any, error) { return nil, c.service.Wait(r.Context()) }),
	}
}

// show returns an order whose response is the result of f.
func show(f func(*Control, url.Values) any, query ...string) order {
	return order{query, func(c *Control, r *http.Request, _ []byte) (any, error) { return f(c, r.URL.Query()), nil }}
}

// post returns an order with a body. Its method Check, if any, rejects a body that could never be carried out.
func post[T any](f func(*Control, T, *http.Request) (any, error)) order {
	return order{do: func(c *Control, r *http.Request, text []byte) (any, error) {
		body, err := decode[T](text)
		if checked, ok := any(body).(interface{ Check() error }); ok && err == nil {
			err = checked.Check()
		}
		if err != nil {
			return nil, err
		}
		return f(c, body, r)
	}}
}

// change returns an order without a response body.
func change[T any](f func(*Control, T) error) order {
	return post(func(c *Control, body T, _ *http.Request) (any, error) { return nil, f(c, body) })
}

// decode rejects unknown names: a misspelled name would be a fault that never happens.
func decode[T any](text []byte) (v T, err error) {
	var first json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&first); errors.Is(err, io.EOF) {
		return v, errors.New("the body is empty; send {} if there are no fields")
	} else if err != nil {
		return v, fmt.Errorf("the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More does not report an extra bracket
		return v, errors.New("the body has more than one value; send a single JSON object")
	}
	err = plain.Unmarshal(first, &v)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // without the Go type, which means nothing in other languages
		return v, fmt.Errorf("the body: %s takes no %s", cmp.Or(kind.Field, "it"), kind.Value)
	} else if err != nil {
		return v, fmt.Errorf("the body: %w", err)
	}
	return v, nil
}

// executed panics for an unknown record: a misspelled identifier would prove that nothing ran.
func executed(c *Control, q url.Values) any {
	if !q.Has("about") {
		return c.service.Executed(q.Get("route"))
	}
	name := q.Get("about")
	n, counted := c.service.ExecutedFor(q.Get("route"))[name]
	if !counted && !c.service.Exists(name) {
		panic(fmt.Sprintf("lendingtest: no record, e-mail or account %q", name))
	}
	return n
}

// requests returns the newest requests, oldest first.
func requests(c *Control, q url.Values) any {
	limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), "10000"))
	if err != nil || limit < 0 {
		panic("lendingtest: limit is not a number from 0")
	}
	all := c.service.Requests()
	return all[max(0, len(all)-limit):]
}

func (o faultOrder) Check() error { return o.Fault.Check() }

func (o timeOrder) Check() error {
	if o.By == 0 {
		return errors.New("advance needs by")
	}
	return nil
}
