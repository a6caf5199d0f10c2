package lending

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/lendingapi/lending-go/internal/account"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/internal/signin"
)

// Session is the token source of [WithCredentials]; [Client.Session] returns it. Most programs
// never use it directly.
//
// # Taking a token
//
// A session returns a valid token without waiting. If there is no valid token, all callers share
// one sign-in. Each caller waits until its own context ends. The sign-in is canceled only when
// the last caller has left.
//
// # Refreshing
//
// An expired token cannot be refreshed, and a new sign-in may need a person. So a session
// refreshes its token in the background when two thirds to five sixths of the token's life have
// passed. Meanwhile calls use the current token. A call starts the refresh: a program that makes
// no calls needs [Session.Keepalive]. A failed refresh is retried, at most once a second, until
// the token expires. Then the session signs in. A token of unknown life is used until the
// service refuses it.
//
// Each call checks the wall clock and the monotonic clock. A process that was stopped, or a
// machine that slept, therefore uses no expired token. Expiry is corrected for clock skew with
// the response's Date header. A skew of more than 24 hours is treated as an error in the header
// and ignored.
//
// # Refused tokens
//
// After a 401 the session forgets the token. The next call takes a newer token from the
// [TokenStore], or signs in. A read is repeated once with the new token, and once more if the
// service also refuses a token from the store: the service may have revoked all tokens. A
// mutation is never repeated.
//
// # Failed sign-ins
//
// After a failed sign-in, calls return its error during a pause, unless the [TokenStore] has a
// new token by then:
//
//   - 1 second, doubling up to 1 minute, if the service did not answer or could not decide;
//   - at least Retry-After, after a 429;
//   - 1 minute, doubling up to 1 hour, after a rejected sign-in, such as a wrong password;
//   - 5 minutes, doubling up to 1 hour, if a two-factor code was sent but no token was issued.
//
// The first three failures in a row cost no pause if neither the service nor the account is
// to blame: the callers left, the TwoFactor function failed, or the service refused a new
// token. If the callers leave while the TwoFactor function waits for a code, they get a
// [*TwoFactorRequiredError]: give them a context that lasts as long as a person needs, or use
// [Session.CompleteTwoFactor].
//
// Sessions with the same [TokenStore] share the pause and the kind of the failure. The error is
// an [ErrSignInRequired] in every process, or in none. [Session.SignIn] ignores the pause.
//
// # New passwords
//
// [Credentials].Current gives each sign-in the current user and password. During the pause after a rejected
// sign-in, a session that is called asks Current every 2 seconds, and tries another pair at once. A process that still has
// the old password sends it once; its failed sign-in does not delay processes with another
// password, and it takes over their token from the [TokenStore].
//
// # Many processes
//
// With [WithTokenStore] the sessions of many processes share one token. One process at a time
// signs in or refreshes, under a lease of the store. If that process is killed, another goes on
// after six seconds. If the store fails, each process keeps its token and refreshes it alone
// shortly before expiry. No session signs in by itself without the store, because all of them
// would.
//
// The store keeps the token of the newer lease. If a token was issued without the store, the token
// that was issued later wins. A refused token never comes back.
//
// The clocks of the processes must agree within 10 seconds, or within a tenth of a token's life
// if that is less. A process whose clock is behind may use an expired token once, until the
// service refuses it. A process whose clock is ahead may sign in too early.
//
// # Functions of the caller
//
// Sign-ins and refreshes run in their own goroutines. If the TwoFactor function, an observer,
// the logger or the store panics or calls [runtime.Goexit] there, the process continues. The
// sign-in fails with an error that contains a [*PanicError] with the stack.
type Session struct{ state opaque.Value[*session] }

// String reports whether the session is signed in. It does not show the token.
func (s *Session) String() string {
	if s.state().engine.SignedIn() {
		return "lending session: signed in"
	}
	return "lending session: not signed in"
}

func newSession(credentials Credentials) *Session {
	return &Session{opaque.Hide(&session{credentials: credentials, rejected: opaque.Hide(new(rejectedLogins))})}
}

