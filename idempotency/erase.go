package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// Erase removes a person from the log, and returns the number of erased entries, also with an error.
// ids are the UUIDs of the customer and of the applications and loans: Erase changes the entries
// with such an id in the request or the recorded response. A batch is erased as a whole.
//
// The key, the method and path template, the states and their times stay. They protect the mutation: a call
// with the key sends nothing and fails with [ErrErased]. The response, the ids, the fingerprint and
// the reasons in the history go.
//
// Erase leaves the entry of a mutation that is in flight, in doubt or needs a review, and every entry
// within MaxLateness after its last change. It erases all others and returns an [*Error] for each of
// these: end the doubt, or wait for RetryAfter, and call Erase again. Unreadable entries stay
// too, with [store.ErrCorrupt]. Erase reads all entries.
func (l *Log) Erase(ctx context.Context, by Decision, ids ...string) (erased int, err error) {
	s := l.settings()
	c := by.arguments()
	c.that(len(ids) > 0, "ids", lending.CodeRequired, "must not be empty")
	var wanted [][]byte
	for _, id := range ids {
		parsed, err := uuid.Parse(id)
		c.that(err == nil, "ids", lending.CodeFormat, "must be UUIDs")
		wanted = append(wanted, []byte(parsed.String()))
	}
	if err := c.err(); err != nil {
		return 0, err
	}
	var left []error
	var corrupt error
	of := store.Filter{Prefix: s.stored(""), States: allStates, Limit: pageLimit}
	for entry, err := range store.All(ctx, s.store, of) {
		if err != nil {
			return erased, errors.Join(append(left, storeError(err))...)
		}
		data, err := readData(entry.Data)
		if corrupt = cmp.Or(corrupt, storeError(err)); err != nil || data.Erased || !data.mentions(wanted) {
			continue
		}
		if err = s.unfinished(&entry, &data); err == nil {
			err = s.forgets(ctx, true)
		}
		if err == nil {
			err = storeError(s.store.Save(ctx, data.erase(&entry, by)))
		}
		if err != nil {
			left = append(left, err)
			continue
		}
		erased++
	}
	return erased, errors.Join(append(left, corrupt, s.sweepLocks(ctx))...)
}

// mentions reports whether the entry has any of the ids, which are in lower case.
func (d *entryData) mentions(ids [][]byte) bool {
	answer := bytes.ToLower(d.Response.Body)
	for _, id := range ids {
		if d.Request.IDs.has(string(id)) || bytes.Contains(answer, id) {
			return true
		}
	}
	return false
}

// erase returns the entry without personal data. The reasons go because a person can have named
// the customer.
func (d *entryData) erase(entry *store.Entry, by Decision) store.Entry {
	now := line{State: store.Forgotten, By: by.By, Why: by.Why}
	if entry.State == store.Free {
		now.State = store.Free
	}
	d.note(entry, now)
	for i := range d.History[:len(d.History)-1] {
		d.History[i].Why, d.History[i].unknown = "", format.Unknown{}
	}
	r := d.Request
	*d = entryData{
		Erased: true, Request: request{Frozen: true, Route: r.Route, Account: r.Account},
		Send: send{Number: d.Send.Number}, History: d.History,
	}
	return d.next(entry, now.State, "")
}
