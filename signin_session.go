package lending

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Session is the source of tokens behind [WithCredentials]; [Client.Session] returns
// it. Most programs need nothing of it.
//
// # Taking a token
//
// A token that is valid is given out without waiting. If there is none, all who ask
// share one sign-in, which belongs to none of them: each waits as long as his own
// context lives, and only when the last one has left does the sign-in end.
//
// # Refreshing
//
// An expired token cannot be refreshed, and a new sign-in may need a person. So the
// token is refreshed when two thirds to five sixths of its life have passed, in the
// background, while the present one is still given out. It is a call that starts
// this: [Session.Keepalive] does it for a program that makes none. After a failure it
// is tried again, at most once a second, until the token expires; then comes a new
// sign-in. A token whose life is not known is used until the service refuses it.
//
// Every call asks the clock, so that a process that stood still, or a machine that
// slept, does not go on with a token that has expired meanwhile. When that is it knows
// from the service's answer, by the difference of the two clocks, unless that is more
// than a day: such a Date is a mistake, and is not heeded.
//
// # A refused token
//
// When a call is answered with 401 its token is forgotten, by however many calls, and
// the next call signs in. A read is repeated once with the new token, a mutation
// never.
//
// # Failed sign-ins
//
// A failed sign-in is not tried again at once: callers get its error for a second, and
// for up to a minute if it goes on failing, unless the [TokenStore] has a token by
// then. After a refusal (a wrong password) it is a minute to an hour, after a 429 at
// least what the service asks for, and after any end without a token once a two-factor
// code was sent five minutes to an hour. If the callers left while the TwoFactor
// function was asking, they get a [*TwoFactorRequiredError]: let them wait for as long
// as a person needs, or use [Session.CompleteTwoFactor]. The first few failures that
// are nobody's fault (the callers left before, the TwoFactor function failed by
// itself, a token was refused) do not count. The sessions that share a [TokenStore]
// share all this; [Session.SignIn] tries at once, for example after the password was
// corrected.
//
// # Many processes
//
// With [WithTokenStore] the sessions of many processes share one token, and one of
// them at a time signs in or refreshes. If that one is killed the others go on after
// six seconds. When the store fails, or does not answer, each goes on with the token it
// has, and refreshes it by itself shortly before it would expire. None signs in by
// itself without the store, because all would.
//
// The newer token wins, however it was got: of those got with the store the one of the
// later lease, else the one that was issued later. One that the service has refused does
// not come back.
//
// The times that they share are those of their own clocks, which should agree within
// ten seconds, or a tenth of a token's life if that is less: a process whose clock is
// further behind uses a token after its expiry, until it is refused, and one whose
// clock is further ahead may sign in too early.
//
// # Functions of the caller
//
// A sign-in and a refresh have a goroutine of their own. If the TwoFactor function, an
// observer, the logger or the store panics there, or calls [runtime.Goexit], the process
// goes on: the sign-in fails, with a [*PanicError] in its error that holds the stack.
type Session struct {
	state func() *session // behind a function, where nothing that prints or compares looks
}

// String says whether there is a token, not which.
func (shell *Session) String() string {
	if shell.state().current.Load().usable() {
		return "lending session: signed in"
	}
	return "lending session: not signed in"
}

// session is what a [Session] holds.
type session struct {
	current atomic.Pointer[grant] // written under mu; nil if there is no token

	credentials Credentials
	auth        *AuthService
	account     string // that the store's token must be of
	store       TokenStore
	logger      *slog.Logger  // nil for none
	done        chan struct{} // closed by close

	mu      sync.Mutex
	closed  bool
	refused []Secret // the last tokens that the service has refused
	failure failure  // the last failed sign-in
	outage  failure  // the last failure of the store
	signIn  *flight  // under way; nil if none is
	renewal *flight  // under way; nil if none is
	flights map[*flight]bool
	running sync.WaitGroup
}

// flight is a sign-in or a refresh under way. It runs on a context of its own.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	forced  bool
	waiting int
	grant   *grant
	err     error
}

var errClosed = &signInError{text: "the client is closed"}

func newSession(credentials Credentials) *Session {
	s := &session{
		credentials: credentials,
		store:       NewMemoryTokenStore(),
		done:        make(chan struct{}),
		flights:     map[*flight]bool{},
	}
	return &Session{state: func() *session { return s }}
}

