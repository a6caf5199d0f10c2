package signin

import (
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
)

// Failure is an error of a step, and how long it keeps the engine from the next sign-in: each
// may send a message to a person, and refused ones may lock the account.
type Failure struct {
	Err          error
	Class        Class
	Mild         bool          // neither the service nor the account is to blame: the first few cost no pause
	RetryAfter   time.Duration // that the service asks for
	TokenRefused bool          // the token that was to be refreshed
}

// Class says which pauses follow a failure.
type Class int

// The classes of failures.
const (
	Outage      Class = iota // the service did not look at the sign-in
	Refused                  // the service looked at it and said no
	CodeSent                 // a person has been sent a code, in vain
	StoreOutage              // the store failed
)

const freeFailures = 3 // mild ones in a row after which the next sign-in may follow at once

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// pause returns the pause after so many failures in a row.
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
	count int
	pause time.Duration
	until time.Time // end of the pause; zero after a success

	last    time.Time // when it failed
	learned time.Time // until, as another process has written it
	fence   int64     // of the store then: a process that learned of a refused token does not count it again
}

func (f *failure) pausing(now time.Time) bool { return f.until.After(now) }

func (f *failure) paused() error { return &PausedError{Cause: f.cause, Until: f.until} }

// remember counts a failure. The caller holds the lock.
func (f *failure) remember(failed *Failure, now time.Time) {
	if (now.Sub(f.last)-time.Minute)/5 > f.pause {
		f.count = 0
	}
	f.cause, f.count, f.last = failed.Err, f.count+1, now
	f.pause = failed.pause(f.count)
	f.until = now.Add(f.pause)
}

// storedFailure returns what other processes learn of the last failed sign-in. The caller
// holds the lock.
func (e *Engine) storedFailure() storedToken {
	f := &e.failure
	return storedToken{Until: f.until, Pause: f.pause, Count: f.count, Failure: e.config.EncodeFailure(f.cause)}
}

// learn takes over a failure of another process. No pause is longer than it was meant to
// be, also if the clock was ahead when its end was written. The caller holds the lock.
func (e *Engine) learn(s *storedToken, fence int64) {
	f, now := &e.failure, e.config.Now()
	if !s.Until.After(f.until) || s.Until.Equal(f.learned) {
		return
	}
	pause := min(s.Until.Sub(now), s.Pause)
	*f = failure{
		cause: e.config.DecodeFailure(s.Failure), count: s.Count, last: now, pause: pause,
		until: now.Add(pause), learned: s.Until, fence: fence,
	}
}
