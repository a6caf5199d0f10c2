package gateways_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// origin is the service behind a gateway: two instances that share a ledger.
type origin struct {
	a, b *instance

	partner http.Handler // of the paths below /partner/

	mu       sync.Mutex
	executed map[string]int // by the identifier of the request
	parts    int            // documents of which a part was executed

	refusesDocuments bool // before a byte is read

	fault atomic.Pointer[fault] // of all requests
	count atomic.Int64
}

// fault is what the service does wrong with every nth mutation.
type fault struct {
	every  int64
	answer func(w http.ResponseWriter)
}

var (
	hangUp = fault{50, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}
	slow   = fault{100, func(http.ResponseWriter) { <-time.After(1500 * time.Millisecond) }}
	broken = fault{50, func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }}
)

// instance is a server that can be killed.
type instance struct {
	address string
	server  *http.Server
	idle    time.Duration // after which the server closes a connection
	handler http.Handler
	secure  string // the protocol over TLS, "" without TLS
}

func newOrigin(t *testing.T, idle time.Duration, changes ...func(*instance)) *origin {
	t.Helper()
	o := &origin{executed: map[string]int{}}
	for _, i := range []**instance{&o.a, &o.b} {
		*i = &instance{address: freeAddress(), idle: idle, handler: o}
		for _, change := range changes {
			change(*i)
		}
		(*i).run(t)
		t.Cleanup(func() { _ = (*i).server.Close() })
	}
	return o
}

func (i *instance) run(t *testing.T) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(i.secure == "HTTP/2")
	protocols.SetUnencryptedHTTP2(i.secure == "")
	i.server = &http.Server{
		Handler: i.handler, IdleTimeout: i.idle, Protocols: protocols, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // a killed proxy ends handshakes
	}
	server := i.server
	serve := server.Serve
	if i.secure != "" {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	for {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", i.address)
		if err == nil {
			go func() { _ = serve(listener) }()
			return
		}
		if t.Context().Err() != nil {
			return
		}
		<-time.After(time.Millisecond)
	}
}

const (
	statusPath   = "/api/Application/application-status/"
	documentPath = "/submit-"
)

// ServeHTTP executes each request that arrives whole, and then has the faults.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/partner/") {
		o.partner.ServeHTTP(w, r)
		return
	}
	isDocument := strings.Contains(r.URL.Path, documentPath)
	if isDocument && o.refusesDocuments {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, statusPath) {
		_, _ = io.WriteString(w, `"Approved"`)
		return
	}
	if strings.Contains(r.URL.Path, "/add-company-details/") && !json.Valid(body) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"title":"the body is missing"}`)
		return
	}
	o.execute(r, body)
	if f := o.fault.Load(); f != nil && o.count.Add(1)%f.every == 0 {
		f.answer(w)
	}
	switch {
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `"c0000000-0000-4000-8000-000000000001"`)
	case isDocument:
		_, _ = io.WriteString(w, `true`)
	}
}

// execute notes a request. The name of a document is the hash of its content.
func (o *origin) execute(r *http.Request, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.executed[path.Base(r.URL.Path)]++
	if !strings.Contains(r.URL.Path, documentPath) {
		return
	}
	var content string
	_ = json.Unmarshal(body, &content)
	document, err := base64.StdEncoding.DecodeString(content)
	if err != nil || r.URL.Query().Get("fileName") != nameOf(document) {
		o.parts++
	}
}

func nameOf(document []byte) string { return fmt.Sprintf("%x.pdf", sha256.Sum256(document)) }

// runs returns how often the request with this identifier was executed.
func (o *origin) runs(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.executed[id]
}
