// Package control lets another process control a service for tests, in any language: plan faults, read "sent" codes, count
// executed mutations, move the clock, read the state. CONTROL.md in the folder of lendingtest describes the
// requests.
package control

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// Options are the settings of a control.
type Options struct {
	// Token is required from every caller. With a token the control accepts callers from other machines.
	Token string
	// Services opens further services; without it the orders about services are errors.
	Services *Services
}

// Control is a handler that controls a service. Serve it below any path; it reads the last path element:
//
//	mux.Handle("/_control/", control.New(service, nil))
//
// The control returns codes and passwords, so it accepts local callers only: the caller's
// address and the Host header must be loopback. The check of the Host header stops web pages
// that rebind their own host name to this machine. With a token the control accepts every caller
// with the token instead. In both cases it rejects requests of browsers from another origin, and
// changes must be JSON, which such a page cannot send without permission.
type Control struct {
	service *lendingtest.Service
	options Options
}

// New returns the control of a service. nil means the default options.
func New(service *lendingtest.Service, o *Options) *Control {
	return &Control{service: service, options: *cmp.Or(o, new(Options))}
}

type order struct {
	query []string // required parameters; a name with a question mark is optional
	do    func(c *Control, r *http.Request, body []byte) (any, error)
}

const bodyLimit = 16 << 20

// ServeHTTP obeys an order.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	answer, err := c.obey(r)
	status := http.StatusOK
	switch refused, ok := errors.AsType[*refusal](err); {
	case ok:
		status, answer = refused.status, failure{err.Error()}
	case err != nil:
		status, answer = http.StatusBadRequest, failure{err.Error()}
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body := append(plain.JSON(answer), '\n')
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

type failure struct {
	Error string `json:"error"`
}

// refusal is an error with another status than 400.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func (c *Control) obey(r *http.Request) (any, error) {
	if err := c.admit(r); err != nil {
		return nil, err
	}
	name := path.Base(r.URL.Path)
	all := orders()
	o, ok := all[r.Method+" "+name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("there is no %q; there are %s", r.Method+" "+name, known)}
	}
	if strings.Contains(name, "service") && c.options.Services == nil {
		return nil, errors.New("this control opens no services; ask the control of the sandbox itself")
	}
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method == http.MethodPost && t != "application/json" {
		return nil, &refusal{http.StatusUnsupportedMediaType, name + " wants application/json"}
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
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return c.give(o, r, body)
}

// give carries out an order. If a method panics in a test, for example for an unknown record, give
// returns an error.
func (c *Control) give(o order, r *http.Request, body []byte) (answer any, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case string:
			answer, err = nil, errors.New(v)
		default:
			panic(v)
		}
	}()
	return o.do(c, r, body)
}

// admit rejects callers that may not control the service.
func (c *Control) admit(r *http.Request) error {
	if token := c.options.Token; token != "" {
		if subtle.ConstantTimeCompare([]byte(rules.TokenOf(r)), []byte(token)) != 1 {
			return &refusal{http.StatusUnauthorized, "the control token is missing or wrong"}
		}
	} else if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() || !rules.Loopback(r.Host) {
		return &refusal{http.StatusForbidden, "without a token only this machine may steer the service, by the name localhost or a loopback address"}
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if from, err := url.Parse(origin); origin != "" && (err != nil || from.Host != r.Host) || site != "" && site != "same-origin" && site != "none" {
		return &refusal{http.StatusForbidden, "pages of another origin may not steer the service"}
	}
	return nil
}
