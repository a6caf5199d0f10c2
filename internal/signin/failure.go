package signin

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
)

// Failure is an error of a step, with the facts that decide the pause before the next sign-in.
// Each sign-in may send a message to a person, and rejected sign-ins may lock the account.
type Failure struct {
	Err          error
	Class        Class
	Mild         bool          // neither the service nor the account is to blame: the first few cost no pause
	RetryAfter   time.Duration // as the service asks
	TokenRefused bool          // the service refused to refresh the token
	Unsent       bool          // nothing was sent: no failure for other processes
	By           string        // the credentials that were rejected: see Config.By
	Kind         []byte        // JSON, for other processes: see Config.Elsewhere
}

// Class decides the pauses after a failure.
type Class int

// The classes of failures.
const (
	Outage      Class = iota // the service did not answer the sign-in, or could not decide
	Refused                  // the service rejected the sign-in
	CodeSent                 // the service sent a person a code, in vain
	StoreOutage              // the store failed
)

const freeFailures = 3 // number of mild failures in a row without a pause

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// cause returns the Err of a failure, and any other error unchanged.
func cause(err error) error {
	if failed, ok := err.(*Failure); ok { //nolint:errorlint // nothing wraps a failure
		return failed.Err
	}
	return err
}

func (f *Failure) pause(count int) time.Duration {
	if f.Mild {
		count -= freeFailures
	}
	if count <= 0 {
		return 0
	}
	first, most := time.Second, time.Minute
	switch f.Class {
	case Refused:
		first, most = time.Minute, time.Hour
	case CodeSent:
		first, most = 5*time.Minute, time.Hour
	case StoreOutage:
		most = 5 * time.Second
	case Outage:
	}
	return max(backoff.Doubled(count, first, most), f.RetryAfter)
}

// failure is the memory of failures in a row.
type failure struct {
	cause error
	class Class
	count int
	pause time.Duration
	until time.Time // end of the pause; zero after a success

	last    time.Time // time of the last failure
	learned time.Time // until, as another process wrote it
	fence   int64     // of the store then, so that a learned refusal of a token counts once
	by      string    // the credentials that were rejected
	kind    []byte    // for other processes
}

func (f *failure) pausing(now time.Time) bool { return f.until.After(now) }

func (f *failure) paused() error { return &PausedError{Cause: f.cause, Until: f.until} }

// askAfter is the age of an answer of Config.Changed at which a call asks again, and the longest wait that callers
// are told during the pause of a refusal: new credentials end the pause.
const askAfter = 2 * time.Second

// asked is an answer of Config.Changed.
type asked struct {
	at        time.Time
	by        string
	isChanged bool
}

// mayChange reports whether new credentials can end the pause. The caller holds the lock.
func (e *Engine) mayChange() bool {
	return e.config.Changed != nil && e.failure.class == Refused && e.failure.by != ""
}

// changed reports whether this process has other credentials by now than those that the service refused.
func (e *Engine) changed(ctx context.Context) bool {
	e.mu.Lock()
	now, by, last, may := e.config.Now(), e.failure.by, e.asked, e.mayChange()
	e.mu.Unlock()
	if !may || last.by == by && now.Sub(last.at) < askAfter {
		return may && last.isChanged
	}
	last = asked{now, by, e.config.Changed(ctx, by)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = last
	return last.isChanged
}

// pausedUntil returns the end of the pause of a failed sign-in for callers. The caller holds the lock.
func (e *Engine) pausedUntil(now time.Time) time.Time {
	if soon := now.Add(askAfter); e.mayChange() && e.failure.until.After(soon) {
		return soon
	}
	return e.failure.until
}

// remember counts a failure. The caller holds the lock.
func (f *failure) remember(failed *Failure, now time.Time) {
	if (now.Sub(f.last)-time.Minute)/5 > f.pause {
		f.count = 0
	}
	f.cause, f.class, f.count, f.last, f.by, f.kind = failed.Err, failed.Class, f.count+1, now, failed.By, failed.Kind
	f.pause = failed.pause(f.count)
	f.until = now.Add(f.pause)
}

// storedFailure returns the last failed sign-in for other processes. The caller holds the lock.
func (e *Engine) storedFailure() storedToken {
	f := &e.failure
	return storedToken{
		Until: f.until, Pause: f.pause, Count: f.count, Class: f.class, By: f.by, Failure: f.kind,
	}
}

// ofOthers reports whether the stored failure does not bind this process: the service has
// rejected other credentials, as while a password changes. During a pause of its own the process
// does not ask for its credentials.
func (e *Engine) ofOthers(ctx context.Context, s *storedToken) bool {
	now := e.config.Now()
	if s.By == "" || e.config.By == nil || !s.Until.After(now) {
		return false
	}
	e.mu.Lock()
	pausing := e.failure.pausing(now)
	e.mu.Unlock()
	if pausing {
		return true
	}
	own := e.config.By(ctx)
	return own != "" && own != s.By
}

// learn takes over a failure of another process. A clock that was ahead when the process wrote
// the end of the pause makes no pause longer. The caller holds the lock.
func (e *Engine) learn(s *storedToken, fence int64) {
	f, now := &e.failure, e.config.Now()
	if !s.Until.After(f.until) || s.Until.Equal(f.learned) {
		return
	}
	pause := min(s.Until.Sub(now), s.Pause)
	*f = failure{
		cause: e.config.Elsewhere(s.Failure), class: s.Class, count: s.Count, last: now, pause: pause,
		until: now.Add(pause), learned: s.Until, fence: fence, by: s.By, kind: s.Failure,
	}
}

// Pause returns how long it is until the next sign-in, 0 if one may follow at once.
func (e *Engine) Pause() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Now()
	return max(0, e.pausedUntil(now).Sub(now), e.outage.until.Sub(now))
}
