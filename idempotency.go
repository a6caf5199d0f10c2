package lending

import (
	"cmp"
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
	"strings"
	"sync"

	"github.com/lendingapi/lending-go/internal/canonical"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Idempotency is a layer around the mutations that have an idempotency key: see
// [WithIdempotency]. Most programs use the log of package idempotency. A layer of your own can
// wrap the log, for example to keep an audit or to ask a second person first.
//
// The client trusts a layer as it trusts an [http.RoundTripper]: it cannot tell a recorded
// response from an invented response.
//
// Experimental: the methods of [MutationCall] may still change.
type Idempotency interface {
	// Do makes the mutation that key names happen once. It calls send at most once and returns
	// the result of send, or it returns the recorded 2xx response of an earlier call. The client
	// decodes and checks a recorded response like a fresh one.
	//
	// A recorded response with status 204 says that the mutation happened and that its response is
	// lost: the method then returns an empty result.
	//
	// If Do returns a response and an error, the caller gets the decoded result and the error.
	// Do returns an error of send, an error of call.Error with the outcome that Do sets, or an
	// [*ArgumentError]. The client hides the text of any other error, also of a read's, and its
	// outcome is unknown.
	//
	// Observers see reads with ctx as checks. ctx has no key.
	Do(ctx context.Context, key string, call *MutationCall, send func(context.Context) (*Response, error)) (*Response, error)
}

// WithIdempotency sends mutations with a key through layer: see [WithIdempotencyKey].
func WithIdempotency(layer Idempotency) Option {
	return func(c *config) error {
		if v := reflect.ValueOf(layer); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return argumentError("WithIdempotency", CodeRequired, "needs a layer")
		}
		if c.doOnce != nil {
			return argumentError("WithIdempotency", CodeConflict, "is possible once")
		}
		c.doOnce = func(ctx context.Context, c *call) (answered bool, err error) { return c.throughLayer(ctx, layer) }
		return nil
	}
}

// WithIdempotencyKey returns a context for a single mutation, which key names for ever. Calls of
// the same method with the same key have their effect once, in any process that shares the store
// of the client's layer, even if a process dies in the middle: see [WithIdempotency].
//
// Take the key from the business, for example "order-42/confirm". A clock or the run of a job
// gives another key in the next try. A key has 1 to 256 bytes of UTF-8 without control
// characters. The log and errors show the key; the client never sends the key to the service.
//
// The client needs a layer. A read or a sign-in with a key is an [*ArgumentError]. A call with a
// key ends after two minutes, an upload without a deadline after an hour: other calls with the
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

// sendOnce is the send function of a layer. It works once, while Do runs.
type sendOnce struct {
	mu     sync.Mutex
	call   *call
	ctx    context.Context //nolint:containedctx // of the call
	within context.Context //nolint:containedctx // of Do: derives from ctx, and marks checks
	over   error           // why send no longer works; nil if it works
	answer *Response       // a 2xx response; nil if there was none
}

var (
	errSentTwice = redact.Text("the idempotency layer tried to send the mutation twice; correct the layer")
	errSentLate  = redact.Text("the idempotency layer tried to send the mutation after Do; correct the layer")
	errNoSuccess = redact.Text("the idempotency layer returned neither an error nor a response with a status of success; correct the layer")
)

func (s *sendOnce) send(ctx context.Context) (*Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil, s.over
	}
	if err := s.call.request.withheld; err != nil {
		return nil, err
	}
	s.over = errSentTwice
	if ctx == s.within {
		ctx = s.ctx
	} else {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(withoutKey(ctx))
		defer stop()
		defer context.AfterFunc(s.ctx, stop)() // ctx may not derive from the context of Do
	}
	if err := s.call.deliver(ctx); err != nil {
		return nil, err
	}
	if err := s.call.failure(); err != nil {
		return nil, err
	}
	answer := s.call.answer.Response
	s.answer = &answer
	return s.answer, nil
}

// close waits for a running send, and refuses later ones.
func (s *sendOnce) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = errSentLate
}

