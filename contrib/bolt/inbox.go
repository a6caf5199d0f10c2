// Package lendingbolt keeps a [lending.Inbox] in a file, for a receiver that is one
// process. It survives kill -9 and, as far as the disk keeps what it has said it keeps,
// the loss of power.
//
// It is a module of its own, so that nobody else gets its dependencies.
package lendingbolt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"go.etcd.io/bbolt"
)

// Options are what can be changed in an [Inbox]. A nil pointer and zero fields leave it
// at the defaults.
type Options struct {
	Keep time.Duration // how long an event is known, and its exact repetition swallowed; 72 h
	Wait time.Duration // how long Open waits for another process to close the file; 5 s
}

// Inbox is a [lending.Inbox] in one file, in buckets of bbolt.
type Inbox struct {
	db   *bbolt.DB
	keep time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and made anew when an event is added
}

var _ lending.Inbox = (*Inbox)(nil)

// The buckets. A sequence number names an event; a time in front of it sorts.
var (
	bodies  = []byte("bodies")  // number: body
	waiting = []byte("waiting") // time it is due, number: tries
	running = []byte("running") // number: tries
	dead    = []byte("dead")    // number: tries
	seen    = []byte("seen")    // SHA-256 of a body: time it was put
	history = []byte("history") // time it was put, SHA-256: nothing
)

// Open opens the inbox in the file at path, or makes it. Only its owner may read the
// file: it holds events as they came, codes and personal data included.
//
// Events that were being acted on when the process before ended are due at once.
func Open(path string, opts *Options) (*Inbox, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Keep <= 0 {
		o.Keep = 72 * time.Hour
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: o.Wait, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("lendingbolt: open: %w", err)
	}
	db.MaxBatchDelay = time.Millisecond // what happens at the same time shares a write
	if err := db.Update(prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("lendingbolt: open: %w", err), db.Close())
	}
	return &Inbox{db: db, keep: o.Keep, changed: make(chan struct{})}, nil
}

// prepare makes the buckets, and what was running due.
func prepare(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bodies, waiting, running, dead, seen, history} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	err := tx.Bucket(running).ForEach(func(number, tries []byte) error {
		return tx.Bucket(waiting).Put(join(time.Time{}, number), tries)
	})
	if err != nil {
		return err
	}
	if err := tx.DeleteBucket(running); err != nil {
		return err
	}
	_, err = tx.CreateBucket(running)
	return err
}

// Close closes the file, after the functions under way in [lending.Work] have returned.
func (b *Inbox) Close() error { return b.db.Close() }

// Put implements [lending.Inbox]. It returns when the event is on the disk.
func (b *Inbox) Put(ctx context.Context, event *lending.Event) error {
	body := event.Body()
	if _, err := lending.ParseEvent(body); err != nil {
		return err // made by hand: nobody could take it out
	}
	key := sha256.Sum256(body)
	known := false
	err := b.update(ctx, func(tx *bbolt.Tx) error {
		known = tx.Bucket(seen).Get(key[:]) != nil
		if known {
			return nil
		}
		now := time.Now()
		number, err := tx.Bucket(bodies).NextSequence()
		if err != nil {
			return err
		}
		n := binary.BigEndian.AppendUint64(nil, number)
		return errors.Join(
			b.forget(tx, now.Add(-b.keep)),
			tx.Bucket(seen).Put(key[:], join(now, nil)),
			tx.Bucket(history).Put(join(now, key[:]), nil),
			tx.Bucket(bodies).Put(n, body),
			tx.Bucket(waiting).Put(join(now, n), make([]byte, 4)),
		)
	})
	switch {
	case err != nil:
		return err
	case known:
		return lending.ErrDuplicate
	}
	b.wake()
	return nil
}

// forget removes some keys that were put before then: more than one, so that they get fewer.
func (b *Inbox) forget(tx *bbolt.Tx, then time.Time) error {
	cursor := tx.Bucket(history).Cursor()
	for range 4 {
		first, _ := cursor.First()
		if first == nil || timeOf(first).After(then) {
			return nil
		}
		if err := errors.Join(tx.Bucket(seen).Delete(first[8:]), cursor.Delete()); err != nil {
			return err
		}
	}
	return nil
}

