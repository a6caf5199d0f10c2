package lendingtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"syscall"
)

// Transport returns the service as a RoundTripper without sockets. Requests to any host reach
// the service and run in the caller's goroutine, so Transport works in testing/synctest: create
// the service inside the bubble.
//
// A reset is an error that wraps ECONNRESET. A cut body ends with io.ErrUnexpectedEOF.
func (s *Service) Transport() http.RoundTripper { return transport{s} }

type transport struct{ service *Service }

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
	w := &memoryWriter{header: http.Header{}}
	aborted := w.serve(t.service, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if aborted && w.status == 0 {
		return nil, &resetError{}
	}
	return w.response(req, aborted), nil
}

// resetError is the error of package net for a connection that the peer has reset.
type resetError struct{}

func (*resetError) Error() string { return "read: connection reset by peer" }
func (*resetError) Unwrap() error { return syscall.ECONNRESET }

// memoryWriter keeps a response in memory.
type memoryWriter struct {
	header http.Header
	sent   http.Header // the header at the time of the status
	status int
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush exists for handlers that call it.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }

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
	w.WriteHeader(http.StatusOK)
	return false
}

func (w *memoryWriter) response(req *http.Request, aborted bool) *http.Response {
	length := int64(w.body.Len())
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		length = n
	}
	var body io.Reader = &w.body
	if aborted {
		body = io.MultiReader(body, cutReader{})
	}
	return &http.Response{
		Status:     strconv.Itoa(w.status) + " " + http.StatusText(w.status),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        w.sent,
		Body:          io.NopCloser(body),
		ContentLength: length,
		Request:       req,
	}
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
