package ops

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"

	"github.com/lendingapi/lending-go/internal/page"
)

// Handler returns the page and the JSON routes below [Options].Path. Mount the handler behind
// your own authentication: everybody who reaches it can read keys, routes and causes.
func Handler(opts Options) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Who == nil {
		opts.Who = func(*http.Request) (string, bool) { return "", false }
	}
	if opts.Show == nil {
		opts.Show = func(*http.Request) bool { return false }
	}
	if opts.Resolved == nil {
		opts.Resolved = func(string) {}
	}
	d := &desk{Options: opts, reads: make(chan struct{}, maxReads)}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.showPage)
	mux.Handle("GET /page.css", page.Assets())
	mux.Handle("GET /page.js", page.Assets())
	d.serve(mux)

	path := strings.Trim(cmp.Or(opts.Path, "ops"), "/")
	if path == "" {
		return mux
	}
	return http.StripPrefix("/"+path, mux)
}

// serve adds the JSON routes of the parts of the handler.
func (d *desk) serve(mux *http.ServeMux) {
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, failf(http.StatusNotFound, "this handler has no such route, or no such part; see its Options"))
	})
	mux.HandleFunc("GET /api/health", answer(inTime(d, d.health)))
	mux.HandleFunc("GET /api/inboxes/{inbox}", answer(inTime(d, d.deadLetters), "event", "after", "limit"))
	mux.HandleFunc("GET /api/inboxes/{inbox}/{id}", answer(inTime(d, d.event)))
	mux.HandleFunc("GET /api/inboxes/{inbox}/removed", answer(inTime(d, d.removed), "limit"))
	mux.HandleFunc("POST /api/inboxes/{inbox}/redrive", d.action(long, d.redrive))
	mux.HandleFunc("POST /api/inboxes/{inbox}/drop", d.action(long, d.drop))
	mux.HandleFunc("POST /api/erase", d.action(whole, d.erase))
	if len(d.Sessions) > 0 {
		mux.HandleFunc("GET /api/sessions", answer(inTime(d, d.sessions)))
		mux.HandleFunc("POST /api/signin", d.action(signInTimeout, d.signIn))
	}
	if d.Log != nil {
		mux.HandleFunc("GET /api/keys", answer(inTime(d, d.keys), "state", "prefix", "after", "limit"))
		mux.HandleFunc("GET /api/key", answer(inTime(d, d.key), "key"))
		mux.HandleFunc("GET /api/standing", answer(inTime(d, d.standing)))
		mux.HandleFunc("GET /api/audit", answer(inTime(d, d.audited)))
		mux.HandleFunc("POST /api/audit", d.action(whole, d.audit))
		mux.HandleFunc("POST /api/resolve", d.action(timeout, d.resolve))
		mux.HandleFunc("POST /api/pause", d.action(timeout, d.pause))
		mux.HandleFunc("POST /api/resume", d.action(timeout, d.resume))
		mux.HandleFunc("POST /api/restored", d.action(timeout, d.restored))
	}
}
