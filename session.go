package lending

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
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
// passed. Calls use the present token meanwhile. A call starts the refresh: a program that makes
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
// [Credentials].Current gives each sign-in the present user and password. A process that still has
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
// Of two tokens from the store, the token of the later lease wins. If one of them was issued
// without the store, the later issue wins. A refused token never comes back.
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

// session is what a [Session] holds.
type session struct {
	credentials Credentials
	auth        *AuthService
	engine      *signin.Engine
	account     string
	rejected    opaque.Value[*rejectedLogins]
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
		By: own.presentBy, EncodeFailure: encodeFailure, DecodeFailure: decodeFailure,
		Report: func(doing string, err error) { reportTo(settings.logger, doing, shownSignInError(err)) },
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
		return Token{}, shownSignInError(err)
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
	return shownSignInError(s.state().engine.SignIn(ctx))
}

// CompleteTwoFactor completes a sign-in that ended with a [*TwoFactorRequiredError], in this
// process or in another process with the same [TokenStore]. If the error is [OutcomeRejected],
// the code was wrong: ask for another code.
func (s *Session) CompleteTwoFactor(ctx context.Context, challenge Challenge, code string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if present, err := s.state().present(ctx); err != nil {
		return err
	} else if challenge.Username != present.username {
		return argumentError("challenge.username", CodeConflict, "is not the user of this session")
	}
	return shownSignInError(s.state().engine.Do(ctx, func(ctx context.Context) (signin.Issue, error) {
		return s.state().complete(ctx, challenge, code)
	}))
}

// Keepalive refreshes the token whenever it is due, for programs that make no call for longer
// than a token lives. Keepalive never signs in. It returns an error when ctx ends or the client
// is closed.
func (s *Session) Keepalive(ctx context.Context) error {
	return shownSignInError(s.state().engine.Keepalive(ctx))
}

// Invalidate makes the session and its [TokenStore] forget a token that the service refused. A
// newer token stays. Invalidate waits at most one second for the store.
func (s *Session) Invalidate(token Token) {
	told, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	select {
	case <-s.state().engine.Drop(token.Value.Reveal()):
	case <-told.Done():
	}
}

// signInError is a failure that has no error of the service's.
type signInError struct {
	safe

	text  string
	cause error // nil if there is none
	mild  bool  // neither the service nor the account is to blame
	empty bool  // the service answered with success and no token: a refusal

	needsPerson bool // no later sign-in can succeed by itself
}

func (e *signInError) Error() string { return "lending: sign-in: " + e.text }
func (e *signInError) Unwrap() error { return e.cause }

func (e *signInError) Is(target error) bool {
	switch target {
	case ErrSignInRequired:
		return e.needsPerson
	case knows(OutcomeRejected):
		return e.empty
	}
	return target == knows(OutcomeNotSent)
}

func (e *signInError) next() Next { return nextOfSignIn(e) }

var (
	errClosed   = &signInError{text: "the client is closed"}
	errOutlived = &signInError{text: "its token is of no use any more"}
	errRefused  = &signInError{text: "the service refused the token it had given"}
	errNoToken  = &signInError{text: textNoToken, empty: true, needsPerson: true}

	errRejectedBefore = &signInError{
		text: "the service has rejected the present user and password, and they are not sent again; " +
			"let Credentials.Current return others, or call Session.SignIn",
		mild: true, needsPerson: true,
	}
)

