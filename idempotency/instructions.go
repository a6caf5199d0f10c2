package idempotency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Decision is the decision of a person about the whole log, or to erase a customer. Both fields are
// required. They stay in the store, so Why is no place for personal data.
type Decision struct {
	By  string `json:"by"` // the name of the person
	Why string `json:"why"`
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

// instructions is the content of the entry of the instructions of the operator, and of the entry with the last audit.
type instructions struct {
	Format  format.Version `json:"format"`
	Pause   *Instruction   `json:"pause,omitempty"`
	Restore *restore       `json:"restore,omitempty"`
	Claim   bool           `json:"claim,omitempty"`   // see [Restoration]
	Forgot  bool           `json:"forgot,omitempty"`  // [Log.Forget] or [Log.Erase] has removed ids
	Gone    time.Duration  `json:"goneAge,omitempty"` // with Forgot: no key was forgotten that changed in this time: see [Log.Audit]

	Heirs map[string]string `json:"heirs,omitempty"` // by former account, the account of its group: see united

	Audit *AuditResult `json:"audit,omitempty"` // of the last audit
	Daily *daily       `json:"daily,omitempty"`

	unknown  format.Unknown
	at       time.Time // of the read, or a little earlier
	revision int64     // of the entry; 0 for a missing entry
	age      time.Duration
}

// restore is the instruction of [Log.Restored]. Entries saved since then carry its ID: their ages do not tell what came
// first if the clock of the store is set back.
type restore struct {
	Instruction

	ID string `json:"id"` // random
}

// daily has ages by the clock of the store: the clocks of the replicas can differ.
type daily struct {
	Turn    time.Duration `json:"turn,omitempty"`    // since a replica began a daily audit
	Audited time.Duration `json:"audited,omitempty"` // since the end of the period of the last one that has ended
}

// restored returns the instruction of [Log.Restored] with its age at now, or nil if none is in force.
func (d *instructions) restored(now time.Time) *restore {
	if d.Restore == nil {
		return nil
	}
	o := *d.Restore
	if o.Age += now.Sub(d.at); o.Age >= o.Lasts {
		return nil
	}
	return &o
}

// isOne reports whether two accounts are of the same group.
func (d *instructions) isOne(a, b string) bool {
	return cmp.Or(d.Heirs[a], a) == cmp.Or(d.Heirs[b], b)
}

// united returns Heirs with a group of account and formerly. It returns nil if one of them has a group with an account that
// is not among them: so two accounts that do not name each other share no former account.
func (d *instructions) united(account string, formerly []string) map[string]string {
	all := append([]string{account}, formerly...)
	for former, heir := range d.Heirs {
		if slices.Contains(all, former) != slices.Contains(all, heir) {
			return nil
		}
	}
	heirs := map[string]string{}
	maps.Copy(heirs, d.Heirs)
	for _, one := range all {
		heirs[one] = account
	}
	return heirs
}

const (
	// refreshAfter is the age at which a call reads the instructions again. The rest of maxStale is for
	// the time until the first byte of the mutation: over HTTP/2 a request can wait for its stream.
	refreshAfter = maxStale / 2
	// maxStale is the longest time between the begin of a read of the instructions and the first byte
	// of a mutation after this read.
	maxStale = time.Second
	// markAfter is the age at which [Log.Check] saves the instructions again, unchanged. From then on each running
	// log notices a store from an earlier copy by its lower revision.
	markAfter = time.Minute / 2
)

// errOlder is the error of a store with an earlier revision of the instructions than this process has read.
const errOlder = redact.Text("the store is older than before; if it was restored from a copy, stop all replicas and call Log.Restored")

// maxTurns is the number of times a function starts again after a conflict.
const maxTurns = 8

// operator reads and saves the instructions of the operator.
type operator struct {
	entries store.Store
	key     string        // of the stored entry
	inUse   chan struct{} // has a value during a read
	last    atomic.Pointer[instructions]
	newest  *instructions // the last ones that were not older than before; used with inUse
}

func (o *operator) change(ctx context.Context, change func(*instructions)) error {
	err := store.ErrConflict
	for turn := 0; turn < maxTurns && errors.Is(err, store.ErrConflict); turn++ {
		data, failed := o.read(ctx)
		if failed != nil {
			return failed
		}
		change(&data)
		err = o.save(ctx, data)
	}
	o.last.Store(nil)
	return err
}

func (o *operator) save(ctx context.Context, d instructions) error {
	d.Format = formatVersion
	text, _ := d.unknown.Encode(&d) // every field can be encoded
	return o.entries.Save(ctx, store.Entry{Key: o.key, Revision: d.revision, State: store.Done, Data: text})
}

// mark saves the instructions again, unchanged. It reads them first: the ages in them end with the save. After a failure the
// next [Log.Check] tries again.
func (o *operator) mark(ctx context.Context, revision int64) {
	if d, err := o.read(ctx); err == nil && d.revision == revision {
		_ = o.save(ctx, d)
	}
}

// read reads the instructions.
func (o *operator) read(ctx context.Context) (d instructions, err error) {
	at := time.Now()
	entry, err := o.entries.Load(ctx, o.key)
	if err == nil && entry != nil {
		d.unknown, err = decode(entry.Data, &d, &d.Format)
		d.revision, d.age = entry.Revision, entry.Age
		if d.Pause != nil {
			d.Pause.Age += entry.Age
		}
		if d.Restore != nil {
			d.Restore.Age += entry.Age
		}
		if d.Forgot {
			d.Gone += entry.Age
		}
		if d.Daily != nil {
			d.Daily.Turn += entry.Age
			d.Daily.Audited += entry.Age
		}
	}
	d.at = at
	return d, err
}

// isOlder reports whether the store has gone back since the last read, and no [Log.Restored] has followed.
func (o *operator) isOlder(d *instructions) bool {
	if o.newest == nil || d.revision >= o.newest.revision {
		return false
	}
	return d.Restore == nil || d.Restore.Age > time.Since(o.newest.at)
}

// recent returns the instructions of a moment ago. One call at a time reads them.
func (o *operator) recent(ctx context.Context) (*instructions, error) {
	select {
	case o.inUse <- struct{}{}:
		defer func() { <-o.inUse }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if last := o.last.Load(); last != nil && time.Since(last.at) < refreshAfter {
		return last, nil
	}
	ctx, stop := context.WithTimeout(ctx, maxStale)
	defer stop()
	d, err := o.read(ctx)
	switch {
	case err != nil:
		return nil, err
	case time.Since(d.at) > maxStale: // the process stood still, or the store ignores the context
		return nil, context.DeadlineExceeded
	case o.isOlder(&d):
		return nil, errOlder
	}
	o.newest = &d
	o.last.Store(&d)
	return &d, nil
}
