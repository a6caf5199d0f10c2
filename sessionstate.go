package lending

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/signin"
)

// SessionState is the state of a [Session] at a moment. It has no token.
type SessionState struct {
	SignedIn bool      `json:"signedIn"`         // calls have a token
	Until    time.Time `json:"until,omitzero"`   // when the token expires; zero if the service has not told
	Lease    string    `json:"lease,omitempty"`  // "this process", "another process", or empty; see State
	Pause    string    `json:"pause,omitempty"`  // why the last sign-in failed, see State; empty after a success
	Paused   time.Time `json:"paused,omitzero"`  // no sign-in before this time; zero if there is no pause
	Person   bool      `json:"person,omitempty"` // a person has to act: send a two-factor code, or correct the credentials
	Cause    string    `json:"cause,omitempty"`  // the last failed sign-in, without secrets
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
		failure := shownSignInError(of.Failure)
		state.Pause = map[signin.Class]string{
			signin.Outage: "outage", signin.Refused: "rejected", signin.CodeSent: "code_sent", signin.StoreOutage: "token_store",
		}[of.Class]
		state.Person = errors.Is(failure, ErrSignInRequired) || of.Class == signin.Refused
		state.Cause = redact.Describe(failure)
	}
	return state, shownSignInError(err)
}

// Ready reports whether calls can get a token: nil if the session is signed in, or if nothing is
// known that would prevent a sign-in. It reads the [TokenStore] and does not call the service,
// so it suits a readiness probe. The error tells the reason and the next step.
func (s *Session) Ready(ctx context.Context) error {
	state, err := s.State(ctx)
	switch {
	case errors.Is(err, errClosed):
		return errClosed
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
