package lending

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/buildversion"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/transport"
)

// Client calls the service. Each group of routes is a field. Make a Client once and share it: a
// Client is safe for concurrent use.
type Client struct {
	Applications  *ApplicationsService
	Approval      *ApprovalService
	Auth          *AuthService
	Bulk          *BulkService
	Calculation   *CalculationService
	Communication *CommunicationService
	Customers     *CustomersService
	Loans         *LoansService
	Webhooks      *WebhooksService

	carrier *carrier
}

// New returns a client of the service at baseURL. The scheme must be https unless the host is a
// loopback address. A path in baseURL precedes every route.
//
// Without [WithCredentials] or [WithTokenSource] the client can call only anonymous routes. The
// error is an [*ArgumentError].
//
// If the service speaks HTTP/2, calls share a connection from the first mutation on. Calls cannot mix
// up responses: HTTP/2 ties each to its stream. Large documents have connections of their own. See
// [WithoutHTTP2].
//
// Over HTTP/1.1 each mutation opens a connection of its own, and so does each read that checks a
// mutation. Other reads share connections.
//
// At most 256 connections are open for reads, and 256 for mutations and checks. Over HTTP/2 at most 90
// mutations and checks are sent at once, because services usually allow 100. A call beyond a bound
// waits. If its context ends first, the outcome is [OutcomeNotSent].
func New(baseURL string, opts ...Option) (*Client, error) {
	base, err := parseBaseURL(baseURL)
	if err != nil {
		return nil, err
	}
	c := &config{
		settings: settings{base: *base, userAgent: []string{"lending-go/" + buildversion.Of(modulePath)}, retries: 4},
	}
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	if err := c.setTransport(); err != nil {
		return nil, err
	}
	shared := &carrier{opaque.Hide(&c.settings), c.doOnce}
	client := clientOf(shared)
	c.account = cmp.Or(c.account, accountWith(base, c.tokens))
	if c.session != nil {
		c.session.bind(client.Auth, c.store)
	} else if c.store != nil {
		return nil, argumentError("WithTokenStore", CodeConflict, "needs WithCredentials")
	}
	return client, nil
}

func clientOf(c *carrier) *Client {
	return &Client{
		Applications:  &ApplicationsService{c},
		Approval:      &ApprovalService{c},
		Auth:          &AuthService{c},
		Bulk:          &BulkService{c},
		Calculation:   &CalculationService{c},
		Communication: &CommunicationService{c},
		Customers:     &CustomersService{c},
		Loans:         &LoansService{c},
		Webhooks:      &WebhooksService{c},
		carrier:       c,
	}
}

func (c *config) setTransport() error {
	if c.http.Transport == nil {
		c.http.Transport = http.DefaultTransport
	}
	switch {
	case !c.foreign:
		pooled := transport.New(c.tls)
		pooled.OnProxyConnectResponse = refusalOfProxy
		c.http.Transport, c.fresh = pooled, transport.NewFresh(pooled, !c.withoutHTTP2)
		transport.HideSurplus(pooled)
	case c.withoutHTTP2:
		return argumentError("WithoutHTTP2", CodeConflict, "is not possible together with WithHTTPClient: set Protocols of its Transport")
	case c.tls != nil:
		return argumentError("WithTLS", CodeConflict, "is not possible together with WithHTTPClient: set TLSClientConfig of its Transport")
	}
	c.http.Jar = nil
	return nil
}

// Account identifies the account as a hash: by the name of [WithAccount], or else by the service and
// the username of [WithCredentials]. With any other [TokenSource] the account is not known, and
// Account identifies the service alone.
func (c *Client) Account() string { return c.carrier.settings().account }

// Session returns the session of a client with [WithCredentials], nil for other clients.
func (c *Client) Session() *Session {
	session, _ := c.carrier.settings().tokens.(*Session)
	return session
}

// Close cancels a sign-in or refresh in progress, waits for its end for at most 5 seconds, and closes
// idle connections. Other calls in progress continue.
func (c *Client) Close() {
	if session := c.Session(); session != nil {
		session.state().engine.Close()
	}
	if s := c.carrier.settings(); !s.foreign {
		s.http.CloseIdleConnections()
		s.fresh.CloseIdleConnections()
	}
}

// String returns the address of the service.
func (c *Client) String() string { return "lending client of " + c.carrier.settings().base.String() }

