package idempotency

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// find makes the check of a mutation of n records, and rebuilds the response if possible.
func (s *settings) find(ctx context.Context, key string, r route, t *target, d *entryData, n int) (finding, error) {
	of := &d.Send
	if why := r.cannotTell(of); why != "" {
		return finding{why: why}, nil
	}
	after, err := checks[r.reads].read(ctx, t)
	if err != nil {
		return finding{}, err
	}
	before, claimer := of.Before, ""
	if of.AfterRestore {
		if before, claimer, err = s.beforeCopy(ctx, key, r, t, after); err != nil {
			return finding{}, err
		}
	}
	if of.AfterRestore || d.isOfCopy {
		if f, isTold, err := s.unexplained(ctx, r, t, before, after); isTold || err != nil {
			return f, err
		}
	}
	f := r.judge(before, after, n)
	if f.evidence == absent && claimer != "" {
		f = finding{evidence: unclear, why: "key " + strconv.Quote(claimer) + " may have taken its record: compare both"}
	}
	if f.evidence == happened && r.rebuilds {
		f.why = "a read shows the mutation, but no read shows its response yet"
		f.answer, err = checks[r.reads].rebuild(ctx, t, before, after)
	}
	return f, err
}

// endOther ends the doubt about a mutation of another call if a read can. If no read can when the
// service can no longer execute the mutation, a person decides, or for [Log.Check] a call with the key.
// needsLock is set for a call that needs the lock of the mutation. endOther returns the wait before
// the next try, or 0 if a next try would change nothing.
func (s *settings) endOther(
	ctx context.Context, client *lending.Client, entry *store.Entry, d *entryData, needsLock bool,
) (wait time.Duration, err error) {
	idle := d.idle(entry)
	if idle < 0 {
		return -idle, nil
	}
	owns, err := s.owns(ctx, client.Account(), d.Request.Account)
	if err != nil {
		return recheck(idle, s.MaxLateness), err
	}
	late := s.MaxLateness - idle
	var f finding
	switch {
	case !owns:
	case entry.State == store.NeedsReview:
		f.why = d.History.decided().Why
	default: // the entry has the ids for the read
		of := s.targetOf(client, d.Request.IDs)
		if f, err = s.find(ctx, entry.Key, rowOf(d.Request.Route), of, d, max(1, d.Send.Adds)); err != nil {
			return recheck(idle, s.MaxLateness), err
		}
	}
	var now line
	var lock string
	switch d.othersActionOn(f, late, needsLock, s.repeats(d.Request.Route)) {
	case thenWait:
		return recheck(idle, late), nil
	case thenReview:
		d.names(f)
		d.Send.Before = nil // the count is wrong as soon as another mutation has the lock
		now = line{State: store.NeedsReview, Why: d.reviewed(cmp.Or(f.why, "another mutation has taken its lock"))}
		d.change(entry, now)
	case thenRecord, thenResend:
		if f.evidence == happened && d.Send.Adds != 0 && entry.Lock != "" {
			if err := s.effects.remember(ctx, entry.Lock, d.effect(f.answer)); err != nil {
				return 0, err
			}
		}
		f.why = shownByRead
		now = d.end(f, "")
		d.note(entry, now)
		lock = d.keeps(entry.Lock, now.State)
	default:
		return 0, nil
	}
	return 0, s.store.Save(ctx, d.next(entry, now.State, lock))
}
