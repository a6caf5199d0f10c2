package lending

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// A lease is short, because the others wait for its end when its holder was killed, and
// prolonged every quarter of it while the work goes on, which may take minutes. The
// price: a holder that stands still for longer, or does not reach a store that others
// reach, has another sign in beside it, which may send a second code.
const leaseTTL = 6 * time.Second

const (
	renewTimeout = 30 * time.Second
	storeTimeout = 5 * time.Second       // for each step of the store
	minPoll      = 50 * time.Millisecond // of the store while another process signs in
	maxPoll      = time.Second
)

// work gets a new token from the service, under the lease with the fence.
type work func(ctx context.Context, fence int64) (*grant, error)

// obtain signs in, or takes the token of another process that does.
func (s *session) obtain(ctx context.Context, forced bool) (*grant, error) {
	g, err := s.inTurn(ctx, nil, forced, s.trySignIn)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.current.Load(); {
	case isStoreError(err):
		s.outage.remember(err, afterOutage)
	case err == nil && now.usable():
		g = now
	case err == nil:
		if !slices.ContainsFunc(s.refused, g.holds) { // else the refusal is remembered
			s.failure.remember(errOutlived, pauseAfter(errOutlived, false))
		}
		return nil, errOutlived
	}
	return g, err
}

// errOutlived ends a sign-in whose token expired, or was refused, before it could be given
// out: the store took its time, or the process stood still.
var errOutlived = &signInError{text: "its token is of no use any more", mild: true}

// trySignIn signs in and remembers a failure, here and in the store.
func (s *session) trySignIn(ctx context.Context, fence int64) (*grant, error) {
	codeSent := false
	login := func(ctx context.Context) (*grant, error) { return s.login(ctx, &codeSent) }
	g, err := protect(login)(ctx, fence)
	if err == nil || errors.Is(context.Cause(ctx), ErrLeaseHeld) {
		return g, err
	}
	s.mu.Lock()
	s.failure.remember(err, pauseAfter(err, codeSent))
	failed := s.failure
	s.mu.Unlock()
	if failed.pause > 0 {
		s.report("keeping the failure", s.save(ctx, fence, failed.kept()))
	}
	return nil, err
}

// inTurn does the work when no other process does, unless there is another token than old
// by then.
func (s *session) inTurn(ctx context.Context, old *grant, forced bool, do work) (*grant, error) {
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		g, err := s.lead(ctx, leaseTTL, old, forced, do)
		if forced && isStoreError(err) && !errors.Is(err, errOtherAccount) {
			return s.alone(ctx, do)
		}
		if !errors.Is(err, ErrLeaseHeld) {
			return g, err
		}
		if err := backoff.Sleep(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, err
		}
	}
}

// startRenewal refreshes g in the background if it is time, and puts the next attempt
// off before it begins this one.
func (s *session) startRenewal(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.current.Load() != g || g.fresh() {
		return
	}
	left := max(until(g.useUntil), 0)
	g = g.postponed(max(left/8+rand.N(left/4+1), min(time.Second, g.life()/50)))
	s.current.Store(g)
	if s.renewal == nil {
		s.renewal = s.launch(func(ctx context.Context) (*grant, error) { return s.renew(ctx, g) })
	}
}

// renew refreshes g, or takes the token of another process that has. Without the store
// it waits for the last chance, because every process does.
func (s *session) renew(ctx context.Context, g *grant) (*grant, error) {
	left := max(until(g.useUntil), 0)
	ctx, cancel := context.WithTimeout(ctx, min(renewTimeout, left))
	defer cancel()
	refresh := protect(func(ctx context.Context) (*grant, error) { return s.refresh(ctx, g) })
	newer, err := s.lead(ctx, min(leaseTTL, left/4), g, true, refresh)
	if isStoreError(err) && until(g.useUntil) < lastChance(g.life()) {
		newer, err = s.alone(ctx, refresh)
	}
	if !errors.Is(err, ErrLeaseHeld) {
		s.report("refreshing the token", err)
	}
	if failed, ok := errors.AsType[*Error](err); ok && failed.RetryAfter > 0 {
		s.postpone(g, failed.RetryAfter)
	}
	return newer, err
}

// lastChance is how long before its end a token that is used for life is refreshed
// without the store: the last twentieth. Of a short life it is more, so that an attempt
// that the store holds up, the wait for the next and one without the store fit into it.
func lastChance(life time.Duration) time.Duration {
	return max(life/20, min(20*time.Second, life/9))
}

// postpone puts off the next attempt to refresh g.
func (s *session) postpone(g *grant, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.current.Load(); now != nil && now.holds(g.token.Value) && until(now.renewAt) < wait {
		s.current.Store(now.postponed(wait))
	}
}

// lead takes the lease, does the work and shares the token. If there is another token
// than old by now, of this process or of another, it returns that one. It fails with
// [ErrLeaseHeld] while another process is at work.
func (s *session) lead(ctx context.Context, ttl time.Duration, old *grant, forced bool, do work) (*grant, error) {
	if g, err := s.look(ctx, old, forced); g != nil || err != nil {
		return g, err
	}
	l := &lease{session: s, owner: uuid.NewString(), ttl: ttl, ended: make(chan struct{})}
	working, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer l.end(ctx)
	// Again, because another process may have been at work before this one had the
	// lease, or after, if this one stood still.
	if g, err := s.look(working, old, forced); g != nil || err != nil {
		return g, err
	}
	g, err := do(working, l.fence)
	switch {
	case err != nil && errors.Is(context.Cause(working), ErrLeaseHeld):
		return nil, ErrLeaseHeld
	case err != nil:
		return nil, err
	}
	g.fence = l.fence
	return s.share(ctx, l.fence, s.publish(g)), nil
}

