package ops

import (
	"maps"
	"net/http"
	"slices"

	"github.com/lendingapi/lending-go"
)

// session is the state of the session of an account.
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
	ctx, all := r.Context(), parts{}
	add := func(name string, err error) {
		p := part{Name: name}
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
