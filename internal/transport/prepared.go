package transport

import (
	"context"
	"sync"
)

// Prepared is a connection for a later request.
type Prepared struct {
	fresh *Fresh

	mu    sync.Mutex // locked while the connection is opened
	held  bool       // an element of fresh.held
	ended bool       // no connection may follow
	conn  *conn
}

type preparedContext struct{}

// Prepare returns a connection that does not exist yet.
func (f *Fresh) Prepare() *Prepared { return &Prepared{fresh: f} }

// Connect opens the connection, and replaces a connection that is no longer good. After an error no
// request was sent. Without a direct way to the service, the request opens the connection.
//
// At most half of the connections are prepared: a caller that holds one may need another, for a
// check or a sign-in.
func (p *Prepared) Connect(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended, cap(p.fresh.held) == 0, !p.fresh.isDirect():
		return nil
	case p.conn != nil && p.conn.isGood():
		return nil
	case p.conn != nil:
		_ = p.conn.Close()
	case !p.held:
		select {
		case p.fresh.held <- struct{}{}:
			p.held = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var isShared bool
	if p.conn, isShared, err = p.fresh.prepare(ctx); isShared {
		p.held = false
		<-p.fresh.held
	}
	return err
}

// prepare returns a connection for a later request, unless there is one to share.
func (f *Fresh) prepare(ctx context.Context) (own *conn, isShared bool, err error) {
	shared, own, err := f.eitherFor(ctx)
	if shared != nil {
		shared.release()
	}
	return own, shared != nil, err
}

// For returns a context for the request that uses the connection.
func (p *Prepared) For(ctx context.Context) context.Context {
	return context.WithValue(ctx, preparedContext{}, p)
}

// take returns the connection, nil if there is none. It waits while the connection is opened.
func (p *Prepared) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conn
	p.conn, p.ended = nil, true
	if p.held {
		p.held = false
		<-p.fresh.held
	}
	if c != nil && !c.isQuiet() {
		_ = c.Close()
		return nil
	}
	if c != nil {
		c.waited = true
	}
	return c
}

// Close closes the connection unless a request has taken it.
func (p *Prepared) Close() {
	if c := p.take(); c != nil {
		_ = c.Close()
	}
}