// bind gives the session the routes of the client, and its store, a new one for nil.
func (s *Session) bind(auth *AuthService, store TokenStore) {
	if store == nil {
		store = NewMemoryTokenStore()
	}
	own, settings := s.state(), auth.client.settings()
	own.auth = auth
	own.account = account.Of(&settings.base, own.credentials.Username)
	own.engine = signin.New(signin.Config{
		Account: own.account,
		Store:   engineStore{opaque.Hide(store)},
		SignIn:  own.signIn, Refresh: own.refresh,
		By: own.currentBy, Changed: own.changes(), Elsewhere: failedElsewhere,
		Report: func(doing string, err error) { reportTo(settings.logger, doing, err) },
	})
}

// reportTo logs an error that no caller sees.
func reportTo(logger *slog.Logger, doing string, err error) {
	if logger == nil {
		return
	}
	_ = safely.Call[PanicError](func() error {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "lending session: "+doing, slog.String("error", redact.Describe(err)))
		return nil
	})
}

// Token returns a valid token. It may sign in first, and ask for a two-factor code.
func (s *Session) Token(ctx context.Context) (Token, error) {
	token, expires, adopted, err := s.state().engine.Token(ctx)
	if err != nil {
		return Token{}, err
	}
	return Token{Value: Secret{token}, Expires: expires, adopted: adopted}, nil
}

// pause returns the time until the next sign-in may follow.
func (s *Session) pause() time.Duration { return s.state().engine.Pause() }

// SignIn makes sure that the session has a token that the service accepts. If the session has a
// token, SignIn refreshes it. If there is no token, or the service answers the refresh with 401,
// SignIn signs in. It ignores the pause after failed sign-ins and works without the
// [TokenStore], and may send a rejected password again. Call SignIn when a person asks for it, for example after an account was unlocked
// or a code was lost: it may send a code, and may lock the account.
func (s *Session) SignIn(ctx context.Context) error {
	s.state().rejected().forget()
	return s.state().engine.SignIn(ctx)
}

// CompleteTwoFactor completes a sign-in that ended with a [*TwoFactorRequiredError], in this
// process or in another process with the same [TokenStore]. If the error is [OutcomeRejected],
// the code was wrong: ask for another code.
func (s *Session) CompleteTwoFactor(ctx context.Context, challenge Challenge, code string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if current, err := s.state().current(ctx); err != nil {
		return err
	} else if challenge.Username != current.username {
		return argumentError("challenge.username", CodeConflict, "is not the user of this session")
	}
	return s.state().engine.Do(ctx, func(ctx context.Context) (signin.Issue, error) {
		return s.state().complete(ctx, challenge, code)
	})
}

// Keepalive refreshes the token whenever it is due, for programs that make no call for longer
// than a token lives. Keepalive never signs in. It returns an error when ctx ends or the client
// is closed.
func (s *Session) Keepalive(ctx context.Context) error {
	return s.state().engine.Keepalive(ctx)
}

// Invalidate makes the session and its [TokenStore] forget a token that the service refused. A
// newer token stays. Invalidate waits at most one second for the store.
func (s *Session) Invalidate(token Token) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	select {
	case <-s.state().engine.Drop(token.Value.Reveal()):
	case <-ctx.Done():
	}
}

// engineStore is a [TokenStore] as the engine of a session sees it. It contains panics.
type engineStore struct{ store opaque.Value[TokenStore] }

func (s engineStore) Load(ctx context.Context) (stored signin.Stored, err error) {
	err = storeStep(func() error {
		token, err := s.store().Load(ctx)
		stored = signin.Stored{Fence: token.Fence, Data: token.Data.Reveal(), Expires: token.Expires}
		return err
	})
	return stored, err
}

func (s engineStore) Save(ctx context.Context, stored signin.Stored) error {
	return storeStep(func() error {
		return s.store().Save(ctx, StoredToken{stored.Fence, NewSecret(stored.Data), stored.Expires})
	})
}

