package idempotency

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// doubtAfterRestore puts a mutation in doubt that the store lost or did not know yet at the time of its copy.
func (k *keyedCall) doubtAfterRestore(ctx context.Context) error {
	k.entry, k.loaded = *k.current(), time.Now()
	o, err := k.restart(ctx, &k.entry, &k.data)
	if err != nil {
		return k.unsaved(err)
	}
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
		Adds: records(k.target.body),
	}
	return k.unsaved(k.saveWithLock(ctx, line{State: store.InDoubt, Why: o.Why}))
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
	err = k.index.use(ctx, id, func(x *index) {
		made, known := x.made[id]
		isNew = known && !made.presumed && time.Since(made.at) < o.Age
	})
	return isNew, k.unsaved(err)
}
