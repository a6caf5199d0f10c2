package signin

import (
	"context"
	"errors"
	"slices"
	"time"
)

// liveToken is a token with the times of its use and renewal. A liveToken never changes, so
// readers need no lock. This file has all rules of renewal:
//
//   - The first renewal comes after two thirds to five sixths of the token's use.
//   - After a failure, the next comes after an eighth to three eighths of the remaining use, at
//     most once a second, and not before the service's Retry-After.
//   - Without the store, renewal waits for the last chance, because then every process renews
//     alone.
//   - An expired token cannot be refreshed.
type liveToken struct {
	value    string
	issued   time.Time
	expires  time.Time     // zero if unknown, and then useUntil and renewAt are zero too
	useUntil time.Time     // a margin before expires
	renewAt  time.Time     // no later than useUntil
	life     time.Duration // for a refreshed token to inherit; 0 if unknown
	fence    int64         // of the lease during the sign-in; 0 without the store
	adopted  bool          // from the store
}

const renewTimeout = 30 * time.Second

// Margin is the time before its expiry when a token with this life is no longer used, because it
// could expire on the way.
func Margin(life time.Duration) time.Duration { return min(10*time.Second, life/10) }

// newToken returns the token of an issue under the lease with this fence.
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

// onBothClocks gives t a reading of the monotonic clock. Times from the service or the store
// have none.
func (e *Engine) onBothClocks(t time.Time) time.Time {
	now := e.config.Now()
	return now.Add(t.Sub(now))
}

// until returns the time until t, by the clock with the smaller result: the monotonic clock
// stops while a machine sleeps, and the wall clock may be set back.
func until(t, now time.Time) time.Duration {
	return min(t.Sub(now), t.Sub(now.Round(0)))
}

// fresh reports whether t is usable and needs no renewal yet.
func (t *liveToken) fresh(now time.Time) bool {
	return t != nil && (t.renewAt.IsZero() || until(t.renewAt, now) > 0)
}

func (t *liveToken) usable(now time.Time) bool {
	return t != nil && (t.useUntil.IsZero() || until(t.useUntil, now) > 0)
}

func (t *liveToken) holds(token string) bool { return t != nil && t.value == token }

// newer reports whether t replaces old. The fence decides, independent of clocks. A token
// without a fence was issued without the store: there the later time of issue decides.
func (t *liveToken) newer(old *liveToken, now time.Time) bool {
	switch {
	case !old.usable(now):
		return true
	case t.fence > 0 && old.fence > 0:
		return t.fence > old.fence
	}
	return t.issued.After(old.issued)
}

func (t *liveToken) left(now time.Time) time.Duration { return max(until(t.useUntil, now), 0) }

// postponed returns a copy with its renewal after wait.
func (t *liveToken) postponed(wait time.Duration, now time.Time) *liveToken {
	later := *t
	later.renewAt = now.Add(min(wait, t.left(now)))
	return &later
}

// untilRenewal is the sleep of a Keepalive, which reads the clocks every minute, and every
// second without a token.
func (t *liveToken) untilRenewal(now time.Time) time.Duration {
	switch {
	case !t.usable(now):
		return time.Second
	case t.renewAt.IsZero():
		return time.Minute
	}
	return max(min(time.Minute, until(t.renewAt, now)), 10*time.Millisecond)
}

// lastChance reports whether t is so near its end that the engine refreshes it without the
// store: in the last twentieth of its use. A short life has a larger part, for an attempt
// delayed by the store, the wait, and an attempt without the store.
func (t *liveToken) lastChance(now time.Time) bool {
	use := t.useUntil.Sub(t.issued)
	return until(t.useUntil, now) < max(use/20, min(20*time.Second, use/9))
}

// startRenewal renews t in the background if a renewal is due, and first sets the time of the
// next attempt.
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

// renew refreshes t, or takes the token that another process refreshed.
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

// publish makes t, a new token of the service, the current token unless the current token is
// newer. It returns the current token.
func (e *Engine) publish(t *liveToken) *liveToken {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = slices.DeleteFunc(e.refused, t.holds) // the service may issue a token twice
	e.adopt(t)
	return e.current.Load()
}

// adopt makes t the current token if t is newer and not refused, and ends the pauses. The caller
// holds the lock.
func (e *Engine) adopt(t *liveToken) {
	if slices.ContainsFunc(e.refused, t.holds) || !t.newer(e.current.Load(), e.config.Now()) {
		return
	}
	e.current.Store(t)
	e.failure.until, e.outage.until = time.Time{}, time.Time{}
}