// shownSignInError returns an error of the engine as one that a caller may see.
func shownSignInError(err error) error {
	switch e := err.(type) { //nolint:errorlint // the engine wraps none of its errors
	case *signin.Failure:
		return shownSignInError(e.Err)
	case *signin.PausedError:
		return &signin.PausedError{Cause: shownSignInError(e.Cause), Until: e.Until}
	case *signin.StoreError:
		return &signin.StoreError{Cause: hide(e.Cause)}
	}
	switch err {
	case signin.ErrClosed: //nolint:errorlint // see above
		return errClosed
	case signin.ErrOutlived:
		return errOutlived
	case signin.ErrRefused:
		return errRefused
	}
	return err
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

// storeStep takes a step of a store.
func storeStep(step func() error) error {
	err := safely.Call[PanicError](step)
	if text := interruption(err); text != "" {
		return hidden(text, err)
	}
	return err
}

// contained returns a panic of a caller's function (TwoFactor, an observer, the logger), and the
// end of its goroutine, as an error, and tells the engine what pause follows.
func contained(step func() (signin.Issue, error), codeSent *bool) (issue signin.Issue, err error) {
	err = safely.Call[PanicError](func() (err error) {
		issue, err = step()
		return err
	})
	if text := interruption(err); text != "" {
		err = &signInError{text: text, cause: hide(err), mild: true}
	}
	if err != nil {
		return signin.Issue{}, failureOf(err, *codeSent)
	}
	return issue, nil
}

// failureOf tells the engine what pause follows a failed step.
func failureOf(err error, codeSent bool) *signin.Failure {
	own, isOwn := errors.AsType[*signInError](err)
	_, notSent := errors.AsType[*ArgumentError](err)
	refused := isRefusal(err) || isOwn && !own.mild
	failed := &signin.Failure{
		Err: err, TokenRefused: errors.Is(err, ErrUnauthorized),
		Mild: !refused && (isOwn || notSent || errors.Is(err, context.Canceled)),
	}
	switch {
	case codeSent:
		failed.Class = signin.CodeSent
	case refused:
		failed.Class = signin.Refused
	}
	if answer, ok := errors.AsType[*Error](err); ok {
		failed.RetryAfter = answer.RetryAfter
	}
	return failed
}

// failureKind is what other processes learn of a failed sign-in.
type failureKind struct {
	Route     string     `json:"route,omitempty"`  // that has answered
	Status    int        `json:"status,omitempty"` // of the answer
	Outcome   Outcome    `json:"outcome,omitempty"`
	Challenge *Challenge `json:"challenge,omitempty"`
	Person    bool       `json:"person,omitempty"` // the failure is an [ErrSignInRequired]
	Why       string     `json:"why,omitempty"`    // one of failureTexts
}

// failureTexts are the causes without an answer. A store cannot add a text to an error.
var failureTexts = []string{textTwoFactor, textCurrent, textNoToken, textNoAnswer}

const (
	textTwoFactor = "the TwoFactor function failed"
	textCurrent   = "the Current function of Credentials failed"
	textNoToken   = "the service signed in without a usable token"
	textNoAnswer  = "the service has not answered"
)

func encodeFailure(err error) []byte {
	kind := failureKind{Person: errors.Is(err, ErrSignInRequired)}
	if required, ok := errors.AsType[*TwoFactorRequiredError](err); ok {
		kind.Challenge = &required.Challenge
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		kind.Route, kind.Status, kind.Outcome, kind.Why = failed.Route, failed.StatusCode, failed.Outcome, textNoAnswer
	}
	if own, ok := errors.AsType[*signInError](err); ok {
		kind.Why = own.text
	}
	text, _ := json.Marshal(kind) //nolint:errchkjson // texts, numbers and times
	return text
}

// decodeFailure returns what the sessions of other processes get for a failed sign-in.
func decodeFailure(text []byte) error {
	var kind failureKind
	_ = json.Unmarshal(text, &kind) // the store may have been written by a later version
	failed := &signInError{text: "it has failed in another process", needsPerson: kind.Person}
	switch {
	case kind.Challenge != nil:
		return &TwoFactorRequiredError{Challenge: *kind.Challenge}
	case kind.Status != 0:
		answer := &Error{Method: http.MethodPost, Route: kind.Route, StatusCode: kind.Status, Outcome: kind.Outcome, Attempts: 1}
		failed.text, failed.cause = failed.text+": "+redact.Describe(answer), answer
	case slices.Contains(failureTexts, kind.Why):
		failed.text += ": " + kind.Why + "; see its log"
	default:
		failed.text += "; see its log"
	}
	return failed
}

// accountWith is [MutationCall.Account] of a client with these tokens and no [WithAccount].
func accountWith(base *url.URL, tokens TokenSource) string {
	if session, ok := tokens.(*Session); ok {
		return account.Of(base, session.state().credentials.Username)
	}
	return account.Of(base)
}