// Session returns the session of a client made with [WithCredentials], nil for
// another one.
func (c *Client) Session() *Session { return c.settings().session }

// WithTokenStore keeps the token of [WithCredentials] in store, from where other
// sessions, later ones or those of other processes, take it: see [Session]. Each account
// of each service needs a store of its own: the token of another is an error.
func WithTokenStore(store TokenStore) Option {
	return func(s *settings) error {
		if store == nil {
			return argumentError("WithTokenStore", CodeRequired, "needs a store")
		}
		s.store = store
		return nil
	}
}

// bindSession gives the session what other options have set.
func (c *Client) bindSession() error {
	shell, store := c.settings().session, c.settings().store
	if shell == nil && store != nil {
		return argumentError("WithTokenStore", CodeConflict, "needs WithCredentials")
	}
	if shell == nil {
		return nil
	}
	session := shell.state()
	session.auth, session.logger = c.Auth, c.settings().logger
	session.account = accountOf(&c.settings().base, session.credentials.Username)
	if store != nil {
		session.store = store
	}
	return nil
}

// Token returns a valid token. It may sign in first, and ask for a two-factor code.
func (shell *Session) Token(ctx context.Context) (Token, error) {
	s := shell.state()
	g := s.current.Load()
	if g.fresh() {
		return g.token, nil
	}
	if g.usable() {
		s.startRenewal(g)
		return g.token, nil
	}
	return s.await(ctx, false)
}

// SignIn makes sure that there is a token that the service accepts. If the session has a
// token, SignIn refreshes it. If there is none, or the service refuses to refresh it,
// SignIn signs in, also when a failed sign-in would not be tried again yet or the
// [TokenStore] cannot be reached. Call SignIn when a person asks for it, for example after
// an account was unlocked or a code was lost: it may send a code, and may lock the account.
func (shell *Session) SignIn(ctx context.Context) error {
	s := shell.state()
	for begun := time.Now(); ; {
		g := s.current.Load()
		switch {
		case !g.usable():
			_, err := s.await(ctx, true)
			_, paused := errors.AsType[*pausedError](err)
			if err != nil && (!paused && !isStoreError(err) || errors.Is(err, errOtherAccount)) {
				return err
			} // else it has waited for a sign-in that others began: now the pause is known
		case !g.issued.Before(begun):
			return nil
		default:
			if err := s.confirm(ctx, g); err != nil {
				return err
			}
		}
	}
}

// confirm refreshes g, or drops it if the service refuses that: no clock tells whether the
// service has revoked a token. It does not return before there is another token, or none.
func (s *session) confirm(ctx context.Context, g *grant) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	f := s.launch(func(ctx context.Context) (*grant, error) {
		return s.inTurn(ctx, g, true, protect(func(ctx context.Context) (*grant, error) {
			if !g.usable() {
				return nil, errOutlived
			}
			return s.refresh(ctx, g)
		}))
	})
	s.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.cancel()
		return ctx.Err()
	}
	if errors.Is(f.err, ErrUnauthorized) {
		s.drop(g.token.Value)
	} else if g.usable() {
		return f.err
	}
	return nil
}

