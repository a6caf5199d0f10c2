package lending

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Credentials are for [WithCredentials].
type Credentials struct {
	Username           string // required
	Password           Secret // required, unless there is a function Current
	TrustedDeviceToken Secret // optional; a trusted device may need no two-factor code
	IPAddress          string // optional

	// Current returns the user and the password of the next sign-in, for example from a vault, so
	// that a program rotates them without a restart. The session asks before each sign-in, once more
	// if the service rejects the sign-in, and then every 2 seconds. This process does not send a
	// rejected pair again, unless [Session.SignIn] asks for it: change the password at the service first.
	// Current must return when ctx ends. Username still names the account in the [TokenStore]
	// and in the log of mutations; Password is not used.
	Current func(ctx context.Context) (username string, password Secret, err error)

	// TwoFactor returns the code that the service sent for challenge. The function may ask a
	// person and take minutes. It must return when ctx ends, because [Client.Close] waits for
	// it. After a wrong code the session calls TwoFactor again, at most three times for a
	// sign-in. Without the function, a sign-in that needs a code fails with a
	// [*TwoFactorRequiredError].
	TwoFactor func(ctx context.Context, challenge Challenge) (code string, err error)
}

func (cr *Credentials) check(c *checks) {
	c.that(cr.Username != "", "username", CodeRequired, "must not be empty")
	c.that(!cr.Password.IsZero() || cr.Current != nil, "password", CodeRequired, "must not be empty")
}

// Challenge is a sign-in that waits for its two-factor code. A Challenge holds no secret: store
// it as JSON, and complete the sign-in in any process.
type Challenge struct {
	Username  string    `json:"username"`
	IPAddress string    `json:"ipAddress,omitzero"`
	Issued    time.Time `json:"issued"`  // when the sign-in began
	Attempt   int       `json:"attempt"` // 1 for the first code, more after wrong codes
}

// TwoFactorRequiredError is the error of a sign-in that needs a code, if [Credentials] has no
// TwoFactor function, or if the callers left before the function returned. Give Challenge and
// the code to [Session.CompleteTwoFactor]. errors.Is finds [ErrSignInRequired].
type TwoFactorRequiredError struct {
	safe

	Challenge Challenge
}

// Error describes the failure without the user's name.
func (e *TwoFactorRequiredError) Error() string {
	return "lending: sign-in required: the service has sent a two-factor code"
}

// Is reports whether target is [ErrSignInRequired].
func (e *TwoFactorRequiredError) Is(target error) bool { return target == ErrSignInRequired }

// login is a user and a password. Only values that fmt cannot reach hold one.
type login struct{ username, password string }

// rejectedLogins are the logins that the service has rejected, the last 16.
type rejectedLogins struct {
	mu     sync.Mutex
	logins []login
}

func (r *rejectedLogins) has(l login) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.logins, l)
}

func (r *rejectedLogins) add(l login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins = append(r.logins[max(0, len(r.logins)-15):], l)
}

// last returns the last rejected login, or no login.
func (r *rejectedLogins) last() (l login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.logins); n > 0 {
		l = r.logins[n-1]
	}
	return l
}

func (r *rejectedLogins) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins = nil
}
