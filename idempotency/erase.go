package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

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
// Erase looks at all entries first, and removes nothing while a mutation of the person is in flight, in doubt or needs
// a review, or within MaxLateness after the last change of a key: an order that goes on would lose its first steps.
// The error has an [*Error] for each of these keys, which tells what ends the doubt, or how long to wait. Then call
// Erase again. Unreadable entries stay, with [store.ErrCorrupt]. Erase reads all entries twice.
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
	for entry, data := range s.of(ctx, wanted, &left) {
		if err := s.unfinished(entry, data); err != nil {
			left = append(left, err)
		}
	}
	if slices.ContainsFunc(left, func(err error) bool { return !errors.Is(err, store.ErrCorrupt) }) {
		return 0, errors.Join(left...)
	}
	left = nil
	for entry, data := range s.of(ctx, wanted, &left) {
		err := s.unfinished(entry, data) // the entry may have changed
		if err == nil {
			err = s.forgets(ctx, entry)
		}
		if err == nil {
			err = storeError(s.store.Save(ctx, data.erase(entry, by)))
		}
		if err != nil {
			left = append(left, err)
			continue
		}
		erased++
	}
	return erased, errors.Join(append(left, s.sweepLocks(ctx))...)
}

// of returns the entries with any of the ids. It adds the error of the list, and that of the first unreadable entry.
func (s *settings) of(ctx context.Context, ids [][]byte, failed *[]error) iter.Seq2[*store.Entry, *entryData] {
	return func(yield func(*store.Entry, *entryData) bool) {
		var corrupt error
		defer func() {
			if corrupt != nil {
				*failed = append(*failed, corrupt)
			}
		}()
		for entry, err := range store.All(ctx, s.store, store.Filter{Prefix: s.stored(""), States: allStates, Limit: pageLimit}) {
			if err != nil {
				*failed = append(*failed, storeError(err))
				return
			}
			data, err := readData(entry.Data)
			corrupt = cmp.Or(corrupt, storeError(err))
			if err == nil && !data.Erased && data.mentions(ids) && !yield(&entry, &data) {
				return
			}
		}
	}
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
