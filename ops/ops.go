package ops

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/webhook"
)

// Options are the parts of a [Handler]. Every field is optional.
type Options struct {
	Path    string                         // path of the handler; "/ops/" if empty
	Log     *idempotency.Log               // the mutations with an idempotency key
	Inboxes map[string]webhook.DeadLetters // the webhooks set aside, by a name for people
	// Sessions are those of the clients, by a name of their account for people: see
	// [lending.Client.Session].
	Sessions map[string]*lending.Session

	// Who names the person behind a request, and reports whether the person may act. The name
	// goes to the log of actions and into resolved entries. Without Who nobody may act.
	Who func(r *http.Request) (name string, mayAct bool)

	// Show reports whether the person may see the data of a webhook, which holds codes and
	// personal data. Without Show nobody may.
	Show func(r *http.Request) bool

	// About describes in words what a key is about: the order, the customer, the amount. ids are those of
	// its records by name, such as loanId. For a webhook set aside, key is empty. The page calls About for
	// each row that it shows.
	About func(ctx context.Context, key string, ids map[string]string) string

	// Resolved is called with a key after a person's verdict, so that its order goes on at once:
	// call Worker.Hint of package orders with the order of the key.
	Resolved func(key string)

	Logger *slog.Logger // for the actions; slog.Default() if nil
}

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
	mux.HandleFunc("POST /api/inboxes/{inbox}/redrive", d.action(d.redrive))
	mux.HandleFunc("POST /api/inboxes/{inbox}/drop", d.action(d.drop))
	mux.HandleFunc("POST /api/erase", d.action(d.erase))
	if len(d.Sessions) > 0 {
		mux.HandleFunc("GET /api/sessions", answer(inTime(d, d.sessions)))
		mux.HandleFunc("POST /api/signin", d.action(d.signIn))
	}
	if d.Log != nil {
		mux.HandleFunc("GET /api/keys", answer(inTime(d, d.keys), "state", "prefix", "after", "limit"))
		mux.HandleFunc("GET /api/key", answer(inTime(d, d.key), "key"))
		mux.HandleFunc("GET /api/standing", answer(inTime(d, d.standing)))
		mux.HandleFunc("POST /api/resolve", d.action(d.resolve))
		mux.HandleFunc("POST /api/pause", d.action(d.pause))
		mux.HandleFunc("POST /api/resume", d.action(d.resume))
		mux.HandleFunc("POST /api/restored", d.action(d.restored))
	}
}

// desk is the state of a handler.
type desk struct {
	Options
	origin http.CrossOriginProtection

	reads chan struct{} // has an element for each read
}

const (
	timeout  = 4 * time.Second // of a read of a store
	patience = 5 * time.Second // with a store that ignores its context; a shutdown of the server waits as long
	maxReads = 16              // at a time: a store can ignore its context, and its reads outlive their requests
)
