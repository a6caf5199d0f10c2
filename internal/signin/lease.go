package signin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/backoff"
)

// A lease is short, because other processes wait for its end if its holder was killed. During
// the work, which may take minutes, the holder renews the lease every quarter of its time. The
// price: if the holder stops for longer, or cannot reach the store, another process signs in
// too, and the service may send a second code.
const leaseTTL = 6 * time.Second

const (
	minPoll = 50 * time.Millisecond // of the store while another process signs in
	maxPoll = time.Second
)

// work gets a new token from the service, under the lease with this fence.
type work func(ctx context.Context, fence int64) (*liveToken, error)

// obtain signs in, or takes the token of another process.
func (e *Engine) obtain(ctx context.Context, forced bool) (*liveToken, error) {
	t, err := e.inTurn(ctx, nil, forced, e.trySignIn)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Now()
	switch current := e.current.Load(); {
	case isStoreError(err):
		e.outage.remember(&Failure{Err: err, Class: StoreOutage}, now)
	case err == nil && current.usable(now):
		t = current
	case err == nil:
		// The store was slow, or the process stopped: the token expired or was refused before
		// its first use.
		if !slices.ContainsFunc(e.refused, t.holds) { // else the refusal is remembered
			e.failure.remember(&Failure{Err: ErrOutlived, Mild: true}, now)
		}
		return nil, ErrOutlived
	}
	return t, err
}

// trySignIn signs in and remembers a failure, here and in the store.
func (e *Engine) trySignIn(ctx context.Context, fence int64) (*liveToken, error) {
	t, err := e.gets(e.config.SignIn)(ctx, fence)
	if err == nil || errors.Is(context.Cause(ctx), ErrLeaseHeld) {
		return t, err
	}
	failed, ok := errors.AsType[*Failure](err)
	if !ok {
		failed = &Failure{Err: err}
	}
	e.mu.Lock()
	e.failure.remember(failed, e.config.Now())
	pause, stored := e.failure.pause, e.storedFailure()
	e.mu.Unlock()
	if pause > 0 && !failed.Unsent {
		e.report("keeping the failure", e.save(ctx, fence, stored))
	}
	return nil, failed.Err
}

// inTurn does the work when no other process does, unless the store has another token than old
// by then.
func (e *Engine) inTurn(ctx context.Context, old *liveToken, forced bool, do work) (*liveToken, error) {
	for polls := 1; ; polls++ {
		t, err := e.lead(ctx, leaseTTL, old, forced, do)
		if forced && isStoreError(err) && !errors.Is(err, ErrOtherAccount) {
			return e.alone(ctx, do)
		}
		if !errors.Is(err, ErrLeaseHeld) {
			return t, err
		}
		wait := backoff.Doubled(polls, minPoll, maxPoll)
		e.following.Add(1)
		err = backoff.Sleep(ctx, wait/2+e.config.Jitter(wait))
		e.following.Add(-1)
		if err != nil {
			return nil, err
		}
	}
}

// lead takes the lease, does the work and shares the token. If this process or another has a
// token other than old by now, lead returns the token without work. It fails with [ErrLeaseHeld]
// while another process does the work.
func (e *Engine) lead(ctx context.Context, ttl time.Duration, old *liveToken, forced bool, do work) (*liveToken,
	error,
) {
	if t, err := e.adoptStored(ctx, old, forced); t != nil || err != nil {
		return t, err
	}
	l := &lease{engine: e, owner: uuid.NewString(), ttl: ttl, ended: make(chan struct{})}
	working, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer l.end(ctx)
	e.leading.Add(1)
	defer e.leading.Add(-1)
	// Again, because another process may have done the work before this process got the lease,
	// or afterwards, if this process stopped.
	if t, err := e.adoptStored(working, old, forced); t != nil || err != nil {
		return t, err
	}
	t, err := do(working, l.fence)
	switch {
	case err != nil && errors.Is(context.Cause(working), ErrLeaseHeld):
		return nil, ErrLeaseHeld
	case err != nil:
		return nil, err
	}
	t = e.publish(t)
	e.share(ctx, l.fence, t)
	return t, nil
}

