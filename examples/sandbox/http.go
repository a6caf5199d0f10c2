package main

import (
	"cmp"
	"embed"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

//go:embed page.html page.css page.js
var files embed.FS

// handler is the page, the service below /api, and its control if that is wanted.
func handler(service *lendingtest.Service, s settings, done <-chan struct{}) http.Handler {
	p := &page{service: service, set: s, done: done}
	p.follow()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("GET /events", p.stream)
	mux.Handle("GET /page.css", http.FileServerFS(files))
	mux.Handle("GET /page.js", http.FileServerFS(files))
	if s.control {
		mux.Handle("/_control/", p.steered(service.Control()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.public && !ownName(r.Host):
			// A page on the web can point a name of its own at this machine.
			http.Error(w, "The sandbox answers to localhost only.", http.StatusMisdirectedRequest)
		case !strings.HasPrefix(r.URL.Path, "/api"): // not a route of mux, which would redirect unclean paths
			mux.ServeHTTP(w, r)
		case s.origin != "" && r.Header.Get("Origin") == s.origin && admit(w, r):
		default:
			service.ServeHTTP(w, r)
		}
	})
}

// ownName tells whether a Host header means this machine.
func ownName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, _ := netip.ParseAddr(strings.Trim(name, "[]"))
	return ip.IsLoopback() || strings.EqualFold(name, "localhost")
}

// admit lets a web page of another origin read the answer. A browser asks for that
// ahead of the request itself; admit answers this question and then returns true.
func admit(w http.ResponseWriter, r *http.Request) (answered bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate")
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// line is a request in the log. It leaves out query, header and body, which hold
// personal data, passwords and tokens.
func line(r lendingtest.Request) string {
	if r.Status == 0 {
		return entry(r, "reset")
	}
	return entry(r, strconv.Itoa(r.Status))
}

// lateLine is a command in the log that was taken up after its caller had gone.
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
