// Package lendingbolt keeps in files what one process must not lose: the webhooks that it
// has accepted, a [webhook.Inbox], and its mutations with a key, a [store.Store].
// They survive kill -9 and, as far as the disk keeps what it has said it keeps, the loss of
// power. On a full disk nothing new is accepted, and nothing is lost. The table in
// contrib/README.md compares them with Redis, and names the tests that hold it.
//
// It is a module of its own, so that nobody else gets its dependencies.
package lendingbolt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
	"go.etcd.io/bbolt"
)

// InboxOptions change an [Inbox]. A nil pointer and zero fields mean the defaults.
type InboxOptions struct {
	// Keep is how long the inbox remembers an event and skips its exact repetition, in about 80
	// bytes of memory for each event; 72 h.
	Keep   time.Duration
	Wait   time.Duration // how long OpenInbox waits for another process to close the file; 5 s
	Logger *slog.Logger  // logs who drops dead letters; nil logs nothing
}

// Inbox is a [webhook.Inbox] in one file. One process at a time has the file open.
type Inbox struct {
	file   opaque.Value[*file] // a function, as nothing that prints or compares looks behind one
	keep   time.Duration
	logger opaque.Value[*slog.Logger]
	claims opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
	known  opaque.Value[*known]
}

// known has the keys in history, and those that the current transaction adds. An index in the file
// would cost a page for each event. Only a transaction may use it.
type known struct {
	seen, adding map[[sha256.Size]byte]struct{}
	added        *bbolt.Tx // the transaction of adding
}

var _ webhook.Inbox = (*Inbox)(nil)

// The buckets. A sequence number identifies an event. A time before it sorts the keys.
var (
	bodies  = []byte("bodies")       // number: body
	waiting = []byte("waiting")      // time it is due, number: state
	running = []byte("running")      // number: state
	dead    = []byte("dead letters") // time it was set aside, number: its description in JSON
	history = []byte("history")      // time it was put, SHA-256: nothing
)

// state counts the tries of an event.
type state struct {
	failed  uint32 // ended with an error
	unended uint32 // cut short by the end of the process, since the last that ended
}

func (s state) alone() bool { return s.unended >= claimer.AloneAfter }

func (s state) bytes() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, s.failed), s.unended)
}

func stateOf(b []byte) state {
	s := state{failed: binary.BigEndian.Uint32(b)}
	if len(b) >= 8 { // not of an earlier version
		s.unended = binary.BigEndian.Uint32(b[4:])
	}
	return s
}

// OpenInbox opens the inbox in the file at path, or creates it. The file holds events in the clear,
// with codes and personal data: only its owner may read it. OpenInbox fails if another process
// has the file open, or if the file is damaged. It reads the whole file to find that out, which
// takes about 0.1 s for 100,000 events.
//
// Events that were being handled when the last process ended are due at once. An event to which
// that has happened twice is handled alone, after the events that are due then: see
// [webhook.Work].
func OpenInbox(path string, opts *InboxOptions) (*Inbox, error) {
	var o InboxOptions
	if opts != nil {
		o = *opts
	}
	if o.Keep <= 0 {
		o.Keep = 72 * time.Hour
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	f, err := openFile(path, o.Wait)
	if err != nil {
		return nil, fmt.Errorf("lendingbolt: open: %w", err)
	}
	had := &known{seen: map[[sha256.Size]byte]struct{}{}}
	inbox := &Inbox{file: opaque.Hide(f), keep: o.Keep, logger: opaque.Hide(o.Logger), known: opaque.Hide(had)}
	inbox.claims = opaque.Hide(claimer.New(source{inbox}, claimer.Options{Poll: time.Hour})) // no other process puts events
	if err := f.update(inbox.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("lendingbolt: open: %w", err), f.close())
	}
	return inbox, nil
}

