package lending

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Token is what authenticates calls: a bearer token.
type Token struct {
	Value   Secret
	Expires time.Time // zero if it is not known
}

// TokenSource gives the token for a call. It is asked before every call, by many
// goroutines at once.
//
// A source that also has a method Invalidate(Token) is told of a token that the
// service has refused, and is asked again for a read.
type TokenSource interface {
	Token(ctx context.Context) (Token, error)
}

// StaticToken returns a source that always gives the same token.
func StaticToken(token string) TokenSource { return staticToken{NewSecret(token)} }

type staticToken struct{ value Secret }

func (t staticToken) Token(context.Context) (Token, error) { return Token{Value: t.value}, nil }

// Credentials are what [WithCredentials] signs in with.
type Credentials struct {
	Username           string // required
	Password           Secret // required
	TrustedDeviceToken Secret // optional; an account may need no code from a device that it trusts
	IPAddress          string // optional

	// TwoFactor returns the code that the service has sent for challenge. It may
	// ask a person and take minutes, until ctx ends. Without it a sign-in that
	// needs a code fails with a [*TwoFactorRequiredError].
	TwoFactor func(ctx context.Context, challenge Challenge) (code string, err error)
}

func (cr *Credentials) check(c *checks) {
	LoginRequest{Username: cr.Username, Password: cr.Password}.check(c)
}

// Challenge is a sign-in that waits for the code that the service has sent.
type Challenge struct {
	Username  string    `json:"username"`
	IPAddress string    `json:"ipAddress,omitzero"`
	Issued    time.Time `json:"issued"` // when the code was asked for
}

// TwoFactorRequiredError says that a sign-in needs a code and that there is no
// function to ask for it. errors.Is finds [ErrSignInRequired] in it.
type TwoFactorRequiredError struct{ Challenge Challenge }

// Error does not name the user.
func (e *TwoFactorRequiredError) Error() string {
	return "lending: sign-in required: the service has sent a two-factor code"
}

func (*TwoFactorRequiredError) safe() {}

// Is reports whether target is [ErrSignInRequired].
func (e *TwoFactorRequiredError) Is(target error) bool { return target == ErrSignInRequired }

// Session is a source of tokens that signs in with [Credentials] when a token is
// needed, keeps the token, and signs in again when it has expired or was refused.
// Callers who need a token at the same time share one sign-in.
type Session struct {
	credentials *Credentials // behind a pointer, where fmt does not look
	auth        *AuthService

	mu     sync.Mutex
	token  Token
	renew  time.Time // when token is to be used no longer; zero if that is not known
	signIn *signIn   // under way; nil if none is
}

// signIn is a sign-in under way. It runs on a context of its own, so that the end of
// one caller's does not end it for the others: the last one to leave ends it.
type signIn struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	token   Token
	err     error
}

// expiryMargin is how long before its expiry a token is no longer used, so that it
// does not expire on the way: at most a tenth of its life.
const expiryMargin = 10 * time.Second

func newSession(credentials Credentials) *Session { return &Session{credentials: &credentials} }

// Token returns a valid token. It may sign in first, and ask for a two-factor code.
func (s *Session) Token(ctx context.Context) (Token, error) {
	s.mu.Lock()
	if s.valid() {
		defer s.mu.Unlock()
		return s.token, nil
	}
	if s.signIn == nil {
		s.begin()
	}
	flight := s.signIn
	flight.waiting++
	s.mu.Unlock()

	select {
	case <-flight.done:
		return flight.token, flight.err
	case <-ctx.Done():
		s.leave(flight)
		return Token{}, ctx.Err()
	}
}

// Invalidate makes the session forget token, which the service has refused, unless
// it already holds a newer one.
func (s *Session) Invalidate(token Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.Value == token.Value {
		s.token = Token{}
	}
}

func (s *Session) valid() bool {
	return !s.token.Value.IsZero() && (s.renew.IsZero() || time.Now().Before(s.renew))
}

// keep makes token the present one. The caller holds the lock.
func (s *Session) keep(token Token) {
	s.token, s.renew = token, time.Time{}
	if !token.Expires.IsZero() {
		s.renew = token.Expires.Add(-min(expiryMargin, time.Until(token.Expires)/10))
	}
}

// begin starts a sign-in. The caller holds the lock.
func (s *Session) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	flight := &signIn{done: make(chan struct{}), cancel: cancel}
	s.signIn = flight
	go func() {
		defer cancel()
		flight.token, flight.err = s.login(ctx)
		s.mu.Lock()
		if s.signIn == flight {
			s.signIn = nil
		}
		if flight.err == nil {
			s.keep(flight.token)
		}
		s.mu.Unlock()
		close(flight.done)
	}()
}

// leave is called by a caller who waits no longer.
func (s *Session) leave(flight *signIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if flight.waiting--; flight.waiting == 0 {
		flight.cancel()
		if s.signIn == flight {
			s.signIn = nil // the next caller begins anew
		}
	}
}

// login signs in, with a second step if the service asks for one.
func (s *Session) login(ctx context.Context) (Token, error) {
	var answer Response
	ctx = CaptureResponse(ctx, &answer)
	user, err := s.auth.Login(ctx, LoginRequest{
		Username:           s.credentials.Username,
		Password:           s.credentials.Password,
		TrustedDeviceToken: s.credentials.TrustedDeviceToken,
		IPAddress:          s.credentials.IPAddress,
	})
	if err == nil && user.RequiresTwoFactor {
		user, err = s.secondStep(ctx)
	}
	if err != nil {
		return Token{}, err
	}
	if user.Token.IsZero() {
		return Token{}, fmt.Errorf("lending: the service signed in without a token: %w", ErrSignInRequired)
	}
	return Token{user.Token, onOurClock(user.ExpiresUTC, &answer)}, nil
}

func (s *Session) secondStep(ctx context.Context) (*FullApplicationUser, error) {
	challenge := Challenge{s.credentials.Username, s.credentials.IPAddress, time.Now().UTC()}
	if s.credentials.TwoFactor == nil {
		return nil, &TwoFactorRequiredError{challenge}
	}
	code, err := s.ask(ctx, challenge)
	if err != nil {
		return nil, err
	}
	return s.auth.ValidateTwoFactor(ctx, TwoFactorLoginRequest{
		Username:  challenge.Username,
		Code:      NewSecret(code),
		IPAddress: challenge.IPAddress,
	})
}

// ask calls the caller's function, whose panic must not end the program: it runs in
// a goroutine that the caller does not know.
func (s *Session) ask(ctx context.Context, challenge Challenge) (code string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lending: the TwoFactor function panicked with a %T", p)
		}
	}()
	return s.credentials.TwoFactor(ctx, challenge)
}

// onOurClock moves a time of the service's clock to ours, by the Date of its answer.
func onOurClock(t time.Time, answer *Response) time.Time {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil || t.IsZero() {
		return t
	}
	return t.Add(time.Since(date).Round(time.Second))
}
