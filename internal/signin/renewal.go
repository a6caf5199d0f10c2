package signin

import (
	"context"
	"errors"
	"slices"
	"time"
)

// liveToken is a token and when it is used and renewed. It does not change, so that it can
// be read without a lock. All that says when a token is renewed stands in this file:
//
//   - First when two thirds to five sixths of its use have passed.
//   - After a failure again when an eighth to three eighths of what is left have passed, at
//     most once a second, and not before the service's Retry-After.
//   - Without the store only at the last chance, because then every process renews by itself.
//   - Not once its use has ended: an expired token cannot be refreshed.
type liveToken struct {
	value    string
	issued   time.Time
	expires  time.Time     // zero if it is not known, as useUntil and renewAt are then
	useUntil time.Time     // a margin before expires
	renewAt  time.Time     // no later than useUntil
	life     time.Duration // that a refreshed token inherits; 0 if it is not known
	fence    int64         // of the lease it was got under; 0 if it was got without the store
}

// renewTimeout bounds an attempt to refresh.
const renewTimeout = 30 * time.Second

// Margin is how long before its expiry a token that lives so long is no longer used, so
// that it does not expire on the way.
func Margin(life time.Duration) time.Duration { return min(10*time.Second, life/10) }

// newToken returns a token that the service has issued, and that was got under the lease with
// the fence.
func (e *Engine) newToken(issue Issue, fence int64) *liveToken {
	t := &liveToken{value: issue.Token, issued: issue.Issued, fence: fence}
	if life := issue.Expires.Sub(issue.Issued); life > 0 {
		use := life - Margin(life)
		t.expires, t.life = issue.Expires, max(life, issue.Life)
		t.useUntil = e.onBothClocks(issue.Issued.Add(use))
		t.renewAt = e.onBothClocks(issue.Issued.Add(use/3*2 + e.config.Jitter(use/6)))
	}
	return t
}

// onBothClocks gives t a reading of the monotonic clock, which a time that was sent or
// stored does not have.
func (e *Engine) onBothClocks(t time.Time) time.Time {
	now := e.config.Now()
	return now.Add(t.Sub(now))
}

// until returns how long it is until t by the clock that says less: the monotonic one
// stands still while a machine sleeps, and the other may be set back.
func until(t, now time.Time) time.Duration {
	return min(t.Sub(now), t.Sub(now.Round(0)))
}

// fresh reports whether t can be given out and need not be renewed yet.
func (t *liveToken) fresh(now time.Time) bool {
	return t != nil && (t.renewAt.IsZero() || until(t.renewAt, now) > 0)
}

// usable reports whether t can be given out.
func (t *liveToken) usable(now time.Time) bool {
	return t != nil && (t.useUntil.IsZero() || until(t.useUntil, now) > 0)
}

// holds reports whether t is of this token.
func (t *liveToken) holds(token string) bool { return t != nil && t.value == token }

// newer reports whether t is to be used rather than old: the one rule for that. A fence
// tells the order whatever the clocks say. A token that was got without the store has
// none, and may be older or newer than the store's: by the time of issue.
func (t *liveToken) newer(old *liveToken, now time.Time) bool {
	switch {
	case !old.usable(now):
		return true
	case t.fence > 0 && old.fence > 0:
		return t.fence > old.fence
	}
	return t.issued.After(old.issued)
}

// left is for how long t may still be used.
func (t *liveToken) left(now time.Time) time.Duration { return max(until(t.useUntil, now), 0) }

// postponed returns a copy that is to be renewed after wait.
func (t *liveToken) postponed(wait time.Duration, now time.Time) *liveToken {
	later := *t
	later.renewAt = now.Add(min(wait, t.left(now)))
	return &later
}

// untilRenewal is how long a Keepalive sleeps: it looks at the clocks every minute, and every
// second while there is no token.
func (t *liveToken) untilRenewal(now time.Time) time.Duration {
	switch {
	case !t.usable(now):
		return time.Second
	case t.renewAt.IsZero():
		return time.Minute
	}
	return max(min(time.Minute, until(t.renewAt, now)), 10*time.Millisecond)
}

// lastChance reports whether t is so near its end that it is refreshed without the store: in
// the last twentieth of its use. Of a short life it is more, so that an attempt that the
// store holds up, the wait for the next and one without the store fit into it.
func (t *liveToken) lastChance(now time.Time) bool {
	use := t.useUntil.Sub(t.issued)
	return until(t.useUntil, now) < max(use/20, min(20*time.Second, use/9))
}

// startRenewal renews t in the background if it is time, and puts the next attempt off before
// it begins this one.
func (e *Engine) startRenewal(t *liveToken) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Now()
	if e.closed || e.current.Load() != t || t.fresh(now) {
		return
	}
	left, use := t.left(now), t.useUntil.Sub(t.issued)
	t = t.postponed(max(left/8+e.config.Jitter(left/4), min(time.Second, use/50)), now)
	e.current.Store(t)
	if e.renewal == nil {
		e.renewal = e.launch(func(ctx context.Context) (*liveToken, error) { return e.renew(ctx, t) })
	}
}

// renew refreshes t, or takes the token of another process that has.
func (e *Engine) renew(ctx context.Context, t *liveToken) (*liveToken, error) {
	left := t.left(e.config.Now())
	ctx, cancel := context.WithTimeout(ctx, min(renewTimeout, left))
	defer cancel()
	refresh := e.gets(func(ctx context.Context) (Issue, error) { return e.config.Refresh(ctx, t.value, t.life) })
	newer, err := e.lead(ctx, min(leaseTTL, left/4), t, true, refresh)
	if isStoreError(err) && t.lastChance(e.config.Now()) {
		newer, err = e.alone(ctx, refresh)
	}
	if !errors.Is(err, ErrLeaseHeld) {
		e.report("refreshing the token", err)
	}
	if failed, ok := errors.AsType[*Failure](err); ok && failed.RetryAfter > 0 {
		e.postpone(t, failed.RetryAfter)
	}
	return newer, err
}

// postpone puts off the next attempt to refresh t.
func (e *Engine) postpone(t *liveToken, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Now()
	if current := e.current.Load(); current.holds(t.value) && until(current.renewAt, now) < wait {
		e.current.Store(current.postponed(wait, now))
	}
}

// publish makes t, which the service has just given, the present token unless that is
// newer, and returns the present one.
func (e *Engine) publish(t *liveToken) *liveToken {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = slices.DeleteFunc(e.refused, t.holds) // the service may give it again
	e.adopt(t)
	return e.current.Load()
}

// adopt makes t the present token if it is newer and was not refused, which ends the
// memory of failures. The caller holds the lock.
func (e *Engine) adopt(t *liveToken) {
	if slices.ContainsFunc(e.refused, t.holds) || !t.newer(e.current.Load(), e.config.Now()) {
		return
	}
	e.current.Store(t)
	e.failure.until, e.outage.until = time.Time{}, time.Time{}
}