// Take implements [lending.Inbox].
func (b *Inbox) Take(ctx context.Context) (*lending.InboxEntry, error) {
	for {
		changed := b.change()
		entry, due, err := b.first(ctx)
		if entry != nil || err != nil {
			return entry, err
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// first takes the first event that is due, or says when to look again.
func (b *Inbox) first(ctx context.Context) (entry *lending.InboxEntry, due time.Time, err error) {
	peek := func(tx *bbolt.Tx) (key, tries []byte) {
		key, tries = tx.Bucket(waiting).Cursor().First()
		if due = time.Now().Add(time.Hour); key != nil {
			due = timeOf(key)
		}
		if time.Now().Before(due) {
			return nil, nil
		}
		return key, tries
	}
	var found bool
	err = b.db.View(func(tx *bbolt.Tx) error {
		key, _ := peek(tx)
		found = key != nil
		return nil
	})
	if err != nil || !found {
		return nil, due, err
	}
	var refused error
	err = b.update(ctx, func(tx *bbolt.Tx) error {
		entry, refused = nil, nil // it may run again
		key, value := peek(tx)
		if key == nil {
			return nil // another was faster
		}
		number, tries := append([]byte(nil), key[8:]...), binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(value)+1)
		to := running
		if entry, refused = entryOf(tx, number, tries); refused != nil {
			to = dead // it would be refused each time
		}
		return errors.Join(tx.Bucket(waiting).Delete(key), tx.Bucket(to).Put(number, tries))
	})
	if refused != nil && err == nil {
		err = fmt.Errorf("lendingbolt: an entry was put aside: %w", refused)
	}
	if err != nil {
		return nil, due, err
	}
	return entry, due, nil
}

// entryOf returns an entry. If it holds no event, as [lending.ParseEvent] says, that of
// the entry is nothing but the bytes.
func entryOf(tx *bbolt.Tx, number, tries []byte) (*lending.InboxEntry, error) {
	body := append([]byte(nil), tx.Bucket(bodies).Get(number)...)
	event, err := lending.ParseEvent(body)
	if err != nil {
		event = new(lending.Event)
		_ = event.Record.UnmarshalJSON(body) // takes anything
	}
	return &lending.InboxEntry{
		Event: event, Tries: int(binary.BigEndian.Uint32(tries)), ID: strconv.FormatUint(binary.BigEndian.Uint64(number), 10),
	}, err
}

// Done implements [lending.Inbox].
func (b *Inbox) Done(ctx context.Context, entry *lending.InboxEntry) error {
	return b.move(ctx, running, entry, func(tx *bbolt.Tx, number, _ []byte) error {
		return tx.Bucket(bodies).Delete(number)
	})
}

// Retry implements [lending.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *lending.InboxEntry, wait time.Duration) error {
	defer b.wake()
	return b.move(ctx, running, entry, func(tx *bbolt.Tx, number, tries []byte) error {
		return tx.Bucket(waiting).Put(join(time.Now().Add(wait), number), tries)
	})
}

// Bury implements [lending.Inbox]. [Inbox.Dead] lists what was put aside.
func (b *Inbox) Bury(ctx context.Context, entry *lending.InboxEntry) error {
	return b.move(ctx, running, entry, func(tx *bbolt.Tx, number, tries []byte) error {
		return tx.Bucket(dead).Put(number, tries)
	})
}

// Dead returns the events that were put aside, oldest first. One without a name holds
// what [lending.ParseEvent] refuses: [lending.Event.Body] returns it.
func (b *Inbox) Dead(ctx context.Context) ([]*lending.InboxEntry, error) {
	var entries []*lending.InboxEntry
	err := b.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(dead).ForEach(func(number, tries []byte) error {
			entry, _ := entryOf(tx, number, tries) // why it was refused was told then
			entries = append(entries, entry)
			return ctx.Err()
		})
	})
	return entries, err
}

// Revive makes an event that was put aside due again, as if it had not been tried.
func (b *Inbox) Revive(ctx context.Context, entry *lending.InboxEntry) error {
	defer b.wake()
	return b.move(ctx, dead, entry, func(tx *bbolt.Tx, number, _ []byte) error {
		return tx.Bucket(waiting).Put(join(time.Now(), number), make([]byte, 4))
	})
}

// move takes entry out of a bucket and calls then, if it is still there.
func (b *Inbox) move(ctx context.Context, from []byte, entry *lending.InboxEntry, then func(tx *bbolt.Tx, number, tries []byte) error) error {
	n, err := strconv.ParseUint(entry.ID, 10, 64)
	if err != nil {
		return errors.New("lendingbolt: the entry is of another inbox")
	}
	number := binary.BigEndian.AppendUint64(nil, n)
	return b.update(ctx, func(tx *bbolt.Tx) error {
		tries := append([]byte(nil), tx.Bucket(from).Get(number)...)
		if len(tries) == 0 {
			return nil
		}
		return errors.Join(tx.Bucket(from).Delete(number), then(tx, number, tries))
	})
}

// Counts implements [lending.Inbox].
func (b *Inbox) Counts(ctx context.Context) (counts lending.InboxCounts, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		counts = lending.InboxCounts{
			Waiting: tx.Bucket(waiting).Stats().KeyN,
			Running: tx.Bucket(running).Stats().KeyN,
			Dead:    tx.Bucket(dead).Stats().KeyN,
		}
		return nil
	})
	return counts, err
}

// update is one transaction, on the disk when it returns nil.
func (b *Inbox) update(ctx context.Context, change func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.db.Batch(change)
}

func (b *Inbox) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *Inbox) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// join returns a key that sorts by t; the zero time comes first.
func join(t time.Time, rest []byte) []byte {
	var nanoseconds uint64
	if !t.IsZero() {
		nanoseconds = uint64(t.UnixNano())
	}
	return append(binary.BigEndian.AppendUint64(nil, nanoseconds), rest...)
}

func timeOf(key []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(key))) //nolint:gosec // see join
}
