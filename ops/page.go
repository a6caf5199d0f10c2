package ops

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/webhook"
)

//go:embed page.html
var files embed.FS

// view is the content of the page.
type view struct {
	Now                     time.Time
	MayAct, MayShow         bool
	Counts                  sample
	Classes                 map[string]int // number of open keys by class
	More                    bool           // open keys than the Most that are counted of a state
	Most                    int
	Prefix                  string // looked up
	HasLog                  bool
	Found                   []key
	Review, Doubt, Progress []key
	LogFailed               string
	Standing                []standing
	Inboxes                 []inboxView
	Event, From, Before     string // of the filter
	Sessions                []session
}

// inboxView is an inbox on the page.
type inboxView struct {
	Name    string
	Path    string // of its routes
	Counts  webhook.InboxCounts
	Letters []webhook.DeadLetter
	Failed  string
}

// keyList is a list of keys on the page.
type keyList struct {
	ID   string // of its element
	Keys []key
	view
}

// shown is the number of rows in each list of the page.
const shown = 50

// counted is the number of keys of a state that a page counts: each costs some microseconds.
const counted = 500

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"ago":   func(now, t time.Time) string { return max(now.Sub(t), 0).Round(time.Second).String() },
	"later": func(now, t time.Time) bool { return t.After(now) },
	"count": count,
	"ids":   ids,
	"route": routeInWords,
	"list":  func(id string, keys []key, v view) keyList { return keyList{id, keys, v} },
}).ParseFS(files, "page.html"))

// sections are the changing parts of the page, each a template and the id of an element.
var sections = []string{"clock", "summary", "session", "found", "review", "doubt", "inboxes"}

// request is the part of a request that decides what the page shows: the rights of the person and
// the query.
type request struct {
	mayAct, mayShow bool
	query           string
}

func (d *desk) request(r *http.Request) request {
	_, mayAct := d.Who(r)
	return request{mayAct, d.Show(r), r.URL.RawQuery}
}

func (d *desk) showPage(w http.ResponseWriter, r *http.Request) {
	d.endAtShutdown(r)
	of := d.request(r)
	v, err := inTime(d, func(r *http.Request) (view, error) { return d.view(r.Context(), of), nil })(r)
	if err != nil {
		f := asFailure(err)
		http.Error(w, f.Text, f.Status)
		return
	}
	page.Secure(w.Header(), "'self'")
	_ = pageTemplate.Execute(w, v) // an error means a closed connection
}

func (d *desk) followPage(w http.ResponseWriter, r *http.Request) {
	d.endAtShutdown(r)
	d.feed.Stream(w, r, d.request(r))
}

// endAtShutdown lets the shutdown of the server, which waits for open pages, end them.
func (d *desk) endAtShutdown(r *http.Request) {
	d.register.Do(func() {
		if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
			server.RegisterOnShutdown(sync.OnceFunc(func() { close(d.shutdown) }))
		}
	})
}

// render returns the sections for a request.
func (d *desk) render(of request) (map[string]template.HTML, error) {
	read := inTime(d, func(r *http.Request) (view, error) { return d.view(r.Context(), of), nil })
	v, err := read(new(http.Request))
	if err != nil {
		return nil, err
	}
	all := map[string]template.HTML{}
	for _, name := range sections {
		var html bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&html, name, v); err != nil {
			return nil, err
		}
		all[name] = template.HTML(html.String()) //nolint:gosec // escaped by the template
	}
	return all, nil
}

func (d *desk) view(ctx context.Context, of request) view {
	v := view{Now: time.Now().UTC(), HasLog: d.Log != nil, Most: counted, MayAct: of.mayAct, MayShow: of.mayShow}
	query, _ := url.ParseQuery(of.query) // the page ignores an invalid part
	v.Prefix, v.Event, v.From, v.Before = query.Get("prefix"), query.Get("event"), query.Get("from"), query.Get("before")
	v.Counts = d.count(ctx)
	if d.Log != nil {
		d.viewKeys(ctx, &v)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		v.Inboxes = append(v.Inboxes, d.viewInbox(ctx, &v, name, query))
	}
	v.Sessions = d.states(ctx)
	return v
}

// viewKeys fills the lists of keys.
func (d *desk) viewKeys(ctx context.Context, v *view) {
	// Keys in the state needs_review do not stand behind thousands in doubt.
	open, err := d.list(ctx, idempotency.Filter{States: []store.State{store.NeedsReview}, Limit: v.Most}, "")
	var others keysPage
	if err == nil {
		others, err = d.list(ctx, idempotency.Filter{States: []store.State{store.Sent, store.InDoubt}, Limit: v.Most}, "")
	}
	if err == nil && v.Prefix != "" {
		var found keysPage
		found, err = d.list(ctx, idempotency.Filter{Prefix: v.Prefix, Limit: shown}, "")
		v.Found = found.Keys
	}
	if err == nil {
		v.Standing, err = d.standing(ctx)
	}
	if err != nil {
		v.LogFailed = d.failed("idempotency log", err)
		return
	}
	v.Now = time.Now().UTC() // after the times of the keys
	v.More = open.Next+others.Next != ""
	open.Keys = append(open.Keys, others.Keys...)
	slices.SortStableFunc(open.Keys, func(a, b key) int { return a.Since.Compare(b.Since) })
	v.Classes = map[string]int{}
	lists := map[string]*[]key{review: &v.Review, doubt: &v.Doubt, progress: &v.Progress}
	for _, k := range open.Keys {
		v.Classes[k.Class]++
		if list := lists[k.Class]; list != nil && len(*list) < shown {
			*list = append(*list, k)
		}
	}
}

func (d *desk) viewInbox(ctx context.Context, v *view, name string, query url.Values) inboxView {
	i := inboxView{Name: name, Path: "api/inboxes/" + url.PathEscape(name), Counts: v.Counts.Inboxes[name]}
	filter, err := filterOf(query.Get)
	if err != nil {
		i.Failed = asFailure(err).Text
		return i
	}
	filter.Limit = shown
	letters, err := d.listLetters(ctx, name, d.Inboxes[name], filter)
	if err != nil {
		i.Failed = d.failed("inbox "+name, err)
	}
	i.Letters = letters.Letters
	return i
}

// failed describes a failed store with the time since when.
func (d *desk) failed(store string, err error) string {
	since := d.outage(store, err)
	return fmt.Sprintf("%s Fails since %s.", asFailure(err).Text, since.Format("2006-01-02 15:04:05"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// routeInWords returns the last name in a route: "confirm withdrawal invoice".
func routeInWords(route string) string {
	route, _, _ = strings.Cut(route, "/{")
	return strings.ReplaceAll(route[strings.LastIndex(route, "/")+1:], "-", " ")
}

// ids returns the ids of the records in a fixed order, as text.
func ids(all map[string]string) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, strings.TrimSuffix(name, "Id")+" "+all[name])
	}
	return texts
}
