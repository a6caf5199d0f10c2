// Package neterr describes errors of net, crypto/tls and net/http, whose own texts can quote
// URLs, headers and values.
package neterr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// The operations of a [net.OpError] that fail before a proxy forwards anything.
const (
	opProxy = "proxyconnect"  // to the proxy
	opSOCKS = "socks connect" // from the proxy to the service
)

// Describe names the kind of err. ok is false for an unknown kind.
func Describe(err error) (text string, ok bool) {
	var network *net.OpError
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return "context canceled", true
	case err == context.DeadlineExceeded: //nolint:errorlint // net/http's own timeouts say that they are one too
		return "deadline exceeded", true
	case errors.As(err, &network) && network.Op == opProxy:
		return "the proxy cannot be reached: " + OrType(network.Err), true
	case errors.As(err, &network) && network.Op == opSOCKS:
		return "the proxy does not connect" + to(network.Addr), true
	case errors.As(err, &dns):
		return "host not found: " + dns.Name, true
	case IsCertificate(err):
		return "TLS certificate " + describeCertificate(err), true
	case alert(err) != "":
		return "the server ended TLS: " + alert(err), true
	case IsPlaintext(err):
		return "the server does not speak TLS", true
	case dial(err) != nil:
		return describeDial(dial(err)), true
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout", true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset", true
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory", true
	case errors.Is(err, fs.ErrPermission):
		return "permission denied", true
	case describeHTTP(err) != "":
		return describeHTTP(err), true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), contains(err, broken):
		return "connection closed before the answer was complete", true
	case errors.Is(err, net.ErrClosed):
		return "the connection is closed", true
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok { // of a file
		return errno.Error(), true
	}
	return describeStore(err)
}

// describeHTTP names the kind of an error of HTTP, or returns "".
func describeHTTP(err error) string {
	switch {
	case isUnborn(err):
		return "the server ended the HTTP/2 connection at once"
	case IsUnprocessed(err):
		return "the server refused the HTTP/2 stream"
	case isTooLong(err):
		return "the head of the request exceeds the server's limit"
	case contains(err, invalid):
		return "the answer is not valid HTTP; check the address, and the gateway"
	case isStream(err):
		return "the HTTP/2 stream was reset"
	case contains(err, []string{"response headers exceeded", "header list too large", "header list larger"}):
		return "the head of the answer is too large; check the gateway"
	case contains(err, []string{"invalid proxy address"}):
		return "the address of the proxy is invalid; correct HTTPS_PROXY"
	}
	return ""
}

// invalid are the words of net/http and compress for an answer that is not HTTP, or breaks its rules.
var invalid = []string{
	"malformed HTTP", "malformed MIME header", "malformed response from server", "chunk length", "chunked ", "Content-Length",
	"transfer encoding", "1xx informational", "reading trailer", "connection error: ", "http2: frame", "gzip: invalid", "flate: corrupt",
}

func contains(err error, words []string) bool {
	text := err.Error()
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// OrType is Describe, with the type for an unknown kind.
func OrType(err error) string {
	if text, ok := Describe(err); ok {
		return text
	}
	for wrapped := (*url.Error)(nil); errors.As(err, &wrapped); {
		err = wrapped.Err
	}
	return fmt.Sprintf("an error of type %T, not shown because its text may be confidential", err)
}

func describeDial(dial *net.OpError) string {
	if dial.Timeout() {
		return "cannot connect" + to(dial.Addr) + ": timeout"
	}
	return "cannot connect" + to(dial.Addr)
}

// to names addr in a sentence, unless nil.
func to(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return " to " + addr.String()
}

// NeverLeft reports whether err proves an unsent request: the connection was never established.
func NeverLeft(err error) bool {
	var network *net.OpError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var plaintext tls.RecordHeaderError
	return dial(err) != nil || errors.As(err, &network) && (network.Op == opProxy || network.Op == opSOCKS) ||
		errors.As(err, &dns) || errors.As(err, &certificate) || errors.As(err, &plaintext) && plaintext.Conn != nil
}

// IsPermanent reports whether another attempt would fail too: a certificate of client or service is
// not accepted, or the service does not speak TLS.
func IsPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || IsRefusal(err) || IsPlaintext(err)
}

// IsTimeout reports whether a time limit ended the attempt.
func IsTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// dial returns the error of dialing in err, nil if there is none. The error of a proxy is inside
// another *net.OpError, where errors.As stops.
func dial(err error) *net.OpError {
	for network := (*net.OpError)(nil); errors.As(err, &network); err = network.Err {
		if network.Op == "dial" {
			return network
		}
	}
	return nil
}

