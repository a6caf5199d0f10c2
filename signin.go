package lending

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

const (
	maxCodes = 3 // two-factor codes tried for one sign-in
	maxMild  = 3 // mild failures in a row after which the next sign-in may follow at once
)

// signInError is a failure that has no error of the service's.
type signInError struct {
	safe

	text  string
	cause error // nil if there is none
	mild  bool  // neither the service nor the account is to blame
	empty bool  // the service answered with success and no token: a refusal

	needsPerson bool // no later sign-in can succeed by itself
}

func (e *signInError) Error() string        { return "lending: sign-in: " + e.text }
func (e *signInError) Unwrap() error        { return e.cause }
func (e *signInError) Is(target error) bool { return target == ErrSignInRequired && e.needsPerson }

// pausedError stands in for a sign-in that is not tried, because the last one failed.
type pausedError struct {
	safe

	cause error
	until time.Time
}

func (e *pausedError) Error() string {
	return "lending: " + redact.Describe(e.cause) + ": not tried again before " + e.until.UTC().Format(time.RFC3339)
}
func (e *pausedError) Unwrap() error { return e.cause }

// storeError is a failure of the [TokenStore].
type storeError struct {
	safe

	cause error
}

func (e *storeError) Error() string { return "lending: the token store: " + redact.Describe(e.cause) }
func (e *storeError) Unwrap() error { return e.cause }

func isStoreError(err error) bool {
	_, ok := errors.AsType[*storeError](err)
	return ok
}

// reply is the answer to a step of a sign-in or to a refresh.
type reply struct {
	Response
	sent time.Time // when it was asked for
}

// login signs in, with a second step if the service asks for one: then it sets codeSent.
func (s *session) login(ctx context.Context, codeSent *bool) (*grant, error) {
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
		return nil, err
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

// signedIn makes a grant of the answer to the last step of a sign-in.
func signedIn(user *FullApplicationUser, answer *reply) (*grant, error) {
	if !isHeaderSafe(user.Token.Reveal()) {
		return nil, &signInError{text: "the service signed in without a usable token", empty: true, needsPerson: true}
	}
	told := user.ExpiresUTC
	if told.IsZero() {
		told = jwtExpiry(user.Token)
	}
	issued, expires := time.Now(), onOurClock(told, answer)
	life := lifeByService(told, answer)
	life = max(expires.Sub(issued), min(life, expires.Sub(answer.sent)))
	if expires.Sub(issued) <= margin(expires.Sub(answer.sent)) {
		issued = answer.sent // too much of its life has passed on the way
	}
	g := newGrant(user.Token, issued, expires)
	g.fullLife = life
	return g, nil
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

// refresh asks for a new token with the one of old. The answer does not tell how long
// the new one lives: as long as the old one, unless it is a JWT that says otherwise.
func (s *session) refresh(ctx context.Context, old *grant) (*grant, error) {
	answer := reply{sent: time.Now()}
	value, err := post[Secret](CaptureResponse(ctx, &answer.Response), s.auth.client, request{
		path:  "/api/Authenication/refresh-token",
		token: old.token,
	})
	if err != nil {
		return nil, err
	}
	if !isHeaderSafe(value.Reveal()) {
		return nil, &signInError{text: "the service refreshed without a usable token"}
	}
	expires := onOurClock(jwtExpiry(value), &answer)
	if !expires.After(answer.sent) && old.fullLife > 0 {
		expires = answer.sent.Add(old.fullLife)
	}
	return newGrant(value, answer.sent, expires), nil
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

// isRefusal reports whether the service has looked at a sign-in and said no.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Outcome == OutcomeRejected && failed.StatusCode != http.StatusTooManyRequests
}

// patience is how long after failures in a row a sign-in is not tried: each may send a
// message to a person, and refused ones may lock the account.
type patience struct {
	free        int           // failures that do not count
	first, most time.Duration // it doubles from failure to failure
	least       time.Duration
}

// afterOutage is the pause before the [TokenStore] is asked again.
var afterOutage = patience{first: time.Second, most: 5 * time.Second}

// pauseAfter returns the pause after a sign-in that failed with err.
func pauseAfter(err error, codeSent bool) patience {
	p := patience{first: time.Second, most: time.Minute}
	own, isOwn := errors.AsType[*signInError](err)
	_, notSent := errors.AsType[*ArgumentError](err)
	mild := isOwn && own.mild || notSent || errors.Is(err, context.Canceled)
	switch {
	case codeSent:
		p.first, p.most = 5*time.Minute, time.Hour
	case isRefusal(err), isOwn && !own.mild:
		p.first, p.most = time.Minute, time.Hour
	}
	if mild && !isRefusal(err) {
		p.free = maxMild
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		p.least = failed.RetryAfter
	}
	return p
}

func (p patience) after(count int) time.Duration {
	if count -= p.free; count <= 0 {
		return 0
	}
	return max(min(p.first<<min(count-1, 12), p.most), p.least)
}
