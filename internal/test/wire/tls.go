package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"time"
)

// Authority issues certificates of both sides.
type Authority struct {
	root tls.Certificate
	Pool *x509.CertPool // with the root alone
}

// forEver is the end of certificates that also hold on the fake clock of testing/synctest.
var forEver = time.Date(2084, 1, 29, 16, 0, 0, 0, time.UTC)

// NewAuthority makes an authority that nobody else trusts.
func NewAuthority() *Authority {
	a := &Authority{Pool: x509.NewCertPool()}
	a.root = a.Issue(forEver)
	a.Pool.AddCert(a.root.Leaf)
	return a
}

// Issue returns a certificate for a server, 127.0.0.1 or lending.example, and for a client. The first
// certificate is the root.
func (a *Authority) Issue(until time.Time) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Unix(0, 0), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"lending.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := a.root.Leaf, a.root.PrivateKey
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// mutual has the TLS of both sides with certificates of one authority.
var mutual = sync.OnceValue(func() (both struct{ server, client *tls.Config }) {
	authority := NewAuthority()
	both.server = &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(forEver)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool,
	}
	both.client = &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(forEver)},
		RootCAs:      authority.Pool, MinVersion: tls.VersionTLS13,
	}
	return both
})

// MutualTLS is the TLS of a client for the services of [Mutual].
func MutualTLS() *tls.Config { return mutual().client }

// Mutual returns conn over TLS, for clients with a certificate.
func Mutual(conn net.Conn, protocols ...string) *tls.Conn {
	server := mutual().server.Clone()
	server.NextProtos = protocols
	return tls.Server(conn, server)
}
