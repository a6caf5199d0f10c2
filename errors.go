package lending

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Error is the error of a call that got as far as the network, or to the door of it.
//
// Its text shows status, route template, codes, field names and trace ids, and no
// value of any parameter: it may be logged. What the service says beyond that can
// echo what was sent, and is reached through the fields.
type Error struct {
	Method     string // of the request, for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	StatusCode int             // of the last answer; 0 if there was none
	Outcome    Outcome         // never OutcomeDone for a read, which has no effect
	Problem    *ProblemDetails // nil if the answer held none
	Attempts   int             // how often the request was sent, or tried to

	// CheckWith names the reads that tell whether a mutation has happened, for example
	// "Applications.Status". It is empty for a read, for [Client.Do], and where no read tells.
	CheckWith string

	// RetryAfter is how long the service asks to wait, with this call or with the
	// sign-in before it, or how long a [Session] waits until the next sign-in. 0 if
	// nobody asks.
	RetryAfter time.Duration

	response func() *Response // no pointer: fmt looks behind one under a verb that does not fit
	cause    error
}

// Response returns the last answer of the service as it was received, nil if there
// was none. It may hold what was sent.
func (e *Error) Response() *Response {
	if e.response == nil {
		return nil
	}
	return e.response()
}

// Error describes the failure without any value that was sent or received.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lending: %s %s", e.Method, e.Route)
	if e.StatusCode != 0 {
		b.WriteString(strings.TrimRight(fmt.Sprintf(": %d %s", e.StatusCode, http.StatusText(e.StatusCode)), " "))
	}
	if e.cause != nil {
		b.WriteString(": " + describe(e.cause))
	}
	if e.Problem != nil {
		b.WriteString(e.Problem.summary())
	}
	if outcome := ": " + e.outcome(); e.Effect == Mutation && !strings.HasSuffix(b.String(), outcome) {
		b.WriteString(outcome) // unless that of a sign-in says the same
	}
	return b.String()
}

// outcome says the outcome of a mutation in words, and what to do about it.
func (e *Error) outcome() string {
	switch {
	case e.Outcome == OutcomeDone && e.CheckWith != "":
		return "it happened, the answer is lost, read " + e.CheckWith
	case e.Outcome == OutcomeDone:
		return "it happened, the answer is lost"
	case e.Outcome == OutcomeUnknown && e.CheckWith != "":
		return "outcome unknown, check with " + e.CheckWith
	case e.Outcome == OutcomeUnknown:
		return "outcome unknown, no read shows it"
	}
	return e.Outcome.String()
}

// Unwrap returns the cause: an error of the context, of the network, of the token
// source or of the decoding. Its text is as safe as that of Error. If a
// sign-in failed, errors.As finds its Error in the cause.
//
// errors.Is finds whatever lies behind the cause, errors.As what does not quote: a
// [net.Error], the number that the system gave, the errors of certificates, a
// [*net.OpError] or [*net.DNSError] that says where no connection could be made, and
// the caller's own types, but nothing else of package net and those below it, nor
// anything by another interface.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the sentinel of the status or the outcome.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.StatusCode == http.StatusUnauthorized
	case ErrForbidden:
		return e.StatusCode == http.StatusForbidden
	case ErrNotFound:
		return e.StatusCode == http.StatusNotFound
	case ErrTooLarge:
		return e.StatusCode == http.StatusRequestEntityTooLarge
	case ErrRateLimited:
		return e.StatusCode == http.StatusTooManyRequests
	case ErrOutcomeUnknown:
		return e.Outcome == OutcomeUnknown && e.Effect == Mutation
	case ErrMayHaveHappened:
		return (e.Outcome == OutcomeUnknown || e.Outcome == OutcomeDone) && e.Effect == Mutation
	}
	return false
}

// Format prints [Error.Error] under every verb.
func (e *Error) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

// MarshalJSON writes [Error.Error] as a string.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(e.Error()) }

