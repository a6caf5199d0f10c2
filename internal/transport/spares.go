package transport

import (
	"context"
	"sync"
	"time"
)

// maxSpares is the largest number of spare connections.
const maxSpares = 16

// spares are connections for later requests. A goroutine opens each connection, and hands the
// connection to a request. The number follows the requests: a request opens the first, a request
// without a ready spare adds one, and an unused spare takes one away.
type spares struct {
	ready chan *conn      // from the goroutines; nil for a connection that could not be opened
	ctx   context.Context //nolint:containedctx // until the end of the client
	stop  context.CancelFunc

	mu   sync.Mutex
	off  bool
	most int // the number of spares to have
	free int // the number of spares that no request has claimed
}

func (s *spares) init(off bool) {
	s.off, s.ready = off, make(chan *conn)
	s.ctx, s.stop = context.WithCancel(context.Background())
}

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
	s.stop()
}

// replenish opens a spare connection as soon as a request has its own, unless there are enough.
// The service can be reached then, and the spare can be there when the response is.
func (f *Fresh) replenish() {
	s := &f.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, 1)
	f.fill()
}

// fill opens spares until there are enough, or all connections are in use. The caller holds mu.
func (f *Fresh) fill() {
	for s := &f.spares; !s.off && s.free < s.most; s.free++ {
		select {
		case f.conns <- struct{}{}:
			go f.keepSpare()
		default:
			return
		}
	}
}

// keepSpare opens a connection, and closes an unused connection in time. A request with a claim
// receives the connection at any age, or gives up.
func (f *Fresh) keepSpare() {
	s := &f.spares
	c, _ := f.open(s.ctx, f.tls1)
	life, closed := time.NewTimer(spareLife), s.ctx.Done()
	defer life.Stop()
	for failed := c == nil; ; failed = false {
		if !failed {
			select {
			case s.ready <- c:
				return
			case <-life.C:
				life.Reset(spareLife)
			case <-closed:
				closed = nil
			}
		}
		if s.end(c == nil) {
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// end removes an unused spare, unless a request has claimed it.
func (s *spares) end(failed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	if s.most = max(0, s.most-1); failed {
		s.most = 0
	}
	return true
}

// takeSpare returns a spare, nil if there is none. It waits while a spare is being opened.
func (f *Fresh) takeSpare(ctx context.Context) *conn {
	for f.claim() {
		c, err := f.receive(ctx)
		switch {
		case err != nil:
			return nil
		case c == nil: // could not be opened
		case c.isGood():
			c.waited = true
			return c
		default:
			_ = c.Close()
		}
	}
	return nil
}

// claim reserves a spare, and opens another in its place.
func (f *Fresh) claim() bool {
	s := &f.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		s.more()
		return false
	}
	s.free--
	f.fill()
	return true
}

// more raises the number of spares while requests follow each other.
func (s *spares) more() {
	if s.most > 0 {
		s.most = min(s.most+1, maxSpares)
	}
}

// receive returns a claimed spare.
func (f *Fresh) receive(ctx context.Context) (*conn, error) {
	s := &f.spares
	select {
	case c := <-s.ready:
		return c, nil
	default:
	}
	s.mu.Lock()
	s.more()
	f.fill()
	s.mu.Unlock()
	select {
	case c := <-s.ready:
		return c, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free++ // the spare is for another request
		return nil, context.Cause(ctx)
	}
}
