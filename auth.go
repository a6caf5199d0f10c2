package lending

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/signin"
)

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
type AuthService struct{ client *carrier }

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

		tokenTells: true,
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

		tokenTells: true,
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

// The steps of a sign-in, which the engine of a [Session] takes.

const maxCodes = 3 // two-factor codes tried for one sign-in

// reply is the answer to a step of a sign-in or to a refresh.
type reply struct {
	Response
	sent time.Time // when it was asked for
}

// signIn is the engine's way to a new token.
func (s *session) signIn(ctx context.Context) (signin.Issue, error) {
	codeSent := false
	return contained(func() (signin.Issue, error) { return s.login(ctx, &codeSent) }, &codeSent)
}

// complete is the second step of a sign-in that another call began.
func (s *session) complete(ctx context.Context, challenge Challenge, code string) (signin.Issue, error) {
	return contained(func() (signin.Issue, error) {
		answer := reply{sent: time.Now()}
		user, err := s.validate(CaptureResponse(ctx, &answer.Response), challenge, code)
		if err != nil {
			return signin.Issue{}, err
		}
		return signedIn(user, &answer)
	}, new(bool))
}

// login signs in, with a second step if the service asks for one: then it sets codeSent.
func (s *session) login(ctx context.Context, codeSent *bool) (signin.Issue, error) {
	answer := reply{sent: time.Now()}
	ctx = CaptureResponse(ctx, &answer.Response)
	user, err := s.auth.Login(ctx, LoginRequest{
		Username:           s.credentials.Username,
		Password:           s.credentials.Password,
		TrustedDeviceToken: s.credentials.TrustedDeviceToken,
		IPAddress:          s.credentials.IPAddress,
	})
	if err == nil && user.RequiresTwoFactor {
		*codeSent = true
		user, err = s.secondStep(ctx, &answer)
	}
	if err != nil {
		return signin.Issue{}, err
	}
	return signedIn(user, &answer)
}

// secondStep asks for the code. If it ends before there is one, the code is still due.
func (s *session) secondStep(ctx context.Context, answer *reply) (*FullApplicationUser, error) {
	challenge := Challenge{s.credentials.Username, s.credentials.IPAddress, time.Now().UTC(), 1}
	if s.credentials.TwoFactor == nil {
		return nil, &TwoFactorRequiredError{Challenge: challenge}
	}
	user, err := s.tryCodes(ctx, challenge, answer)
	if err != nil && ctx.Err() != nil {
		err = &TwoFactorRequiredError{Challenge: challenge}
	}
	return user, err
}

// tryCodes asks for the code, and again if it was wrong.
func (s *session) tryCodes(ctx context.Context, challenge Challenge, answer *reply) (*FullApplicationUser, error) {
	for refusal := error(nil); ; challenge.Attempt++ {
		code, err := s.credentials.TwoFactor(ctx, challenge)
		if err != nil {
			return nil, errors.Join(refusal, &signInError{text: "the TwoFactor function failed", cause: hide(err), mild: true, needsPerson: true})
		}
		answer.sent = time.Now()
		user, err := s.validate(ctx, challenge, code)
		wrong := isRefusal(err) || err == nil && user.Token.IsZero()
		if !wrong || challenge.Attempt == maxCodes {
			return user, err
		}
		refusal = err
	}
}

func (s *session) validate(ctx context.Context, challenge Challenge, code string) (*FullApplicationUser, error) {
	return s.auth.ValidateTwoFactor(ctx, TwoFactorLoginRequest{
		Username:  challenge.Username,
		Code:      NewSecret(code),
		IPAddress: challenge.IPAddress,
	})
}

// signedIn returns the token in the answer to the last step of a sign-in.
func signedIn(user *FullApplicationUser, answer *reply) (signin.Issue, error) {
	if !isHeaderSafe(user.Token.Reveal()) {
		return signin.Issue{}, &signInError{text: "the service signed in without a usable token", empty: true, needsPerson: true}
	}
	told := user.ExpiresUTC
	if told.IsZero() {
		told = jwtExpiry(user.Token)
	}
	issued, expires := time.Now(), onOurClock(told, answer)
	life := lifeByService(told, answer)
	life = max(expires.Sub(issued), min(life, expires.Sub(answer.sent)))
	if expires.Sub(issued) <= signin.Margin(expires.Sub(answer.sent)) {
		issued = answer.sent // too much of its life has passed on the way
	}
	return signin.Issue{Token: user.Token.Reveal(), Issued: issued, Expires: expires, Life: life}, nil
}

// lifeByService returns the life of a token that expires at told, by the service's clock
// alone: a slow answer must not shorten it, because refreshed tokens inherit it. The Date
// of the answer is cut to the second. Without a Date the life is 0.
func lifeByService(told time.Time, answer *reply) time.Duration {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return told.Sub(date) - time.Second
}

// refresh exchanges token. The answer does not tell how long the new token lives: life,
// unless it is a JWT that says otherwise.
func (s *session) refresh(ctx context.Context, token string, life time.Duration) (signin.Issue, error) {
	return contained(func() (signin.Issue, error) {
		answer := reply{sent: time.Now()}
		value, err := post[Secret](CaptureResponse(ctx, &answer.Response), s.auth.client, request{
			path:  "/api/Authenication/refresh-token",
			token: Token{Value: NewSecret(token)},
		})
		if err != nil {
			return signin.Issue{}, err
		}
		if !isHeaderSafe(value.Reveal()) {
			return signin.Issue{}, &signInError{text: "the service refreshed without a usable token"}
		}
		expires := onOurClock(jwtExpiry(value), &answer)
		if !expires.After(answer.sent) && life > 0 {
			expires = answer.sent.Add(life)
		}
		return signin.Issue{Token: value.Reveal(), Issued: answer.sent, Expires: expires}, nil
	}, new(bool))
}

// jwtExpiry returns the exp claim of a token that is a JWT, else the zero Time. The
// signature is the service's business: the time is only a hint.
func jwtExpiry(token Secret) time.Time {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claim struct{ Exp float64 }
	if err != nil || json.Unmarshal(claims, &claim) != nil || claim.Exp < 1 || claim.Exp > 1e10 {
		return time.Time{}
	}
	return time.Unix(int64(claim.Exp), 0)
}

// maxSkew is the largest difference of clocks that is believed: a Date further off is a
// mistake of whoever wrote it, and no reason to doubt the time that is moved by it.
const maxSkew = 24 * time.Hour

// onOurClock moves a time of the service's clock to ours, by the Date of its answer. That
// was written between sending and now, however long the answer was on its way: clocks that
// may agree to two seconds are taken to agree, and of others the difference that lets a
// token expire sooner is believed.
func onOurClock(t time.Time, answer *reply) time.Time {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	least, most := answer.sent.Sub(date), time.Since(date)
	agree := least < 2*time.Second && most > -2*time.Second
	if err != nil || t.IsZero() || agree || least.Abs() > maxSkew {
		return t
	}
	return t.Add(least)
}
