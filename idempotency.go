package lending

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"

	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Idempotency is a layer around the mutations that have an idempotency key: see
// [WithIdempotency]. Package idempotency has the one that most programs want. Another
// layer can stand around it, to keep an audit or to ask a second person first.
//
// The client trusts a layer as it trusts an [http.RoundTripper]: it cannot tell a recorded
// response from an invented one.
//
// Experimental: the methods of [MutationCall] may still change.
type Idempotency interface {
	// Do makes the mutation that key names happen once. It calls send at most once and
	// returns the result of send, or it returns the recorded 2xx response of an earlier
	// call. The client decodes and checks a recorded response like a fresh one.
	//
	// If Do returns a response and an error, the caller gets the decoded result and the
	// error. The error is one of send or of call.Error, with its outcome as Do wants it, or
	// an [*ArgumentError]. The text of any other error is hidden, and its outcome is unknown.
	//
	// The client observes the reads that are made with ctx as checks. ctx has no key.
	Do(ctx context.Context, key string, call *MutationCall, send func(context.Context) (*Response, error)) (*Response, error)
}

// WithIdempotency sends the mutations that have a key through layer: see
// [WithIdempotencyKey].
func WithIdempotency(layer Idempotency) Option {
	return func(c *config) error {
		if v := reflect.ValueOf(layer); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return argumentError("WithIdempotency", CodeRequired, "needs a layer")
		}
		if c.doOnce != nil {
			return argumentError("WithIdempotency", CodeConflict, "is possible once")
		}
		c.doOnce = func(ctx context.Context, x *exchange, body []byte) (answered bool, err error) {
			return x.throughLayer(ctx, layer, body)
		}
		return nil
	}
}

// WithIdempotencyKey returns a context for one mutation, which key names for ever. Calls
// of the same method with the same key have their effect once, in any process that shares
// the store of the client's layer, also if a process dies in the middle: see
// [WithIdempotency].
//
// Take the key from the business, for example "order-42/confirm". A clock or the run of a
// job gives another key in the next try. A key has 1 to 256 bytes of UTF-8 without control
// characters. The log and errors show it; the service never sees it.
//
// The client needs a layer. A read or a sign-in with a key is an [*ArgumentError]. The call
// ends after two minutes, an upload without a deadline after an hour: other calls with the
// key wait for that long.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyContext{}, &idempotencyKey{name: key})
}

// IdempotencyKeyOf returns the key of [WithIdempotencyKey] in ctx, "" if there is none.
func IdempotencyKeyOf(ctx context.Context) string {
	if key := keyIn(ctx); key != nil {
		return key.name
	}
	return ""
}

// sendOnce is what a layer gets for sending: it works once, while Do runs.
type sendOnce struct {
	mu     sync.Mutex
	x      *exchange
	body   []byte
	ctx    context.Context //nolint:containedctx // the one of the call, which Do runs in
	over   error           // why it works no more; nil if it does
	answer *Response       // a success; nil if there was none
}

var (
	errSentTwice = redact.Text("the idempotency layer tried to send it a second time, which was prevented")
	errSentLate  = redact.Text("the idempotency layer tried to send it after its end, which was prevented")
	errNoSuccess = redact.Text("the idempotency layer returned neither an error nor a response with a status of success")
)

func (s *sendOnce) send(ctx context.Context) (*Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil, s.over
	}
	s.over = errSentTwice
	ctx, stop := context.WithCancel(withoutKey(ctx))
	defer stop()
	defer context.AfterFunc(s.ctx, stop)() // ctx may be another than Do has got
	if err := s.x.deliver(ctx, s.body); err != nil {
		return nil, err
	}
	answer := s.x.answer
	s.answer = &answer
	return s.answer, nil
}

// close waits for send, and ends it.
func (s *sendOnce) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = errSentLate
}

// throughLayer has the layer see to it that the mutation happens once. answered says that there is
// an answer to decode, beside an error also.
func (x *exchange) throughLayer(ctx context.Context, layer Idempotency, body []byte) (answered bool, err error) {
	once := &sendOnce{x: x, body: body, ctx: ctx}
	within := context.WithValue(ctx, idempotencyContext{}, &idempotencyKey{check: true})
	answer, err := func() (*Response, error) {
		defer once.close()
		return layer.Do(within, x.key.name, &MutationCall{opaque.Hide(once)}, once.send)
	}()
	if err != nil {
		err = x.ofLayer(err)
	}
	switch {
	case answer == nil && err != nil:
		return false, err
	case answer == nil || answer.StatusCode < 200 || answer.StatusCode >= 300:
		return false, x.ofLayer(errors.Join(errNoSuccess, err))
	}
	if answer != once.answer {
		x.recorded(*answer)
		if failed := x.failure(); failed != nil && err == nil {
			err = failed
		}
	}
	return true, err
}

// ofLayer returns the error of a layer as that of the call. Its own errors show no value,
// and their outcome is known.
func (x *exchange) ofLayer(err error) error {
	switch err.(type) { //nolint:errorlint // what wraps one may quote
	case *Error, *ArgumentError:
		return err
	}
	e := x.failed(err)
	if own, ok := errors.AsType[*Error](err); ok {
		e.Outcome = own.Outcome
	} else if e.StatusCode < 200 || e.StatusCode >= 300 {
		e.Outcome = OutcomeUnknown // an earlier call with the key may have sent it
	}
	return e
}

