package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// maxSharedBody is the largest body of a request on a shared connection: half of what a client may
// send before the service makes room for more. Larger bodies have a connection of their own: small
// requests do not wait for them.
const maxSharedBody = 32 << 10

// Body is a request body in memory.
type Body struct {
	bytes.Reader

	content []byte
}

// NewBody returns a body for a single request.
func NewBody(content []byte) *Body {
	b := &Body{content: content}
	b.Reset(content)
	return b
}

// Close implements [io.Closer].
func (*Body) Close() error { return nil }

// canShare reports whether the request can use a shared connection.
func (s *sharing) canShare(r *http.Request) bool {
	body, inMemory := r.Body.(*Body)
	return s.transport != nil && (r.Body == nil || r.ContentLength == 0 || inMemory && len(body.content) <= maxSharedBody)
}

// roundTripEither sends a request over HTTP/2 if the service speaks it, otherwise over a connection
// of the request's own. If an old connection has ended before the first byte, or another request has
// ended a new connection, it takes the next.
func (f *Fresh) roundTripEither(r *http.Request) (*http.Response, error) {
	for again := false; ; again = true {
		c, own, err := f.eitherFor(r.Context())
		switch {
		case err != nil && again:
			return nil, neverLeftError{err}
		case err != nil:
			return nil, err
		case own != nil:
			return f.send(r, own)
		}
		reused := c.hasUsed()
		resp, err := c.roundTrip(r)
		_, never := errors.AsType[neverLeftError](err)
		isOld := reused && !c.isUsable()
		if goesOn := never && (isOld || errors.Is(err, errGivenUp)) && !isOver(r.Context()); !goesOn {
			return resp, err
		}
	}
}

func isOver(ctx context.Context) bool { return ctx.Err() != nil || deadlineIn(ctx).IsOver() }

// eitherFor returns a shared connection, held, or a connection for a single request.
func (f *Fresh) eitherFor(ctx context.Context) (*shared, *conn, error) {
	for {
		ended := f.sharing.nextEnd()
		c, done, err := f.sharing.turn(ctx)
		if c != nil || err != nil {
			return c, nil, err
		}
		c, own, err := f.openEither(ctx, ended, done)
		if !errors.Is(err, errAgain) {
			return c, own, err
		}
	}
}

// openEither opens a connection. It returns errAgain if a request ends while all connections are
// busy, or if the program has no HTTP/2.
func (f *Fresh) openEither(ctx context.Context, ended <-chan struct{}, done func()) (*shared, *conn, error) {
	defer done()
	offer := f.tls
	if f.sharing.off.Load() {
		offer = f.tls1
	}
	own, err := f.connectionFor(ctx, offer, ended)
	if err != nil {
		return nil, nil, err
	}
	c, err := f.sharing.opened(own)
	switch {
	case err != nil: // GODEBUG or a build tag has taken HTTP/2 out of net/http
		f.sharing.off.Store(true)
		return nil, nil, errAgain
	case c != nil:
		return c, nil, nil
	}
	return nil, own, nil
}

// stream is a request on a shared connection.
type stream struct {
	deadline *Deadline
	looks    bool          // before the first byte, because the connection was used before
	writes   int           // of the connection while the request had the pen
	stop     chan struct{} // closed to end the request
	stopped  error         // why
}

// roundTrip sends a request through c, which the caller holds.
func (c *shared) roundTrip(r *http.Request) (*http.Response, error) {
	ctx, trace := r.Context(), httptrace.ContextClientTrace(r.Context())
	one, err := c.begin(ctx, trace)
	if err != nil {
		return nil, neverLeftError{err}
	}
	alone := r.WithContext(httptrace.WithClientTrace(untraced{ctx}, c.watch(one, trace)))
	alone.Body = nil // instead of an empty body
	if body, ok := r.Body.(*Body); ok {
		alone.Body = NewBody(body.content)
	}
	alone.Cancel = one.stop //nolint:staticcheck // a context would cost more
	resp, err := c.http.RoundTrip(alone)
	c.end(ctx, one, err)
	if err != nil {
		c.read()
		return nil, c.told(one, err)
	}
	resp.Request, resp.Body = r, &streamBody{ReadCloser: resp.Body, read: c.read}
	return resp, nil
}

// begin waits for the pen. Then the next bytes are the request's, or net/http's own.
func (c *shared) begin(ctx context.Context, trace *httptrace.ClientTrace) (one *stream, err error) {
	defer func() {
		if one == nil { // also after a panic of the caller's trace
			c.release()
		}
	}()
	if trace != nil && trace.GotConn != nil {
		reused := c.hasUsed()
		trace.GotConn(httptrace.GotConnInfo{Conn: c.conn, Reused: reused, WasIdle: reused})
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case c.pen <- struct{}{}:
	case <-c.over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return nil, c.refused
	}
	c.writing = &stream{deadline: deadlineIn(ctx), looks: c.calls > 0, stop: make(chan struct{})}
	c.calls, c.waiting, c.active = c.calls+1, c.waiting-1, c.active+1
	return c.writing, nil
}

// read notes that the response to a request is read, or will not come.
func (c *shared) read() {
	c.mu.Lock()
	c.active--
	c.mu.Unlock()
	c.ended()
}

// streamBody is the body of a response.
type streamBody struct {
	io.ReadCloser

	once sync.Once
	read func() // called when the body is closed
}

func (b *streamBody) Close() error {
	defer b.once.Do(b.read)
	return b.ReadCloser.Close()
}

// end takes the pen from a request that is not written. If the context has ended, net/http may be
// about to write the request, or in the middle: nothing is written any more then.
func (c *shared) end(ctx context.Context, one *stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.writing == one && ctx.Err() != nil:
		c.writing = nil // and the pen is gone
		c.refuse(errGivenUp)
		_ = c.wire.SetWriteDeadline(time.Unix(1, 0))
	case err != nil:
		c.written(one)
	}
}

// written hands the pen on. The caller holds mu.
func (c *shared) written(one *stream) {
	if c.writing == one {
		c.writing = nil
		<-c.pen
	}
}

// told returns the error of a request with what it proves.
func (c *shared) told(one *stream, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case one.writes == 0, isUnusable(err):
		return neverLeftError{cmp.Or(one.stopped, err)}
	case isLeftAlone(err):
		return errLeftAlone
	}
	return cmp.Or(one.stopped, err)
}

// watch returns a trace for a request in writing. It tells the given trace of everything except an
// unwritten head.
func (c *shared) watch(one *stream, given *httptrace.ClientTrace) *httptrace.ClientTrace {
	if given == nil {
		given = &httptrace.ClientTrace{}
	}
	trace := *given
	trace.GetConn, trace.GotConn = nil, nil
	trace.WroteHeaders = func() {
		c.mu.Lock()
		left := one.writes > 0
		c.mu.Unlock()
		if left && given.WroteHeaders != nil {
			given.WroteHeaders()
		}
	}
	trace.WroteRequest = func(info httptrace.WroteRequestInfo) {
		c.mu.Lock()
		c.written(one)
		c.mu.Unlock()
		if given.WroteRequest != nil {
			given.WroteRequest(info)
		}
	}
	return &trace
}

// untraced is a context without the trace of a request.
type untraced struct{ context.Context } //nolint:containedctx // of the request

func (c untraced) Value(key any) any {
	value := c.Context.Value(key)
	if _, ok := value.(*httptrace.ClientTrace); ok {
		return nil
	}
	return value
}
