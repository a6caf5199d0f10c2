package idempotency

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Restoration describes a restored store: see [Log.Restored].
type Restoration struct {
	By    string        // required: the name of the person
	Copy  time.Time     // required: the time of the copy
	Lasts time.Duration // how long the log distrusts the copy; 0 for KeepAnswers
}

// Restored tells all logs with the same store and Namespace that the store comes from a copy: the
// log does not know the mutations between the time of the copy and now. Stop all replicas before you
// restore the store, and call Restored before any of them sends.
//
// Until Lasts is over, these keys are in doubt before they are sent: a key that the copy does not
// have, and a key that was rejected, not yet sent or in doubt at the time of the copy. The check
// looks for the mutation. If the check does not find the mutation, the log sends the mutation, but
// not before MaxLateness has passed since Restored. A person decides where no read can tell.
// Recorded responses are replayed, and [SafeToRepeat], [WithCheck] and mutations that set a value
// work as after a lost response.
//
// A record that the log does not know counts as made since the copy, for example the customer with
// the e-mail address of a request. A person decides about such a record if the log has ever
// forgotten an order or erased a person ([Log.Forget], [Log.Erase]), or cannot read an entry. A person
// also decides about the next mutation of the same list that the check does not find: the record may be
// of that mutation. If a customer or an application was made after Restored, its keys are not in doubt.
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
	o := &Instruction{
		Decision: Decision{By: r.By, Why: "the store is a copy of " + r.Copy.UTC().Format(time.DateTime) + " UTC"},
		Copy:     r.Copy.UTC(), Lasts: cmp.Or(r.Lasts, s.KeepAnswers),
	}
	return s.instruct(ctx, func(d *standingData) { d.Restore = o })
}

// reviewed returns the reason of a review.
func (d *entryData) reviewed(why string) string {
	if d.Send.Presumed {
		why = "the store was restored from a copy, and does not know whether the mutation was sent: " + why
	}
	return why
}

// restored returns the instruction of [Log.Restored] with its age at now, or nil if none is in force.
func (d *standingData) restored(now time.Time) *Instruction {
	if d.Restore == nil {
		return nil
	}
	o := *d.Restore
	if o.Age += now.Sub(d.at); o.Age >= o.Lasts {
		return nil
	}
	return &o
}

// distrust counts the age of an entry of the copy from the instruction: the mutation may have been sent
// just before. The time before goes into the history. It returns the instruction, or nil if the
// entry is younger or no instruction is in force.
func (d *standingData) distrust(entry *store.Entry, data *entryData) *Instruction {
	o := d.restored(time.Now())
	if o == nil || entry.Revision > 0 && entry.Age < o.Age {
		return nil
	}
	if n := len(data.History); n > 0 {
		data.History[n-1].Lasted += (entry.Age - o.Age).Milliseconds()
	}
	entry.Age = o.Age
	return o
}

// presume puts a mutation in doubt that the store lost or did not know yet at the time of its copy.
func (k *keyedCall) presume(ctx context.Context) error {
	now, err := k.standing(ctx)
	if err != nil {
		return k.refuse(Error{kind: ErrStore, cause: err})
	}
	k.entry, k.loaded = *k.present(), time.Now()
	o := now.distrust(&k.entry, &k.data)
	if o == nil || k.entry.State != store.Free {
		return nil
	}
	if isNew, err := k.isNew(ctx, o); isNew || err != nil {
		return err
	}
	k.data.Request.Frozen = true
	k.data.Doubt.Idle = o.Age
	k.data.Send = send{
		Number: max(1, k.data.Send.Number), Presumed: true, Open: true, IsCallers: k.safeToRepeat || k.check != nil,
		Adds: records(k.call),
	}
	err = k.save(ctx, k.lock, line{State: store.InDoubt, Why: o.Why})
	return k.held(ctx, err)
}

// isNew reports whether the request names a record that a mutation has made after the instruction: such a
// mutation was not sent before.
func (k *keyedCall) isNew(ctx context.Context, o *Instruction) (bool, error) {
	id, err := k.target.owner(ctx)
	if err != nil {
		return false, k.refuse(Error{kind: errCheckBefore, cause: err})
	}
	if id == "" {
		return false, nil
	}
	isNew := false
	err = k.withPast(ctx, id, func(p *past) {
		made, known := p.made[id]
		isNew = known && !made.presumed && time.Since(made.at) < o.Age
	})
	return isNew, k.unsaved(err)
}

// owner returns the id of the application or the customer of the request, or "".
func (t *target) owner(ctx context.Context) (string, error) {
	loan := t.loan()
	if loan.IsZero() {
		return cmp.Or(t.ids["applicationId"], t.ids["customerId"]), nil
	}
	record, err := t.client.Loans.Get(ctx, loan)
	if lending.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return record.ApplicationID.String(), nil
}

// beforeCopy returns a snapshot of the time before a presumed mutation, made of the records that the
// log knows, or nil if the log cannot know them all. The state is that of after, which tells nothing.
// claimer is the key of another mutation that may have claimed the record.
func (s *settings) beforeCopy(
	ctx context.Context, key string, row route, t *target, after snapshot,
) (before *snapshot, claimer string, err error) {
	before = &snapshot{State: after.State}
	switch {
	case !row.adds && !row.listsIDs: // removes a record
		before.Count = 1
		return before, "", nil
	case after.Count < 0, after.Count == 0 && !row.isOne:
		return before, "", nil
	case after.Count == 0: // no offer: a processing need not have left one yet
		return nil, "", nil
	}
	now, err := s.standing(ctx)
	if err != nil {
		return nil, "", err
	}
	owner, err := t.owner(ctx)
	if err != nil {
		return nil, "", err
	}
	list := listOf(row, t.ids)
	err = s.withPast(ctx, "", func(p *past) {
		made, isKnown := p.made[owner]
		isYoung := isKnown && now.Restore != nil && now.Restore.Copy.Sub(made.at) < young
		hasIDs := row.listsIDs && !row.isOne
		knowsAll := made.presumed || !now.Forgot && (hasIDs || isYoung)
		switch {
		case p.hasGap || !knowsAll:
			before = nil
		case hasIDs:
			before.IDs = slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool {
				_, made := p.made[id]
				return !made || t.ids.has(id)
			})
			before.Count = len(before.IDs)
		default:
			before.Count = p.added(list, key)
		}
		if o := now.Restore; o != nil {
			claimer = p.claimer(list, now.at.Add(-o.Age))
		}
	})
	return before, strings.TrimPrefix(claimer, s.stored("")), err
}
