// Package lendingbolt keeps accepted webhooks and mutations with an idempotency key in files,
// for a single process: [Inbox] is a [webhook.Inbox], and [IdempotencyStore] is a [store.Store].
//
// The data survive kill -9, and also the loss of power if the disk keeps synced data. On a full
// disk, the stores accept nothing new and lose nothing. contrib/README.md compares the stores of
// all packages, and names the tests.
package lendingbolt

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
	"go.etcd.io/bbolt"
)

// InboxOptions change an [Inbox]. A nil pointer and zero fields mean the defaults.
type InboxOptions struct {
	// Keep is how long the inbox recognizes and drops an exact redelivery of an event; 72 h.
	// Each event takes about 80 bytes of memory.
	Keep time.Duration
	Wait time.Duration // how long OpenInbox waits for another process to close the file; 5 s
	// Encryption encrypts the events in the file. Nil stores them in plain text.
	Encryption *webhook.Encryption
}

// Inbox is a [webhook.Inbox] in a file. A single process at a time can open the file.
type Inbox struct {
	file       opaque.Value[*file] // fmt and comparisons cannot look into a function
	keep       time.Duration
	encryption *webhook.Encryption
	claims     opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
	known      opaque.Value[*known]
}

// known holds the keys in history, and the keys that the current transaction adds. An index in
// the file would cost a page for each event. Only a transaction may use the struct.
type known struct {
	seen, adding map[[sha256.Size]byte]struct{}
	added        *bbolt.Tx // the transaction of adding
}

var _ webhook.Inbox = (*Inbox)(nil)

// The buckets. A sequence number identifies an event. Keys with a time begin with the time.
var (
	bodies  = []byte("bodies")       // number: body
	waiting = []byte("waiting")      // time it is due, number: state
	running = []byte("running")      // number: state
	dead    = []byte("dead letters") // time it was set aside, number: its description in JSON
	history = []byte("history")      // time it was put, SHA-256: nothing
	removed = []byte("removed")      // number: who removed an event, and why, in JSON

	inboxBuckets = [][]byte{bodies, waiting, running, dead, history, removed}
)

// The state of an event is its number of claims.
func stateOf(value []byte) (tries uint32) { return binary.BigEndian.Uint32(value) }

func bytesOf(tries uint32) []byte { return binary.BigEndian.AppendUint32(nil, tries) }

// OpenInbox opens the inbox in the file at path, or creates the file. Only its owner may
// read the file. Without Encryption it holds events in plain text, with codes and personal data.
// OpenInbox fails if
// another process has the file open, or if the file is damaged. To check the file, OpenInbox
// reads all of it, which takes about 0.2 s for 100,000 events.
//
// If the last process died, the events it was handling are due within a second, at different
// times. The wait doubles with each further death during the same event, up to a minute.
func OpenInbox(path string, opts *InboxOptions) (*Inbox, error) {
	o := *cmp.Or(opts, new(InboxOptions))
	claimer.SetDefault(&o.Keep, 72*time.Hour)
	f, err := openFile(path, o.Wait, inboxBuckets)
	if err != nil {
		return nil, fmt.Errorf("lendingbolt: open: %w", err)
	}
	had := &known{seen: map[[sha256.Size]byte]struct{}{}}
	inbox := &Inbox{file: opaque.Hide(f), keep: o.Keep, encryption: o.Encryption, known: opaque.Hide(had)}
	inbox.claims = opaque.Hide(claimer.New(inbox.claim, time.Hour)) // no other process puts events
	if err := f.update(inbox.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("lendingbolt: open: %w", err), f.close())
	}
	return inbox, nil
}

