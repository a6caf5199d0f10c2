// Package signin keeps a token for many callers. The engine signs in once for all waiting
// callers, refreshes the token ahead of expiry, and shares the token with other processes
// through a store and its lease. The functions of Config talk to the service.
package signin

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Config is the configuration of an engine. Its functions contain their panics.
type Config struct {
	Account string // of the token in the store
	Store   Store

	// SignIn gets a token from the service. Refresh exchanges a token for a new token with the
	// same life, unless the service says otherwise. Their errors may be a *[Failure].
	SignIn  func(ctx context.Context) (Issue, error)
	Refresh func(ctx context.Context, token string, life time.Duration) (Issue, error)

	// By distinguishes the current credentials from others, in a failure that the store keeps.
	// Empty means unknown. If By is nil, a failure binds every process.
	By func(ctx context.Context) string

	// Changed reports whether the current credentials are others than those of a refusal, which By named. If
	// Changed is nil, credentials do not change while the process runs.
	Changed func(ctx context.Context, by string) bool

	// Report logs an error that no caller sees.
	Report func(doing string, err error)

	// Elsewhere returns the error of a sign-in that has failed in another process, with its Kind.
	Elsewhere func(kind []byte) error

	Jitter func(most time.Duration) time.Duration // 0 to most; nil for a random jitter
	Now    func() time.Time                       // nil for time.Now
}

// Issue is a token as issued by the service.
type Issue struct {
	Token   string
	Issued  time.Time
	Expires time.Time     // zero, or not after Issued, if unknown
	Life    time.Duration // for a refreshed token to inherit; at least Expires-Issued
}

// Error is an error of the engine itself. The call that needs the token was not sent.
type Error struct{ redact.Text }

// Errors of an engine, besides those of Config's functions.
var (
	ErrClosed   error = Error{"lending: sign-in: the client is closed"}                       // Close was called
	ErrOutlived error = Error{"lending: sign-in: its token is of no use any more"}            // the token expired, or was refused, before it could be used
	ErrRefused  error = Error{"lending: sign-in: the service refused the token it had given"} // the service refused the last token

	// ErrReentered is the error of a call in a function that a sign-in calls.
	ErrReentered error = Error{"lending: sign-in: a function that the sign-in calls, such as TwoFactor or an observer, " +
		"has called the same client, which would wait for itself; use another client there"}

	// ErrOtherAccount is a configuration error: the engine neither uses nor replaces the token.
	ErrOtherAccount error = redact.Text("lending: it has the token of another account or service; give each a store of its own")
)

// PausedError is the error of a sign-in that was not attempted, because the last sign-in failed.
type PausedError struct {
	redact.Safe

	Cause error
	Until time.Time
}

// Error describes the failure and the end of the pause.
func (e *PausedError) Error() string {
	return "lending: " + redact.Describe(e.Cause) + ": not tried again before " + e.Until.UTC().Format(time.RFC3339)
}

// Unwrap returns the Cause.
func (e *PausedError) Unwrap() error { return e.Cause }

// Engine keeps the token for a process.
type Engine struct {
	config  Config
	current atomic.Pointer[liveToken] // written under mu; nil if there is no token
	done    chan struct{}             // closed by Close

	mu      sync.Mutex
	closed  bool
	refused []string       // the last tokens refused by the service
	unknown format.Unknown // members of the stored token that a later release of the same version has added
	failure failure        // the last failed sign-in
	asked   asked          // the last answer of Changed
	outage  failure        // the last failure of the store
	signIn  *flight        // in progress; nil if there is none
	renewal *flight        // in progress; nil if there is none
	flights map[*flight]bool
	running sync.WaitGroup

	leading, following atomic.Int32 // flights that have the lease, and that wait for the lease of another process
}

// maxRefused is the number of refused tokens an engine remembers: more than a store can bring
// back after an outage.
const maxRefused = 16

