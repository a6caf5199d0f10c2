package main

import (
	"cmp"
	"crypto/subtle"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/lendingtest"
)

//go:embed page.html
var files embed.FS

// handler serves the page, the service below /api and, with -control, the control.
func (p *site) handler() http.Handler {
	service, s := p.service, p.set
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.guarded(http.HandlerFunc(p.show)))
	mux.Handle("GET /page.css", page.Assets())
	mux.Handle("GET /page.js", page.Assets())
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, lendingtest.OpenAPI())
	})
	if s.control {
		mux.Handle("/_control/", p.control)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.answersTo(r.Host):
			http.Error(w, "The sandbox does not answer to this host name. Start it with -public and -host NAME.", http.StatusMisdirectedRequest)
		case p.services != nil && strings.HasPrefix(r.URL.Path, "/services/"):
			p.services.ServeHTTP(w, r)
		case !strings.HasPrefix(r.URL.Path, "/api"): // not a route of mux, which would redirect unclean paths
			mux.ServeHTTP(w, r)
		case s.origin != "" && r.Header.Get("Origin") == s.origin && admit(w, r):
		default:
			service.ServeHTTP(w, r)
		}
	})
}

// answersTo reports whether the sandbox serves requests for this Host header. A web page can
// point its own DNS name at this machine and then read what the machine answers, so a public
// sandbox serves its addresses and the names of its flags, and no other name.
func (s settings) answersTo(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if err == nil {
		return s.public || ip.IsLoopback()
	}
	return slices.ContainsFunc(append(s.hosts, "localhost"), func(own string) bool {
		return strings.EqualFold(name, own)
	})
}

// guarded asks a public sandbox's callers for the token: the page shows every code of the
// sandbox. A browser sends the token as the password of Basic authentication.
func (s settings) guarded(next http.Handler) http.Handler {
	if !s.public {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, token, ok := r.BasicAuth()
		if !ok {
			token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="sandbox", charset="UTF-8"`)
			http.Error(w, "The page needs a password: the token that the sandbox has printed.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit lets a web page of another origin read the answer. A browser asks for that ahead of the
// request itself; admit answers this question and then returns true.
func admit(w http.ResponseWriter, r *http.Request) (answered bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate")
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Traceparent, Tracestate")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// line returns a line of the log. The line omits query, header and body, because they contain
// personal data, passwords and tokens. With -service the line names the assumption behind an answer
// that the file does not have.
func (s settings) line(r lendingtest.Request) string {
	text := entry(r, "reset")
	if r.Status != 0 {
		text = entry(r, strconv.Itoa(r.Status))
	}
	if s.known != "" && r.Assumed != "" {
		text += ", assumed: " + r.Assumed
	}
	return text
}

// lateLine returns the line of a mutation that was executed after its caller had gone.
func lateLine(r lendingtest.Request, now time.Time) string {
	r.Time, r.Duration = now, now.Sub(r.Time)
	return entry(r, "late") + ", " + executed(r.Executed) + " after its caller had gone"
}

func entry(r lendingtest.Request, status string) string {
	what := r.Route
	if what == "" {
		what = fmt.Sprintf("%s %.100q, which is no route", r.Method, r.Path)
	}
	return fmt.Sprintf("%s  %-5s  %8.2f ms  %-*s  %s", r.Time.Format(time.TimeOnly), status,
		r.Duration.Seconds()*1000, len(lendingtest.Username), cmp.Or(r.Username, "-"), what)
}