// throughLayer has the layer make the mutation happen once. answered reports a response to
// decode, perhaps together with an error.
func (c *call) throughLayer(ctx context.Context, layer Idempotency) (answered bool, err error) {
	within := context.WithValue(ctx, idempotencyContext{}, &idempotencyKey{check: true})
	once := &sendOnce{call: c, ctx: ctx, within: within}
	answer, err := func() (*Response, error) {
		defer once.close()
		return layer.Do(within, c.key.name, &MutationCall{opaque.Hide(once)}, once.send)
	}()
	if err != nil {
		err = c.ofLayer(err)
	}
	switch {
	case answer == nil && err != nil:
		return false, err
	case answer == nil || !isSuccess(answer.StatusCode):
		return false, c.ofLayer(errors.Join(errNoSuccess, err))
	}
	if answer != once.answer {
		c.replay(*answer)
	}
	return true, err
}

// ofLayer returns the error of a layer as the error of the call. Errors of this call keep their
// text and outcome. The error of a read that the layer makes says nothing about the mutation.
func (c *call) ofLayer(err error) error {
	switch of := err.(type) { //nolint:errorlint // what wraps one may quote
	case *Error:
		if c.isOwn(of) {
			return err
		}
	case *ArgumentError:
		if of.Route == "" || of.Method == c.request.method && of.Route == c.request.path {
			return err
		}
	}
	e := c.failed(err)
	if !isSuccess(e.StatusCode) {
		e.Outcome = OutcomeUnknown // an earlier call with the key may have sent it
	}
	for link := range errorsIn(err) {
		if of, ok := link.(*Error); ok && c.isOwn(of) { //nolint:errorlint // one link at a time
			e.Outcome = of.Outcome
			break
		}
	}
	return e
}

// isOwn reports whether e is an error of this call, a mutation with a key. A read has no key.
func (c *call) isOwn(e *Error) bool {
	return e.IdempotencyKey == c.key.name && e.Method == c.request.method && e.Route == c.request.path
}

// replay makes the recorded response of a layer the response of the call.
func (c *call) replay(recorded Response) {
	if u, ok := c.request.body.(*upload); ok {
		u.sent.Store(whole)
		if len(recorded.Body) == 0 { // the method returns nothing
			recorded.Body, recorded.Header = []byte("true"), http.Header{"Content-Type": mediaJSON}
		}
	}
	c.answer = answer{Response: recorded, noRecord: recorded.StatusCode == http.StatusNoContent}
}

// MutationCall is a mutation with a key on its way through a layer: see [Idempotency]. A
// MutationCall is valid until Do returns, and prints nothing.
//
// Experimental: its methods may still change.
type MutationCall struct{ hidden opaque.Value[*sendOnce] }

func (m *MutationCall) call() *call { return m.hidden().call }

// Client returns the client of the call, for reads with the context of Do.
func (m *MutationCall) Client() *Client { return clientOf(m.call().carrier) }

// Method returns the method of the request, for example "POST".
func (m *MutationCall) Method() string { return m.call().request.method }

// Route returns the path template, for example "/api/Loan/get-loan/{loanId}".
func (m *MutationCall) Route() string { return m.call().request.path }

// Args returns the values of the names in braces in the route, in order.
func (m *MutationCall) Args() []string { return slices.Clone(m.call().request.args) }

// Query returns the parameters of the query, without secrets.
func (m *MutationCall) Query() url.Values {
	query := url.Values{}
	for p := range m.call().request.public() {
		query.Add(p.name, p.value)
	}
	return query
}

// Body returns the request record as JSON, with "[redacted]" for every secret. Body returns nil
// without a record, and for an upload.
func (m *MutationCall) Body() []byte {
	r := &m.call().request
	if r.isUpload() || !r.hasRecord() {
		return nil
	}
	body, err := encodeWithoutSecrets(r.body)
	if err != nil {
		return nil // cannot happen: the call has encoded the record
	}
	return body
}

// IsRaw reports whether the call is from [Client.Do], with any route.
func (m *MutationCall) IsRaw() bool {
	return m.call().request.proof.result == reflect.TypeFor[Record]()
}

// NeedsAnswer reports whether the method returns more than an error. Otherwise a recorded
// response needs no body.
func (m *MutationCall) NeedsAnswer() bool {
	c := m.call()
	return c.request.proof.result != reflect.TypeFor[nothing]() && !c.request.isUpload()
}

