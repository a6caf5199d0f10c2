package lending

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/buildversion"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/transport"
)

// Client calls the service. It holds a service for each group of routes, is safe for
// concurrent use, and is made once and shared.
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

// config is what the options set.
type config struct {
	settings

	session  *Session
	store    TokenStore
	maxConns int // of each kind; 0 if no option says it
}

// Option changes how [New] makes a client.
type Option func(*config) error

// WithHTTPClient sends through hc instead of a client of the package's own, which
// has time limits for each stage, speaks HTTP/1.1, makes a connection for each mutation
// and for each read that checks one, and keeps those of other reads for a few seconds
// only. hc is copied; redirects are refused
// and cookies are not kept, whatever it says.
//
// Where its Transport keeps connections, mutations share them: one that meets a connection
// which is being closed has an unknown outcome, and net/http can take what the service
// has sent beyond the answer before for the answer to a mutation. With DisableKeepAlives
// neither happens, nor to reads.
//
// Its Transport should neither repeat requests nor follow redirects by itself. One that
// repeats a mutation is stopped before the second copy leaves, and the outcome is
// unknown. That holds as long as it sends with the context of the request through a
// transport of net/http, which tells the context's httptrace, and leaves the Host, the
// User-Agent or the Authorization of the request as it is: what hides from that cannot
// be stopped. What it sends to the service's host with that context for itself, to get
// a token for example, counts as a copy: let it use a context of its own.
//
// Before a large document is sent the service is asked whether it will have it, which
// needs a Transport whose ExpectContinueTimeout is not 0: with 0, as in one made by
// hand, the document is sent at once, and a refusal may be lost to a reset connection.
//
// [OutcomeNotSent] then also needs an error that says so: of dialing, a proxy too, of DNS
// or of the TLS handshake. That of a proxy which refuses to connect does not say it. A
// time limit that ends any of these leaves the outcome unknown.
func WithHTTPClient(hc *http.Client) Option {
	return given(hc != nil, "WithHTTPClient", "needs a client", func(c *config) {
		c.http, c.foreign = *hc, true
	})
}

// WithMaxConns bounds the connections to the service: at most n carry reads, and at most n
// mutations and checks. Without it n is 256: both kinds together then take half of the
// 1,024 open files that many systems allow a process.
//
// A call that finds all of them busy waits until one is free or its context ends. If the
// context ends first, the outcome is [OutcomeNotSent]. While the service stalls, each call
// keeps its connection until it gives up: if n is larger than the limit on open files
// allows, dialing fails for the whole process.
//
// With [WithHTTPClient] the bound is MaxConnsPerHost of that client's Transport, and
// WithMaxConns is an [*ArgumentError].
func WithMaxConns(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return argumentError("WithMaxConns", CodeRange, "must be at least 1")
		}
		c.maxConns = n
		return nil
	}
}

// WithTokenSource authenticates with the tokens of source, which is asked before
// every call and should keep a token until it expires.
func WithTokenSource(source TokenSource) Option {
	return func(c *config) error {
		if source == nil {
			return argumentError("WithTokenSource", CodeRequired, "needs a source")
		}
		if c.tokens != nil {
			return argumentError("WithTokenSource", CodeConflict, "is not possible together with another source of tokens")
		}
		c.tokens = source
		return nil
	}
}

// WithCredentials signs in with username and password when a token is needed, and
// again when it has expired: see [Session].
func WithCredentials(credentials Credentials) Option {
	return func(c *config) error {
		var rules checks
		credentials.check(&rules)
		if err := rules.err("", ""); err != nil {
			return err
		}
		c.session = newSession(credentials)
		return WithTokenSource(c.session)(c)
	}
}

// WithTokenStore keeps the token of [WithCredentials] in store, for later sessions and for
// sessions of other processes: see [Session]. Each account of each service needs its own
// store. A session that finds the token of another account returns an error.
func WithTokenStore(store TokenStore) Option {
	return given(store != nil, "WithTokenStore", "needs a store", func(c *config) {
		c.store = store
	})
}

// WithLogger logs every attempt: at debug level if the service accepted it, at warn
// level if not. No record holds the value of a parameter. What goes wrong in the
// background of a [Session] is logged too. What a server sends beyond its answers
// net/http itself writes to the standard logger of package log.
func WithLogger(logger *slog.Logger) Option {
	return given(logger != nil, "WithLogger", "needs a logger", func(c *config) {
		c.logger = logger
		c.observers = append(c.observers, func(ctx context.Context, a Attempt) { a.log(ctx, logger) })
	})
}

// WithObserver calls observe after every attempt, in the goroutine of the call, with
// the context of the call: a span or a metric of the attempt can be made from both.
// It must be fast and safe for concurrent use.
func WithObserver(observe func(context.Context, Attempt)) Option {
	return given(observe != nil, "WithObserver", "needs a function", func(c *config) {
		c.observers = append(c.observers, observe)
	})
}

// WithCallObserver calls begin at the start of every call, before its arguments are
// checked, and the function that begin returns, unless it is nil, at its end, with what
// became of it. The context that begin returns becomes that of the call: of its
// attempts, of the functions of [WithObserver] and of the logger. It must come from the
// one given.
//
// Both are called in the goroutine of the call, and must be fast and safe for
// concurrent use. The iterators make a call for every page, and a sign-in is a call of
// its own.
func WithCallObserver(begin func(context.Context, Call) (context.Context, func(Call))) Option {
	return given(begin != nil, "WithCallObserver", "needs a function", func(c *config) {
		c.callObservers = append(c.callObservers, begin)
	})
}