// alone does the work without the store.
func (s *session) alone(ctx context.Context, do work) (*grant, error) {
	g, err := do(ctx, 0)
	if err != nil {
		return nil, err
	}
	return s.publish(g), nil
}

// look takes over what the store has, and returns the present grant if it may be used
// and is of another token than old. Unless forced it fails while a failed sign-in is not
// to be repeated.
func (s *session) look(ctx context.Context, old *grant, forced bool) (*grant, error) {
	k, fence, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := k.grant(fence); g.usable() {
		s.adopt(g)
	}
	s.failure.learn(&k, fence)
	switch g := s.current.Load(); {
	case g.usable() && (old == nil || !g.holds(old.token.Value)):
		return g, nil
	case !forced && s.failure.pausing():
		return nil, &pausedError{cause: s.failure.cause, until: s.failure.until}
	}
	return nil, nil
}

// share saves g, and returns the newer token if the store has one by now.
func (s *session) share(ctx context.Context, fence int64, g *grant) *grant {
	err := s.save(ctx, fence, kept{Token: g.token.Value.Reveal(), Issued: g.issued, Expires: g.token.Expires, Life: g.fullLife})
	if errors.Is(err, ErrFenced) {
		if newer, _ := s.look(context.WithoutCancel(ctx), g, true); newer != nil {
			g = newer
		}
	}
	s.mu.Lock()
	refused, failed := slices.ContainsFunc(s.refused, g.holds), s.failure.kept()
	s.mu.Unlock()
	if refused { // after it was given out and before it was kept
		err = errors.Join(err, s.replace(context.WithoutCancel(ctx), g.token.Value, failed))
	}
	s.report("keeping the token", err)
	return g
}

// report logs what callers do not see.
func (s *session) report(what string, err error) {
	if err == nil || s.logger == nil {
		return
	}
	_ = safely.Call[PanicError](func() error {
		s.logger.LogAttrs(context.Background(), slog.LevelWarn, "lending session: "+what, slog.String("error", redact.Describe(err)))
		return nil
	})
}

// lease is the right to do the work, renewed until it ends.
type lease struct {
	session *session
	owner   string
	ttl     time.Duration
	fence   int64
	cancel  context.CancelCauseFunc
	ended   chan struct{}
}

// begin takes the lease. The context it returns ends when another process takes it.
func (l *lease) begin(ctx context.Context) (context.Context, error) {
	var err error
	if l.fence, err = l.acquire(ctx, storeLimit(ctx)); err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(l.ended)
		for backoff.Sleep(ctx, l.ttl/4) == nil {
			if errors.Is(l.renew(ctx), ErrLeaseHeld) {
				l.cancel(ErrLeaseHeld)
			}
		}
	}()
	return ctx, nil
}

func (l *lease) acquire(ctx context.Context, limit time.Duration) (int64, error) {
	fence, err := storeStep(ctx, l.session, limit, func(ctx context.Context) (int64, error) {
		return l.session.store.Acquire(ctx, l.owner, l.ttl)
	})
	if err != nil && !errors.Is(err, ErrLeaseHeld) {
		err = &storeError{cause: hide(err)}
	}
	return fence, err
}

// renew fails with [ErrLeaseHeld] also if another process has had the lease in between.
// It leaves time for another attempt before the lease ends.
func (l *lease) renew(ctx context.Context) error {
	fence, err := l.acquire(ctx, min(storeTimeout, l.ttl/4))
	if err == nil && fence != l.fence {
		err = ErrLeaseHeld
	}
	return err
}

// end gives the lease back, which ctx was given for.
func (l *lease) end(ctx context.Context) {
	l.cancel(nil)
	<-l.ended
	_, _ = storeStep(context.WithoutCancel(ctx), l.session, storeLimit(ctx), func(ctx context.Context) (any, error) {
		return nil, l.session.store.Release(ctx, l.owner) // it ends by itself too
	})
}

// protect returns what a function of the caller's (TwoFactor, an observer, the logger)
// would end the process with, or the goroutine, as an error.
func protect(do func(context.Context) (*grant, error)) work {
	return func(ctx context.Context, _ int64) (g *grant, err error) {
		err = safely.Call[PanicError](func() (err error) {
			g, err = do(ctx)
			return err
		})
		if text := interruption(err); text != "" {
			return nil, &signInError{text: text, cause: err, mild: true}
		}
		return g, err
	}
}

// interruption describes an error that [safely.Call] has made, and is empty for another.
func interruption(err error) string {
	if p, ok := err.(*PanicError); ok { //nolint:errorlint // one that a function has returned is that function's
		return fmt.Sprintf("panic with a %T", p.Value)
	}
	if err == safely.ErrGoexit { //nolint:errorlint // see above
		return "a function ended its goroutine"
	}
	return ""
}
