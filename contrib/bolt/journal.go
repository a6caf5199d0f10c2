package lendingbolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/opaque"
	"go.etcd.io/bbolt"
)

// JournalStoreOptions are what can be changed in a [JournalStore]. A nil pointer and zero
// fields leave it at the defaults.
type JournalStoreOptions struct {
	Wait time.Duration // how long OpenJournalStore waits for another process to close the file; 5 s
}

// JournalStore is a [lending.JournalStore] in one file, in buckets of bbolt, for commands
// with a key of one process. What Save has said to be kept is on the disk: two writes that
// are synced, which the Saves that come meanwhile share. After kill -9 or the loss of power
// an entry is as the last Save has left it, or as one has whose error nobody has seen.
//
// An age is what has passed since the last Save. While the file is open it is measured, and
// does not depend on what the clock of the machine shows. Between the last Save of one
// process and the opening by the next it is what that clock has moved, and nothing where it
// was set back. So a clock that is set back makes nothing older. One that is set ahead
// between two processes does: leave it to NTP, which sets it at the start of the machine, before
// yours.
type JournalStore struct {
	file  opaque.Value[*file]
	clock opaque.Value[clock]
}

var _ lending.JournalStore = (*JournalStore)(nil)

// The buckets.
var (
	journalEntries = []byte("journal entries") // key: record
	journalScopes  = []byte("journal scopes")  // scope: key
	journalStates  = []byte("journal states")  // state, a zero byte, time of the last Save, key: nothing
)

// OpenJournalStore opens the journal in the file at path, or makes it. Only its owner may
// read the file: answers that it holds can have personal data, unless the store is given to
// [lending.NewEncryptedJournalStore]. It fails if another process has the file open, and if
// the file is damaged, for which it reads all of it. An [Inbox] needs a file of its own.
func OpenJournalStore(path string, opts *JournalStoreOptions) (*JournalStore, error) {
	var o JournalStoreOptions
	if opts != nil {
		o = *opts
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	f, err := openFile(path, o.Wait)
	if err != nil {
		return nil, fmt.Errorf("lendingbolt: open: %w", err)
	}
	var started clock
	err = f.update(func(tx *bbolt.Tx) (bool, error) {
		for _, name := range [][]byte{journalEntries, journalScopes, journalStates} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return false, err
			}
		}
		started = startClock(tx)
		return true, started.note(tx)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lendingbolt: open: %w", err), f.close())
	}
	return &JournalStore{opaque.Hide(f), opaque.Hide(started)}, nil
}

// Close closes the file, after the calls under way.
func (s *JournalStore) Close() error { return s.file().close() }

// clock counts nanoseconds for all who have had the file, one after the other.
type clock struct {
	began time.Time // of this process
	count uint64    // then
}

// startClock goes on counting where the process before has noted it last. The sequences of
// two buckets hold that, which need none: they are written with every change in any case.
func startClock(tx *bbolt.Tx) clock {
	now := time.Now()
	count, wall := tx.Bucket(journalEntries).Sequence(), tx.Bucket(journalStates).Sequence()
	if count == 0 {
		return clock{now, uint64(now.UnixNano())}
	}
	if passed := now.UnixNano() - int64(wall); passed > 0 { //nolint:gosec // it was made of one
		count += uint64(passed)
	}
	return clock{now, count}
}

func (c clock) now() uint64 { return c.count + uint64(max(0, time.Since(c.began))) }

func (c clock) note(tx *bbolt.Tx) error {
	return errors.Join(
		tx.Bucket(journalEntries).SetSequence(c.now()),
		tx.Bucket(journalStates).SetSequence(uint64(time.Now().UnixNano())))
}

// record is how an entry lies in the file: its version, then these.
type record struct {
	revision    uint64
	at          uint64
	state       string
	scope, data []byte
}

const recordVersion = 1

func (r record) bytes() []byte {
	b := make([]byte, 0, 32+len(r.state)+len(r.scope)+len(r.data))
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, r.revision)
	b = binary.BigEndian.AppendUint64(b, r.at)
	b = append(binary.AppendUvarint(b, uint64(len(r.state))), r.state...)
	b = append(binary.AppendUvarint(b, uint64(len(r.scope))), r.scope...)
	return append(b, r.data...)
}

// readRecord returns a zero record for none.
func readRecord(b []byte) (record, error) {
	if b == nil {
		return record{}, nil
	}
	if len(b) < 17 || b[0] != recordVersion {
		return record{}, lending.ErrCorruptEntry
	}
	r := record{revision: binary.BigEndian.Uint64(b[1:]), at: binary.BigEndian.Uint64(b[9:])}
	state, b, ok := cutCounted(b[17:])
	scope, data, also := cutCounted(b)
	if !ok || !also {
		return record{}, lending.ErrCorruptEntry
	}
	r.state, r.scope, r.data = string(state), scope, data
	return r, nil
}

func cutCounted(b []byte) (counted, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) { //nolint:gosec // it is not negative
		return nil, nil, false
	}
	b = b[width:]
	return b[:n], b[n:], true
}

func (r record) entry(key string, now uint64) lending.JournalEntry {
	return lending.JournalEntry{
		Key: key, Revision: int64(r.revision), State: lending.CommandState(r.state), //nolint:gosec // it was one
		Scope: string(r.scope), Data: bytes.Clone(r.data), Age: age(r.at, now),
	}
}

