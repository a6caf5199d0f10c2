package guarantees_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"sync"
	"time"
)

// authority issues certificates of both sides.
type authority struct {
	root tls.Certificate
	Pool *x509.CertPool // with the root alone
}

// forEver is the end of certificates that also hold on the fake clock of testing/synctest.
var forEver = time.Date(2084, 1, 29, 16, 0, 0, 0, time.UTC)

// newAuthority makes an authority that nobody else trusts.
func newAuthority() *authority {
	a := &authority{Pool: x509.NewCertPool()}
	a.root = a.Issue(forEver)
	a.Pool.AddCert(a.root.Leaf)
	return a
}

// Issue returns a certificate for a server, 127.0.0.1 or lending.example, and for a client. The first
// certificate is the root.
func (a *authority) Issue(until time.Time) tls.Certificate {
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
	authority := newAuthority()
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

// mutualTLS is the TLS of a client for the services of mutualConn.
func mutualTLS() *tls.Config { return mutual().client }

// mutualConn returns conn over TLS, for clients with a certificate.
func mutualConn(conn net.Conn, protocols ...string) *tls.Conn {
	server := mutual().server.Clone()
	server.NextProtos = protocols
	return tls.Server(conn, server)
}

// trusted issues the certificates of tlsHTTP1 and tlsHTTP2.
var trusted = sync.OnceValue(newAuthority)

// certificate has an elliptic key, which costs a handshake a tenth of the RSA key of httptest.
var certificate = sync.OnceValue(func() tls.Certificate { return trusted().Issue(forEver) })

// trust has every client of the process trust services over TLS, those of httptest too. The main
// package needs the line //go:debug x509usefallbackroots=1.
func trust() {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	roots.AddCert(trusted().root.Leaf)
	x509.SetFallbackRoots(roots)
}

// tlsHTTP2 returns conn over TLS, and speaks HTTP/2 on it.
func tlsHTTP2(conn net.Conn) net.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2"}})
}

// tlsHTTP1 returns conn over TLS, and speaks HTTP/1.1 on it.
func tlsHTTP1(conn net.Conn) net.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate()}})
}

// quietLog discards the log of a server.
var quietLog = log.New(io.Discard, "", 0)