// IsCertificate reports whether one side did not accept the certificate of the other.
func IsCertificate(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname) || IsRefusal(err)
}

// describeCertificate says why a certificate was not accepted.
func describeCertificate(err error) string {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch text := "not accepted"; {
	case IsRefusal(err):
		return "of the client not accepted by the server: " + alert(err)
	case errors.As(err, &authority):
		return text + ": signed by an unknown authority"
	case errors.As(err, &hostname):
		return text + ": of another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return text + ": expired or not yet valid"
	default:
		return text
	}
}

// refusals are the alerts of a server that does not accept a client's certificate (RFC 8446, 6.2),
// in the words of crypto/tls, whose type is not exported.
var refusals = []string{
	"bad certificate", "unsupported certificate", "revoked certificate", "expired certificate",
	"unknown certificate", "unknown certificate authority", "certificate required",
}

// IsTLS reports whether TLS failed because of a certificate, or with an alert of the server. It also
// reports an HTTP/2 connection that the server closed at once: a refused certificate can be the reason.
func IsTLS(err error) bool { return IsCertificate(err) || alert(err) != "" || isUnborn(err) }

// IsRefusal reports whether the server refused the certificate of the client. In TLS 1.3 the refusal
// comes after the request has left, but on a new connection before the server reads the request.
func IsRefusal(err error) bool { return slices.Contains(refusals, alert(err)) }

// isUnborn reports whether a connection of HTTP/2 was closed before its first request was written.
// The error of net/http has no type.
func isUnborn(err error) bool {
	return strings.Contains(err.Error(), "http2: client conn could not be established")
}

// unprocessed are the words of net/http for a request of HTTP/2 that a graceful GOAWAY left out: the server
// did not process the request (RFC 9113, 6.8). The error has no exported type, and can be part of another error.
const unprocessed = "http2: Transport received Server's graceful shutdown GOAWAY"

// IsUnprocessed reports whether the server did not process the request, in the words of net/http. If a version
// of net/http changes the words, the outcome is unknown. REFUSED_STREAM says the same (RFC 9113, 8.7), but
// haproxy resets streams with this code after the service has executed the request and hung up.
func IsUnprocessed(err error) bool {
	return err != nil && strings.Contains(err.Error(), unprocessed)
}

// isTooLong reports whether the head of the request is above the limit of the server.
func isTooLong(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}

// broken are the words of net/http for a connection that ended. The errors have no exported type.
var broken = []string{
	"GOAWAY", "server closed idle connection", "client connection lost", "cannot rewind body after connection loss",
	"client conn is closed", "client conn not usable", "client connection force closed",
}

// alert returns the words of an alert of the server, "" if err is none.
func alert(err error) string {
	network, ok := errors.AsType[*net.OpError](err)
	if !ok || network.Op != "remote error" {
		return ""
	}
	return strings.TrimPrefix(network.Err.Error(), "tls: ")
}

// IsPlaintext reports whether the server answered a TLS handshake in plain HTTP. The error of
// net/http has no type.
func IsPlaintext(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) || strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client")
}

// isStream reports whether an HTTP/2 stream ended without its connection. The errors of net/http
// have unexported types, or none.
func isStream(err error) bool {
	return strings.Contains(err.Error(), "stream error: stream ID ")
}

// As is [errors.As] for safe errors. It finds no error by an interface, because quoting errors
// can satisfy the interface, and no error of a quoting type. For a failed dial or look-up, As
// makes a new error with the safe parts.
func As(err error, target any) bool {
	switch target := target.(type) {
	case **net.OpError:
		failed := dial(err)
		if failed != nil {
			*target = &net.OpError{Op: failed.Op, Net: failed.Net, Addr: failed.Addr, Err: reason(err)}
		}
		return failed != nil
	case **net.DNSError:
		found, ok := errors.AsType[*net.DNSError](err)
		if ok {
			*target = &net.DNSError{
				Err: "not found", Name: found.Name,
				IsTimeout: found.IsTimeout, IsTemporary: found.IsTemporary, IsNotFound: found.IsNotFound,
			}
		}
		return ok
	}
	wanted := reflect.TypeOf(target).Elem()
	return wanted.Kind() != reflect.Interface && !quotes(wanted) && errors.As(err, target)
}

var errUnreachable = errors.New("unreachable")

// reason returns why a dial failed, in the system's words if possible.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if IsTimeout(err) {
		return os.ErrDeadlineExceeded
	}
	return errUnreachable
}

// quotes reports whether errors of the type t can quote requests or responses. Errors of
// certificates hold only names.
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
