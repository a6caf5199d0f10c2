package idempotency

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Restoration describes a restored store: see [Log.Restored].
type Restoration struct {
	By    string        // required: the name of the person
	Copy  time.Time     // required: the time of the copy
	Lasts time.Duration // how long restored and unknown keys are in doubt; 0 for KeepAnswers

	// Claim lets a check take a record that no known key explains for the effect of its key. Set Claim only if
	// nothing else than the keys of this log makes records, every order since the copy runs again, and no customer
	// has two orders since the copy. Without Claim a person decides about such a record.
	Claim bool
}

// Restored tells all logs with the same store and Namespace that the store comes from a copy: the
// log does not know the mutations between the time of the copy and now. Stop all replicas before you
// restore the store, and call Restored before any of them sends. Restored pauses the log: nothing is sent
// until [Log.Resume].
//
// Until Lasts is over, these keys are in doubt before they are sent: a key that the copy does not
// have, and a key that was rejected, not yet sent or in doubt at the time of the copy. The check
// looks for the mutation. If the check does not find the mutation, the log sends the mutation, but
// not before MaxLateness has passed since Restored. A person decides where no read can tell.
// Recorded responses are replayed, and [SafeToRepeat], [WithCheck] and mutations that set a value
// work as after a lost response.
//
// Only an e-mail address identifies a record: the customer with the address is the record of the key. If the
// check finds another record that no known key explains, the key needs a review, which names the record, or
// its list and the count. The record can be of another program, or of an order before the log: see
// [Restoration].Claim. The verdict [Happened] with nil then accepts the named record.
//
// With Claim a person still decides about a record if the log has ever forgotten an order or erased a person
// ([Log.Forget], [Log.Erase]), or cannot read an entry, and about the next mutation of a list in which a key
// has claimed a record: the record may be of that mutation.
//
// An order that was accepted after Restored was never sent: see [WithAccepted]. If a customer or an
// application was made after Restored, its keys are not in doubt.
//
// When Lasts is over, the log trusts its keys again. By then each order of the program that was open
// at the time of the copy must have run to its end, or up to a key in doubt. A second Restored
// replaces the first: a short Lasts ends the restoration.
func (l *Log) Restored(ctx context.Context, r Restoration) error {
	s := l.settings()
	var c arguments
	c.that(r.By != "", "By", lending.CodeRequired, "must not be empty")
	c.that(!r.Copy.IsZero(), "Copy", lending.CodeRequired, "must not be zero")
	c.that(!r.Copy.After(time.Now()), "Copy", lending.CodeRange, "must not be in the future")
	c.that(r.Lasts >= 0, "Lasts", lending.CodeRange, "must not be negative")
	if err := c.err(); err != nil {
		return err
	}
	why := "the store is a copy of " + r.Copy.UTC().Format(time.DateTime) + " UTC"
	if r.Claim {
		why += "; keys claim records"
	}
	o := &restore{ID: rand.Text(), Instruction: Instruction{
		Decision: Decision{By: r.By, Why: why},
		Copy:     r.Copy.UTC(), Lasts: cmp.Or(r.Lasts, s.KeepAnswers),
	}}
	return storeError(s.operator.change(ctx, func(i *instructions) {
		i.Restore, i.Claim = o, r.Claim
		i.Pause = cmp.Or(i.Pause, &Instruction{Decision: o.Decision})
	}))
}

// open decodes a saved entry, and restarts its age after [Log.Restored].
func (s *settings) open(ctx context.Context, entry *store.Entry) (entryData, error) {
	d, err := readData(entry.Data)
	if err == nil {
		_, err = s.restart(ctx, entry, &d)
	}
	return d, err
}

// restart restarts the age and the doubt of a restored entry at the time of [Log.Restored], because the
// mutation may have been sent just before. The time before goes into the history. restart returns the
// instruction, or nil if the entry was saved since then or no instruction is in force.
func (s *settings) restart(ctx context.Context, entry *store.Entry, d *entryData) (*restore, error) {
	now, err := s.operator.recent(ctx)
	if err != nil {
		return nil, err
	}
	o := now.restored(time.Now())
	if o == nil {
		s.index.drop()
	}
	if o == nil || d.Restore == o.ID {
		return nil, nil
	}
	age := min(entry.Age, o.Age) // younger if a call that lacked only the response has sent it
	if n := len(d.History); n > 0 {
		d.History[n-1].Lasted += (entry.Age - age).Milliseconds()
	}
	entry.Age, d.Doubt.Idle, d.isOfCopy = age, 0, true
	d.Restore, d.IsNew = o.ID, entry.Revision == 0
	return o, nil
}

// unexplained returns the finding on records that no known key explains, and reports whether there are any.
// The mutation can have made one of them, but only an e-mail address identifies a record.
func (s *settings) unexplained(ctx context.Context, row route, t *target, before *snapshot, after snapshot) (f finding, _ bool, err error) {
	now, err := s.operator.recent(ctx)
	if err != nil || now.Claim || !row.adds || before == nil || before.Count < 0 || after.Count <= before.Count {
		return f, false, err
	}
	f.why = fmt.Sprintf("the service has %d %s, and the log knows %d", after.Count, row.reads, before.Count)
	if row.reads == readsApplications {
		ids, err := newApplications(ctx, t, before, after)
		if err != nil {
			return f, false, err
		}
		if len(ids) == 1 {
			f.record = []byte(strconv.Quote(ids[0]))
		}
		if len(ids) > 0 {
			f.why += ", but not " + strings.Join(ids, ", ")
		}
	}
	f.why += "; compare with the request"
	return f, true, nil
}

// beforeCopy returns a snapshot of the time before a mutation without a known send, made of the records that the
// log knows, or nil if the log claims records and cannot know them all. The state is that of after, which tells nothing.
// claimer is the key of another mutation that may have claimed the record.
func (s *settings) beforeCopy(
	ctx context.Context, key string, row route, t *target, after snapshot,
) (before *snapshot, claimer string, err error) {
	before = &snapshot{State: after.State}
	switch {
	case row.removes:
		before.Count = 1
		return before, "", nil
	case row.byEmail(): // the customer with the address is that of the key
		return before, "", nil
	case after.Count < 0, after.Count == 0 && !row.isOne:
		return before, "", nil
	case after.Count == 0: // no offer: a processing need not have left one yet
		return nil, "", nil
	}
	now, err := s.operator.recent(ctx)
	if err != nil {
		return nil, "", err
	}
	owner := ""
	if now.Claim {
		if owner, err = t.owner(ctx); err != nil {
			return nil, "", err
		}
	}
	list := listOf(row, t.ids)
	k, err := s.index.about(ctx, "", slices.Concat(after.IDs, []string{owner, list})...)
	if err != nil {
		return nil, "", err
	}
	made, isKnown := k.made[owner]
	isWhole := isKnown && now.Restore != nil && now.Restore.Copy.Sub(made.at) < keptWhole
	hasIDs := row.listsIDs && !row.isOne
	knowsAll := made.afterRestore || !now.Forgot && (hasIDs || isWhole)
	switch {
	case now.Claim && (k.hasGap || !knowsAll):
		before = nil
	case hasIDs:
		before.IDs = slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool {
			_, made := k.made[id]
			return !made || t.ids.has(id)
		})
		before.Count = len(before.IDs)
	default:
		before.Count = k.added(list, key)
	}
	if o := now.Restore; o != nil {
		claimer = k.claimer(list, o.ID)
	}
	return before, strings.TrimPrefix(claimer, s.stored("")), nil
}
