package guarantees_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// setting is the client of a trial before New.
type setting struct {
	*trial
	t         *testing.T
	service   *faultServer
	cancel    func() // ends the call
	url       string
	transport *http.Transport
	hc        *http.Client // nil for that of the library
	source    lending.TokenSource
}

func (s *setting) secure() { s.url = strings.Replace(s.url, "http:", "https:", 1) }

func rewritten(names ...string) func(*setting) {
	return func(s *setting) { s.hc.Transport = rewriting(s.transport, names...) }
}

// clients are the clients of the trials, by their name in testdata/conformance.json.
var clients = map[string]func(*setting){
	"":            func(s *setting) { s.hc = nil },
	"canceled":    func(s *setting) { s.hc = nil },
	"renewing":    func(s *setting) { s.hc, s.source = nil, &wire.Renewing{} },
	"unreachable": func(s *setting) { s.hc, s.url = nil, "http://127.0.0.1:1" },
	"own h2":      func(s *setting) { s.hc = nil; s.secure() },
	"https":       func(s *setting) { s.hc = nil; s.secure() },
	"no-such-host": func(s *setting) {
		s.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			dns := &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: dns}
		}
	},
	"signalling": func(s *setting) { // the caller gives up when the head has come
		s.hc.Transport = wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := s.transport.RoundTrip(r)
			if s.service.arrivals.Load() > 0 && !s.service.healed.Load() {
				s.cancel()
			}
			return resp, err
		})
		s.service.onHang = func() {}
	},
	"busy": func(s *setting) {
		s.hc.Jar, _ = cookiejar.New(nil)
		s.hc.Timeout = 35 * time.Second
		s.hc.Transport = rewriting(s.transport, "Idempotency-Key")
	},
	"signing":   rewritten("Idempotency-Key", "Authorization"), // as an oauth2 transport or a gateway does
	"disguised": rewritten("Idempotency-Key", "Authorization", "User-Agent"),
	"renamed":   rewritten("Idempotency-Key", "Authorization", "Host"), // for a gateway that goes by the Host
	"replaying": func(s *setting) {
		repeater := retryablehttp.NewClient()
		repeater.Logger, repeater.RetryWaitMin = nil, time.Millisecond
		repeater.HTTPClient = &http.Client{Transport: s.transport}
		s.hc.Transport = &retryablehttp.RoundTripper{Client: repeater}
	},
	"h2c": func(s *setting) {
		s.transport.Protocols = new(http.Protocols)
		s.transport.Protocols.SetUnencryptedHTTP2(true)
	},
	"h2": func(s *setting) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(s.t, 2, r.ProtoMajor)
			_, _ = io.Copy(io.Discard, r.Body) // a document that left in part is not sent
			w.Header().Set("Content-Type", "application/json")
			switch {
			case s.service.arrivals.Add(1) > 1:
				_, _ = w.Write([]byte(s.service.answer))
			case s.fault.Then == "abort":
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(s.fault.Status)
			}
		}))
		server.EnableHTTP2, server.Config.ErrorLog = true, log.New(s.service, "", 0)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate()}}
		server.StartTLS()
		s.hc, s.url = server.Client(), server.URL+wire.BasePath
		s.service.also = server.Close
	},
}

// client returns the client of the trial, and what closes its connections.
func (tr *trial) client(t *testing.T, service *faultServer, cancel func()) (*lending.Client, func()) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	s := &setting{
		tr, t, service, cancel, service.URL(), transport, &http.Client{Transport: transport},
		lending.StaticToken("test-token"),
	}
	require.Contains(t, clients, tr.fault.Client)
	clients[tr.fault.Client](s)
	opts := []lending.Option{lending.WithTokenSource(s.source), lending.WithObserver(service.observe, nil)}
	if tr.doored {
		opts = append(opts, lending.WithHeader(func(_ context.Context, header http.Header) {
			assert.Empty(t, header)
			header.Set("X-Tenant", "north")
		}))
	}
	if service.hasTLS() {
		opts = append(opts, lending.WithTLS(mutualTLS()))
		if s.secure(); os.Getenv(throughProxy) != "" {
			s.url = strings.Replace(s.url, "127.0.0.1", "lending.example", 1)
		}
	}
	if s.hc != nil {
		opts = append(opts, lending.WithHTTPClient(s.hc))
	}
	client, err := lending.New(s.url, opts...)
	require.NoError(t, err)
	return client, func() {
		client.Close()
		transport.CloseIdleConnections()
	}
}

// rewriting is a transport that sets headers of its own.
func rewriting(next http.RoundTripper, names ...string) wire.RoundTripper {
	return func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		for _, name := range names {
			r.Header.Set(name, "k")
			if name == "Host" {
				r.Host = "gateway.example"
			}
		}
		return next.RoundTrip(r)
	}
}
