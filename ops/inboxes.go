package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// lettersPage is a page of dead letters: at most [webhook.MaxDeadLetters].
type lettersPage struct {
	Letters []letter `json:"deadLetters"`
	Next    string   `json:"next,omitempty"` // for after; empty at the end
}

type letter struct {
	webhook.DeadLetter

	About string `json:"about,omitempty"` // see Options, or the ids of the records
}

func (d *desk) inbox(r *http.Request) (string, webhook.DeadLetters, error) {
	name := r.PathValue("inbox")
	inbox, ok := d.Inboxes[name]
	if !ok {
		f := failf(http.StatusNotFound, "no inbox of this handler has the name; take a name from now")
		f.Now = slices.Sorted(maps.Keys(d.Inboxes))
		return "", nil, f
	}
	return name, inbox, nil
}

// deadLetters serves GET api/inboxes/{inbox}.
func (d *desk) deadLetters(r *http.Request) (lettersPage, error) {
	_, inbox, err := d.inbox(r)
	if err != nil {
		return lettersPage{}, err
	}
	query := r.URL.Query()
	filter := webhook.DeadLetterFilter{Event: lending.EventName(query.Get("event")), After: query.Get("after")}
	if filter.Limit, err = limitOf(query.Get("limit")); err != nil {
		return lettersPage{}, err
	}
	return d.letters(r.Context(), inbox, filter)
}

func (d *desk) letters(ctx context.Context, inbox webhook.DeadLetters, filter webhook.DeadLetterFilter) (lettersPage, error) {
	filter = filter.WithDefaults() // an inbox returns at most MaxDeadLetters
	letters, err := inbox.DeadLetters(ctx, filter)
	if err != nil {
		return lettersPage{}, err
	}
	found := lettersPage{Letters: []letter{}}
	for _, l := range letters {
		found.Letters = append(found.Letters, letter{l, d.aboutLetter(ctx, inbox, l.ID)})
	}
	if len(letters) == filter.Limit {
		found.Next = letters[len(letters)-1].ID
	}
	return found, nil
}

// eventView is a webhook with its data.
type eventView struct {
	Name    lending.EventName `json:"event"`
	Key     string            `json:"key"`
	Created time.Time         `json:"created,omitzero"`
	Body    json.RawMessage   `json:"body"`
}

// event serves GET api/inboxes/{inbox}/{id}, for a person who may see the data.
func (d *desk) event(r *http.Request) (*eventView, error) {
	name, inbox, err := d.inbox(r)
	if err != nil {
		return nil, err
	}
	if !d.Show(r) {
		return nil, failf(http.StatusForbidden, "this person may not see the data of a webhook; ask for the right")
	}
	event, err := inbox.DeadLetterEvent(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	who, _ := d.Who(r)
	d.Logger.InfoContext(r.Context(), "lending ops", "who", who, "what", "see the data of "+name+"/"+r.PathValue("id"))
	body := event.Body()
	if !json.Valid(body) {
		body, _ = json.Marshal(string(body)) //nolint:errchkjson // a string
	}
	return &eventView{Name: event.Name, Key: event.Key(), Created: event.Created.UTC(), Body: body}, nil
}

// redrive serves POST api/inboxes/{inbox}/redrive.
func (d *desk) redrive(r *http.Request, _ string, o order) (string, int, error) {
	return d.each(r, "redrive", o, webhook.DeadLetters.Redrive, webhook.RedriveAll)
}

// drop serves POST api/inboxes/{inbox}/drop.
func (d *desk) drop(r *http.Request, who string, o order) (string, int, error) {
	if strings.TrimSpace(o.Why) == "" {
		return "drop", 0, failf(http.StatusBadRequest, "why is required: the reason to drop an event for ever")
	}
	return d.each(r, "drop", o, func(inbox webhook.DeadLetters, ctx context.Context, ids ...string) (int, error) {
		return inbox.Drop(ctx, webhook.Decision{By: who, Why: o.Why}, ids...)
	}, func(ctx context.Context, inbox webhook.DeadLetters, filter webhook.DeadLetterFilter) (int, error) {
		return webhook.DropAll(ctx, inbox, webhook.Decision{By: who, Why: o.Why}, filter)
	})
}

// each acts on the dead letters of an order: those with an id, or all that match.
func (d *desk) each(
	r *http.Request, verb string, o order,
	some func(inbox webhook.DeadLetters, ctx context.Context, ids ...string) (int, error),
	all func(ctx context.Context, inbox webhook.DeadLetters, filter webhook.DeadLetterFilter) (int, error),
) (what string, n int, err error) {
	name, inbox, err := d.inbox(r)
	if err != nil {
		return verb, 0, err
	}
	if o.ID != "" {
		o.IDs = append(o.IDs, o.ID)
	}
	what = fmt.Sprintf("%s %s of %s", verb, count(len(o.IDs), "dead letter"), strconv.Quote(name))
	switch {
	case o.All == (len(o.IDs) > 0):
		return what, 0, failf(http.StatusBadRequest, "an order needs ids or all, and not both")
	case len(o.IDs) > webhook.MaxDeadLetters:
		return what, 0, failf(http.StatusBadRequest, "at most %d ids in an order", webhook.MaxDeadLetters)
	case !o.All:
		what += fmt.Sprintf(", ids %q", o.IDs)
		n, err = some(inbox, r.Context(), o.IDs...)
	default:
		what = fmt.Sprintf("%s all dead letters of %s, event %q", verb, strconv.Quote(name), o.Event)
		n, err = all(r.Context(), inbox, webhook.DeadLetterFilter{Event: lending.EventName(o.Event)})
	}
	if err == nil && n == 0 {
		f := failf(http.StatusConflict, "no dead letter matches any more; list the dead letters again")
		if counts, failed := inbox.Counts(r.Context()); failed == nil {
			f.Now = counts
		}
		err = f
	}
	return what, n, err
}
