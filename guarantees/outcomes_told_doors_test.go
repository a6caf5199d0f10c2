package guarantees_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestTLSFailureIsNamedAndNotSent has each side refuse the certificate of the other, and functions of
// the caller fail.
func TestTLSFailureIsNamedAndNotSent(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(), newAuthority()
	soon, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	good := &tls.Config{
		Certificates: []tls.Certificate{own.Issue(soon)}, ClientCAs: own.Pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	foreign := other.Issue(soon)
	offer := func(choose func() (*tls.Certificate, error)) *tls.Config {
		return &tls.Config{RootCAs: own.Pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate,
			error,
		) {
			return choose()
		}}
	}
	for _, test := range []struct {
		name   string
		server func(*tls.Config)
		client *tls.Config
		want   string
	}{
		{
			"expired", func(s *tls.Config) { s.Certificates[0] = own.Issue(before) }, &tls.Config{RootCAs: own.Pool},
			"TLS certificate not accepted: expired or not yet valid; check WithTLS",
		},
		{
			"CA does not fit", nil, &tls.Config{RootCAs: other.Pool},
			"TLS certificate not accepted: signed by an unknown authority; check WithTLS",
		},
		{
			"other host", nil, &tls.Config{RootCAs: own.Pool, ServerName: "other.example"},
			"TLS certificate not accepted: of another host; check WithTLS",
		},
		{
			"old TLS", func(s *tls.Config) { s.MaxVersion = tls.VersionTLS12 },
			&tls.Config{RootCAs: own.Pool, MinVersion: tls.VersionTLS13},
			"the server ended TLS: protocol version not supported; check WithTLS",
		},
		{
			"client expired", nil, &tls.Config{RootCAs: own.Pool, Certificates: []tls.Certificate{own.Issue(before)}},
			"the client certificate has expired; check WithTLS",
		},
		{
			"no client certificate", nil, &tls.Config{RootCAs: own.Pool},
			"TLS certificate of the client not accepted by the server: certificate required; check WithTLS",
		},
		{
			"no client certificate, TLS 1.2", func(s *tls.Config) { s.MaxVersion = tls.VersionTLS12 },
			&tls.Config{RootCAs: own.Pool},
			"the server ended TLS: handshake failure; check WithTLS",
		},
		{
			"no client certificate, HTTP/2", func(s *tls.Config) { s.NextProtos = []string{"h2"} },
			&tls.Config{RootCAs: own.Pool}, "",
		}, // the alert, or a closed connection
		{
			"client of another CA", nil,
			offer(func() (*tls.Certificate, error) { return &foreign, nil }),
			"TLS certificate of the client not accepted by the server: unknown certificate authority; check WithTLS",
		},
		{
			"function fails", nil, offer(func() (*tls.Certificate, error) { return nil, errors.New(planted) }),
			"a function of WithTLS failed",
		},
		{
			"function panics", nil, offer(func() (*tls.Certificate, error) { panic(planted) }),
			"a function of WithTLS failed: panic with a string",
		},
		{
			"function ends its goroutine", nil, offer(func() (*tls.Certificate, error) { runtime.Goexit(); return nil, nil }),
			"a function of WithTLS failed: a function ended its goroutine",
		},
		{"verification panics", nil, &tls.Config{
			InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error { panic(planted) },
		}, "a function of WithTLS failed: panic with a string"},
		{"verification of the certificates panics", nil, &tls.Config{
			RootCAs: own.Pool, VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { panic(planted) },
		}, "a function of WithTLS failed: panic with a string"},
		{
			"clock panics", nil, &tls.Config{RootCAs: own.Pool, Time: func() time.Time { panic(planted) }},
			"TLS certificate not accepted: expired or not yet valid; check WithTLS",
		},
		{"verification of a refused encrypted hello panics", nil, &tls.Config{
			RootCAs: own.Pool, EncryptedClientHelloConfigList: helloConfigs(t),
			EncryptedClientHelloRejectionVerify: func(tls.ConnectionState) error { panic(planted) },
		}, "a function of WithTLS failed: panic with a string"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := good.Clone()
			server.Certificates = []tls.Certificate{good.Certificates[0]}
			if test.server != nil {
				test.server(server)
			}
			address := wire.ListenRaw(t, func(conn net.Conn) {
				assert.Error(t, tls.Server(conn, server).Handshake())
				_, _ = io.Copy(io.Discard, conn) // a reset could overtake the alert
			})
			client := wire.NewClient(t, "https://"+address, withToken, lending.WithTLS(test.client))
			for range 2 { // the second finds no trace of the first
				err := client.Applications.Cancel(t.Context(), catalog.Application)
				assert.ErrorContains(t, err, cmp.Or(test.want, "check WithTLS")+": not sent")
				assert.ErrorContains(t, err, "WithTLS")
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				var shown bytes.Buffer
				show(&shown, chain(err)...)
				assert.Empty(t, leaks(shown.String(), []string{planted, "test-token"}))
			}
			if strings.HasPrefix(test.want, "TLS certificate") { // and no attempt can change that
				_, err := client.Applications.Status(t.Context(), catalog.Application)
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.LessOrEqual(t, failed.Attempts, 2, "over TLS 1.3 a write can fail before the alert is read")
				assert.Equal(t, lending.OutcomeUnknown, failed.Outcome)
			}
		})
	}
}

