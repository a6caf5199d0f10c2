package ops

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// key is an entry of the log, with times instead of ages.
type key struct {
	Key     string            `json:"key"`
	Class   string            `json:"class"` // review, doubt, progress or ended
	State   store.State       `json:"state"`
	Says    string            `json:"says"` // the class and the state in words
	Route   string            `json:"route"`
	IDs     map[string]string `json:"ids,omitempty"` // of the records
	Since   time.Time         `json:"since"`
	Sends   int               `json:"sends"`
	About   string            `json:"about,omitempty"`  // see Options; of a single key
	LookAt  []string          `json:"lookAt,omitempty"` // the reads for a person
	Why     string            `json:"why,omitempty"`
	By      string            `json:"resolvedBy,omitempty"`
	Correct bool              `json:"correctable,omitempty"` // whether a verdict can replace the earlier verdict

	Happened    time.Time `json:"happenedFrom,omitzero"`    // time from which a person may say so
	NotHappened time.Time `json:"notHappenedFrom,omitzero"` // the same

	History []change `json:"history,omitempty"` // the oldest first

	position store.Position
}

// change is a line in the history of a key.
type change struct {
	At      time.Time   `json:"at"`
	State   store.State `json:"state"`
	Says    string      `json:"says"` // the state in words, and the number of the send
	By      string      `json:"by,omitempty"`
	Why     string      `json:"why,omitempty"`
	Dropped int         `json:"dropped,omitempty"` // the number of later changes that the history has not kept
}

// The classes of entries.
const (
	review   = "review"   // a person decides
	doubt    = "doubt"    // a check ends the doubt
	progress = "progress" // a call may be in flight
	ended    = "ended"    // done or free
)

func keyOf(e *idempotency.KeyStatus, now time.Time) key {
	k := key{
		Key: e.Key, Class: classOf(e), State: e.State, Says: says(e), Route: e.Route, IDs: e.IDs, Since: now.Add(-e.Age), Sends: e.Sends,
		LookAt: lookAt(e.CheckWith, e.IDs), Why: e.Why, By: e.ResolvedBy, Correct: e.Correctable, position: e.Position,
	}
	if k.Class != ended {
		k.Happened, k.NotHappened = now.Add(e.HappenedAfter), now.Add(e.NotHappenedAfter)
	}
	for _, c := range e.History {
		says := words[c.State]
		if c.State == store.Sent {
			says = sent(c.Sends)
		}
		at := now.Add(-c.Age)
		k.History = append(k.History, change{at, c.State, says, c.By, c.Why, c.Dropped})
	}
	if n := len(k.History); e.Erased && n > 0 {
		k.History[n-1].Says = "erased"
	}
	return k
}

func classOf(e *idempotency.KeyStatus) string {
	switch {
	case !slices.Contains(idempotency.InDoubtStates(), e.State):
		return ended
	case e.HappenedAfter > 0:
		return progress
	case e.NeedsPerson:
		return review
	}
	return doubt
}

// says tells in words what became of a mutation, and who decides.
func says(e *idempotency.KeyStatus) string {
	switch classOf(e) {
	case review:
		return words[store.NeedsReview]
	case doubt:
		return "in doubt, a check decides"
	case progress:
		return "in progress"
	}
	if e.Erased {
		return words[e.State] + ", erased"
	}
	if e.State == store.Free {
		return "did not happen, the next call sends it"
	}
	return words[e.State]
}

var words = map[store.State]string{
	store.Free: "did not happen", store.Sent: "sent", store.InDoubt: "in doubt", store.NeedsReview: "needs a person",
	store.Done: "happened", store.Forgotten: "happened, without its response",
}

type keysPage struct {
	Keys []key  `json:"keys"`
	Next string `json:"next,omitempty"` // for after; empty at the end
}