// LogValue logs the parts that [Error.Error] shows.
func (e *Error) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("method", e.Method),
		slog.String("route", e.Route),
		slog.Int("status", e.StatusCode),
		slog.String("outcome", e.Outcome.String()),
		slog.Int("attempts", e.Attempts),
	}
	if e.Problem != nil {
		attrs = append(attrs, slog.Any("problem", e.Problem))
	}
	if e.cause != nil {
		attrs = append(attrs, slog.String("cause", describe(e.cause)))
	}
	return slog.GroupValue(attrs...)
}

// hiddenError keeps an error for errors.Is and errors.As and shows another text,
// because its own may quote URLs, headers or values.
//
// It is a net.Error itself, so that whoever looks for one finds this and not the
// text below. It has no Unwrap, which would lead there. The error stands behind a
// function: under %s fmt prints an error that is a string or a struct from any field,
// also of a struct that is printed by value.
type hiddenError struct {
	text  string
	cause func() error
}

func hidden(text string, cause error) *hiddenError {
	return &hiddenError{text, func() error { return cause }}
}

func (e *hiddenError) Error() string { return e.text }

// Is does not let an error inside, of a sign-in for example, say what only the call's
// own answer can.
func (e *hiddenError) Is(target error) bool {
	switch target {
	case ErrUnauthorized, ErrForbidden, ErrNotFound, ErrRateLimited, ErrOutcomeUnknown, ErrMayHaveHappened:
		return false
	case ErrTooLarge, ErrNoContent: // are also what this package says of an answer
		if _, nested := errors.AsType[*Error](e.cause()); nested {
			return false
		}
	}
	return errors.Is(e.cause(), target)
}

// As finds no error by an interface, which one that quotes can satisfy too, and none of
// a type of the packages below, whose errors quote. What tells where a dial or a look-up
// failed is made anew of what may be shown.
func (e *hiddenError) As(target any) bool {
	switch target := target.(type) {
	case **net.OpError:
		dial := dialError(e.cause())
		if dial != nil {
			*target = &net.OpError{Op: dial.Op, Net: dial.Net, Addr: dial.Addr, Err: e.reason()}
		}
		return dial != nil
	case **net.DNSError:
		found, ok := errors.AsType[*net.DNSError](e.cause())
		if ok {
			*target = &net.DNSError{
				Err: "not found", Name: found.Name,
				IsTimeout: found.IsTimeout, IsTemporary: found.IsTemporary, IsNotFound: found.IsNotFound,
			}
		}
		return ok
	}
	wanted := reflect.TypeOf(target).Elem()
	return wanted.Kind() != reflect.Interface && !quotes(wanted) && errors.As(e.cause(), target)
}

// reason says why a dial failed, as the system does if it did.
func (e *hiddenError) reason() error {
	if errno, ok := errors.AsType[syscall.Errno](e.cause()); ok {
		return errno
	}
	if e.Timeout() {
		return os.ErrDeadlineExceeded
	}
	return errUnreachable
}

var errUnreachable = errors.New("unreachable")

// quotes reports whether errors of the type t can hold what was sent or received. Those
// of certificates hold names only.
func quotes(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[*tls.CertificateVerificationError](), reflect.TypeFor[tls.AlertError]():
		return false
	}
	if t.Kind() == reflect.Struct && t.NumField() == 3 && t.Field(0).Name == "StreamID" {
		return true // net/http fills any that looks like an error of HTTP/2
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, path := range []string{"net", "crypto/tls", "io/fs", "golang.org/x/net"} {
		if t.PkgPath() == path || strings.HasPrefix(t.PkgPath(), path+"/") {
			return true
		}
	}
	return false
}

// dialError returns the error of dialing in err, nil if there is none. That of a proxy
// lies in another *net.OpError, where errors.As stops.
func dialError(err error) *net.OpError {
	for network := (*net.OpError)(nil); errors.As(err, &network); err = network.Err {
		if network.Op == "dial" {
			return network
		}
	}
	return nil
}

