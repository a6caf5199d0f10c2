package lending

import (
	"context"
	"encoding/json"
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
	// Token returns the token for one call.
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
	// ask a person and take minutes, and returns when ctx ends: [Client.Close] waits
	// for it. After a wrong code it is asked again, at most three times for one
	// sign-in. Without it a sign-in that needs a code fails with a
	// [*TwoFactorRequiredError].
	TwoFactor func(ctx context.Context, challenge Challenge) (code string, err error)
}

func (cr *Credentials) check(c *checks) {
	LoginRequest{Username: cr.Username, Password: cr.Password}.check(c)
}

// Challenge is a sign-in that waits for the code that the service has sent. It holds
// no secret: it may be stored as JSON, and completed by another process.
type Challenge struct {
	Username  string    `json:"username"`
	IPAddress string    `json:"ipAddress,omitzero"`
	Issued    time.Time `json:"issued"`  // when the code was asked for
	Attempt   int       `json:"attempt"` // 1 for the first code asked for, more after wrong ones
}

// TwoFactorRequiredError says that a sign-in needs a code and that there is no
// function to ask for it, or that nobody waited until it had the code. Give Challenge
// and the code to [Session.CompleteTwoFactor]. errors.Is finds [ErrSignInRequired] in it.
type TwoFactorRequiredError struct {
	safe

	Challenge Challenge
}

// Error does not name the user.
func (e *TwoFactorRequiredError) Error() string {
	return "lending: sign-in required: the service has sent a two-factor code"
}

// Is reports whether target is [ErrSignInRequired].
func (e *TwoFactorRequiredError) Is(target error) bool { return target == ErrSignInRequired }

// AuthService signs in. Most programs never call it: [WithCredentials] does.
type AuthService struct{ client *Client }

// LoginRequest is what a user signs in with.
type LoginRequest struct {
	Username           string `json:"username"`                    // required
	Password           Secret `json:"password"`                    // required
	TrustedDeviceToken Secret `json:"trustedDeviceToken,omitzero"` // optional
	IPAddress          string `json:"ipAddress,omitzero"`          // optional; of the user
	Extra              any    `json:"-"`                           // further fields: marshals to a JSON object
}

func (r LoginRequest) check(c *checks) {
	c.that(r.Username != "", "username", CodeRequired, "must not be empty")
	c.that(!r.Password.IsZero(), "password", CodeRequired, "must not be empty")
}

// TwoFactorLoginRequest is the second step of a sign-in.
type TwoFactorLoginRequest struct {
	Username  string `json:"username"`           // required
	Code      Secret `json:"code"`               // required; as it came through the account's channel
	IPAddress string `json:"ipAddress,omitzero"` // optional; of the user
	Extra     any    `json:"-"`                  // further fields: marshals to a JSON object
}

func (r TwoFactorLoginRequest) check(c *checks) {
	c.that(r.Username != "", "username", CodeRequired, "must not be empty")
	c.that(!r.Code.IsZero(), "code", CodeRequired, "must not be empty")
}

// FullApplicationUser is the answer to both steps of a sign-in. The user id that it
// holds among its unpublished fields is not a token.
//
// It marshals to its published fields, with the token redacted; [Record.Raw] holds it
// as received.
type FullApplicationUser struct {
	Record
	RequiresTwoFactor bool      `json:"requiresTwoFactor"`
	Token             Secret    `json:"token"`                          // empty if a second step is due, or the sign-in has failed
	ExpiresUTC        time.Time `json:"expiresUTC" decode:"if-it-fits"` // zero if the service does not tell
}

// UnmarshalJSON keeps data as the [Record].
func (u *FullApplicationUser) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, u) }

// MarshalJSON writes the published fields and redacts the token.
func (u FullApplicationUser) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"requiresTwoFactor": u.RequiresTwoFactor, "token": u.Token, "expiresUTC": u.ExpiresUTC,
	})
}

// Login begins a sign-in with username and password. When the answer's
// RequiresTwoFactor is true it holds no token: the service has sent a code through
// the account's channel, for [AuthService.ValidateTwoFactor].
//
// It may send a message to a person, and repeated failures may lock the account: it
// is never repeated. It needs no token. After an unknown outcome no read shows whether
// a code was sent.
//
// Route: POST /api/Authenication/login
func (s *AuthService) Login(ctx context.Context, login LoginRequest) (*FullApplicationUser, error) {
	return post[*FullApplicationUser](ctx, s.client, request{
		path:      "/api/Authenication/login",
		body:      login,
		anonymous: true,
		signIn:    true,
	})
}

// ValidateTwoFactor completes a sign-in with the code that [AuthService.Login] caused
// to be sent. An answer without a token is a failed sign-in. It needs no token. After
// an unknown outcome no read shows whether the code is spent: sign in again.
//
// Route: POST /api/Authenication/validate-two-factor
func (s *AuthService) ValidateTwoFactor(ctx context.Context, login TwoFactorLoginRequest) (*FullApplicationUser, error) {
	return post[*FullApplicationUser](ctx, s.client, request{
		path:      "/api/Authenication/validate-two-factor",
		body:      login,
		anonymous: true,
		signIn:    true,
	})
}

// RefreshToken returns a new token for the client's present one, which must not have
// expired: an expired token cannot be refreshed. The answer does not say how long
// the new token is valid, and the client does not begin to use it by itself.
//
// An answer without a token is an error. After an unknown outcome sign in again.
//
// Route: POST /api/Authenication/refresh-token
func (s *AuthService) RefreshToken(ctx context.Context) (Secret, error) {
	return post[Secret](ctx, s.client, request{
		path:   "/api/Authenication/refresh-token",
		signIn: true,
	})
}
