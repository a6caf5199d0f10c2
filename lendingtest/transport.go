package lendingtest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing/iotest"
)

// transport calls a handler without sockets.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	in := req.Clone(req.Context()) // a copy, because the service changes its request
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	w := &memoryWriter{ResponseRecorder: httptest.NewRecorder()}
	body := &sentBody{ReadCloser: in.Body}
	if in.Body != nil {
		in.Body = body
	}
	aborted := w.serve(t.handler, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if err := body.failed.Load(); err != nil { // net/http cannot send the rest either
		return nil, *err
	}
	if aborted && !w.wrote {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	resp := w.Result()
	resp.Request = req
	if aborted {
		resp.Body = io.NopCloser(io.MultiReader(resp.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	} else if resp.ContentLength < 0 {
		resp.ContentLength = int64(w.Body.Len())
	}
	return resp, nil
}

// sentBody remembers the error of reading a request's body.
type sentBody struct {
	io.ReadCloser
	failed atomic.Pointer[error] // the handler may read in another goroutine
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.failed.Store(&err)
	}
	return n, err
}

// memoryWriter knows whether the response has begun.
type memoryWriter struct {
	*httptest.ResponseRecorder
	wrote bool
}

func (w *memoryWriter) WriteHeader(status int) {
	if status >= 200 { // skips interim responses
		w.wrote = true
		w.ResponseRecorder.WriteHeader(status)
	}
}

func (w *memoryWriter) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseRecorder.Write(b)
}

func (w *memoryWriter) serve(h http.Handler, r *http.Request) (aborted bool) {
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			aborted = true
		}
	}()
	h.ServeHTTP(w, r)
	return false
}
