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

// session is the state of the session of an account.
type session struct {
	Name string `json:"name"`
	lending.SessionState
	Failed string `json:"error,omitempty"` // of the token store
}

// sessions serves GET api/sessions.
func (d *desk) sessions(r *http.Request) ([]session, error) {
	if len(d.Sessions) == 0 {
		return nil, failf(http.StatusNotFound, "this handler has no session")
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	return d.states(ctx), nil
}

// states returns the states of all sessions.
func (d *desk) states(ctx context.Context) []session {
	all := make([]session, 0, len(d.Sessions))
	for _, name := range slices.Sorted(maps.Keys(d.Sessions)) {
		state, err := d.Sessions[name].State(ctx)
		s := session{Name: name, SessionState: state}
		if d.outage("token store of "+name, err); err != nil {
			s.Failed = "the token store failed; check its log"
		}
		all = append(all, s)
	}
	return all
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

// outage is a store that fails.
type outage struct {
	Store string    `json:"store"`
	Since time.Time `json:"since"`
}

// counts serves GET api/counts.
func (d *desk) counts(r *http.Request) (sample, error) { return d.count(r.Context()), nil }

// count counts. A store that fails is in Down.
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
	for _, name := range slices.Sorted(maps.Keys(d.Sessions)) {
		add("session "+name, ready(d.Sessions[name].Ready(ctx)))
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