// parseBaseURL refuses an address that would lose a part or send a token in the clear. The
// errors do not quote the address, which may contain a password.
func parseBaseURL(s string) (*url.URL, error) {
	const field = "baseURL"
	u, err := url.Parse(s)
	if err != nil {
		return nil, argumentError(field, CodeFormat, "is not a URL")
	}
	var c checks
	c.that(u.Scheme == "https" || u.Scheme == "http", field, CodeFormat, "must begin with https:// or http://")
	c.that(u.Hostname() != "" && u.Opaque == "", field, CodeRequired, "needs a host")
	c.that(u.Scheme != "http" || isLoopback(u.Hostname()), field, CodeFormat, "must use https: http is for a loopback host only")
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	c.that(u.Port() == "" && !strings.HasSuffix(u.Host, ":") || err == nil && port > 0, field, CodeRange, "needs a port from 1 to 65535, or none")
	c.that(u.User == nil, field, CodeFormat, "must not hold user information")
	c.that(u.RawQuery == "" && !u.ForceQuery, field, CodeFormat, "must not hold a query")
	c.that(u.Fragment == "" && !strings.HasSuffix(s, "#"), field, CodeFormat, "must not hold a fragment")
	for segment := range strings.SplitSeq(u.Path, "/") {
		c.that(segment != "." && segment != "..", field, CodeUnsafe, "must not hold dot segments")
	}
	if err := c.err("", ""); err != nil {
		return nil, err
	}
	return &url.URL{
		Scheme:  u.Scheme,
		Host:    u.Host,
		Path:    strings.TrimRight(u.Path, "/"),
		RawPath: strings.TrimRight(u.EscapedPath(), "/"),
	}, nil
}

const modulePath = "github.com/lendingapi/lending-go"

// refusalOfProxy names a proxy that refuses to connect, without credentials. The error of
// net/http would quote the proxy's response.
func refusalOfProxy(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text := fmt.Sprintf("the proxy %s answered %d %s", proxy.Host, answer.StatusCode, http.StatusText(answer.StatusCode))
	return hidden(strings.TrimRight(text, " ")+"; check HTTPS_PROXY", nil)
}

// Do calls a route without a method in this package, with the client's token, checks, errors,
// redaction and limits. Set Effect: the client retries a [Read] after transient failures, and
// sends a [Mutation] at most once.
//
// The Record holds any JSON of the response, and is empty if the response has no content. The
// caller judges the content: {"success":false} is not an error here.
//
// The interface mentions routes without describing them. Its invoice customer lookups take any
// number of records, respond with 400 if they find nothing ([IsNotFound] reports that), and
// return an envelope in place of the declared array. It also mentions reports for partners.
func (c *Client) Do(ctx context.Context, raw RawRequest) (*Record, error) {
	r := request{method: raw.Method, path: raw.Path, args: raw.Args, body: raw.Body, also: raw, effect: raw.Effect, anonymous: raw.Anonymous}
	if !isTemplate(raw.Path) {
		r.path = "" // may contain values, which errors do not show
	}
	if len(placeholders(r.path)) != len(raw.Args) {
		r.args = nil
	}
	if !slices.Contains(rawMethods, raw.Method) {
		r.method = ""
	}
	for name, values := range raw.Query {
		for _, value := range values {
			r.query = append(r.query, param{name, value, false})
		}
	}
	slices.SortStableFunc(r.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	r.signIn = strings.HasPrefix(strings.ToLower(r.path), "/api/authenication/")
	record, err := do[Record](ctx, c.carrier, r)
	if err != nil {
		return nil, err
	}
	return &record, nil
}

// RawRequest is a call of a route without a method in this package: see [Client.Do].
//
// Path appears in errors and logs. Args, Query and Body do not.
type RawRequest struct {
	Effect    Effect     // the zero Effect is Mutation: set Read for a call that may be repeated
	Method    string     // for example "GET"
	Path      string     // template below the base URL, for example "/api/Group/get-thing/{thingId}"
	Args      []string   // the values for the names in braces, in order
	Query     url.Values // sent in the order of the names; a parameter with an empty value is left out
	Body      any        // a request record of this package, or a value that marshals to JSON; nil for none
	Anonymous bool       // send no token
}

var rawMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (r RawRequest) check(c *checks) {
	c.that(slices.Contains(rawMethods, r.Method), "Method", CodeFormat, "must be GET, POST, PUT, PATCH or DELETE")
	c.that(isTemplate(r.Path), "Path", CodeFormat, "must be a template: /segments of letters, digits and - _ . ~, or of one {name}")
	c.that(len(placeholders(r.Path)) == len(r.Args), "Args", CodeFormat, "must be as many as the names in braces in Path")
}

// isTemplate reports whether path means the same to every server: no empty segments, no dot
// segments, no escapes.
func isTemplate(path string) bool {
	segments := strings.Split(path, "/")
	for _, segment := range segments[1:] {
		name, opened := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		odd := strings.ContainsFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.~", r))
		})
		if name == "" || odd || opened != closed || name == "." || name == ".." {
			return false
		}
	}
	return segments[0] == "" && len(segments) > 1
}
