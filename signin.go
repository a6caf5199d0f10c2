package lending

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/internal/signin"
)

// session is what a [Session] holds. Its methods are the steps of a sign-in, for the engine.
type session struct {
	credentials Credentials
	auth        *AuthService
	engine      *signin.Engine
	account     string
	rejected    opaque.Value[*rejectedLogins]
}

// current returns the user and the password of the next sign-in.
func (s *session) current(ctx context.Context) (current login, err error) {
	if s.credentials.Current == nil {
		return login{s.credentials.Username, s.credentials.Password.Reveal()}, nil
	}
	err = safely.Call[PanicError](func() error {
		username, password, err := s.credentials.Current(ctx)
		current = login{username, password.Reveal()}
		return err
	})
	if err != nil {
		return login{}, &signInError{text: cmp.Or(interruption(err), textCurrent), cause: hide(err), mild: true}
	}
	return current, nil
}

// by distinguishes a login from others in the [TokenStore]. It is a byte of a hash: nearly always
// enough to distinguish an old password from a new one, and too little to guess a password with.
func (s *session) by(l login) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{s.account, l.username, l.password}))
	return hex.EncodeToString(sum[:1])
}

// currentBy is by for the current login, or empty if Current fails.
func (s *session) currentBy(ctx context.Context) string {
	current, err := s.current(ctx)
	if err != nil {
		return ""
	}
	return s.by(current)
}

// changes returns a function that reports whether Current has another login than the refused one, which by names; nil
// without Current.
func (s *session) changes() func(ctx context.Context, by string) bool {
	if s.credentials.Current == nil {
		return nil
	}
	return func(ctx context.Context, by string) bool {
		current, err := s.current(ctx)
		if last := s.rejected().last(); last != (login{}) && s.by(last) == by { // this process knows all of the refused login
			return err == nil && current != last
		}
		return err == nil && s.by(current) != by
	}
}

// signIn gets a new token for the engine.
func (s *session) signIn(ctx context.Context) (signin.Issue, error) {
	t := &try{session: s}
	return t.run(ctx, t.login)
}

// complete takes the second step of a sign-in that another call began.
func (s *session) complete(ctx context.Context, challenge Challenge, code string) (signin.Issue, error) {
	t := &try{session: s}
	return t.run(ctx, func(ctx context.Context) (signin.Issue, error) {
		user, err := t.validate(ctx, challenge, code)
		if err != nil {
			return signin.Issue{}, err
		}
		return t.signedIn(user)
	})
}

// refresh exchanges token. The new token is a JWT with an expiry, or lives as long as life.
func (s *session) refresh(ctx context.Context, token string, life time.Duration) (signin.Issue, error) {
	t := &try{session: s, begun: time.Now()}
	return t.run(ctx, func(ctx context.Context) (signin.Issue, error) {
		value, err := post[Secret](ctx, s.auth.client, request{
			path:  "/api/Authenication/refresh-token",
			token: Token{Value: NewSecret(token)},
		})
		if err != nil {
			return signin.Issue{}, err
		}
		if !isHeaderSafe(value.Reveal()) {
			return signin.Issue{}, &signInError{text: "the service refreshed without a usable token"}
		}
		expires := t.onOurClock(jwtExpiry(value))
		if !expires.After(t.begun) && life > 0 {
			expires = t.begun.Add(life)
		}
		return signin.Issue{Token: value.Reveal(), Issued: t.begun, Expires: expires}, nil
	})
}

// try is a sign-in or a refresh.
type try struct {
	*session

	sent     login     // the last user and password
	refused  login     // the pair that was not sent, because the service had rejected it
	codeSent bool      // the service has sent a two-factor code
	begun    time.Time // when the last request began
	answer   Response  // to the last request
}

// run returns the token of steps, or a [*signin.Failure]. A panic of a caller's function (TwoFactor,
// an observer, the logger), and the end of its goroutine, are failures.
func (t *try) run(ctx context.Context, steps func(context.Context) (signin.Issue, error)) (issue signin.Issue, err error) {
	err = safely.Call[PanicError](func() (err error) {
		issue, err = steps(CaptureResponse(ctx, &t.answer))
		return err
	})
	if text := interruption(err); text != "" {
		err = &signInError{text: text, cause: hide(err), mild: true}
	}
	if err != nil {
		return signin.Issue{}, t.classify(err)
	}
	return issue, nil
}

