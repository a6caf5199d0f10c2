package ops

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/lendingapi/lending-go"
)

type session struct {
	Name string `json:"name"`
	lending.SessionState
	Failed string `json:"error,omitempty"` // of the token store
}

// sessions serves GET api/sessions.
func (d *desk) sessions(r *http.Request) ([]session, error) {
	all := make([]session, 0, len(d.Sessions))
	for _, name := range slices.Sorted(maps.Keys(d.Sessions)) {
		state, err := d.Sessions[name].State(r.Context())
		s := session{Name: name, SessionState: state}
		if err != nil {
			s.Failed = "the token store failed; check its log"
		}
		all = append(all, s)
	}
	return all, nil
}

// part is the health of a part: empty if the part can work.
type part struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
}

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
	all := parts{}
	add := func(name string, read func(context.Context) error) {
		p := part{Name: name}
		if err := apart(r.Context(), read); err != nil {
			p.Error = asFailure(err).Text
		}
		all = append(all, p)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sessions)) {
		add("session "+name, func(ctx context.Context) error {
			if err := d.Sessions[name].Ready(ctx); err != nil {
				return &failure{Status: http.StatusServiceUnavailable, Text: err.Error()} // which shows no value
			}
			return nil
		})
	}
	if d.Log != nil {
		add("idempotency log", d.Log.Ready)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		add("inbox "+name, func(ctx context.Context) error {
			_, err := d.Inboxes[name].Counts(ctx)
			return err
		})
	}
	return all, nil
}