func (s engineStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error) {
	err = storeStep(func() (err error) {
		fence, err = s.store().Acquire(ctx, owner, ttl)
		return err
	})
	return fence, err
}

func (s engineStore) Release(ctx context.Context, owner string) error {
	return storeStep(func() error { return s.store().Release(ctx, owner) })
}

func storeStep(step func() error) error {
	err := safely.Call[PanicError](step)
	if text := interruption(err); text != "" {
		return hidden(text, err)
	}
	return hide(err)
}

// accountWith is [MutationCall.Account] of a client with these tokens and no [WithAccount].
func accountWith(base *url.URL, tokens TokenSource) string {
	if session, ok := tokens.(*Session); ok {
		return account.Of(base, session.state().credentials.Username)
	}
	return account.Of(base)
}

// SessionState is the state of a [Session] at a moment. It has no token.
type SessionState struct {
	SignedIn bool      `json:"signedIn"`         // calls have a token
	Until    time.Time `json:"until,omitzero"`   // when the token expires; zero if unknown
	Lease    string    `json:"lease,omitempty"`  // "this process", "another process", or empty; see State
	Pause    string    `json:"pause,omitempty"`  // why the last sign-in failed, see State; empty after a success
	Paused   time.Time `json:"paused,omitzero"`  // no sign-in before this time; zero if there is no pause
	Person   bool      `json:"person,omitempty"` // a person has to act: send a two-factor code, or correct the credentials
	Cause    string    `json:"cause,omitempty"`  // the last failed sign-in, without secrets

	Challenge *Challenge `json:"-"` // a sign-in that waits for a code: see [Session.CompleteTwoFactor]; nil if none does
}

// State returns the state of the session. It reads the [TokenStore], and adopts a token or a
// failure of another process. It does not call the service. If the store fails, State returns
// the error and the state that this process knows.
//
// Pause is "outage" if the service did not answer or could not decide, "rejected" if it rejected
// the sign-in, "code_sent" if a two-factor code was sent and no token was issued, and
// "token_store" if the token store failed.
//
// Lease is "another process" while this session waits for another process that signs in. A
// session that needs no token does not know who has the lease.
func (s *Session) State(ctx context.Context) (SessionState, error) {
	of, err := s.state().engine.State(ctx)
	state := SessionState{SignedIn: of.SignedIn, Until: of.Expires, Paused: of.PausedUntil}
	switch {
	case of.Leading:
		state.Lease = "this process"
	case of.Following:
		state.Lease = "another process"
	}
	if of.Failure != nil {
		state.Pause = map[signin.Class]string{
			signin.Outage: "outage", signin.Refused: "rejected", signin.CodeSent: "code_sent", signin.StoreOutage: "token_store",
		}[of.Class]
		state.Person = errors.Is(of.Failure, ErrSignInRequired) || of.Class == signin.Refused
		state.Cause = redact.Describe(of.Failure)
		if required, ok := errors.AsType[*TwoFactorRequiredError](of.Failure); ok {
			state.Challenge = &required.Challenge
		}
	}
	return state, err
}

// Ready reports whether calls can get a token: nil if the session is signed in, or if nothing is
// known that would prevent a sign-in. It reads the [TokenStore] and does not call the service,
// so it suits a readiness probe. The error names the reason and the next step.
func (s *Session) Ready(ctx context.Context) error {
	state, err := s.State(ctx)
	switch {
	case errors.Is(err, signin.ErrClosed):
		return err
	case state.SignedIn:
		return nil
	case state.Person:
		return redact.Text("lending: session: not ready: " + state.Cause + "; a person has to sign in or to correct the credentials")
	case !state.Paused.IsZero():
		return redact.Text("lending: session: not ready: " + state.Cause + "; no sign-in before " + state.Paused.UTC().Format(time.RFC3339))
	case err != nil:
		return redact.New("lending: session: not ready: "+redact.Describe(err)+"; check the token store", err)
	}
	return nil
}