// login signs in, with a second step if the service asks for a code.
func (t *try) login(ctx context.Context) (signin.Issue, error) {
	user, err := t.firstStep(ctx)
	if err == nil && user.RequiresTwoFactor {
		t.codeSent = true
		user, err = t.secondStep(ctx)
	}
	if err != nil {
		return signin.Issue{}, err
	}
	return t.signedIn(user)
}

// firstStep sends the user and the password. After a rejection it asks Current once more, and sends
// another pair.
func (t *try) firstStep(ctx context.Context) (*FullApplicationUser, error) {
	var rejection error
	for {
		current, err := t.current(ctx)
		if err == nil && t.credentials.Current != nil && t.rejected().has(current) {
			t.refused, err = current, errRejectedBefore
		}
		if err != nil {
			return nil, cmp.Or(rejection, err)
		}
		again := t.sent != login{}
		t.sent, t.begun = current, time.Now()
		user, err := t.auth.Login(ctx, LoginRequest{
			Username:           current.username,
			Password:           NewSecret(current.password),
			TrustedDeviceToken: t.credentials.TrustedDeviceToken,
			IPAddress:          t.credentials.IPAddress,
		})
		if !isRefusal(err) && (err != nil || user.RequiresTwoFactor || !user.Token.IsZero()) {
			return user, err
		}
		if t.credentials.Current == nil {
			return user, err
		}
		t.rejected().add(current)
		if again {
			return user, err
		}
		rejection = cmp.Or(err, error(errNoToken))
	}
}

// secondStep asks for the code. If ctx ends before, the code is still due.
func (t *try) secondStep(ctx context.Context) (*FullApplicationUser, error) {
	challenge := Challenge{t.sent.username, t.credentials.IPAddress, time.Now().UTC(), 1}
	if t.credentials.TwoFactor == nil {
		return nil, &TwoFactorRequiredError{Challenge: challenge}
	}
	user, err := t.tryCodes(ctx, challenge)
	if err != nil && ctx.Err() != nil {
		err = &TwoFactorRequiredError{Challenge: challenge}
	}
	return user, err
}

const maxCodes = 3 // two-factor codes tried for one sign-in

// tryCodes asks for the code, and asks again after a wrong code.
func (t *try) tryCodes(ctx context.Context, challenge Challenge) (*FullApplicationUser, error) {
	for refusal := error(nil); ; challenge.Attempt++ {
		code, err := t.credentials.TwoFactor(ctx, challenge)
		if err != nil {
			return nil, errors.Join(refusal, &signInError{text: textTwoFactor, cause: hide(err), mild: true, needsPerson: true})
		}
		user, err := t.validate(ctx, challenge, code)
		wrong := isRefusal(err) || err == nil && user.Token.IsZero()
		if !wrong || challenge.Attempt == maxCodes {
			return user, err
		}
		refusal = err
	}
}

func (t *try) validate(ctx context.Context, challenge Challenge, code string) (*FullApplicationUser, error) {
	t.begun = time.Now()
	return t.auth.ValidateTwoFactor(ctx, TwoFactorLoginRequest{
		Username:  challenge.Username,
		Code:      NewSecret(code),
		IPAddress: challenge.IPAddress,
	})
}

// signedIn returns the token in the response to the last step of a sign-in.
func (t *try) signedIn(user *FullApplicationUser) (signin.Issue, error) {
	if !isHeaderSafe(user.Token.Reveal()) {
		return signin.Issue{}, errNoToken
	}
	expiry := user.ExpiresUTC
	if expiry.IsZero() {
		expiry = jwtExpiry(user.Token)
	}
	issued, expires := time.Now(), t.onOurClock(expiry)
	life := max(expires.Sub(issued), min(t.lifeByService(expiry), expires.Sub(t.begun)))
	if expires.Sub(issued) <= signin.Margin(expires.Sub(t.begun)) {
		issued = t.begun // too much of the token's life has passed on the way
	}
	return signin.Issue{Token: user.Token.Reveal(), Issued: issued, Expires: expires, Life: life}, nil
}

