package ops

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/webhook"
)

// erase serves POST api/erase: it removes a person from the log and from all inboxes. It goes on after
// a failure, and the next order with the same ids does the rest.
func (d *desk) erase(r *http.Request, who string, o order) (what string, n int, err error) {
	what = "erase " + count(len(o.IDs), "id") // the ids would stay in the log of actions
	if strings.TrimSpace(o.Why) == "" {
		return what, 0, failf(http.StatusBadRequest, "why is required: the reason to erase a person")
	}
	status, failed := 0, ""
	note := func(part string, some int, err error) {
		if n += some; err != nil {
			f := asFailure(err)
			status, failed = f.Status, failed+"; "+part+": "+f.Text
		}
	}
	if d.Log != nil {
		some, err := d.Log.Erase(r.Context(), idempotency.Decision{By: who, Why: o.Why}, o.IDs...) // bounds each call of its store
		if _, ok := errors.AsType[*lending.ArgumentError](err); ok {
			return what, 0, err
		}
		note("log", some, err)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		ctx, cancel := context.WithTimeout(r.Context(), long)
		some, err := d.Inboxes[name].Erase(ctx, webhook.Decision{By: who, Why: o.Why}, o.IDs...)
		cancel()
		note("inbox "+strconv.Quote(name), some, err)
	}
	if failed != "" {
		err = failf(status, "erased %s, but not all; repair this and erase again%s", count(n, "record"), failed)
	}
	return what, n, err
}

// removedList has the events that persons have removed from an inbox, the newest first.
type removedList struct {
	Removed []webhook.Removed `json:"removed"`
}

// removed serves GET api/inboxes/{inbox}/removed.
func (d *desk) removed(r *http.Request) (removedList, error) {
	_, inbox, err := d.inbox(r)
	if err != nil {
		return removedList{}, err
	}
	limit, err := limitOf(r.URL.Query().Get("limit"))
	if err != nil {
		return removedList{}, err
	}
	all, err := inbox.Removed(r.Context(), min(limit, webhook.MaxDeadLetters))
	return removedList{append([]webhook.Removed{}, all...)}, err
}
