package ops

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// session serves GET api/session.
func (d *desk) session(r *http.Request) (lending.SessionState, error) {
	if d.Session == nil {
		return lending.SessionState{}, failf(http.StatusNotFound, "this handler has no session")
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	state, err := d.Session.State(ctx)
	if d.outage("token store", err); err != nil {
		return state, failf(http.StatusServiceUnavailable, "the token store failed; check its log")
	}
	return state, nil
}

// sample is the counts at a time.
type sample struct {
	At          time.Time                      `json:"at"`
	Sent        int                            `json:"sent"`
	InDoubt     int                            `json:"inDoubt"`
	NeedsReview int                            `json:"needsReview"`
	Inboxes     map[string]webhook.InboxCounts `json:"inboxes,omitempty"`
	Down        []outage                       `json:"down,omitempty"`
}

// open is the number of keys that are not done and may have happened.
func (s *sample) open() int { return s.Sent + s.InDoubt + s.NeedsReview }

// outage is a store that fails.
type outage struct {
	Store string    `json:"store"`
	Since time.Time `json:"since"`
}

// countsView is the counts now and since the process began.
type countsView struct {
	Began   time.Time `json:"began"`
	Now     sample    `json:"now"`
	Samples []sample  `json:"samples"` // oldest first
}

// The samples of counts: at most one a minute, taken when somebody asks, for a day.
const (
	sampleEvery = time.Minute
	maxSamples  = 24 * 60
)

// counts serves GET api/counts.
func (d *desk) counts(r *http.Request) (countsView, error) {
	now := d.count(r.Context())
	d.mu.Lock()
	defer d.mu.Unlock()
	return countsView{Began: d.began.UTC(), Now: now, Samples: slices.Clone(d.samples)}, nil
}

// count counts and keeps a sample. A store that fails is in Down.
func (d *desk) count(ctx context.Context) sample {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := sample{At: time.Now().UTC(), Inboxes: map[string]webhook.InboxCounts{}}
	note := func(store string, err error) {
		if since := d.outage(store, err); err != nil {
			now.Down = append(now.Down, outage{store, since})
		}
	}
	if d.Log != nil {
		open, err := d.Log.Counts(ctx)
		note("idempotency log", err)
		now.Sent, now.InDoubt, now.NeedsReview = open.Sent.Count, open.InDoubt.Count, open.NeedsReview.Count
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		counts, err := d.Inboxes[name].Counts(ctx)
		note("inbox "+name, err)
		now.Inboxes[name] = counts
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.samples); n == 0 || now.At.Sub(d.samples[n-1].At) >= sampleEvery {
		d.samples = append(d.samples, now)
		d.samples = d.samples[max(0, len(d.samples)-maxSamples):]
	}
	return now
}

// part is the health of a part: empty if the part can work.
type part struct {
	Name  string    `json:"name"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// parts is the health of all parts.
type parts []part

// status is 200 if every part can work, else 503.
func (p parts) status() int {
	if slices.ContainsFunc(p, func(p part) bool { return p.Error != "" }) {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// health serves GET api/health.
func (d *desk) health(r *http.Request) (parts, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	all := parts{}
	add := func(name string, err error) {
		p := part{Name: name, Since: d.outage(name, err)}
		if err != nil {
			p.Error = asFailure(err).Text
		}
		all = append(all, p)
	}
	if d.Session != nil {
		add("session", ready(d.Session.Ready(ctx)))
	}
	if d.Log != nil {
		add("idempotency log", ready(d.Log.Ready(ctx)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		_, err := d.Inboxes[name].Counts(ctx)
		add("inbox "+name, err)
	}
	return all, nil
}

// ready returns an error of a Ready method with its text, which shows no value.
func ready(err error) error {
	if err == nil {
		return nil
	}
	return &failure{Status: http.StatusServiceUnavailable, Text: err.Error()}
}
