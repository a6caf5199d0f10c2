package lendingotel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
)

// description returns the text of an attempt's error, which quotes no value, or "" if the status code is enough.
func description(a lending.Call) string {
	if a.Err == nil || a.StatusCode >= http.StatusMultipleChoices {
		return ""
	}
	return a.Err.Error()
}

// callDescription returns the text of an error that is not a response of the service. Responses,
// also those to a sign-in, contain codes and ids of the service, which spans must not hold.
func callDescription(c lending.Call) string {
	_, refused := c.Err.(*lending.ArgumentError) //nolint:errorlint // a wrapped error is that of a sign-in
	if refused || c.Attempts > 0 && c.StatusCode == 0 {
		return c.Err.Error()
	}
	return ""
}

const (
	unexpected = "unexpected_answer" // a 2xx whose body does not prove the success
	other      = "_OTHER"            // the conventions: an error without a type of its own
)

// errorType returns error.type, which is empty for success and for an attempt that the caller canceled.
// After a status other than success the body does not matter.
func errorType(a lending.Call) string {
	switch {
	case refused(a.StatusCode):
		return strconv.Itoa(a.StatusCode)
	case a.Err != nil:
		return kind(a.Err)
	case a.Outcome != lending.OutcomeDone:
		return unexpected
	}
	return ""
}

func callErrorType(c lending.Call) string {
	var argument *lending.ArgumentError
	var failed *lending.Error
	var keyed *idempotency.Error
	known := kind(c.Err)
	switch {
	case errors.As(c.Err, &keyed):
		return cmp.Or(kindIn(idempotencyKinds, keyed), known)
	case errors.As(c.Err, &failed) && c.Attempts > 0 && refused(c.StatusCode):
		return strconv.Itoa(c.StatusCode)
	case failed != nil && c.Attempts > 0 && errors.Is(c.Err, lending.ErrNoContent):
		return "no_content"
	case failed == nil && errors.As(c.Err, &argument):
		return "argument_invalid"
	case failed != nil && errors.Is(c.Err, lending.ErrSignInRequired):
		return "sign_in_required"
	case known != other:
		return known // empty for success, and if the caller canceled
	case failed != nil && c.Attempts == 0 && c.StatusCode == 0:
		return "no_token"
	case c.Outcome == lending.OutcomeDone:
		return "answer_not_decoded"
	case c.StatusCode != 0:
		return unexpected
	}
	return other
}

func refused(status int) bool { return status != 0 && (status < 200 || status >= 300) }

type errorKind struct {
	err  error
	kind string
}

// idempotencyKinds are the reasons for which the log does not send a mutation, or cannot save its result.
// None fits an error of a read before the mutation.
var idempotencyKinds = []errorKind{
	{idempotency.ErrInProgress, "in_progress"},
	{idempotency.ErrInDoubt, "in_doubt"},
	{idempotency.ErrNeedsReview, "needs_review"},
	{idempotency.ErrLocked, "locked"},
	{idempotency.ErrAnswerLost, "answer_lost"},
	{idempotency.ErrKeyReused, "key_reused"},
	{idempotency.ErrOtherAccount, "other_account"},
	{idempotency.ErrPaused, "paused"},
	{idempotency.ErrErased, "erased"},
	{idempotency.ErrStore, "idempotency_store_failed"},
}

var kinds = []errorKind{
	{syscall.ECONNRESET, "connection_reset"},
	{syscall.EPIPE, "connection_reset"},
	{io.EOF, "connection_closed"},
	{io.ErrUnexpectedEOF, "connection_closed"},
	{lending.ErrTooLarge, "answer_too_large"},
}

func kindIn(kinds []errorKind, err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return ""
}

// kind classifies an error that prevented a response.
func kind(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var network *net.OpError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return "" // the conventions: no error
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		return "host_not_found"
	case isCertificate(err):
		return "certificate_invalid"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &network) && network.Op == "dial":
		return "connection_failed"
	}
	return cmp.Or(kindIn(kinds, err), other)
}

func isCertificate(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname)
}