// Timeout reports whether a limit on time has ended the attempt.
func (e *hiddenError) Timeout() bool {
	var timeout net.Error
	return errors.As(e.cause(), &timeout) && timeout.Timeout()
}

// Temporary is there for net.Error.
func (e *hiddenError) Temporary() bool { return e.Timeout() }

// Format prints the text under every verb.
func (e *hiddenError) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.text) }

// hide returns err such that no text in its chain can quote what was sent or received.
func hide(err error) error {
	switch err {
	case nil, context.Canceled, context.DeadlineExceeded: //nolint:errorlint // what wraps them may quote
		return err
	}
	return hidden(describe(err), err)
}

// safeError is an error whose own text may be shown.
type safeError interface {
	error
	safe()
}

func (*Error) safe()         {}
func (*ArgumentError) safe() {}
func (*hiddenError) safe()   {}
func (*shapeError) safe()    {}

func isSafe(err error) bool {
	_, ok := err.(safeError) //nolint:errorlint // what it wraps comes after
	return ok
}

// describe names the kind of err in words of its own.
func describe(err error) string {
	var network *net.OpError
	var timeout net.Error
	var dns *net.DNSError
	if text, ok := redact.TextOf(err, isSafe); ok {
		return text
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "context canceled"
	case err == context.DeadlineExceeded: //nolint:errorlint // net/http's own timeouts say that they are one too
		return "deadline exceeded"
	case errors.As(err, &network) && describeProxy(network) != "":
		return describeProxy(network)
	case errors.As(err, &dns):
		return "host not found: " + dns.Name
	case isCertificate(err):
		return "TLS certificate not accepted"
	case isPlaintext(err):
		return "the server does not speak TLS"
	case dialError(err) != nil:
		return describeDial(dialError(err))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case isStreamError(err):
		return "the HTTP/2 stream was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "GOAWAY"):
		return "connection closed before the answer was complete"
	}
	for _, known := range []error{ErrTooLarge, ErrNoContent, ErrSignInRequired, ErrRepeatedPage, errHTML, errNotJSON, errBadToken, errNoAnswer, errSentAgain, errSentOften} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	for wrapped := (*url.Error)(nil); errors.As(err, &wrapped); {
		err = wrapped.Err
	}
	return fmt.Sprintf("%s (%T)", unknownFailure, err)
}

// The operations of a *net.OpError that end before a proxy lets anything through.
const (
	opProxy = "proxyconnect"  // to the proxy
	opSOCKS = "socks connect" // from it to the service
)

// describeProxy says what keeps a proxy from letting anything through, "" for the error of
// another operation.
func describeProxy(network *net.OpError) string {
	switch network.Op {
	case opProxy:
		return "the proxy cannot be reached: " + describe(network.Err)
	case opSOCKS:
		return "the proxy does not connect" + to(network.Addr)
	}
	return ""
}

func describeDial(dial *net.OpError) string {
	if dial.Timeout() {
		return "cannot connect" + to(dial.Addr) + ": timeout"
	}
	return "cannot connect" + to(dial.Addr)
}

// to names addr in a sentence, if there is one.
func to(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return " to " + addr.String()
}

// unknownFailure begins the description of an error that may quote anything.
const unknownFailure = "failed"

// isCertificate reports whether the certificate of the other side was not accepted.
func isCertificate(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname)
}

// isPlaintext reports whether the server has answered in plain HTTP what was asked
// over TLS. net/http says so in an error without a type.
func isPlaintext(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) || strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client")
}

// isStreamError reports whether a stream of HTTP/2 has ended without its connection.
// net/http says so in errors whose types it does not export, or without any.
func isStreamError(err error) bool {
	return strings.Contains(err.Error(), "stream error: stream ID ")
}