// age is never negative, whatever the file says.
func age(at, now uint64) time.Duration {
	return time.Duration(max(0, int64(now-at))) //nolint:gosec // it wraps round
}

// listed is the key in journalStates.
func listed(state string, at uint64, key string) []byte {
	b := append([]byte(state), 0)
	return append(binary.BigEndian.AppendUint64(b, at), key...)
}

// Load implements [lending.JournalStore].
func (s *JournalStore) Load(ctx context.Context, key string) (*lending.JournalEntry, error) {
	return within(ctx, func() (entry *lending.JournalEntry, err error) {
		err = s.file().view(func(tx *bbolt.Tx) error {
			value := tx.Bucket(journalEntries).Get([]byte(key))
			r, err := readRecord(value)
			if err == nil && value != nil {
				loaded := r.entry(key, s.clock().now())
				entry = &loaded
			}
			return err
		})
		return entry, err
	})
}

// Save implements [lending.JournalStore]. It returns when the entry is on the disk.
func (s *JournalStore) Save(ctx context.Context, entry lending.JournalEntry) error {
	entry.Data = bytes.Clone(entry.Data) // it may be changed when this has returned
	_, err := within(ctx, func() (struct{}, error) {
		var refused error
		err := s.file().update(func(tx *bbolt.Tx) (bool, error) {
			if ctx.Err() != nil { // it has waited for the commit of others, and nobody waits for it
				return false, ctx.Err()
			}
			was, err := readRecord(tx.Bucket(journalEntries).Get([]byte(entry.Key)))
			if err != nil {
				return false, err
			}
			if refused = refusal(tx, was, entry); refused != nil {
				return false, nil //nolint:nilerr // it changes nothing, and the others are not held up
			}
			return true, s.write(tx, was, entry)
		})
		return struct{}{}, cmp.Or(err, refused)
	})
	return err
}

// refusal is why an entry cannot be saved.
func refusal(tx *bbolt.Tx, was record, entry lending.JournalEntry) error {
	if int64(was.revision) != entry.Revision { //nolint:gosec // it was one
		return lending.ErrJournalConflict
	}
	if holder := tx.Bucket(journalScopes).Get([]byte(entry.Scope)); holder != nil && string(holder) != entry.Key {
		return &lending.ScopeHeldError{Key: string(holder)}
	}
	return nil
}

func (s *JournalStore) write(tx *bbolt.Tx, was record, entry lending.JournalEntry) error {
	now := record{uint64(entry.Revision) + 1, s.clock().now(), string(entry.State), []byte(entry.Scope), entry.Data} //nolint:gosec // it is that of the record before
	entries, scopes, states := tx.Bucket(journalEntries), tx.Bucket(journalScopes), tx.Bucket(journalStates)
	var err error
	if was.revision > 0 {
		err = states.Delete(listed(was.state, was.at, entry.Key))
	}
	if len(was.scope) > 0 && !bytes.Equal(was.scope, now.scope) {
		err = errors.Join(err, scopes.Delete(was.scope))
	}
	if entry.Scope != "" && !bytes.Equal(was.scope, now.scope) {
		err = errors.Join(err, scopes.Put(now.scope, []byte(entry.Key)))
	}
	return errors.Join(err,
		states.Put(listed(now.state, now.at, entry.Key), nil),
		entries.Put([]byte(entry.Key), now.bytes()),
		s.clock().note(tx))
}

// List implements [lending.JournalStore].
func (s *JournalStore) List(ctx context.Context, filter lending.JournalFilter) ([]lending.JournalEntry, error) {
	return within(ctx, func() (entries []lending.JournalEntry, err error) {
		err = s.file().view(func(tx *bbolt.Tx) error {
			now := s.clock().now()
			found, err := selected(ctx, tx, filter, now)
			for _, f := range found {
				r, corrupt := readRecord(tx.Bucket(journalEntries).Get([]byte(f.key)))
				if err = errors.Join(err, corrupt); corrupt == nil {
					entries = append(entries, r.entry(f.key, now))
				}
			}
			return err
		})
		return entries, err
	})
}

type found struct {
	at  uint64
	key string
}

// selected returns the oldest of each state, the oldest first, as many as the limit.
func selected(ctx context.Context, tx *bbolt.Tx, filter lending.JournalFilter, now uint64) ([]found, error) {
	var all []found
	for _, state := range slices.Compact(slices.Sorted(slices.Values(filter.States))) {
		prefix, n := append([]byte(state), 0), 0
		cursor := tx.Bucket(journalStates).Cursor()
		for at, _ := cursor.Seek(prefix); n < filter.Limit && bytes.HasPrefix(at, prefix); at, _ = cursor.Next() {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f := found{binary.BigEndian.Uint64(at[len(prefix):]), string(at[len(prefix)+8:])}
			if age(f.at, now) < filter.Older {
				break // those that follow are younger
			}
			if strings.HasPrefix(f.key, filter.Prefix) {
				all = append(all, f)
				n++
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.key, b.key)) })
	return all[:min(len(all), max(0, filter.Limit))], nil
}

// within calls f, and does not wait for the disk longer than ctx.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	ended := make(chan result, 1)
	go func() {
		value, err := f()
		ended <- result{value, err}
	}()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
