package lendingtest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing/iotest"
)

// transport calls a handler without sockets.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	in := req.Clone(req.Context())
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	in.RequestURI, in.Host = req.URL.RequestURI(), cmp.Or(req.Host, req.URL.Host)
	w := &httptest.ResponseRecorder{Body: new(bytes.Buffer)} // without a Code until the response begins
	aborted := serve(t.handler, w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if aborted && w.Code == 0 {
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

func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (aborted bool) {
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