// prepare creates the buckets, and makes the events due that were running.
func (b *Inbox) prepare(tx *bbolt.Tx) (bool, error) {
	for _, name := range [][]byte{bodies, waiting, running, dead, history} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return false, err
		}
	}
	if earlier := []byte("seen"); tx.Bucket(earlier) != nil { // what history has, by key
		if err := tx.DeleteBucket(earlier); err != nil {
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
			s, due := stateOf(value), time.Time{}
			if s.unended++; s.alone() {
				due = now // the others, which can end, come first
			}
			return tx.Bucket(waiting).Put(join(due, number), s.bytes())
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

// Put implements [webhook.Inbox]. It returns when the event is on the disk.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return err // made by hand: Take could not parse it
	}
	key := sha256.Sum256(body)
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
			tx.Bucket(bodies).Put(n, body),
			tx.Bucket(waiting).Put(join(now, n), state{}.bytes()),
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

// has reports whether an event is known. If not, it is known when the transaction commits.
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

// forget removes up to four keys that were put before then. Put adds one, so that old keys vanish.
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

// source is the inbox as its claimer has it.
type source struct{ *Inbox }

type claim = claimer.Claim[*webhook.InboxEntry]

// Claim implements [claimer.Source]. It reads first: a commit waits for the disk.
func (s source) Claim(ctx context.Context, ask claimer.Ask, give func(claim)) (seen claimer.Outlook, err error) {
	var key []byte
	err = s.file().view(func(tx *bbolt.Tx) error {
		key, _, seen = peek(tx, ask.Alone)
		return nil
	})
	if err != nil || key == nil {
		return seen, err
	}
	var claims []claim
	err = s.update(ctx, func(tx *bbolt.Tx) (changed bool, err error) {
		claims = nil // it may run again
		for len(claims) < ask.N && err == nil {
			var value []byte
			if key, value, seen = peek(tx, ask.Alone && len(claims) == 0); key == nil {
				return len(claims) > 0, nil
			}
			var c claim
			c, err = claimed(tx, key, value)
			claims = append(claims, c)
			if c.Alone && c.Err == nil {
				break
			}
		}
		seen = claimer.Outlook{More: true}
		return true, err
	})
	if err != nil {
		return seen, err
	}
	for _, c := range claims {
		give(c)
	}
	return seen, nil
}

// peek returns the first that may be taken, or says when to look again.
func peek(tx *bbolt.Tx, alone bool) (key, value []byte, seen claimer.Outlook) {
	key, value = tx.Bucket(waiting).Cursor().First()
	if key == nil {
		return nil, nil, seen
	}
	if wait := time.Until(timeOf(key)); wait > 0 {
		return nil, nil, claimer.Outlook{Next: wait}
	}
	if stateOf(value).alone() && !alone {
		return nil, nil, claimer.Outlook{Suspect: true}
	}
	return key, value, seen
}

// claimed moves an event from those that wait to those that are running. What is no event would be
// none each time, and becomes a dead letter.
func claimed(tx *bbolt.Tx, key, value []byte) (claim, error) {
	number, s := bytes.Clone(key[8:]), stateOf(value)
	entry, refused := entryOf(tx, number, state{s.failed + 1, s.unended})
	err := tx.Bucket(waiting).Delete(key)
	if refused == nil {
		err = errors.Join(err, tx.Bucket(running).Put(number, s.bytes()))
	} else {
		err = errors.Join(err, setAside(tx, number, entry, refused))
		refused = fmt.Errorf("lendingbolt: an entry is now a dead letter: %w", refused)
	}
	return claim{Entry: entry, ID: entry.ID, Alone: s.alone(), Err: refused}, err
}

// GiveBack implements [claimer.Source]. If it fails, the event is due when the file is opened again.
func (s source) GiveBack(ctx context.Context, entry *webhook.InboxEntry) {
	_ = s.move(ctx, entry, func(tx *bbolt.Tx, number []byte, s state) error {
		return tx.Bucket(waiting).Put(join(time.Now(), number), s.bytes())
	})
}

// entryOf returns an entry. If the bytes are no event, the entry's event has nothing but the bytes.
func entryOf(tx *bbolt.Tx, number []byte, s state) (*webhook.InboxEntry, error) {
	body := bytes.Clone(tx.Bucket(bodies).Get(number))
	event, err := webhook.Parse(body)
	if err != nil {
		event = new(webhook.Event)
		_ = event.Record.UnmarshalJSON(body) // takes anything
	}
	return &webhook.InboxEntry{
		Event: event, Tries: int(s.failed), Crashes: int(s.unended - min(s.unended, claimer.AloneAfter)),
		ID: strconv.FormatUint(binary.BigEndian.Uint64(number), 10),
	}, err
}

// Done implements [webhook.Inbox].
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	return b.move(ctx, entry, func(tx *bbolt.Tx, number []byte, _ state) error {
		return tx.Bucket(bodies).Delete(number)
	})
}

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	err := b.move(ctx, entry, func(tx *bbolt.Tx, number []byte, s state) error {
		return tx.Bucket(waiting).Put(join(time.Now().Add(wait), number), state{failed: s.failed + 1}.bytes())
	})
	b.claims().LookIn(wait)
	return err
}

// move ends the claim of an entry and calls then. It does nothing if the claim has ended.
func (b *Inbox) move(ctx context.Context, entry *webhook.InboxEntry, then func(tx *bbolt.Tx, number []byte, s state) error) error {
	n, err := strconv.ParseUint(entry.ID, 10, 64)
	if err != nil {
		return errors.New("lendingbolt: the entry is of another inbox")
	}
	number := binary.BigEndian.AppendUint64(nil, n)
	err = b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		value := tx.Bucket(running).Get(number)
		if value == nil {
			return false, nil
		}
		s := stateOf(value)
		return true, errors.Join(tx.Bucket(running).Delete(number), then(tx, number, s))
	})
	return b.claims().Ended(entry.ID, err)
}

// update runs one transaction. When it returns nil the transaction is on the disk.
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
