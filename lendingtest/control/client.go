package control

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

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// Client controls a service in another process. Its methods correspond to the methods of
// [lendingtest.Service], but return an error if those panic. Get and Post send any order of CONTROL.md.
type Client struct {
	// Token is the token of the control, if it needs one.
	Token string `json:"-"`
	// HTTPClient replaces a client that keeps no connection, for example if the certificate of a
	// sandbox on https needs a client that trusts it.
	HTTPClient *http.Client `json:"-"`

	url string
}

// unkept shares no connection with http.DefaultTransport, whose connections the Close of any
// httptest.Server ends, also below a request.
var unkept = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}

// Dial returns the client of a control, for example "http://127.0.0.1:8080/_control/" for
// the sandbox. Dial sends no request.
func Dial(controlURL string) *Client { return &Client{url: strings.TrimSuffix(controlURL, "/")} }

// Format prints "lendingtest control" for every verb, and never the token.
func (c Client) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "lendingtest control") }

// OpenService opens a service for one tester and returns it with its control.
func (c *Client) OpenService(ctx context.Context) (s Service, control *Client, err error) {
	err = c.Post(ctx, "services", nil, &s)
	return s, &Client{c.Token, c.HTTPClient, s.Control}, err
}

// Fail plans a fault. A fault with Reached returns an error.
func (c *Client) Fail(ctx context.Context, route string, f lendingtest.Fault) error {
	return c.Post(ctx, "fail", faultOrder{route, f}, nil)
}

// Executed returns how often a route ran.
func (c *Client) Executed(ctx context.Context, route string) (int, error) {
	var n int
	err := c.Get(ctx, "executed", url.Values{"route": {route}}, &n)
	return n, err
}

// Get sends an order without an effect, and decodes its response into result.
func (c *Client) Get(ctx context.Context, order string, query url.Values, result any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/"+order+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	return c.do(r, result)
}

// Post sends an order with a body for JSON, such as a lendingtest.Decision, or nil for an order without fields. result
// is nil for an order without a response.
func (c *Client) Post(ctx context.Context, order string, body, result any) error {
	if body == nil {
		body = nothing{}
	}
	b, err := plain.Body(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+order, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return c.do(r, result)
}

func (c *Client) do(r *http.Request, result any) error {
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := cmp.Or(c.HTTPClient, unkept).Do(r)
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
	var failed failure
	if json.NewDecoder(resp.Body).Decode(&failed) != nil || failed.Error == "" {
		return fmt.Errorf("lendingtest: %s is not the control of a service: it answered %s; check the URL and the flag -control", c.url, resp.Status)
	}
	return errors.New("lendingtest: " + strings.TrimPrefix(failed.Error, "lendingtest: "))
}