// CompleteTwoFactor completes a sign-in that ended with a [*TwoFactorRequiredError],
// in this process or in another that shares the [TokenStore]. After an error that is
// [OutcomeRejected] the code was wrong, and another may be tried.
func (shell *Session) CompleteTwoFactor(ctx context.Context, challenge Challenge, code string) error {
	s := shell.state()
	if challenge.Username != s.credentials.Username {
		return argumentError("challenge.username", CodeConflict, "is not the user of this session")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	f := s.launch(func(ending context.Context) (*grant, error) {
		defer context.AfterFunc(ending, cancel)()
		return s.inTurn(ctx, nil, true, protect(func(ctx context.Context) (*grant, error) {
			answer := reply{sent: time.Now()}
			user, err := s.validate(CaptureResponse(ctx, &answer.Response), challenge, code)
			if err != nil {
				return nil, err
			}
			return signedIn(user, &answer)
		}))
	})
	s.mu.Unlock()
	<-f.done
	return f.err
}

// Keepalive refreshes the token whenever it is due, for a program that may make no
// call for longer than a token lives. It never signs in. It returns when ctx ends,
// with its error, or when the client is closed.
func (shell *Session) Keepalive(ctx context.Context) error {
	s := shell.state()
	for glanced := (time.Time{}); ; {
		if !s.current.Load().usable() && time.Since(glanced) >= time.Minute {
			s.glance(ctx)
			glanced = time.Now()
		}
		g := s.current.Load()
		if g.usable() && !g.fresh() {
			s.startRenewal(g)
			g = s.current.Load()
		}
		wait := time.Minute
		switch {
		case !g.usable():
			wait = time.Second // a call may sign in
		case !g.renewAt.IsZero():
			wait = max(min(wait, until(g.renewAt)), 10*time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return errClosed
		case <-time.After(wait):
		}
	}
}

// glance takes over the token of another process that has signed in.
func (s *session) glance(ctx context.Context) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	f := s.launch(func(ctx context.Context) (*grant, error) { return s.look(ctx, nil, true) })
	s.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// Invalidate makes the session forget token, which the service has refused, unless
// it already holds a newer one. So does the [TokenStore], for which it waits a second.
func (shell *Session) Invalidate(token Token) {
	s := shell.state()
	select {
	case <-s.drop(token.Value).done:
	case <-time.After(time.Second):
	}
}

func (s *session) drop(token Secret) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current.Load()
	if g == nil || g.token.Value.Reveal() != token.Reveal() {
		return landed(nil, nil)
	}
	s.refused = append(s.refused, token)
	s.refused = s.refused[max(len(s.refused)-maxRefused, 0):]
	s.current.Store(nil)
	if g.fence == 0 || g.fence > s.failure.fence {
		refusal := &signInError{text: "the service refused the token it had given", mild: true}
		s.failure.remember(refusal, pauseAfter(refusal, false))
	}
	if s.closed {
		return landed(nil, nil)
	}
	failed := s.failure.kept()
	return s.launch(func(ctx context.Context) (*grant, error) {
		s.report("clearing the stored token", s.replace(context.WithoutCancel(ctx), token, failed))
		return nil, nil
	})
}

// close ends what is under way and waits for it.
func (s *session) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for f := range s.flights {
		f.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// await waits for a sign-in that all who wait share.
func (s *session) await(ctx context.Context, forced bool) (Token, error) {
	for again := false; ; again = true {
		f := s.join(forced)
		select {
		case <-f.done:
			if f.err == errOutlived && !again { //nolint:errorlint // it stands for itself
				continue
			}
			if f.err != nil {
				return Token{}, f.err
			}
			return f.grant.token, nil
		case <-ctx.Done():
			s.leave(f)
			return Token{}, ctx.Err()
		}
	}
}

// join returns the sign-in under way, and begins one if there is none. Where none is
// needed, or possible now, the flight that it returns is over.
func (s *session) join(forced bool) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g := s.current.Load(); {
	case g.usable():
		return landed(g, nil)
	case s.closed:
		return landed(nil, errClosed)
	case s.signIn == nil && !forced && s.outage.pausing():
		return landed(nil, &pausedError{cause: s.outage.cause, until: s.outage.until})
	case s.signIn == nil, forced && !s.signIn.forced && (s.failure.pausing() || s.outage.pausing()):
		s.signIn = s.launch(func(ctx context.Context) (*grant, error) { return s.obtain(ctx, forced) })
		s.signIn.forced = forced
	}
	s.signIn.waiting++
	return s.signIn
}

func landed(g *grant, err error) *flight {
	f := &flight{done: make(chan struct{}), grant: g, err: err}
	close(f.done)
	return f
}

// leave is called by a caller who waits no longer. The last one ends the flight.
func (s *session) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if s.signIn == f {
			s.signIn = nil // the next caller begins anew
		}
	}
}

// launch runs work in a goroutine that close ends and waits for. The caller holds the
// lock and has seen that the session is not closed.
func (s *session) launch(work func(context.Context) (*grant, error)) *flight {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{done: make(chan struct{}), cancel: cancel}
	s.flights[f] = true
	s.running.Go(func() {
		defer s.land(f)
		f.grant, f.err = protect(work)(ctx, 0)
	})
	return f
}

func (s *session) land(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.cancel()
	delete(s.flights, f)
	if s.signIn == f {
		s.signIn = nil
	}
	if s.renewal == f {
		s.renewal = nil
	}
	close(f.done)
}