// Accepts reports whether the method would return recorded, a response with a status of success,
// and no error: whether it is the record that is due. Upload methods accept whatever it is.
func (m *MutationCall) Accepts(recorded *Response) bool {
	r := &m.call().request
	if r.isUpload() {
		return true
	}
	read, result := answer{Response: *recorded}, reflect.New(r.proof.result).Elem()
	return isSuccess(recorded.StatusCode) && r.proof.doubt(&read) == nil && r.proof.decode(&read, r.effect, result) == nil
}

// CheckWith names the reads that show whether the mutation happened, as [Error].CheckWith.
func (m *MutationCall) CheckWith() string { return m.call().request.checkWith }

// Account is [Client.Account] of the client of the call.
func (m *MutationCall) Account() string { return m.call().settings.account }

// Fingerprint returns an HMAC of the request with key, over arguments, query and body. The HMAC
// belongs to the JSON of the request and not to its Go type: the order of members, members with zero
// values, the spelling of numbers and the zone of times change nothing. Secrets
// are excluded, except those in Extra: they could be guessed, and a request with another one-time
// password is the same request. Members of Extra with a name that ends in password, code, otp, pin
// or token are excluded too. For an upload the HMAC covers the name, the size, and the content if it can be read
// twice. Fingerprint fails if the content cannot be read.
func (m *MutationCall) Fingerprint(ctx context.Context, key []byte) ([]byte, error) {
	return m.call().request.fingerprint(ctx, key, canonical.Current)
}

// FormerFingerprint is the Fingerprint of the release 0.1, for entries of that release.
func (m *MutationCall) FormerFingerprint(ctx context.Context, key []byte) ([]byte, error) {
	r := m.call().request
	r.body = cmp.Or(r.former, r.body)
	return r.fingerprint(ctx, key, canonical.V01)
}

func (r *request) fingerprint(ctx context.Context, key []byte, rule canonical.Rule) ([]byte, error) {
	sum := hmac.New(sha256.New, key)
	if rule != canonical.V01 {
		fmt.Fprintln(sum, rule)
	}
	for _, arg := range r.args {
		fmt.Fprintf(sum, "%q\n", arg)
	}
	query := slices.Collect(r.public())
	slices.SortStableFunc(query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	for _, p := range query {
		if strings.HasSuffix(p.value, midnight) {
			p.value += "Z" // as in the entries of earlier releases
		}
		fmt.Fprintf(sum, "%q=%q\n", p.name, rule.Text(p.value))
	}
	if u, ok := r.body.(*upload); ok {
		err := u.print(ctx, sum)
		return sum.Sum(nil), err
	}
	if r.body == nil {
		return sum.Sum(nil), nil
	}
	encoded := encodeCompared
	if rule == canonical.V01 {
		encoded = encodeWithoutSecrets
	}
	body, err := encoded(r.body)
	_, _ = sum.Write(rule.JSON(body))
	return sum.Sum(nil), err
}

// GetToken gets the token for the call, so that send need not wait for a sign-in. The error is
// for a call that was not sent. It is an [*ArgumentError] if the request lacks a required
// secret, without which a recorded response can still be returned.
func (m *MutationCall) GetToken(ctx context.Context) error {
	c := m.call()
	if err := c.request.withheld; err != nil {
		return err
	}
	if _, err := c.settings.token(withoutKey(ctx), &c.request); err != nil {
		return c.notSent(err)
	}
	return nil
}

// Error returns the error of the call in its current state, with cause. The outcome is of this
// call alone: set Outcome if an earlier call may have sent the mutation. Error hides the text of
// a cause from another module, and waits for a send that still runs.
func (m *MutationCall) Error(cause error) *Error {
	once := m.hidden()
	once.mu.Lock() // a send that still runs changes the state of the call
	defer once.mu.Unlock()
	return once.call.failed(cause)
}

// Observe reports the layer's action to the observers: see [Call].Idempotency. Observe logs any
// action except "sent": with err, which must show no value, at level WARN, and without it at DEBUG.
func (m *MutationCall) Observe(ctx context.Context, action string, err error) {
	c := m.call()
	c.idempotency = action
	logger := c.settings.logger
	if logger == nil || action == idempotencySent { // the attempt is logged
		return
	}
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("method", c.request.method), slog.String("route", c.request.path), slog.String("idempotency", action),
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("error", err.Error()))
	}
	logger.LogAttrs(ctx, level, "lending idempotency", attrs...)
}
