package neterr_test

import (
	"cmp"
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
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/neterr"
)

var (
	address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	refused = &net.OpError{
		Op: "dial", Net: "tcp", Addr: address,
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
)

// TestDescribe holds the words for each kind of failure, which never quote, and which of
// them prove that the request did not leave or that another attempt would fail alike.
func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		name             string
		err              error
		want             string // "" for "connection closed before the answer was complete"
		never, permanent bool
	}{
		{"canceled", fmt.Errorf("SHHH %w", context.Canceled), "context canceled", false, false},
		{"deadline", context.DeadlineExceeded, "deadline exceeded", false, false},
		{"refused", &url.Error{URL: "SHHH", Err: refused}, "cannot connect to 127.0.0.1:1", true, false},
		{"dial timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "cannot connect: timeout", true, false},
		{"host", &net.DNSError{Err: "SHHH", Name: "lending.example"}, "host not found: lending.example", true, false},
		{
			"proxy", &net.OpError{Op: "proxyconnect", Err: refused},
			"the proxy cannot be reached: cannot connect to 127.0.0.1:1", true, false,
		},
		{
			"SOCKS", &net.OpError{Op: "socks connect", Addr: address, Err: errors.New("SHHH")},
			"the proxy does not connect to 127.0.0.1:1", true, false,
		},
		{
			"TLS", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
			"TLS certificate not accepted: signed by an unknown authority", true, true,
		},
		{
			"hostname",
			x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"},
			"TLS certificate not accepted: of another host", false, false,
		},
		{
			"plaintext", errors.New("http: server gave HTTP response to HTTPS client"),
			"the server does not speak TLS", false, true,
		},
		{"timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout", false, false},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, "connection reset", false, false},
		{
			"no file", &fs.PathError{Op: "open", Path: "SHHH", Err: fs.ErrNotExist}, "no such file or directory", false,
			false,
		},
		{
			"no permission", &fs.PathError{Op: "open", Path: "SHHH", Err: fs.ErrPermission}, "permission denied", false,
			false,
		},
		{
			"full disk", errors.Join(&fs.PathError{Op: "write", Path: "SHHH", Err: syscall.ENOSPC}), "no space left on device",
			false, false,
		},
		{"stream", errors.New("stream error: stream ID 1; SHHH"), "the HTTP/2 stream was reset", false, false},
		{
			"left out by a GOAWAY", errors.New("http2: Transport received Server's graceful shutdown GOAWAY"),
			"the server refused the HTTP/2 stream", false, false,
		},
		{
			"unborn", errors.New("http2: client conn could not be established"),
			"the server ended the HTTP/2 connection at once", false, false,
		},
		{
			"certificate", &tls.CertificateVerificationError{Err: errors.New("SHHH")},
			"TLS certificate not accepted", true, true,
		},
		{"end", fmt.Errorf("SHHH %w", io.EOF), "", false, false},
		{"GOAWAY", errors.New("GOAWAY SHHH"), "", false, false},
		{"idle", errors.New("http: server closed idle connection"), "", false, false},
		{"lost", errors.New("http2: client connection lost"), "", false, false},
		{"a write failed", errors.New("http2: client connection force closed via ClientConn.Close"), "", false, false},
		{"body half sent", errors.New("net/http: cannot rewind body after connection loss"), "", false, false},
		{
			"no HTTP", errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SHHH"`),
			"the answer is not valid HTTP; check the address, and the gateway", false, false,
		},
		{
			"long head", errors.New("net/http: server response headers exceeded 10485760 bytes; aborted"),
			"the head of the answer is too large; check the gateway", false, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, ok := neterr.Describe(test.err)
			assert.True(t, ok)
			assert.Equal(t, cmp.Or(test.want, "connection closed before the answer was complete"), text)
			assert.Equal(t, test.never, neterr.NeverLeft(test.err), "never left")
			assert.Equal(t, test.permanent, neterr.IsPermanent(test.err), "permanent")
		})
	}
	_, ok := neterr.Describe(errors.New("SHHH"))
	assert.False(t, ok)
	assert.Equal(t, "an error of type *errors.errorString, not shown because its text may be confidential",
		neterr.OrType(&url.Error{URL: "SHHH", Err: errors.New("SHHH")}))
}
