package lending

import (
	"errors"
	"net/http"
)

// Absent reports whether err, of a read, says that what was asked for is not there. The
// service has three ways to say it, and does not publish which read uses which:
//
//   - 204, null or an empty answer where a record is due: [ErrNoContent];
//   - 404 with its problem record;
//   - 400 with its problem record that names no field: "some legacy reads return 400
//     where a missing record might be expected". It is the weakest of them, as a failed
//     business operation looks the same: there is no offer, or none can be shown.
//
// A 400 that names fields complains of the arguments. Without a problem record, with a
// title or an error code, a 400 or 404 may come from a proxy, or from a base URL that
// leads elsewhere; another service there may have one too. An error of a mutation, with
// that of a read beside it or not, is never an absence, nor is an error that lost its %w.
// A list without records is no error, and empty.
//
// An absence does not last: a command whose answer is lost can still be under way.
func Absent(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Effect != Read || errors.Is(err, ErrMayHaveHappened) {
		return false
	}
	switch failed.StatusCode {
	case http.StatusNotFound:
		return failed.Problem.isOfService()
	case http.StatusBadRequest:
		return failed.Problem.isOfService() && len(failed.Problem.Errors) == 0
	}
	return errors.Is(err, ErrNoContent)
}

// isOfService reports whether p can be the service's own: gateways answer with JSON too,
// but hardly with a title or an error code.
func (p *ProblemDetails) isOfService() bool {
	return p != nil && (p.Title != "" || p.ErrorCode != "")
}
