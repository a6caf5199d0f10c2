package idempotency

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go"
)

// arguments returns what is missing.
func (d Decision) arguments() (c arguments) {
	c.that(d.By != "", "By", lending.CodeRequired, "must not be empty")
	c.that(d.Why != "", "Why", lending.CodeRequired, "must not be empty")
	return c
}

// Standing has the instructions: see [Log.Standing].
type Standing struct {
	Paused   *Instruction // by [Log.Pause]; nil if the log is not paused
	Restored *Instruction // by [Log.Restored]; nil if none is in force
}

// Pause stops the sends of all logs with the same store and Namespace, in all processes: no call with
// a key begins to send its mutation later than a second after Pause has returned. Such a call fails with [ErrPaused].
// The waits of a caller's [http.Client] count on top: the log is asked right before its transport.
// Replays, reads, checks and webhooks go on, and so do mutations without a key. Pause does not wait
// for mutations that are in flight. A second Pause changes nothing: its error is an [*Error] with ErrPaused, and
// tells who has paused the log.
func (l *Log) Pause(ctx context.Context, d Decision) error {
	if err := d.arguments().err(); err != nil {
		return err
	}
	var first *Instruction
	err := storeError(l.settings().operator.change(ctx, func(i *instructions) {
		if first = i.Pause; first == nil {
			i.Pause = &Instruction{Decision: d}
		}
	}))
	if err == nil && first != nil {
		return &Error{kind: ErrPaused, Why: first.String()}
	}
	return err
}

// Resume ends [Log.Pause]. Each replica goes on within half a second.
func (l *Log) Resume(ctx context.Context) error {
	return storeError(l.settings().operator.change(ctx, func(i *instructions) { i.Pause = nil }))
}

// Standing returns the instructions in the store.
func (l *Log) Standing(ctx context.Context) (Standing, error) {
	s := l.settings()
	data, err := s.operator.read(ctx)
	now := Standing{Paused: data.Pause}
	if o := data.restored(time.Now()); o != nil {
		now.Restored = &o.Instruction
	}
	return now, storeError(err)
}
