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

// Control returns what [Dial] talks to: a handler through which another process, in
// whatever language, steers the service as its methods do. CONTROL.md beside this file
// describes it for curl. Serve it below any path, of which it reads the last element:
//
//	mux.Handle("/_control/", service.Control())
//
// It shows codes and passwords, and so answers only to this machine: to callers on a
// loopback address who call it by a loopback name, by which a page of the web cannot
// reach it under a name of its own. With [WithControlToken] it answers whoever shows the
// token. It refuses what a browser sends for another origin, and has every change come
// as JSON, which such a page cannot send unasked.
func (s *Service) Control() http.Handler { return control{s} }

// WithControlToken has [Service.Control] want this bearer token, from everybody and
// from anywhere.
func WithControlToken(token string) Option { return func(c *config) { c.controlToken = token } }

type control struct{ service *Service }

// order is one thing that can be asked of a service.
type order struct {
	method string
	query  []string // what has to stand in it; a name with a question mark may be left out
	do     func(*Service, *http.Request) (any, error)
}

// controlBody is room for the snapshot of a very large state.
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

// controlError is a refusal that is not a 400.
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
			return nil, fmt.Errorf("%s knows no parameter %q", name, key)
		}
	}
	for _, key := range o.query { // an empty one is a variable of a script that is not set
		key, optional := strings.CutSuffix(key, "?")
		if query.Get(key) == "" && (!optional || query.Has(key)) {
			return nil, fmt.Errorf("%s wants %s", name, key)
		}
	}
	return o.obey(c.service, r)
}

// obey does what is asked. What panics in a test, an unknown route or record, is an error here.
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

// admit keeps out who is not meant to steer.
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

// loopbackName tells whether a Host header means this machine.
func loopbackName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, _ := netip.ParseAddr(strings.Trim(name, "[]"))
	return ip.IsLoopback() || strings.EqualFold(name, "localhost")
}

// read takes in the body of a POST, and refuses what it does not know: a misspelt name
// would be a fault that never shows.
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
		return v, errors.New("the body is empty, {} says nothing")
	case ok: // without the name of a Go type, which says nothing to other languages
		return v, fmt.Errorf("the body: %s takes no %s", cmp.Or(kind.Field, "it"), kind.Value)
	case err != nil:
		return v, fmt.Errorf("the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More is silent about a bracket too many
		return v, errors.New("the body: more than one value")
	}
	return v, nil
}