// prepare creates the buckets, and makes running events due.
func (b *Inbox) prepare(tx *bbolt.Tx) (bool, error) {
	for _, name := range inboxBuckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return false, err
		}
	}
	now := time.Now()
	err := errors.Join(
		tx.Bucket(history).ForEach(func(key, _ []byte) error {
			b.known().seen[keyOf(key)] = struct{}{}
			return nil
		}),
		tx.Bucket(running).ForEach(func(number, value []byte) error {
			due := now.Add(rand.N(backoff.Doubled(int(stateOf(value)), time.Second, time.Minute)))
			return tx.Bucket(waiting).Put(join(due, number), value)
		}))
	if err != nil {
		return false, err
	}
	if err := tx.DeleteBucket(running); err != nil {
		return false, err
	}
	_, err = tx.CreateBucket(running)
	return true, err
}

// Close closes the file. Call it after [webhook.Work] has returned.
func (b *Inbox) Close() error { return b.file().close() }

// Put implements [webhook.Inbox]. Put returns when the event is on the disk.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return err // a handmade event; Take could not parse its body
	}
	key, stored := sha256.Sum256(body), b.encryption.Seal(event)
	again := false
	err := b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		if again = b.known().has(tx, key); again {
			return false, nil
		}
		now := time.Now()
		number, err := tx.Bucket(bodies).NextSequence()
		if err != nil {
			return false, err
		}
		n := binary.BigEndian.AppendUint64(nil, number)
		return true, errors.Join(
			b.forget(tx, now.Add(-b.keep)),
			tx.Bucket(history).Put(join(now, key[:]), nil),
			tx.Bucket(bodies).Put(n, stored),
			tx.Bucket(waiting).Put(join(now, n), bytesOf(0)),
		)
	})
	switch {
	case err != nil:
		return err
	case again:
		return webhook.ErrDuplicate
	}
	b.claims().LookIn(0)
	return nil
}

// has reports whether an event is known. A new event becomes known when the transaction commits.
func (k *known) has(tx *bbolt.Tx, key [sha256.Size]byte) bool {
	if k.added != tx {
		k.added, k.adding = tx, map[[sha256.Size]byte]struct{}{}
	}
	_, seen := k.seen[key]
	_, adding := k.adding[key]
	if seen || adding {
		return true
	}
	k.adding[key] = struct{}{}
	tx.OnCommit(func() { k.seen[key] = struct{}{} })
	return false
}

// forget removes up to four keys older than then. Each Put adds a single key, so old keys vanish.
func (b *Inbox) forget(tx *bbolt.Tx, then time.Time) error {
	cursor := tx.Bucket(history).Cursor()
	for range 4 {
		first, _ := cursor.First()
		if first == nil || timeOf(first).After(then) {
			return nil
		}
		key := keyOf(first)
		tx.OnCommit(func() { delete(b.known().seen, key) })
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the SHA-256 in a key of history.
func keyOf(key []byte) (sum [sha256.Size]byte) {
	copy(sum[:], key[8:])
	return sum
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	return b.claims().Take(ctx, false)
}

// claim is a [claimer.Source]. A read comes first, because a commit waits for the disk.
func (b *Inbox) claim(ctx context.Context, _ bool) (seen claimer.Seen[*webhook.InboxEntry], err error) {
	var key []byte
	err = b.file().view(func(tx *bbolt.Tx) error {
		key, seen.Next = peek(tx)
		return nil
	})
	if err != nil || key == nil {
		return seen, err
	}
	var refused error
	err = b.update(ctx, func(tx *bbolt.Tx) (_ bool, err error) {
		seen.Entry, refused = nil, nil // the function may run again
		if key, seen.Next = peek(tx); key == nil {
			return false, nil
		}
		seen.Entry, refused, err = b.claimed(tx, key)
		return true, err
	})
	seen.Found = seen.Entry != nil
	return seen, cmp.Or(err, refused)
}

// peek returns the first due event, or the time until it is due.
func peek(tx *bbolt.Tx) (key []byte, next time.Duration) {
	if key, _ = tx.Bucket(waiting).Cursor().First(); key == nil {
		return nil, -1
	}
	if next = time.Until(timeOf(key)); next > 0 {
		return nil, next
	}
	return key, 0
}

// claimed moves an event from waiting to running. An entry without a valid event becomes a dead
// letter, because it would fail each time. An event that another program has to read waits.
func (b *Inbox) claimed(tx *bbolt.Tx, key []byte) (entry *webhook.InboxEntry, refused, err error) {
	number, tries := bytes.Clone(key[8:]), stateOf(tx.Bucket(waiting).Get(key))+1
	entry, refused = b.entryOf(tx, number, tries)
	err = tx.Bucket(waiting).Delete(key)
	switch {
	case refused == nil:
		err = errors.Join(err, tx.Bucket(running).Put(number, bytesOf(tries)))
	case entry.Event == nil:
		err = errors.Join(err, tx.Bucket(waiting).Put(join(time.Now().Add(claimer.Unreadable), number), bytesOf(tries-1)))
		refused = fmt.Errorf("lendingbolt: an event cannot be read here: %w", refused)
	default:
		err = errors.Join(err, setAside(tx, number, entry, refused))
		refused = fmt.Errorf("lendingbolt: an entry is now a dead letter: %w", refused)
	}
	return entry, refused, err
}

// entryOf returns an entry. See [webhook.Encryption.Open] for its event and the error.
func (b *Inbox) entryOf(tx *bbolt.Tx, number []byte, tries uint32) (*webhook.InboxEntry, error) {
	event, err := b.encryption.Open(bytes.Clone(tx.Bucket(bodies).Get(number)))
	id := strconv.FormatUint(binary.BigEndian.Uint64(number), 10)
	return &webhook.InboxEntry{Event: event, Tries: int(tries), ID: id}, err
}

// Done implements [webhook.Inbox].
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	return b.move(ctx, entry, func(tx *bbolt.Tx, number []byte, _ uint32) error {
		return tx.Bucket(bodies).Delete(number)
	})
}

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	err := b.move(ctx, entry, func(tx *bbolt.Tx, number []byte, tries uint32) error {
		return tx.Bucket(waiting).Put(join(time.Now().Add(wait), number), bytesOf(tries))
	})
	b.claims().LookIn(wait)
	return err
}

