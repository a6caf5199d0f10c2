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
	from := func(part string, erase func(context.Context) (int, error)) error {
		return apart(r.Context(), func(ctx context.Context) error {
			some, err := erase(ctx)
			if n += some; err != nil {
				f := asFailure(err)
				status, failed = f.Status, failed+"; "+part+": "+f.Text
			}
			return err
		})
	}
	if d.Log != nil {
		err := from("log", func(ctx context.Context) (int, error) {
			return d.Log.Erase(ctx, idempotency.Decision{By: who, Why: o.Why}, o.IDs...)
		})
		if _, ok := errors.AsType[*lending.ArgumentError](err); ok {
			return what, 0, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inboxes)) {
		_ = from("inbox "+strconv.Quote(name), func(ctx context.Context) (int, error) {
			return d.Inboxes[name].Erase(ctx, webhook.Decision{By: who, Why: o.Why}, o.IDs...)
		})
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