// lifeByService returns the life of a token that expires at expiry, by the service's clock alone:
// a slow response must not shorten the life, which refreshed tokens inherit. The Date header is
// cut to the second. Without a Date the life is 0.
func (t *try) lifeByService(expiry time.Time) time.Duration {
	date, err := http.ParseTime(t.answer.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return expiry.Sub(date) - time.Second
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
// The service wrote the header between begun and now. If the clocks can agree within two
// seconds, they count as equal. Otherwise the smaller difference counts, so that a token expires
// sooner rather than later.
func (t *try) onOurClock(at time.Time) time.Time {
	date, err := http.ParseTime(t.answer.Header.Get("Date"))
	least, most := t.begun.Sub(date), time.Since(date)
	agree := least < 2*time.Second && most > -2*time.Second
	if err != nil || at.IsZero() || agree || least.Abs() > maxSkew {
		return at
	}
	return at.Add(least)
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

const (
	textTwoFactor = "the TwoFactor function failed"
	textCurrent   = "the Current function of Credentials failed"
	textNoToken   = "the service signed in without a usable token"
	textNoAnswer  = "the service has not answered"
)

var (
	errNoToken = &signInError{text: textNoToken, empty: true, needsPerson: true}

	errRejectedBefore = &signInError{
		text: "the service has rejected the current user and password, and they are not sent again; " +
			"let Credentials.Current return others, or call Session.SignIn",
		needsPerson: true,
	}
)

// failureKind is what other processes learn of a failed sign-in.
type failureKind struct {
	Route     string     `json:"route,omitempty"`  // that has answered
	Status    int        `json:"status,omitempty"` // of the answer
	Outcome   Outcome    `json:"outcome,omitempty"`
	Challenge *Challenge `json:"challenge,omitempty"`
	Person    bool       `json:"person,omitempty"` // the failure is an [ErrSignInRequired]
	Why       string     `json:"why,omitempty"`    // the text of a signInError
}

// classify returns err with what the engine needs to know: which pause follows, and what other
// processes learn.
func (t *try) classify(err error) *signin.Failure {
	own, isOwn := errors.AsType[*signInError](err)
	_, notSent := errors.AsType[*ArgumentError](err)
	isRefused := isRefusal(err) || isOwn && !own.mild
	failed := &signin.Failure{
		Err: err, Unsent: t.sent == login{}, TokenRefused: errors.Is(err, ErrUnauthorized),
		Mild: !isRefused && (isOwn || notSent || errors.Is(err, context.Canceled)),
	}
	switch {
	case t.codeSent:
		failed.Class = signin.CodeSent
	case isRefused:
		failed.Class, failed.By = signin.Refused, t.by(cmp.Or(t.sent, t.refused))
	}
	kind := failureKind{Person: errors.Is(err, ErrSignInRequired)}
	if required, ok := errors.AsType[*TwoFactorRequiredError](err); ok {
		kind.Challenge = &required.Challenge
	}
	if answer, ok := errors.AsType[*Error](err); ok {
		failed.RetryAfter = answer.RetryAfter
		kind.Route, kind.Status, kind.Outcome, kind.Why = answer.Route, answer.StatusCode, answer.Outcome, textNoAnswer
		if answer.isOfGateway() {
			kind.Outcome = OutcomeUnknown
		}
	}
	if isOwn {
		kind.Why = own.text
	}
	failed.Kind, _ = json.Marshal(kind) //nolint:errchkjson // texts, numbers and times
	return failed
}

// failedElsewhere returns what the sessions of other processes get for a failed sign-in. A store
// cannot add a text to an error.
func failedElsewhere(text []byte) error {
	var kind failureKind
	_ = json.Unmarshal(text, &kind) // the store may have been written by a later version
	failed := &signInError{text: "it has failed in another process", needsPerson: kind.Person}
	switch {
	case kind.Challenge != nil:
		return &TwoFactorRequiredError{Challenge: *kind.Challenge}
	case kind.Status != 0:
		answer := &Error{Method: http.MethodPost, Route: kind.Route, StatusCode: kind.Status, Outcome: kind.Outcome, Attempts: 1}
		failed.text, failed.cause = failed.text+": "+redact.Describe(answer), answer
	case slices.Contains([]string{textTwoFactor, textCurrent, textNoToken, textNoAnswer}, kind.Why):
		failed.text += ": " + kind.Why + "; see its log"
	default:
		failed.text += "; see its log"
	}
	return failed
}
