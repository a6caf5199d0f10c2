package lending

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// WithTLS sets client certificates, root CAs, the minimum version and other parts of TLS. The client
// copies settings and keeps all its guarantees. A certificate that one side refuses, or a client
// certificate that has expired, is an error with [OutcomeNotSent].
//
// Exception: in TLS 1.3 a server checks the client's certificate after the handshake. If the
// connection breaks before the refusal arrives, or if another request used the connection before,
// the outcome of a mutation is unknown.
//
// WithTLS refuses NextProtos (see [WithoutHTTP2]), versions below TLS 1.2, and InsecureSkipVerify
// without VerifyConnection. A function of settings that panics makes the handshake fail. The methods of
// Rand, KeyLogWriter, ClientSessionCache and of a private key must not panic: net/http calls them in a
// goroutine of its own, and the panic ends the process. WithTLS cannot be combined with [WithHTTPClient].
func WithTLS(settings *tls.Config) Option {
	return func(c *config) error {
		if settings == nil {
			return argumentError("WithTLS", CodeRequired, "needs settings")
		}
		isOld := func(version uint16) bool { return version != 0 && version < tls.VersionTLS12 }
		rules := checks{prefix: "WithTLS: "}
		rules.that(len(settings.NextProtos) == 0, "NextProtos", CodeConflict, "must be empty: the client chooses; see WithoutHTTP2")
		rules.that(!settings.InsecureSkipVerify || settings.VerifyConnection != nil, "InsecureSkipVerify", CodeUnsafe,
			"needs VerifyConnection: anybody could read the token")
		rules.that(!isOld(settings.MinVersion), "MinVersion", CodeRange, "must be at least TLS 1.2")
		rules.that(!isOld(settings.MaxVersion), "MaxVersion", CodeRange, "must be at least TLS 1.2")
		c.tls = withContained(settings.Clone())
		return rules.err("", "")
	}
}

// withContained returns t with functions that cannot end the process: net/http calls them in a goroutine
// of its own. It refuses a client certificate that has expired, because a server would refuse the
// certificate after the request has left.
func withContained(t *tls.Config) *tls.Config {
	choose, certificates := t.GetClientCertificate, t.Certificates
	if choose == nil && len(certificates) > 0 {
		choose = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) { //nolint:unparam // of tls.Config
			for i := range certificates {
				if asked.SupportsCertificate(&certificates[i]) == nil {
					return &certificates[i], nil
				}
			}
			return &tls.Certificate{}, nil // as crypto/tls does
		}
	}
	if choose != nil {
		t.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (chosen *tls.Certificate, err error) {
			err = containedCall(func() (err error) {
				if chosen, err = choose(asked); err == nil && hasExpired(chosen) {
					err = errExpired
				}
				return err
			})
			return chosen, err
		}
	}
	t.VerifyConnection = containedVerify(t.VerifyConnection)
	t.EncryptedClientHelloRejectionVerify = containedVerify(t.EncryptedClientHelloRejectionVerify)
	if clock := t.Time; clock != nil {
		t.Time = func() time.Time {
			now := time.Unix(1<<40, 0) // after a panic: every certificate has expired
			_ = containedCall(func() error { now = clock(); return nil })
			return now
		}
	}
	if verify := t.VerifyPeerCertificate; verify != nil {
		t.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			return containedCall(func() error { return verify(raw, chains) })
		}
	}
	return t
}

func containedVerify(verify func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	if verify == nil {
		return nil
	}
	return func(state tls.ConnectionState) error { return containedCall(func() error { return verify(state) }) }
}

var errExpired error = redact.Text("the client certificate has expired; check WithTLS")

// containedCall calls a function of the caller's settings and hides its error, which may quote
// anything.
func containedCall(f func() error) error {
	err := safely.Call[PanicError](f)
	if err == nil || err == errExpired { //nolint:errorlint // the very value
		return err
	}
	return hidden(strings.TrimSuffix("a function of WithTLS failed: "+interruption(err), ": "), err)
}

func hasExpired(c *tls.Certificate) bool {
	if c == nil || len(c.Certificate) == 0 {
		return false
	}
	leaf, err := c.Leaf, error(nil)
	if leaf == nil {
		leaf, err = x509.ParseCertificate(c.Certificate[0])
	}
	return err == nil && time.Now().After(leaf.NotAfter)
}
