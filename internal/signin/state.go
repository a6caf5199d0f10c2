package signin

import (
	"context"
	"time"
)

// State is the state of an engine at a moment.
type State struct {
	SignedIn bool      // there is a token that may be used
	Expires  time.Time // when the token expires; zero if this is not known

	Leading   bool // this process signs in or refreshes
	Following bool // this process waits for another process that does

	Failure     error // the last failed sign-in or, without one, of the store; nil after a success
	Class       Class
	PausedUntil time.Time // zero if there is no pause
}

// State takes over the token in the store and returns the state. It does not call the service. If
// the store fails, the state is that of this process.
func (e *Engine) State(ctx context.Context) (State, error) {
	err := e.takeOver(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	now, state := e.config.Now(), State{Leading: e.leading.Load() > 0, Following: e.following.Load() > 0}
	if t := e.current.Load(); t.usable(now) {
		state.SignedIn, state.Expires = true, t.expires
		return state, err
	}
	for _, f := range []*failure{&e.failure, &e.outage} {
		if f.until.IsZero() || state.Failure != nil && !f.until.After(state.PausedUntil) {
			continue
		}
		state.Failure, state.Class = f.cause, f.class
		if f.pausing(now) {
			state.PausedUntil = f.until
		}
	}
	return state, err
}