// helloConfigs returns a key for an encrypted ClientHello, which no server has.
func helloConfigs(t *testing.T) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(nil)
	require.NoError(t, err)
	config := append([]byte{7, 0, 0x20, 0, 32}, key.PublicKey().Bytes()...) // identifier, KEM, public key
	config = append(config, 0, 4, 0, 1, 0, 1, 0, 14)                        // cipher suite, length of the name
	config = append(append(config, "public.example"...), 0, 0)
	config = append([]byte{0xfe, 0x0d, 0, byte(len(config))}, config...)
	return append([]byte{0, byte(len(config))}, config...)
}

// A refused option is an ArgumentError of New.
func TestWithTLSRefusesWhatBreaksTheGuarantees(t *testing.T) {
	for _, test := range []struct {
		want     string
		settings *tls.Config
	}{
		{"WithTLS: NextProtos must be empty", &tls.Config{NextProtos: []string{"http/1.1"}}},
		{"WithTLS: InsecureSkipVerify needs VerifyConnection", &tls.Config{InsecureSkipVerify: true}},
		{"WithTLS: MinVersion must be at least TLS 1.2", &tls.Config{MinVersion: tls.VersionTLS11}},
		{"WithTLS: MaxVersion must be at least TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS11}},
	} {
		t.Run(test.want, func(t *testing.T) {
			_, err := lending.New("https://lending.example", lending.WithTLS(test.settings))
			var argument *lending.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.ErrorContains(t, err, test.want)
		})
	}
	_, err := lending.New("https://lending.example", lending.WithTLS(&tls.Config{}),
		lending.WithHTTPClient(http.DefaultClient))
	assert.ErrorContains(t, err, "WithTLS is not possible together with WithHTTPClient")
	_, err = lending.New("https://lending.example", lending.WithoutHTTP2(), lending.WithHTTPClient(http.DefaultClient))
	assert.ErrorContains(t, err, "WithoutHTTP2 is not possible together with WithHTTPClient")

	settings := mutualTLS().Clone()
	client := wire.NewClient(t, "https://"+wire.ListenRaw(t, func(conn net.Conn) {
		(&h2Conn{conn: mutualConn(conn, "h2"), request: func(c *h2Conn, stream uint32) bool {
			c.respond(stream, `"Open"`)
			return true
		}}).serve()
	}), withToken, lending.WithTLS(settings))
	assert.Nil(t, settings.GetClientCertificate, "the caller's settings stay")
	settings.Certificates, settings.RootCAs = nil, nil
	require.NoError(t, client.Applications.Cancel(t.Context(), catalog.Application), "the client has a copy")
}

// A header that the client owns, a line break or a panic sends nothing, and shows no value.
func TestBadHeaderIsNotSent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		add  func(http.Header)
		want string
	}{
		{
			"line break", func(h http.Header) { h["X-Tenant"] = []string{"a", planted + "\r\nAdmin: yes"} },
			"WithHeader: X-Tenant must not hold line breaks",
		},
		{"line feed", func(h http.Header) { h["x-tenant"] = []string{planted + "\n"} }, "X-Tenant must not hold"},
		{"zero", func(h http.Header) { h.Set("X-Tenant", planted+"\x00") }, "X-Tenant must not hold"},
		{"name", func(h http.Header) { h["X "+planted] = []string{"a"} }, "[redacted] is not the name of a header"},
		{"pseudo", func(h http.Header) { h[":authority"] = []string{"a"} }, ":authority is not the name of a header"},
		{"empty", func(h http.Header) { h[""] = []string{"a"} }, "is not the name of a header"},
		{"panic", func(http.Header) { panic(planted) }, "the function of WithHeader failed: panic with a string"},
		{"Goexit", func(http.Header) { runtime.Goexit() }, "the function of WithHeader failed: a function ended"},
	} {
		t.Run(test.name, func(t *testing.T) { headerIsRefused(t, test.add, test.want) })
	}
	for name := range strings.FieldsSeq(`authorization Accept accept-encoding Connection CONTENT-TYPE Content-Length
		Content-Encoding Expect Host Idempotency-Key X-Idempotency-Key Keep-Alive Proxy-Authorization Range TE Trailer
		Transfer-Encoding Upgrade User-Agent`) {
		t.Run(name, func(t *testing.T) {
			headerIsRefused(t, func(h http.Header) { h[name] = nil }, http.CanonicalHeaderKey(name)+" belongs to the client")
		})
	}
}

