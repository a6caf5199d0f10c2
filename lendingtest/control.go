package lendingtest

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Control returns a handler through which another process controls the service, in any language.
// Go programs call it with [Dial]. CONTROL.md in this folder describes the requests for curl.
// Serve the handler below any path; it reads the last path element:
//
//	mux.Handle("/_control/", service.Control())
//
// The control returns codes and passwords, so it accepts local callers only: the caller's
// address and the Host header must be loopback. The check of the Host header stops web pages
// that rebind their own host name to this machine. With [WithControlToken] the control accepts
// every caller with the token instead. In both cases it rejects requests of browsers from
// another origin, and changes must be JSON, which such a page cannot send without permission.
func (s *Service) Control() http.Handler { return control{s} }

// WithControlToken makes [Service.Control] require this bearer token from every caller, and
// accept callers from other machines.
func WithControlToken(token string) Option { return func(c *config) { c.controlToken = token } }

type control struct{ service *Service }

// order is an operation of the control.
type order struct {
	method string
	query  []string // required parameters; a name with a question mark is optional
	do     func(*Service, *http.Request) (any, error)
}

// controlBody limits the body of an order. The snapshot of a very large state fits.
const controlBody = 256 << 20

func (c control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, controlBody)
	answer, err := c.obey(r)
	status := http.StatusOK
	switch refused, ok := errors.AsType[*controlError](err); {
	case ok:
		status, answer = refused.status, controlFailure{err.Error()}
	case err != nil:
		status, answer = http.StatusBadRequest, controlFailure{err.Error()}
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body := append(mustJSON(answer), '\n')
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

type controlFailure struct {
	Error string `json:"error"`
}

// controlError is a rejection with another status than 400.
type controlError struct {
	status int
	text   string
}

func (e *controlError) Error() string { return e.text }

func (c control) obey(r *http.Request) (any, error) {
	if err := c.admit(r); err != nil {
		return nil, err
	}
	all := orders()
	name := path.Base(r.URL.Path)
	o, ok := all[name]
	if !ok {
		return nil, &controlError{http.StatusNotFound, fmt.Sprintf("there is no %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))}
	}
	if r.Method != o.method {
		return nil, &controlError{http.StatusMethodNotAllowed, name + " wants " + o.method}
	}
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method == http.MethodPost && t != "application/json" {
		return nil, &controlError{http.StatusUnsupportedMediaType, name + " wants application/json"}
	}
	query := r.URL.Query()
	for key := range query {
		if !slices.Contains(o.query, key) && !slices.Contains(o.query, key+"?") {
			return nil, fmt.Errorf("%s has no parameter %q", name, key)
		}
	}
	for _, key := range o.query { // an empty parameter is an unset variable of a script
		key, optional := strings.CutSuffix(key, "?")
		if query.Get(key) == "" && (!optional || query.Has(key)) {
			return nil, fmt.Errorf("%s wants %s", name, key)
		}
	}
	return o.obey(c.service, r)
}

// obey runs an order. If the method panics in a test, for example for an unknown route or
// record, obey returns an error.
func (o order) obey(s *Service, r *http.Request) (answer any, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case string:
			answer, err = nil, errors.New(v)
		default:
			panic(v)
		}
	}()
	return o.do(s, r)
}

// admit rejects callers that may not control the service.
func (c control) admit(r *http.Request) error {
	if token := c.service.cfg.controlToken; token != "" {
		if subtle.ConstantTimeCompare([]byte(tokenOf(r)), []byte(token)) != 1 {
			return &controlError{http.StatusUnauthorized, "the control token is missing or wrong"}
		}
	} else if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() || !loopbackName(r.Host) {
		return &controlError{http.StatusForbidden, "without a token only this machine may steer the service, by the name localhost or a loopback address"}
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if from, err := url.Parse(origin); origin != "" && (err != nil || from.Host != r.Host) || site != "" && site != "same-origin" && site != "none" {
		return &controlError{http.StatusForbidden, "pages of another origin may not steer the service"}
	}
	return nil
}

// loopbackName reports whether a Host header names this machine.
func loopbackName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, _ := netip.ParseAddr(strings.Trim(name, "[]"))
	return ip.IsLoopback() || strings.EqualFold(name, "localhost")
}

// read decodes the body of a POST and rejects unknown names: a misspelled name would be a fault
// that never happens.
func read[T any](r *http.Request) (v T, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return v, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(&v)
	switch kind, ok := errors.AsType[*json.UnmarshalTypeError](err); {
	case errors.Is(err, io.EOF):
		return v, errors.New("the body is empty; send {} if there are no fields")
	case ok: // without the Go type, which means nothing in other languages
		return v, fmt.Errorf("the body: %s takes no %s", cmp.Or(kind.Field, "it"), kind.Value)
	case err != nil:
		return v, fmt.Errorf("the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More does not report an extra bracket
		return v, errors.New("the body has more than one value; send a single JSON object")
	}
	return v, nil
}