// recorded puts the answer of a layer where it is decoded as one that has just come.
func (x *exchange) recorded(answer Response) {
	if u, ok := x.request.body.(*upload); ok {
		u.complete.Store(true)
		if len(answer.Body) == 0 { // its method returns nothing either
			answer.Body, answer.Header = []byte("true"), http.Header{"Content-Type": mediaJSON}
		}
	}
	x.answer = answer
	x.parsed = parseAnswer(&x.answer)
}

// MutationCall is a mutation with a key on its way through a layer: see [Idempotency]. It
// is valid until Do returns, and prints nothing.
//
// Experimental: its methods may still change.
type MutationCall struct{ hidden opaque.Value[*sendOnce] }

func (m *MutationCall) exchange() *exchange { return m.hidden().x }

// Client returns the client of the call, for reads with the context of Do.
func (m *MutationCall) Client() *Client { return clientOf(m.exchange().client) }

// Method returns the method of the request, for example "POST".
func (m *MutationCall) Method() string { return m.exchange().request.method }

// Route returns the path template, for example "/api/Loan/get-loan/{loanId}".
func (m *MutationCall) Route() string { return m.exchange().request.path }

// Args returns the values for the names in braces in the route, in order.
func (m *MutationCall) Args() []string { return slices.Clone(m.exchange().request.args) }

// Query returns the parameters of the query, without secrets.
func (m *MutationCall) Query() url.Values {
	query := url.Values{}
	for p := range m.exchange().request.public() {
		query.Add(p.name, p.value)
	}
	return query
}

// Body returns the request record as JSON, with "[redacted]" for every secret. It is nil if
// there is none, and for an upload.
func (m *MutationCall) Body() []byte {
	r := &m.exchange().request
	if v := reflect.ValueOf(r.body); r.isUpload() || !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	body, err := encodeWithoutSecrets(r.body)
	if err != nil {
		return nil // the call has written it before
	}
	return body
}

// IsRaw reports whether the call is one of [Client.Do], whose route can be any.
func (m *MutationCall) IsRaw() bool { return m.exchange().result == reflect.TypeFor[Record]() }

// NeedsAnswer reports whether the method returns more than an error. For one that does not,
// a response without a body is enough.
func (m *MutationCall) NeedsAnswer() bool {
	x := m.exchange()
	return x.result != reflect.TypeFor[nothing]() && !x.request.isUpload()
}

// CheckWith names the reads that tell whether the mutation happened, as [Error].CheckWith.
func (m *MutationCall) CheckWith() string { return m.exchange().request.checkWith }

// Account identifies the service and, if the client signs in with [WithCredentials], the
// account, without naming them. Of any other [TokenSource], a [StaticToken] too, the account is
// not known and the token may change: the identity is that of the service alone.
func (m *MutationCall) Account() string {
	s := m.exchange().client.settings()
	if session, ok := s.tokens.(*Session); ok {
		return accountOf(&s.base, session.state().credentials.Username)
	}
	return accountOf(&s.base)
}

// Fingerprint returns an HMAC of the request with key. Arguments, query and body are part of
// it, secrets are not: they could be guessed, and a request with another one-time password
// counts as the same. Of an upload the name, the size, and the content if it can be read
// twice are part of it. It fails if the content cannot be read.
func (m *MutationCall) Fingerprint(ctx context.Context, key []byte) ([]byte, error) {
	r := &m.exchange().request
	sum := hmac.New(sha256.New, key)
	for _, arg := range r.args {
		fmt.Fprintf(sum, "%q\n", arg)
	}
	for p := range r.public() {
		fmt.Fprintf(sum, "%q=%q\n", p.name, p.value)
	}
	if u, ok := r.body.(*upload); ok {
		err := u.print(ctx, sum)
		return sum.Sum(nil), err
	}
	body, err := encodeWithoutSecrets(r.body)
	_, _ = sum.Write(body)
	return sum.Sum(nil), err
}

// GetToken gets the token for the call, so that send has not to wait for a sign-in. Its error
// is that of a call that was not sent.
func (m *MutationCall) GetToken(ctx context.Context) error {
	x := m.exchange()
	if _, err := x.client.token(withoutKey(ctx), &x.request); err != nil {
		return x.notSent(err)
	}
	return nil
}

// Error returns the error of the call as it stands, with cause behind it. Its outcome is that
// of this call alone: set it if an earlier one may have sent the mutation. The text of cause
// is hidden unless it is an error of this module. Error waits for a send that still runs.
func (m *MutationCall) Error(cause error) *Error {
	once := m.hidden()
	once.mu.Lock() // a send that still runs changes how the call stands
	defer once.mu.Unlock()
	return once.x.failed(cause)
}

// Observe tells the observers what the layer does with the call: see [Call].Idempotency. An
// action that is not "sent" is logged, with err if there is one, whose text must show no
// value.
func (m *MutationCall) Observe(ctx context.Context, action string, err error) {
	x := m.exchange()
	x.call.Idempotency = action
	logger := x.client.settings().logger
	if logger == nil || action == idempotencySent { // of which the attempt tells
		return
	}
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("method", x.request.method), slog.String("route", x.request.path), slog.String("idempotency", action),
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("error", err.Error()))
	}
	logger.LogAttrs(ctx, level, "lending idempotency", attrs...)
}
