package ops

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
)

// signIn serves POST api/signin: it signs in without the wait after a failure, or completes a sign-in with a code.
func (d *desk) signIn(r *http.Request, _ string, o order) (what string, n int, err error) {
	what = "sign in " + strconv.Quote(o.Session)
	session, ok := d.Sessions[o.Session]
	if !ok {
		f := failf(http.StatusNotFound, "no session of this handler has the name; take a name from now")
		f.Now = slices.Sorted(maps.Keys(d.Sessions))
		return "sign in", 0, f
	}
	ctx := r.Context()
	if o.Code == "" {
		err = session.SignIn(ctx)
	} else if state, _ := session.State(ctx); state.Challenge == nil {
		return what, 0, failf(http.StatusConflict, "no sign-in waits for a code; sign in without a code, and the service sends one if it needs one")
	} else {
		err = session.CompleteTwoFactor(ctx, *state.Challenge, o.Code)
	}
	switch _, codeSent := errors.AsType[*lending.TwoFactorRequiredError](err); {
	case codeSent:
		return what, 0, failf(http.StatusConflict, "the service has sent a code to the owner of the account; sign in again with the code")
	case err != nil:
		return what, 0, failf(http.StatusBadGateway, "not signed in: %s", redact.Describe(err))
	}
	return what, 1, nil
}
