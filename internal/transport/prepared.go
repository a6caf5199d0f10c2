package transport

import "context"

// Prepared is a connection for a later request.
type Prepared struct {
	fresh *Fresh
	ctx   context.Context //nolint:containedctx // of the call
	stop  context.CancelFunc

	done chan struct{} // closed when the fields below are set; nil if they are
	conn *conn
	err  error
	held bool
}

type preparedContext struct{}

// Prepare begins to connect, or takes a spare connection. At most half of the connections are
// prepared: a caller that holds one may need another, for a check or a sign-in.
func (f *Fresh) Prepare(ctx context.Context) *Prepared {
	p := &Prepared{fresh: f, ctx: ctx}
	if cap(f.held) == 0 || !f.isDirect() || p.takeReady() {
		return p
	}
	p.done = make(chan struct{})
	p.ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.connect()
	}()
	return p
}

// takeReady takes a spare connection without waiting.
func (p *Prepared) takeReady() bool {
	select {
	case p.fresh.held <- struct{}{}:
	default:
		return false
	}
	p.conn = p.fresh.takeReady()
	p.held = p.conn != nil
	if !p.held {
		<-p.fresh.held
	}
	return p.held
}

func (p *Prepared) connect() {
	select {
	case p.fresh.held <- struct{}{}:
		p.held = true
		p.conn, p.err = p.fresh.connect(p.ctx)
	case <-p.ctx.Done():
		p.err = context.Cause(p.ctx)
	}
}

// Wait waits for the connection, and replaces a connection that is no longer good. After an
// error no request was sent.
func (p *Prepared) Wait() error {
	p.wait()
	if p.conn != nil && !p.conn.isGood() {
		_ = p.conn.Close()
		p.conn, p.err = p.fresh.connect(p.ctx)
	}
	return p.err
}

func (p *Prepared) wait() {
	if p.done != nil {
		<-p.done
	}
}

// For returns a context for the request that uses the connection.
func (p *Prepared) For(ctx context.Context) context.Context {
	return context.WithValue(ctx, preparedContext{}, p)
}

// take returns the connection, nil if there is none.
func (p *Prepared) take() *conn {
	p.wait()
	c := p.conn
	p.conn = nil
	if p.held {
		p.held = false
		<-p.fresh.held
	}
	if c != nil && !c.isQuiet() {
		_ = c.Close()
		return nil
	}
	return c
}

// Close closes the connection unless a request has taken it.
func (p *Prepared) Close() {
	if p.stop != nil {
		p.stop()
	}
	if c := p.take(); c != nil {
		_ = c.Close()
	}
}
