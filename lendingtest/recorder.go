package lendingtest

import (
	"crypto/tls"
	"net"
	"net/http"
)

// recorder completes the row of the request before the first byte of the response.
type recorder struct {
	http.ResponseWriter
	ledger   *ledger
	watchers *watchers
	entry    *entry
}

// Unwrap makes http.ResponseController work.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if status >= 200 { // there are no interim responses
		r.finish(status)
		r.ResponseWriter.WriteHeader(status)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.ledger.keepAnswer(r.entry, b)
	r.finish(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

func (r *recorder) finish(status int) {
	if row, first := r.ledger.finish(r.entry, status); first {
		r.watchers.notify(Event{Request: &row})
	}
}

// abort closes the connection after the bytes written so far.
func (r *recorder) abort() {
	r.finish(0)
	panic(http.ErrAbortHandler)
}

// reset makes the caller see "connection reset by peer". On HTTP/2 and without sockets, where
// the connection is not available, reset aborts instead.
func (r *recorder) reset() {
	r.finish(0)
	conn, _, err := http.NewResponseController(r).Hijack()
	if err != nil {
		r.abort()
	}
	raw := conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = raw.Close()
}