// keys serves GET api/keys.
func (d *desk) keys(r *http.Request) (keysPage, error) {
	query := r.URL.Query()
	limit, err := limitOf(query.Get("limit"))
	if err != nil {
		return keysPage{}, err
	}
	filter := idempotency.Filter{Prefix: query.Get("prefix"), After: store.Position(query.Get("after")), Limit: limit}
	state := query.Get("state")
	switch state {
	case "":
	case review, doubt, progress:
		filter.States = idempotency.InDoubtStates()
	default:
		filter.States = []store.State{store.State(state)}
		states := append(idempotency.InDoubtStates(), store.Free, store.Done, store.Forgotten)
		if !slices.Contains(states, filter.States[0]) {
			return keysPage{}, failf(http.StatusBadRequest, "no key has this state; use review, doubt, progress or one of %q", states)
		}
	}
	return d.list(r.Context(), filter, state)
}

// list returns a page of the keys of a class, or of any class.
func (d *desk) list(ctx context.Context, filter idempotency.Filter, class string) (keysPage, error) {
	found := keysPage{Keys: []key{}}
	for {
		entries, err := d.Log.Keys(ctx, filter)
		if err != nil {
			return keysPage{}, err
		}
		now := time.Now().UTC()
		for i := range entries {
			k := keyOf(&entries[i], now)
			filter.After = k.position
			if wanted := class == "" || class == k.Class || class == string(k.State); wanted {
				found.Keys = append(found.Keys, k)
			}
			if len(found.Keys) == filter.Limit {
				found.Next = string(filter.After)
				return found, nil
			}
		}
		if len(entries) == 0 {
			return found, nil
		}
	}
}

// key serves GET api/key.
func (d *desk) key(r *http.Request) (*key, error) {
	name := r.URL.Query().Get("key")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "the parameter key is missing")
	}
	return d.find(r.Context(), name)
}

func (d *desk) find(ctx context.Context, name string) (*key, error) {
	recorded, err := d.Log.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	if recorded.Route == "" {
		return nil, failf(http.StatusNotFound, "no entry has the key; list the keys by their beginning")
	}
	k := keyOf(&recorded.KeyStatus, time.Now().UTC())
	k.About = d.about(ctx, k.Key, k.IDs)
	return &k, nil
}

// resolve serves POST api/resolve.
func (d *desk) resolve(r *http.Request, who string, o order) (what string, n int, err error) {
	what = "resolve "
	if o.Correct {
		what = "correct "
	}
	what += strconv.Quote(o.Key) + ": " + o.Verdict
	var verdict idempotency.Verdict
	switch o.Verdict {
	case "not_happened":
		verdict = idempotency.NotHappened()
	case "happened":
		verdict = idempotency.Happened(nil)
		if len(o.Answer) > 0 {
			verdict = idempotency.Happened(o.Answer)
		}
	default:
		return "resolve", 0, failf(http.StatusBadRequest, `the verdict must be "happened" or "not_happened"`)
	}
	ctx := r.Context()
	if err := d.Log.Resolve(ctx, o.Key, idempotency.Resolution{By: who, Why: o.Why, Verdict: verdict, Correct: o.Correct, Sends: o.Sends}); err != nil {
		f := asFailure(err)
		if f.Status == http.StatusConflict {
			now, err := d.find(ctx, o.Key)
			if err != nil {
				return what, 0, err
			}
			if f.Now = now; now.By != "" && !o.Correct {
				f.Text = fmt.Sprintf("lending/ops: %q has just decided this key: %s, because %q", now.By, now.Says, now.Why)
			}
		}
		return what, 0, f
	}
	_ = d.contained(ctx, func() error { d.Resolved(o.Key); return nil }) // the verdict stands
	return what, 1, nil
}

// limitOf reads the parameter limit: 1 to 1,000, 100 if empty.
func limitOf(text string) (int, error) {
	if text == "" {
		return 100, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, failf(http.StatusBadRequest, "limit must be from 1 to 1000")
	}
	return n, nil
}
