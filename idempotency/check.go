package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// checkAgain is when [Log.Check] is worth calling again if nothing is in doubt.
const checkAgain = time.Minute

// Check ends what calls have left in doubt and nobody calls again for: it makes the checks of
// the mutations with client, and returns when the next call of Check can find out more. It sends no
// mutation. What no read tells is left to a person when MaxLateness is over; its lock is free then.
//
// Check keeps no state: call it again and again, in any number of replicas. It passes over the
// mutations of another service or account than that of client, and over those that only a call with
// the key can end: a check by an e-mail address, which no entry keeps, a value that is set again,
// [SafeToRepeat] and [WithCheck]. An error of a read or of the store does not keep it from the
// other mutations.
func (l *Log) Check(ctx context.Context, client *lending.Client) (next time.Duration, err error) {
	s, err := l.settings()
	if err != nil {
		return 0, err
	}
	if client == nil {
		return 0, argumentError("client", lending.CodeRequired, "must not be nil")
	}
	next = checkAgain
	left := store.Filter{Prefix: s.stored(""), States: []store.State{store.Sent, store.InDoubt}, Limit: 100}
	var failed []error
	for entry, err := range store.All(ctx, s.store, left) {
		if err != nil {
			return next, errors.Join(append(failed, storeError(err))...)
		}
		wait, err := s.checkEntry(ctx, client, &entry)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			failed = append(failed, err)
		}
		if wait > 0 {
			next = min(next, max(wait, time.Second))
		}
	}
	return next, errors.Join(failed...)
}

// checkEntry ends the doubt about the mutation of an entry, if a read can, and returns when another
// can; 0 for never.
func (s *settings) checkEntry(ctx context.Context, client *lending.Client, entry *store.Entry) (time.Duration, error) {
	d, err := readData(entry.Data)
	if err != nil || d.Account != client.Account() { // an entry that cannot be read is in the list of InDoubt
		return 0, nil //nolint:nilerr // see above
	}
	idle, row := d.idle(entry), rowOf(d.Route)
	if idle < 0 {
		return -idle, nil
	}
	late := s.MaxLateness - idle
	v, err := s.finish(ctx, client, entry, &d)
	switch isCallers := d.Own || d.Happened || row.setsValue || v.isCallers; {
	case err != nil:
		return recheck(idle, s.MaxLateness), err
	case v.happened || v.absent && late <= 0 || isCallers:
		return 0, nil
	case late > 0:
		return recheck(idle, late), nil
	}
	return 0, s.setAside(ctx, entry, &d, v.why)
}