// given returns the option name, which needs an argument that is not nil.
func given(ok bool, name, needs string, set func(*config)) Option {
	return func(c *config) error {
		if !ok {
			return argumentError(name, CodeRequired, needs)
		}
		set(c)
		return nil
	}
}

// New returns a client of the service at baseURL, which needs https unless its host
// is a loopback address. A path in it is kept in front of every route.
//
// Without [WithCredentials] or [WithTokenSource] only the anonymous routes can be
// called. The error is an [*ArgumentError].
func New(baseURL string, opts ...Option) (*Client, error) {
	base, err := parseBaseURL(baseURL)
	if err != nil {
		return nil, err
	}
	c := &config{settings: settings{base: *base, userAgent: []string{"lending-go/" + buildversion.Of(modulePath)}}}
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
	client := clientOf(&carrier{opaque.Hide(&c.settings)})
	if c.session != nil {
		c.session.bind(client.Auth, c.store)
	} else if c.store != nil {
		return nil, argumentError("WithTokenStore", CodeConflict, "needs WithCredentials")
	}
	return client, nil
}

// clientOf returns a client with the services of c.
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
	c.fresh = c.http.Transport
	switch {
	case !c.foreign:
		pooled := transport.New(cmp.Or(c.maxConns, defaultMaxConns))
		pooled.OnProxyConnectResponse = refusalOfProxy
		c.http.Transport, c.fresh = pooled, transport.OnceEach(pooled)
	case c.maxConns > 0:
		return argumentError("WithMaxConns", CodeConflict, "is not possible together with WithHTTPClient: set MaxConnsPerHost of its Transport")
	}
	c.http.Jar = nil
	return nil
}

// Session returns the session of a client made with [WithCredentials], nil for
// another one.
func (c *Client) Session() *Session {
	session, _ := c.carrier.settings().tokens.(*Session)
	return session
}

// Close ends a sign-in or refresh under way, waits for it, and closes idle
// connections. Calls under way go on.
func (c *Client) Close() error {
	if session := c.Session(); session != nil {
		session.state().engine.Close()
	}
	if s := c.carrier.settings(); !s.foreign {
		s.http.CloseIdleConnections()
	}
	return nil
}

// String returns the address of the service.
func (c *Client) String() string { return "lending client of " + c.carrier.settings().base.String() }

// parseBaseURL refuses what would lose a part of the address or send a token in the
// clear. Its errors do not quote the address, which can hold a password.
func parseBaseURL(s string) (*url.URL, error) {
	const field = "baseURL"
	u, err := url.Parse(s)
	if err != nil {
		return nil, argumentError(field, CodeFormat, "is not a URL")
	}
	var c checks
	c.that(u.Scheme == "https" || u.Scheme == "http", field, CodeFormat, "must begin with https:// or http://")
	c.that(u.Hostname() != "" && u.Opaque == "", field, CodeRequired, "needs a host")
	c.that(u.Scheme != "http" || isLoopback(u.Hostname()), field, CodeInsecure, "must use https: http is for a loopback host only")
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

// defaultMaxConns bounds the connections of each kind: see [WithMaxConns].
const defaultMaxConns = 256

// refusalOfProxy names a proxy that does not connect, without its credentials. The
// error of net/http quotes what the proxy says.
func refusalOfProxy(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text := fmt.Sprintf("the proxy %s answered %d %s", proxy.Host, answer.StatusCode, http.StatusText(answer.StatusCode))
	return hidden(strings.TrimRight(text, " "), nil)
}

// Do calls a route that this package has no method for, with the client's token,
// checks, errors, redaction and limits. Say whether it changes something: a [Read] is
// repeated after transient failures, a [Mutation] is sent at most once. Which read
// tells after an unknown outcome is for the caller to know.
//
// The Record that it returns holds whatever JSON the service answered, and nothing
// where it answered without content. Which of it is a success is for the caller to know
// too: {"success":false} is no error here.
//
// The interface mentions routes that it does not show, and says of them: the routes
// that look up customers of an invoice take any number of records at a time, answer
// 400 where they find nothing, which [IsNotFound] reports, and answer with one envelope
// although an array is declared. Of the reports for partners it says nothing but that
// they exist.
func (c *Client) Do(ctx context.Context, raw RawRequest) (*Record, error) {
	r := request{method: raw.Method, path: raw.Path, args: raw.Args, body: raw.Body, effect: raw.Effect, anonymous: raw.Anonymous}
	var failed checks
	raw.check(&failed)
	if !isTemplate(raw.Path) {
		r.path = "" // it may hold values, which errors do not show
	}
	if !slices.Contains(rawMethods, raw.Method) {
		r.method = ""
	}
	if err := failed.err(r.method, r.path); err != nil {
		captured(ctx)
		x := &exchange{client: c.carrier, request: r}
		defer func() { x.done(err) }()
		x.begin(ctx)
		return nil, err
	}
	for name, values := range raw.Query {
		for _, value := range values {
			r.query = append(r.query, param{name, value, false})
		}
	}
	slices.SortStableFunc(r.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	r.signIn = strings.HasPrefix(strings.ToLower(r.path), "/api/authenication/")
	record, err := call[Record](ctx, c.carrier, r)
	if err != nil {
		return nil, err
	}
	return &record, nil
}
