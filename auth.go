package lending

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/signin"
)

// Credentials are for [WithCredentials].
type Credentials struct {
	Username           string // required
	Password           Secret // required, unless there is a function Current
	TrustedDeviceToken Secret // optional; a trusted device may need no two-factor code
	IPAddress          string // optional

	// Current returns the user and the password of the next sign-in, for example from a vault, so
	// that a program rotates them without a restart. The session asks before each sign-in, and
	// once more if the service rejects the sign-in. A rejected pair is not sent again by this
	// process, unless [Session.SignIn] asks for it: change the password at the service first.
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

// The steps of a sign-in, for the engine of a [Session].

const maxCodes = 3 // two-factor codes tried for one sign-in

// reply is the response to a step of a sign-in or to a refresh.
type reply struct {
	Response
	sent time.Time // when the request began
}

// signIn gets a new token for the engine.
func (s *session) signIn(ctx context.Context) (signin.Issue, error) {
	codeSent, sent := false, login{}
	issue, err := contained(func() (signin.Issue, error) { return s.login(ctx, &codeSent, &sent) }, &codeSent)
	if failed, ok := errors.AsType[*signin.Failure](err); ok {
		failed.Unsent = sent == login{}
		if failed.Class == signin.Refused {
			failed.By = s.by(sent)
		}
	}
	return issue, err
}

// complete takes the second step of a sign-in that another call began.
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

// login signs in, with a second step if the service asks for a code, and then sets codeSent.
func (s *session) login(ctx context.Context, codeSent *bool, sent *login) (signin.Issue, error) {
	var answer reply
	ctx = CaptureResponse(ctx, &answer.Response)
	user, err := s.firstStep(ctx, &answer, sent)
	if err == nil && user.RequiresTwoFactor {
		*codeSent = true
		user, err = s.secondStep(ctx, sent.username, &answer)
	}
	if err != nil {
		return signin.Issue{}, err
	}
	return signedIn(user, &answer)
}

// firstStep sends the user and the password, and notes them in sent. After a rejection it asks
// Current once more, and sends another pair.
func (s *session) firstStep(ctx context.Context, answer *reply, sent *login) (*FullApplicationUser, error) {
	var rejection error
	for {
		present, err := s.present(ctx)
		if err == nil && s.credentials.Current != nil && s.rejected().has(present) {
			err = errRejectedBefore
		}
		if err != nil {
			return nil, cmp.Or(rejection, err)
		}
		again := *sent != login{}
		*sent, answer.sent = present, time.Now()
		user, err := s.auth.Login(ctx, LoginRequest{
			Username:           present.username,
			Password:           NewSecret(present.password),
			TrustedDeviceToken: s.credentials.TrustedDeviceToken,
			IPAddress:          s.credentials.IPAddress,
		})
		if !isRefusal(err) && (err != nil || user.RequiresTwoFactor || !user.Token.IsZero()) {
			return user, err
		}
		if s.credentials.Current == nil {
			return user, err
		}
		s.rejected().add(present)
		if again {
			return user, err
		}
		rejection = cmp.Or(err, error(errNoToken))
	}
}

// secondStep asks for the code. If ctx ends before, the code is still due.
func (s *session) secondStep(ctx context.Context, username string, answer *reply) (*FullApplicationUser, error) {
	challenge := Challenge{username, s.credentials.IPAddress, time.Now().UTC(), 1}
	if s.credentials.TwoFactor == nil {
		return nil, &TwoFactorRequiredError{Challenge: challenge}
	}
	user, err := s.tryCodes(ctx, challenge, answer)
	if err != nil && ctx.Err() != nil {
		err = &TwoFactorRequiredError{Challenge: challenge}
	}
	return user, err
}

// tryCodes asks for the code, and asks again after a wrong code.
func (s *session) tryCodes(ctx context.Context, challenge Challenge, answer *reply) (*FullApplicationUser, error) {
	for refusal := error(nil); ; challenge.Attempt++ {
		code, err := s.credentials.TwoFactor(ctx, challenge)
		if err != nil {
			return nil, errors.Join(refusal, &signInError{text: textTwoFactor, cause: hide(err), mild: true, needsPerson: true})
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

// signedIn returns the token in the response to the last step of a sign-in.
func signedIn(user *FullApplicationUser, answer *reply) (signin.Issue, error) {
	if !isHeaderSafe(user.Token.Reveal()) {
		return signin.Issue{}, errNoToken
	}
	told := user.ExpiresUTC
	if told.IsZero() {
		told = jwtExpiry(user.Token)
	}
	issued, expires := time.Now(), onOurClock(told, answer)
	life := lifeByService(told, answer)
	life = max(expires.Sub(issued), min(life, expires.Sub(answer.sent)))
	if expires.Sub(issued) <= signin.Margin(expires.Sub(answer.sent)) {
		issued = answer.sent // too much of the token's life has passed on the way
	}
	return signin.Issue{Token: user.Token.Reveal(), Issued: issued, Expires: expires, Life: life}, nil
}

// lifeByService returns the life of a token that expires at told, by the service's clock alone:
// a slow response must not shorten the life, which refreshed tokens inherit. The Date header is
// cut to the second. Without a Date the life is 0.
func lifeByService(told time.Time, answer *reply) time.Duration {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return told.Sub(date) - time.Second
}

// refresh exchanges token. The new token is a JWT with an expiry, or lives as long as life.
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

// jwtExpiry returns the exp claim of a JWT, and the zero Time for any other token. The time is
// only a hint, so the signature is not verified.
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

// maxSkew is the largest believable difference of two clocks. A Date further off is an error in
// the header.
const maxSkew = 24 * time.Hour

// onOurClock moves a time of the service's clock to ours, with the Date header of the response.
// The service wrote the header between sending and now. If the clocks can agree within two
// seconds, they count as equal. Otherwise the smaller difference counts, so that a token expires
// sooner rather than later.
func onOurClock(t time.Time, answer *reply) time.Time {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	least, most := answer.sent.Sub(date), time.Since(date)
	agree := least < 2*time.Second && most > -2*time.Second
	if err != nil || t.IsZero() || agree || least.Abs() > maxSkew {
		return t
	}
	return t.Add(least)
}
