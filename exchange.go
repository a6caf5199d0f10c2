package lending

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/transport"
)

// exchange is a call's conversation with the service. The exchange is also the RoundTripper
// below the call's http.Client: it sees every attempt, and nothing above can undo its work.
type exchange struct {
	client  *carrier
	request request
	result  reflect.Type    // of the call
	caller  context.Context //nolint:containedctx // for the observers; attempts have a traced context
	http    http.Client     // its transport is the exchange

	call     Call         // as observers see the call
	ends     []func(Call) // functions of the observers for the end of the call
	protocol string       // of the last response

	key      *idempotencyKey     // of the mutation; nil for a call without a key
	deadline *transport.Deadline // of a mutation with a key
	use      transport.Use       // of the last connection of a read

	address url.URL // of the request
	payload []byte  // the request record as JSON; nil without one, and for an upload

	attempts int
	answer   Response      // the last response
	parsed   parsedAnswer  // the content of answer: see [exchange.content]
	noRecord bool          // the mutation happened, and the layer has no record of the response
	reply    http.Response // the part of answer for the http.Client
	body     io.LimitedReader
	err      error // the error of the last attempt

	// The number of connections the transport got, and the number of times it wrote each mark of
	// the request; whether it sent too often, and the function to end the call then. The hooks
	// may run after the attempt has returned.
	gotConn atomic.Int32
	reused  atomic.Bool // a connection had served another request
	marks   [3]atomic.Int32
	excess  atomic.Bool
	stop    context.CancelFunc
}

// parsedAnswer is the content of a 2xx response, found in a single pass.
type parsedAnswer struct {
	known  bool   // the rest is of the present answer
	text   []byte // without a byte order mark
	body   []byte // text without surrounding white space
	valid  bool   // body is a JSON value
	failed string // the member that reports a failure; "" if there is none
}

// request describes a call. The verb, for example get, sets the last two fields.
type request struct {
	path      string // as the interface prints it, with {placeholders}
	args      []string
	query     []param
	body      any     // the request record, or an *upload; nil for none
	also      checker // rules besides those of path, query and body; nil for none
	anonymous bool
	batch     int   // number of records in a bulk creation; 0 for other calls
	token     Token // instead of the client's own
	signIn    bool  // the response holds a token, which no layer may see

	// checkWith names the reads that show whether a mutation happened, for [Error].CheckWith; ""
	// if no read shows it.
	checkWith string

	// tokenTells makes the token in a response the only evidence of success.
	tokenTells bool
	// acceptance returns why a response is no success, for routes with rules of their own.
	acceptance func(*exchange) error
	// fits returns why a result is not the requested record; nil accepts any record.
	fits func(result any) *shapeError

	method string
	effect Effect

	// withheld is the error of a mutation with a key that lacks nothing but secrets: it cannot
	// be sent, and a recorded answer needs none.
	withheld error
}

// route returns the request of a route: its path template, and the values for the names in braces.
func route(path string, args ...string) request { return request{path: path, args: args} }

func (r request) where(query ...param) request {
	r.query = query
	return r
}

func (r request) with(body any) request {
	r.body = body
	return r
}

func (r request) checkedBy(reads string) request {
	r.checkWith = reads
	return r
}

// streamed is a body produced while the transport sends it.
type streamed interface {
	bind(ctx context.Context, hr *http.Request)
	isWhole() bool // the transport has the last byte
}

// isUpload reports whether the request has a streamed body.
func (r *request) isUpload() bool {
	_, ok := r.body.(streamed)
	return ok
}

// param is a query parameter. An empty value is left out, or an error if the parameter is required.
type param struct {
	name, value string
	required    bool
}

func required(name, value string) param { return param{name, value, true} }

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 2 * time.Minute

// nothing is the result of routes without a response body.
type nothing struct{}

// carrier sends the calls of a client. The services hold the carrier, which knows neither the
// services nor the client.
type carrier struct{ hidden opaque.Value[*settings] }

func (c *carrier) settings() *settings { return c.hidden() }

// settings are the settings of a carrier.
type settings struct {
	base      url.URL
	userAgent []string // the value of the header
	http      http.Client
	fresh     *transport.Fresh // sends mutations and checks; nil for a caller's transport
	foreign   bool             // the http.Client is the caller's, and may use HTTP/2 and add headers
	tokens    TokenSource
	headers   []func(context.Context, http.Header)
	logger    *slog.Logger

	callObservers, attemptObservers []observer

	account string // [MutationCall.Account]

	// doOnce sends a mutation that has a key; nil if the client has no layer for keys.
	doOnce func(ctx context.Context, x *exchange) (answered bool, err error)
}

type idempotencyContext struct{}

// idempotencyKey is the value of a context for the layer.
type idempotencyKey struct {
	name  string
	check bool // instead of a name: reads with this context are checks of the layer
}

func keyIn(ctx context.Context) *idempotencyKey {
	key, _ := ctx.Value(idempotencyContext{}).(*idempotencyKey)
	return key
}

// withoutKey returns ctx without its key, for the calls that precede a mutation.
func withoutKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotencyContext{}, (*idempotencyKey)(nil))
}