// move ends the claim of an entry and calls then. It does nothing if the claim has ended.
func (b *Inbox) move(ctx context.Context, entry *webhook.InboxEntry, then func(tx *bbolt.Tx, number []byte, tries uint32) error) error {
	n, err := strconv.ParseUint(entry.ID, 10, 64)
	if err != nil {
		return errors.New("lendingbolt: the entry is of another inbox; return it to the inbox that Take was called on")
	}
	number := binary.BigEndian.AppendUint64(nil, n)
	return b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		value := tx.Bucket(running).Get(number)
		if value == nil {
			return false, nil
		}
		tries := stateOf(value)
		return true, errors.Join(tx.Bucket(running).Delete(number), then(tx, number, tries))
	})
}

// Counts implements [webhook.Inbox].
func (b *Inbox) Counts(context.Context) (counts webhook.InboxCounts, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		counts = webhook.InboxCounts{
			Waiting:     tx.Bucket(waiting).Stats().KeyN,
			Running:     tx.Bucket(running).Stats().KeyN,
			DeadLetters: tx.Bucket(dead).Stats().KeyN,
		}
		return nil
	})
	return counts, err
}

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(context.Context) (ages webhook.InboxAges, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		for bucket, age := range map[string]*time.Duration{string(waiting): &ages.Due, string(dead): &ages.DeadLetter} {
			if first, _ := tx.Bucket([]byte(bucket)).Cursor().First(); first != nil {
				*age = max(0, time.Since(timeOf(first)))
			}
		}
		return nil
	})
	return ages, err
}

// Ready implements [webhook.Inbox]. A closed or damaged file is not ready.
func (b *Inbox) Ready(context.Context) error {
	if err := b.file().view(func(*bbolt.Tx) error { return nil }); err != nil {
		return fmt.Errorf("lendingbolt: the inbox is not ready: %w", err)
	}
	return nil
}

// update runs a transaction, and returns nil when the transaction is on the disk.
func (b *Inbox) update(ctx context.Context, apply func(tx *bbolt.Tx) (changed bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.file().update(apply)
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