func (e *Engine) alone(ctx context.Context, do work) (*liveToken, error) {
	t, err := do(ctx, 0)
	if err != nil {
		return nil, err
	}
	return e.publish(t), nil
}

// adoptStored takes over the store's token, and returns the current token if it is usable and
// not old. Unless forced, it fails during the pause after a failed sign-in, which new credentials end.
func (e *Engine) adoptStored(ctx context.Context, old *liveToken, forced bool) (*liveToken, error) {
	stored, fence, err := e.load(ctx)
	if err != nil {
		return nil, err
	}
	ofOthers := e.ofOthers(ctx, &stored)
	now := e.config.Now()
	e.mu.Lock()
	if t := e.stored(&stored, fence); t.usable(now) {
		e.adopt(t)
	}
	if !ofOthers {
		e.learn(&stored, fence)
	}
	t, isPaused := e.current.Load(), !forced && e.failure.pausing(now)
	paused := &PausedError{Cause: e.failure.cause, Until: e.pausedUntil(now)}
	e.mu.Unlock()
	switch {
	case t.usable(now) && (old == nil || !t.holds(old.value)):
		return t, nil
	case isPaused && !e.changed(ctx):
		return nil, paused
	}
	return nil, nil
}

// share saves t, unless the store has a newer token, which the next renewal takes over.
func (e *Engine) share(ctx context.Context, fence int64, t *liveToken) {
	err := e.save(ctx, fence, storedToken{Token: t.value, Issued: t.issued, Expires: t.expires, Life: t.life})
	e.mu.Lock()
	refused, failed := slices.ContainsFunc(e.refused, t.holds), e.storedFailure()
	e.mu.Unlock()
	e.report("keeping the token", err)
	if refused { // between its first use and its save
		e.report("clearing the stored token", e.replace(context.WithoutCancel(ctx), t.value, failed))
	}
}

// lease is the right to do the work, renewed until its end.
type lease struct {
	engine *Engine
	owner  string
	ttl    time.Duration
	fence  int64
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

// begin takes the lease. The returned context ends if another process takes the lease.
func (l *lease) begin(ctx context.Context) (context.Context, error) {
	var err error
	if l.fence, err = l.acquire(ctx, storeLimit(ctx)); err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(l.ended)
		for backoff.Sleep(ctx, l.ttl/4-l.engine.config.Jitter(l.ttl/40)) == nil {
			if errors.Is(l.renew(ctx), ErrLeaseHeld) {
				l.cancel(ErrLeaseHeld)
			}
		}
	}()
	return ctx, nil
}

func (l *lease) acquire(ctx context.Context, limit time.Duration) (int64, error) {
	fence, err := storeStep(ctx, l.engine, limit, func(ctx context.Context) (int64, error) {
		return l.engine.config.Store.Acquire(ctx, l.owner, l.ttl)
	})
	if err != nil && !errors.Is(err, ErrLeaseHeld) {
		err = &StoreError{Cause: err}
	}
	return fence, err
}

// renew fails with [ErrLeaseHeld] also if another process had the lease in between. It leaves
// time for another attempt before the lease ends.
func (l *lease) renew(ctx context.Context) error {
	fence, err := l.acquire(ctx, min(storeTimeout, l.ttl/4))
	if err == nil && fence != l.fence {
		err = ErrLeaseHeld
	}
	return err
}

func (l *lease) end(ctx context.Context) {
	l.cancel(nil)
	<-l.ended
	_, _ = storeStep(context.WithoutCancel(ctx), l.engine, storeLimit(ctx), func(ctx context.Context) (any, error) {
		return nil, l.engine.config.Store.Release(ctx, l.owner) // otherwise the lease ends by itself
	})
}
