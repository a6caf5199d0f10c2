package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// Decision is the decision of a person about the whole log, or to erase a customer. Both fields are
// required. They stay in the store, so Why is no place for personal data.
type Decision struct {
	By  string `json:"by"` // the name of the person
	Why string `json:"why"`
}

// arguments returns what is missing.
func (d Decision) arguments() (c arguments) {
	c.that(d.By != "", "By", lending.CodeRequired, "must not be empty")
	c.that(d.Why != "", "Why", lending.CodeRequired, "must not be empty")
	return c
}

// Instruction is an instruction of the operator to all replicas.
type Instruction struct {
	Decision

	Age time.Duration `json:"age,omitempty"` // since the instruction, by the clock of the store

	Copy  time.Time     `json:"copy,omitzero"`   // of a [Restoration]
	Lasts time.Duration `json:"lasts,omitempty"` // of a [Restoration]
}

// String returns who, since when and why, for people.
func (o *Instruction) String() string {
	since := time.Now().Add(-o.Age).UTC()
	return fmt.Sprintf("by %s since %s UTC: %s", o.By, since.Format(time.DateTime), o.Why)
}

// Standing has the instructions: see [Log.Standing].
type Standing struct {
	Paused   *Instruction // by [Log.Pause]; nil if the log is not paused
	Restored *Instruction // by [Log.Restored]; nil if none is in force
}

// standingData is the content of the entry of the instructions.
type standingData struct {
	Format  format.Version `json:"format"`
	Pause   *Instruction   `json:"pause,omitempty"`
	Restore *Instruction   `json:"restore,omitempty"`
	Forgot  bool           `json:"forgot,omitempty"` // [Log.Forget] or [Log.Erase] has removed ids

	unknown format.Unknown
	at      time.Time // of the read, or a little earlier
}

const (
	// lookAgain is the age at which a call reads the instructions again. The rest of maxLook is for
	// the time until the first byte of the mutation.
	lookAgain = maxLook / 2
	// maxLook is the longest time between the begin of a read of the instructions and the begin of
	// a send that relies on the read.
	maxLook = time.Second
)

// look is the last read of the instructions in this process.
type look struct {
	reading chan struct{} // has a value during a read
	last    atomic.Pointer[standingData]
	told    atomic.Bool // a call has reported the present pause
}

// Pause stops the sends of all logs with the same store and Namespace, in all processes: no call with
// a key begins to send its mutation later than a second after Pause has returned. Such a call fails with [ErrPaused].
// Replays, reads, checks and webhooks go on, and so do mutations without a key. Pause does not wait
// for mutations that are in flight. A second Pause changes nothing: its error is an [*Error] with ErrPaused, and
// tells who has paused the log.
func (l *Log) Pause(ctx context.Context, d Decision) error {
	if err := d.arguments().err(); err != nil {
		return err
	}
	var first *Instruction
	err := l.settings().instruct(ctx, func(s *standingData) {
		if first = s.Pause; first == nil {
			s.Pause = &Instruction{Decision: d}
		}
	})
	if err == nil && first != nil {
		return &Error{kind: ErrPaused, Why: first.String()}
	}
	return err
}

// Resume ends [Log.Pause]. Each replica goes on within half a second.
func (l *Log) Resume(ctx context.Context) error {
	return l.settings().instruct(ctx, func(s *standingData) { s.Pause = nil })
}

// Standing returns the instructions in the store.
func (l *Log) Standing(ctx context.Context) (Standing, error) {
	s := l.settings()
	data, _, err := s.readStanding(ctx)
	return Standing{Paused: data.Pause, Restored: data.restored(time.Now())}, storeError(err)
}

// instruct saves a change of the instructions.
func (s *settings) instruct(ctx context.Context, change func(*standingData)) error {
	err := store.ErrConflict
	for turn := 0; turn < maxTurns && errors.Is(err, store.ErrConflict); turn++ {
		data, revision, failed := s.readStanding(ctx)
		if failed != nil {
			return storeError(failed)
		}
		change(&data)
		data.Format = formatVersion
		text, _ := data.unknown.Encode(&data) // every field can be encoded
		err = s.store.Save(ctx, store.Entry{Key: s.Namespace + standingKey, Revision: revision, State: store.Done, Data: text})
	}
	s.look.last.Store(nil)
	return storeError(err)
}

// standingKey is the key of the entry of the instructions, after the namespace.
const standingKey = "!standing"

// readStanding reads the instructions and the revision of their entry.
func (s *settings) readStanding(ctx context.Context) (d standingData, revision int64, err error) {
	at := time.Now()
	entry, err := s.store.Load(ctx, s.Namespace+standingKey)
	if err == nil && entry != nil {
		revision = entry.Revision
		d.unknown, err = decode(entry.Data, &d)
		for _, o := range []*Instruction{d.Pause, d.Restore} {
			if o != nil {
				o.Age += entry.Age
			}
		}
	}
	d.at = at
	return d, revision, err
}

// standing returns the instructions of a moment ago. One call at a time reads them.
func (s *settings) standing(ctx context.Context) (*standingData, error) {
	select {
	case s.look.reading <- struct{}{}:
		defer func() { <-s.look.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if last := s.look.last.Load(); last != nil && time.Since(last.at) < lookAgain {
		return last, nil
	}
	ctx, stop := context.WithTimeout(ctx, maxLook)
	defer stop()
	d, _, err := s.readStanding(ctx)
	switch {
	case err != nil:
		return nil, err
	case time.Since(d.at) > maxLook: // the process stood still, or the store ignores the context
		return nil, context.DeadlineExceeded
	case d.Pause == nil:
		s.look.told.Store(false)
	}
	s.look.last.Store(&d)
	return &d, nil
}

// refusal returns the reason if no call may begin to send a mutation.
func (s *settings) refusal(ctx context.Context) *Error {
	switch now, err := s.standing(ctx); {
	case err != nil:
		return &Error{kind: ErrStore, cause: err}
	case now.Pause != nil:
		return &Error{kind: ErrPaused, Why: now.Pause.String()}
	}
	return nil
}

// begin looks at the instructions right before the send, and takes "sent" back if the send must
// not begin: the call may have waited for a token, a check or the store.
func (k *keyedCall) begin(ctx context.Context) error {
	why := k.refusal(ctx)
	if why == nil {
		return nil
	}
	before := store.Free
	if k.inDoubt {
		before = store.InDoubt
	}
	k.takeBack(ctx, before, "not sent: the log was paused, or its store failed")
	k.entry.State = before // also if the store does not know it
	return k.refuse(*why)
}
