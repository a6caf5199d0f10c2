package lending

import (
	"context"
	"encoding/json"
	"time"
)

// AuthService signs in. Most programs use [WithCredentials] instead.
type AuthService struct{ client *carrier }

// LoginRequest is the first step of a sign-in.
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
	Code      Secret `json:"code"`               // required; as the account's channel delivered the code
	IPAddress string `json:"ipAddress,omitzero"` // optional; of the user
	Extra     any    `json:"-"`                  // further fields: marshals to a JSON object
}

func (r TwoFactorLoginRequest) check(c *checks) {
	c.that(r.Username != "", "username", CodeRequired, "must not be empty")
	c.that(!r.Code.IsZero(), "code", CodeRequired, "must not be empty")
}

// FullApplicationUser is the response to both steps of a sign-in. The user id among its
// unpublished fields is not a token. Its JSON has the published fields, with the token redacted;
// [Record.Raw] has the response as received.
type FullApplicationUser struct {
	Record
	RequiresTwoFactor bool      `json:"requiresTwoFactor"`
	Token             Secret    `json:"token"`                          // empty if a second step follows, or the sign-in failed
	ExpiresUTC        time.Time `json:"expiresUTC" decode:"if-it-fits"` // zero if the service does not say
}

// UnmarshalJSON keeps data as the [Record].
func (u *FullApplicationUser) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, u) }

// MarshalJSON writes the published fields and redacts the token.
func (u FullApplicationUser) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"requiresTwoFactor": u.RequiresTwoFactor, "token": u.Token, "expiresUTC": u.ExpiresUTC,
	})
}

// Login begins a sign-in with username and password. If RequiresTwoFactor is true, the result
// has no token: the service sent a code through the account's channel, for
// [AuthService.ValidateTwoFactor].
//
// Repeated failures may lock the account. Login needs no token. After an unknown outcome no read
// shows whether the service sent a code: sign in again.
//
// Route: POST /api/Authenication/login
func (s *AuthService) Login(ctx context.Context, login LoginRequest) (*FullApplicationUser, error) {
	return post[*FullApplicationUser](ctx, s.client, route("/api/Authenication/login").with(login).forToken())
}

// ValidateTwoFactor completes a sign-in with the code that the service sent after
// [AuthService.Login]. A response without a token is a failed sign-in. ValidateTwoFactor needs
// no token. After an unknown outcome no read shows whether the code is used: sign in again.
//
// Route: POST /api/Authenication/validate-two-factor
func (s *AuthService) ValidateTwoFactor(ctx context.Context, login TwoFactorLoginRequest) (*FullApplicationUser, error) {
	r := route("/api/Authenication/validate-two-factor").with(login).forToken()
	return post[*FullApplicationUser](ctx, s.client, r)
}

// forToken marks a step of a sign-in. The only evidence of its success is the token in its response.
func (r request) forToken() request {
	r.anonymous, r.signIn = true, true
	r.proof.accepts = func(a *answer) error {
		if string(a.content().body) == "false" {
			return errSaysNo
		}
		return nil
	}
	return r
}

// RefreshToken exchanges the client's token for a new token. The service cannot refresh an
// expired token, and does not say how long the new token is valid. The client does not use the
// new token by itself. After an unknown outcome no read shows the new token: sign in again.
//
// Route: POST /api/Authenication/refresh-token
func (s *AuthService) RefreshToken(ctx context.Context) (Secret, error) {
	r := route("/api/Authenication/refresh-token")
	r.signIn = true
	return post[Secret](ctx, s.client, r)
}