func headerIsRefused(t *testing.T, add func(http.Header), want string) {
	t.Helper()
	client := wire.Silent(t)
	client = wire.NewClient(t, strings.TrimPrefix(client.String(), "lending client of "), withToken,
		lending.WithHeader(func(_ context.Context, header http.Header) { add(header) }))
	err := client.Applications.Cancel(t.Context(), catalog.Application)
	_, readErr := client.Applications.Status(t.Context(), catalog.Application)
	for _, err := range []error{err, readErr} {
		require.ErrorContains(t, err, want)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		if _, ok := errors.AsType[*lending.ArgumentError](err); ok {
			assert.Equal(t, lending.Next{Retry: true, Person: true, After: 15 * time.Minute}, lending.NextOf(err))
		} else if _, ok := errors.AsType[*lending.PanicError](err); ok {
			assert.True(t, lending.NextOf(err).Person)
		}
		var shown bytes.Buffer
		show(&shown, chain(err)...)
		assert.Empty(t, leaks(shown.String(), []string{planted, "test-token"}))
	}
}

// Each attempt, also of a sign-in, has the headers of its context once, and no function sees a header of
// the client. A mutation with a key and a bad header can be repeated.
func TestHeadersOfEachAttempt(t *testing.T) {
	t.Parallel()
	type tenant struct{}
	var seen []string
	answers := []http.HandlerFunc{
		wire.Answer(200, `{"token":"t1"}`), wire.Answer(503, ""), wire.Answer(401, ""),
		wire.Answer(200, `{"token":"t2"}`), wire.Answer(200, `"Open"`), wire.Answer(200, "true"),
	}
	client := wire.NewClient(t, wire.Listen(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, strings.Join(r.Header["X-Tenant"], "|")+" "+r.Header.Get("X-Route"))
		answers[0](w, r)
		answers = answers[1:]
	}), lending.WithCredentials(lending.Credentials{Username: "u", Password: lending.NewSecret("p")}),
		lending.WithLogger(slog.New(slog.DiscardHandler)),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))),
		lending.WithHeader(func(ctx context.Context, header http.Header) {
			assert.Empty(t, header)
			if name, ok := ctx.Value(tenant{}).(string); ok {
				header.Add("x-tenant", " "+name+" ")
			}
		}),
		lending.WithHeader(func(_ context.Context, header http.Header) { header.Set("X-Route", "second") }))
	ctx := context.WithValue(t.Context(), tenant{}, "north")
	_, err := client.Applications.Status(ctx, catalog.Application)
	require.NoError(t, err)

	ctx = lending.WithIdempotencyKey(ctx, "order-42/cancel")
	err = client.Applications.Cancel(context.WithValue(ctx, tenant{}, "no\nrth"), catalog.Application)
	assert.ErrorContains(t, err, "WithHeader: X-Tenant must not hold")
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	require.NoError(t, client.Applications.Cancel(ctx, catalog.Application))
	assert.Equal(t, []string{
		" second", "north second", "north second", " second", "north second", "north second",
	}, seen)
}
