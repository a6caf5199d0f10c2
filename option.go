package lending

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/account"
)

// Option changes how [New] makes a client.
type Option func(*config) error

// config is what the options set.
type config struct {
	settings

	session      *Session
	doOnce       func(context.Context, *call) (answered bool, err error) // see [carrier]
	store        TokenStore
	withoutHTTP2 bool
	tls          *tls.Config // nil without WithTLS
}

// WithHTTPClient sends through a copy of hc, without redirects and cookies: for tests, and for what
// [WithTLS] and [WithHeader] cannot do. hc replaces the transport that [New] describes. Set
// DisableKeepAlives and ExpectContinueTimeout on its Transport. The Transport must not retry. The limits:
//
//   - On a kept connection a mutation can lose its response. Over HTTP/1.1 it can also take data from
//     an earlier response for its own.
//   - Without ExpectContinueTimeout the client sends a large document before the service accepts it.
//   - The client stops a second copy of a mutation, with an unknown outcome, if the Transport sends
//     through net/http with the request's context and keeps Host, User-Agent or Authorization.
//   - If the process freezes, the Transport can write a request after the deadline of the call.
//   - An error of the Transport that asked for no connection, for example a missing stub, ends a read at
//     once. Its text is shown if errors.New made it of a few words without digits, and no word is part of a value of the request.
//   - [OutcomeNotSent] needs an error of dialing, DNS or the TLS handshake. Otherwise, for example if
//     a proxy refuses to connect, the outcome is unknown.
func WithHTTPClient(hc *http.Client) Option {
	return given(hc != nil, "WithHTTPClient", "needs a client", func(c *config) {
		c.http, c.foreign = *hc, true
	})
}

// WithoutHTTP2 has each mutation, and each read that checks a mutation, open a connection of its
// own, which takes three round trips over TLS instead of one.
//
// Use it if the service, or a gateway before it, often closes connections of HTTP/2: if it closes one
// just as a mutation arrives, the outcome of the mutation is unknown.
func WithoutHTTP2() Option {
	return func(c *config) error {
		c.withoutHTTP2 = true
		return nil
	}
}

// WithReadRetries sets the largest number of retries of a read, 0 to 100. Without it the client makes up to
// four: see the package documentation. 0 suits a test with stubs, and a caller with retries of its own.
// A sign-in and a 401 have rules of their own: see [Session].
func WithReadRetries(n int) Option {
	return func(c *config) error {
		if n < 0 || n > 100 {
			return argumentError("WithReadRetries", CodeRange, "must be 0 to 100")
		}
		c.retries = uint8(n)
		return nil
	}
}

// WithTokenSource authenticates with the tokens of source. The client asks source before every
// call, so source should keep a token until its expiry.
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

// WithCredentials signs in with username and password when a call needs a token: see [Session].
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

// WithAccount names the account, for example "acme-production". The keys of an idempotency log then
// belong to the name, and stay valid if the service gets another address, the account another user, or
// the client another source of tokens. Without WithAccount they belong to the base URL and the username
// of [WithCredentials]. Two clients with the same name must belong to the same account of the same
// service: a sandbox needs a name of its own.
//
// To give a name to an account that has keys already, and to change a name, see Options.Formerly of package
// idempotency.
func WithAccount(name string) Option {
	return given(name != "" && name == strings.TrimSpace(name), "WithAccount", "needs a name without spaces around it",
		func(c *config) { c.account = account.Named(name) })
}

// WithTokenStore keeps the token of [WithCredentials] in store, for later sessions and for
// sessions of other processes: see [Session]. Each account of each service needs its own store.
// A session returns an error if store has the token of another account.
func WithTokenStore(store TokenStore) Option {
	return given(store != nil, "WithTokenStore", "needs a store", func(c *config) {
		c.store = store
	})
}

// WithLogger logs every attempt, at debug level if the service accepted the request and at warn
// level if not, and failures in the background of a [Session]. The records hold no values of
// parameters. A second WithLogger replaces the first.
//
// The client ends an idle connection whose server sends data. If the data arrive together with a
// response, or with [WithHTTPClient], net/http logs up to 4 KB of the data, unredacted, through the
// standard log package.
func WithLogger(logger *slog.Logger) Option {
	return given(logger != nil, "WithLogger", "needs a logger", func(c *config) {
		c.logger = logger
	})
}

// WithHeader lets add set headers of every attempt, for example for a gateway or a trace. The
// context is that of the call, with the values of [WithObserver]; the context of a sign-in is the
// sign-in's own. The map begins empty: add sees neither the token nor another header of the client.
//
// The client sends nothing and returns an [*ArgumentError] if add sets a header of the client
// (Authorization, Host, User-Agent, Accept, Idempotency-Key, any Content- or Proxy- header, or one
// that manages the connection), or a value with a line break. If add panics, the call fails with
// [OutcomeNotSent]. Several functions add in turn to the same map; none may keep the map, because the
// client reads the map when they have returned.
//
// The headers are no part of the request for an idempotency key.
func WithHeader(add func(context.Context, http.Header)) Option {
	return given(add != nil, "WithHeader", "needs a function", func(c *config) {
		c.headers = append(c.headers, add)
	})
}

// WithObserver tells functions of every call and of every attempt of a call, for spans and metrics.
// Either function may be nil. Each runs at the start, in the goroutine of the call, and the
// function that it returns, unless nil, at the end.
//
// The context that a function returns must derive from its argument. The context of a call becomes
// the context of its attempts. The context of an attempt gives its values to the functions of
// [WithHeader], to the request, and to the logger. All functions must be fast and safe for
// concurrent use.
//
// An iterator makes a call for every page. A sign-in is a call too.
func WithObserver(call, attempt func(context.Context, Call) (context.Context, func(Call))) Option {
	return given(call != nil || attempt != nil, "WithObserver", "needs a function", func(c *config) {
		if call != nil {
			c.callObservers = append(c.callObservers, call)
		}
		if attempt != nil {
			c.attemptObservers = append(c.attemptObservers, attempt)
		}
	})
}

// WithMissing says that the service answers read, for example "Customers.GetByEmail", with an empty
// response of this status, 204, 400 or 404, if the record is missing: [IsNotFound] then reports it, and
// so do the checks of package idempotency, which then believe no other empty response of this read. Set
// the option if lending-probe prints it. ASP.NET Core before 3.0 answers an unknown path in the same way.
//
// The price: an empty response of a gateway counts as a missing record too. With an idempotency key a
// mutation can then run twice, if a gateway without the route of the service answers its check.
func WithMissing(read string, status int) Option {
	return func(c *config) error {
		var rules checks
		rules.that(readRoutes[read] != "", "read", CodeFormat, `must be a read, for example "Customers.GetByEmail"`)
		statuses := []int{http.StatusNoContent, http.StatusBadRequest, http.StatusNotFound}
		rules.that(slices.Contains(statuses, status), "status", CodeRange, "must be 204, 400 or 404")
		if err := rules.err("", ""); err != nil {
			return err
		}
		if c.missing == nil {
			c.missing = map[string]int{}
		}
		c.missing[readRoutes[read]] = status
		return nil
	}
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