// New returns an engine without a token.
func New(config Config) *Engine {
	if config.Jitter == nil {
		config.Jitter = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Engine{config: config, done: make(chan struct{}), flights: map[*flight]bool{}}
}

// SignedIn reports whether the engine has a usable token.
func (e *Engine) SignedIn() bool { return e.current.Load().usable(e.config.Now()) }

// Token returns a usable token and its expiry, and whether the token comes from the store. The
// caller must not change the token. Without a usable token, Token signs in. If a refresh is due,
// Token starts the refresh in the background.
func (e *Engine) Token(ctx context.Context) (token *string, expires time.Time, adopted bool, err error) {
	t, now := e.current.Load(), e.config.Now()
	switch {
	case t.fresh(now):
	case ctx.Value(insideStep{}) == e && !t.usable(now):
		return nil, time.Time{}, false, ErrReentered
	case t.usable(now):
		e.startRenewal(t)
	default:
		t, err = e.await(ctx, false)
	}
	if err != nil {
		return nil, time.Time{}, false, err
	}
	return &t.value, t.expires, t.adopted, nil
}

// SignIn returns nil when the engine has a token that the service accepts. It ignores the pause
// after a failure, and works without the store.
func (e *Engine) SignIn(ctx context.Context) error {
	if ctx.Value(insideStep{}) == e {
		return ErrReentered
	}
	for begun := e.config.Now(); ; {
		t := e.current.Load()
		switch {
		case !t.usable(e.config.Now()):
			_, err := e.await(ctx, true)
			_, paused := errors.AsType[*PausedError](err)
			if err != nil && (!paused && !isStoreError(err) || errors.Is(err, ErrOtherAccount)) {
				return err
			} // else SignIn waited for the sign-in of another caller, and now knows the pause
		case !t.issued.Before(begun):
			return nil
		default:
			if err := e.confirm(ctx, t); err != nil {
				return err
			}
		}
	}
}

// confirm refreshes t, or drops t if the service refuses the token: no clock shows a revoked
// token. Without an error the engine then has another token, or none.
func (e *Engine) confirm(ctx context.Context, t *liveToken) error {
	f := e.startStep(valueless{ctx}, t, func(ctx context.Context) (Issue, error) {
		if !t.usable(e.config.Now()) {
			return Issue{}, ErrOutlived
		}
		return e.config.Refresh(ctx, t.value, t.life)
	})
	err := f.wait(ctx)
	if failed, ok := errors.AsType[*Failure](err); ok && failed.TokenRefused {
		e.Drop(t.value)
	} else if t.usable(e.config.Now()) {
		return cause(err)
	}
	return nil
}

// valueless ends with a context and hides the context's values.
type valueless struct{ context.Context } //nolint:containedctx // valueless is a context

func (valueless) Value(any) any { return nil }

// Do gets a token with step, while no other process does, and ends with ctx.
func (e *Engine) Do(ctx context.Context, step func(context.Context) (Issue, error)) error {
	f := e.startStep(ctx, nil, step)
	<-f.done
	return cause(f.err)
}

// startStep takes a step in its turn, unless the engine has another token than old by then.
func (e *Engine) startStep(ctx context.Context, old *liveToken, step func(context.Context) (Issue, error)) *flight {
	return e.start(func(ending context.Context) (*liveToken, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ending, cancel)()
		return e.inTurn(ctx, old, true, e.gets(step))
	})
}

// insideStep marks the context of a step, with its engine.
type insideStep struct{}

func (e *Engine) gets(step func(context.Context) (Issue, error)) work {
	return func(ctx context.Context, fence int64) (*liveToken, error) {
		issue, err := step(context.WithValue(ctx, insideStep{}, e))
		if err != nil {
			return nil, err
		}
		return e.newToken(issue, fence), nil
	}
}

// Keepalive refreshes the token whenever a refresh is due, until ctx ends or the engine is
// closed. Keepalive never signs in.
func (e *Engine) Keepalive(ctx context.Context) error {
	for loaded := (time.Time{}); ; {
		if now := e.config.Now(); !e.SignedIn() && now.Sub(loaded) >= time.Minute {
			loaded = now
			_ = e.takeOver(ctx)
		}
		t := e.current.Load()
		if now := e.config.Now(); t.usable(now) && !t.fresh(now) {
			e.startRenewal(t)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.done:
			return ErrClosed
		case <-time.After(e.current.Load().untilRenewal(e.config.Now())):
		}
	}
}

// Drop forgets a token that the service refused, unless the engine has a newer token. Drop
// returns a channel, closed when the store has forgotten the token too.
func (e *Engine) Drop(token string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.current.Load()
	if !t.holds(token) {
		return landed(nil, nil).done
	}
	e.refused = append(e.refused, token)
	e.refused = e.refused[max(len(e.refused)-maxRefused, 0):]
	e.current.Store(nil)
	if t.fence == 0 || t.fence > e.failure.fence {
		e.failure.remember(&Failure{Err: ErrRefused, Mild: true}, e.config.Now())
	}
	failed := e.storedFailure()
	return e.launch(func(ctx context.Context) (*liveToken, error) {
		e.report("clearing the stored token", e.replace(context.WithoutCancel(ctx), token, failed))
		return nil, nil
	}).done
}

// closeWait is the longest wait of Close. A function of the caller may call Close in a sign-in.
const closeWait = 5 * time.Second

// Close cancels work in progress and waits for its end, at most closeWait.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.done)
	}
	for f := range e.flights {
		f.cancel()
	}
	e.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(closeWait):
	}
}

func (e *Engine) report(doing string, err error) {
	if err != nil {
		e.config.Report(doing, cause(err))
	}
}
