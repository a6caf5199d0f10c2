package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// checkAgain is the wait between two calls of [Log.Check] if nothing is in doubt.
const checkAgain = time.Minute

// Check makes the checks of all mutations in doubt with client, and returns the wait before the
// next call of Check. Call Check in a loop, in any number of replicas. Check sends no mutation.
//
// If no read tells whether a mutation happened, the mutation needs a review when MaxLateness is
// over, and its lock is free. After an error of a read, Check goes on with the next mutation; an
// error of the list ends Check.
//
// Check skips
//   - mutations of another service or account than that of client;
//   - mutations with [SafeToRepeat] or [WithCheck];
//   - mutations that only set a value;
//   - checks by an e-mail address, which no entry keeps: the next call with the key makes them.
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

// checkEntry ends the doubt about an entry if a read can. It returns the wait before the next
// check, or 0 if Check cannot end the doubt.
func (s *settings) checkEntry(ctx context.Context, client *lending.Client, entry *store.Entry) (time.Duration, error) {
	d, err := readData(entry.Data)
	if err != nil || d.Account != client.Account() { // Entries lists an unreadable entry as in doubt
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
