package signin

import (
	"context"
	"errors"
)

// flight is a sign-in or a refresh in progress. It runs on a context of its own, not on the
// context of a waiting caller.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	token   *liveToken
	err     error
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) takeOver(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := e.start(func(ctx context.Context) (*liveToken, error) { return e.adoptStored(ctx, nil, true) })
	defer f.cancel()
	return f.wait(ctx)
}

// await waits for a sign-in shared by all waiting callers.
func (e *Engine) await(ctx context.Context, forced bool) (*liveToken, error) {
	for again := false; ; again = true {
		f := e.join(ctx, forced)
		select {
		case <-f.done:
			if errors.Is(f.err, ErrOutlived) && !again {
				continue
			}
			return f.token, f.err
		case <-ctx.Done():
			e.leave(f)
			return nil, ctx.Err()
		}
	}
}

// join returns the sign-in in progress, or begins a sign-in. If no sign-in is necessary or
// possible now, the returned flight is over.
func (e *Engine) join(ctx context.Context, forced bool) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Now()
	switch t := e.current.Load(); {
	case t.usable(now):
		return landed(t, nil)
	case ctx.Err() != nil:
		return landed(nil, ctx.Err())
	case e.closed:
		return landed(nil, ErrClosed)
	case e.signIn == nil && !forced && e.outage.pausing(now):
		return landed(nil, e.outage.paused())
	case e.signIn == nil:
		e.signIn = e.launch(func(ctx context.Context) (*liveToken, error) { return e.obtain(ctx, forced) })
	}
	e.signIn.waiting++
	return e.signIn
}

// leave removes a caller who no longer waits. The last caller to leave ends the flight.
func (e *Engine) leave(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if e.signIn == f {
			e.signIn = nil // the next caller begins another
		}
	}
}

func (e *Engine) start(work func(context.Context) (*liveToken, error)) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.launch(work)
}

// launch runs work in a goroutine. Close ends the work and waits. The caller holds the lock.
func (e *Engine) launch(work func(context.Context) (*liveToken, error)) *flight {
	if e.closed {
		return landed(nil, ErrClosed)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{done: make(chan struct{}), cancel: cancel}
	e.flights[f] = true
	e.running.Go(func() {
		f.token, f.err = work(ctx)
		e.land(f)
	})
	return f
}

func landed(t *liveToken, err error) *flight {
	f := &flight{done: make(chan struct{}), cancel: func() {}, token: t, err: err}
	close(f.done)
	return f
}

func (e *Engine) land(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.cancel()
	delete(e.flights, f)
	if e.signIn == f {
		e.signIn = nil
	}
	if e.renewal == f {
		e.renewal = nil
	}
	close(f.done)
}
