package ops

import (
	"context"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/webhook"
)

//go:embed page.html
var files embed.FS

type view struct {
	Now                     time.Time
	MayAct, MayShow         bool
	Classes                 map[string]int // number of open keys by class
	More                    bool           // open keys than the Most that are counted of a state
	Most                    int
	Prefix                  string // looked up
	HasLog                  bool
	Found                   []key
	Review, Doubt, Progress []key
	LogFailed               string
	Standing                []standing
	Paused                  bool
	Audit                   audited
	Inboxes                 []inboxView
	Event                   string // of the dead letters
	Sessions                []session
}

type inboxView struct {
	Name    string
	Path    string // of its routes
	Counts  webhook.InboxCounts
	Letters []letter
	Failed  string
}

type keyList struct {
	ID   string // of its element
	Keys []key
	view
}

// shown is the number of rows in each list of the page.
const shown = 20

// counted is the number of keys of a state that a page counts: each costs some microseconds.
const counted = 500

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"ago":   func(now, t time.Time) string { return max(now.Sub(t), 0).Round(time.Second).String() },
	"later": func(now, t time.Time) bool { return t.After(now) },
	"count": count,
	"sent":  sent,
	"ids":   ids,
	"route": routeInWords,
	"curl":  curl,
	"list":  func(id string, keys []key, v view) keyList { return keyList{id, keys, v} },
}).ParseFS(files, "page.html"))

func (d *desk) showPage(w http.ResponseWriter, r *http.Request) {
	v, err := inTime(d, d.view)(r)
	if err != nil {
		f := asFailure(err)
		http.Error(w, f.Text, f.Status)
		return
	}
	page.Secure(w.Header(), "'self'")
	_ = pageTemplate.Execute(w, v) // an error means a closed connection
}

func (d *desk) view(r *http.Request) (v view, err error) {
	_, mayAct := d.Who(r)
	v = view{Now: time.Now().UTC(), HasLog: d.Log != nil, Most: counted, MayAct: mayAct, MayShow: d.Show(r)}
	query, _ := url.ParseQuery(r.URL.RawQuery) // the page ignores an invalid part
	v.Prefix, v.Event = query.Get("prefix"), query.Get("event")
	if d.Log != nil {
		err := apart(r.Context(), func(ctx context.Context) error { return d.viewKeys(r.WithContext(ctx), &v) })
		if err != nil {
			v.LogFailed = asFailure(err).Text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		i := inboxView{Name: name, Path: "api/inboxes/" + url.PathEscape(name)}
		err := apart(r.Context(), func(ctx context.Context) error { return d.viewInbox(ctx, &i, v.Event) })
		if err != nil {
			i.Failed = asFailure(err).Text
		}
		v.Inboxes = append(v.Inboxes, i)
	}
	v.Sessions, err = d.sessions(r)
	return v, err
}

func (d *desk) viewKeys(r *http.Request, v *view) error {
	var open []key
	// Keys in the state needs_review do not stand behind thousands in doubt.
	for _, states := range [][]store.State{{store.NeedsReview}, {store.Sent, store.InDoubt}} {
		some, err := d.list(r.Context(), idempotency.Filter{States: states, Limit: v.Most}, "")
		if err != nil {
			return err
		}
		open = append(open, some.Keys...)
		v.More = v.More || some.Next != ""
	}
	if v.Prefix != "" {
		found, err := d.list(r.Context(), idempotency.Filter{Prefix: v.Prefix, Limit: shown}, "")
		if err != nil {
			return err
		}
		v.Found = found.Keys
		d.describe(r.Context(), v.Found)
	}
	v.Now = time.Now().UTC() // after the times of the keys
	slices.SortStableFunc(open, func(a, b key) int { return a.Since.Compare(b.Since) })
	v.Classes = map[string]int{}
	lists := map[string]*[]key{review: &v.Review, doubt: &v.Doubt, progress: &v.Progress}
	for _, k := range open {
		v.Classes[k.Class]++
		if list := lists[k.Class]; list != nil && len(*list) < shown {
			*list = append(*list, k)
		}
	}
	d.describe(r.Context(), v.Review)
	d.describe(r.Context(), v.Doubt)
	d.describe(r.Context(), v.Progress)
	var err error
	if v.Audit, err = d.audited(r); err != nil {
		return err
	}
	v.Standing, err = d.standing(r)
	v.Paused = slices.ContainsFunc(v.Standing, func(s standing) bool { return s.Instruction == "paused" })
	return err
}

// describe adds the partner's words to keys.
func (d *desk) describe(ctx context.Context, keys []key) {
	for i := range keys {
		keys[i].About = d.about(ctx, keys[i].Key, keys[i].IDs)
	}
}

func (d *desk) viewInbox(ctx context.Context, i *inboxView, event string) (err error) {
	inbox := d.Inboxes[i.Name]
	if i.Counts, err = inbox.Counts(ctx); err != nil {
		return err
	}
	found, err := d.letters(ctx, inbox, webhook.DeadLetterFilter{Event: lending.EventName(event), Limit: shown})
	i.Letters = found.Letters
	return err
}
