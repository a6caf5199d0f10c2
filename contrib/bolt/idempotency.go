package lendingbolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
	"go.etcd.io/bbolt"
)

// IdempotencyStoreOptions change an [IdempotencyStore]. A nil pointer and zero fields mean the
// defaults.
type IdempotencyStoreOptions struct {
	Wait time.Duration // how long OpenIdempotencyStore waits for another process to close the file; 5 s
}

// IdempotencyStore is a [store.Store] in a file, for mutations with a key of a single process.
// Save returns when the entry is on the disk, after two synced writes. Concurrent Saves share
// them. After kill -9 or the loss of power, an entry is as the last successful Save has left it,
// or as a Save without a response has.
//
// The age of an entry is the time since the last Save. While the file is open, the store
// measures the time, and changes of the machine's clock do not matter. Between two processes,
// the age follows the machine's clock. A clock that is set back makes no entry older. A clock
// that is set ahead between two processes does: let NTP set the clock before your program
// starts.
type IdempotencyStore struct {
	file  opaque.Value[*file]
	clock opaque.Value[clock]
}

var _ store.Store = (*IdempotencyStore)(nil)

// The buckets.
var (
	entryBucket = []byte("idempotency entries") // key: record
	lockBucket  = []byte("idempotency locks")   // lock: key
	stateBucket = []byte("idempotency states")  // state, a zero byte, time of the last Save, key: no value

	logBuckets = [][]byte{entryBucket, lockBucket, stateBucket}
)

// OpenIdempotencyStore opens the store in the file at path, or creates the file. Responses are
// stored in plain text, with personal data; only the owner of the file may read it. Wrap the
// store in [store.NewEncrypted] to encrypt them.
//
// OpenIdempotencyStore fails if another process has the file open, or if the file is damaged. To
// check the file, it reads all of it. An [Inbox] needs a file of its own.
func OpenIdempotencyStore(path string, opts *IdempotencyStoreOptions) (*IdempotencyStore, error) {
	o := *cmp.Or(opts, new(IdempotencyStoreOptions))
	f, err := openFile(path, o.Wait, logBuckets)
	if err != nil {
		return nil, fmt.Errorf("lendingbolt: open: %w", err)
	}
	var started clock
	err = f.update(func(tx *bbolt.Tx) (bool, error) {
		for _, name := range logBuckets {
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
	return &IdempotencyStore{opaque.Hide(f), opaque.Hide(started)}, nil
}

// Close closes the file after the running calls.
func (s *IdempotencyStore) Close() error { return s.file().close() }

// clock counts nanoseconds across all processes that have used the file.
type clock struct {
	began time.Time // start of this process
	count uint64    // at began
}

// startClock continues the count that the last process has saved. The count and the wall clock
// are in the sequences of two buckets, which need no sequence and are written with every change
// anyway.
func startClock(tx *bbolt.Tx) clock {
	now := time.Now()
	count, wall := tx.Bucket(entryBucket).Sequence(), tx.Bucket(stateBucket).Sequence()
	if count == 0 {
		return clock{now, uint64(now.UnixNano())}
	}
	if passed := now.UnixNano() - int64(wall); passed > 0 { //nolint:gosec // converted from an int64
		count += uint64(passed)
	}
	return clock{now, count}
}

func (c clock) now() uint64 { return c.count + uint64(max(0, time.Since(c.began))) }

func (c clock) note(tx *bbolt.Tx) error {
	return errors.Join(
		tx.Bucket(entryBucket).SetSequence(c.now()),
		tx.Bucket(stateBucket).SetSequence(uint64(time.Now().UnixNano())))
}

// record is an entry in the file: a version byte, then these fields.
type record struct {
	revision   uint64
	at         uint64
	state      string
	lock, data []byte
}

const recordVersion = 1

func (r record) bytes() []byte {
	b := make([]byte, 0, 32+len(r.state)+len(r.lock)+len(r.data))
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, r.revision)
	b = binary.BigEndian.AppendUint64(b, r.at)
	b = append(binary.AppendUvarint(b, uint64(len(r.state))), r.state...)
	b = append(binary.AppendUvarint(b, uint64(len(r.lock))), r.lock...)
	return append(b, r.data...)
}

// readRecord returns a zero record for nil.
func readRecord(b []byte) (record, error) {
	if b == nil {
		return record{}, nil
	}
	if len(b) > 0 && b[0] > recordVersion {
		return record{}, format.Version(b[0]).Check(recordVersion, "the entry")
	}
	if len(b) < 17 || b[0] != recordVersion {
		return record{}, store.ErrCorrupt
	}
	r := record{revision: binary.BigEndian.Uint64(b[1:]), at: binary.BigEndian.Uint64(b[9:])}
	state, b, ok := cutCounted(b[17:])
	lock, data, also := cutCounted(b)
	if !ok || !also {
		return record{}, store.ErrCorrupt
	}
	r.state, r.lock, r.data = string(state), lock, data
	return r, nil
}

func cutCounted(b []byte) (counted, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) { //nolint:gosec // not negative
		return nil, nil, false
	}
	b = b[width:]
	return b[:n], b[n:], true
}

func (r record) entry(key string, now uint64) store.Entry {
	return store.Entry{
		Key: key, Revision: int64(r.revision), State: store.State(r.state), //nolint:gosec // converted from an int64
		Lock: string(r.lock), Data: bytes.Clone(r.data), Age: age(r.at, now), Position: store.PositionAt(r.at, key),
	}
}

func age(at, now uint64) time.Duration {
	return time.Duration(max(0, int64(now-at))) //nolint:gosec // the difference may wrap around
}

// listed returns a key of stateBucket.
func listed(state string, at uint64, key string) []byte {
	b := append([]byte(state), 0)
	return append(binary.BigEndian.AppendUint64(b, at), key...)
}

// Load implements [store.Store].
func (s *IdempotencyStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	return within(ctx, func() (entry *store.Entry, err error) {
		err = s.file().view(func(tx *bbolt.Tx) error {
			value := tx.Bucket(entryBucket).Get([]byte(key))
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

// Save implements [store.Store]. Save returns when the entry is on the disk.
func (s *IdempotencyStore) Save(ctx context.Context, entry store.Entry) error {
	entry.Data = bytes.Clone(entry.Data) // the caller may change the data after Save has returned
	_, err := within(ctx, func() (struct{}, error) {
		var refused error
		err := s.file().update(func(tx *bbolt.Tx) (bool, error) {
			if ctx.Err() != nil { // the context ended during another commit
				return false, ctx.Err()
			}
			was, err := readRecord(tx.Bucket(entryBucket).Get([]byte(entry.Key)))
			if err != nil {
				return false, err
			}
			if refused = refusal(tx, was, entry); refused != nil {
				return false, nil //nolint:nilerr // an error would undo the changes of other callers
			}
			return true, s.write(tx, was, entry)
		})
		return struct{}{}, cmp.Or(err, refused)
	})
	return err
}

func refusal(tx *bbolt.Tx, was record, entry store.Entry) error {
	if int64(was.revision) != entry.Revision { //nolint:gosec // converted from an int64
		return store.ErrConflict
	}
	if holder := tx.Bucket(lockBucket).Get([]byte(entry.Lock)); holder != nil && string(holder) != entry.Key {
		return &store.LockedError{Key: string(holder)}
	}
	return nil
}

// Replace implements [store.Store] in a single transaction.
func (s *IdempotencyStore) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Data = bytes.Clone(entries[i].Data)
	}
	return within(ctx, func() (replaced int, err error) {
		err = s.file().update(func(tx *bbolt.Tx) (bool, error) {
			replaced = 0 // the function runs again if another change fails
			for _, entry := range entries {
				was, err := readRecord(tx.Bucket(entryBucket).Get([]byte(entry.Key)))
				if ctx.Err() != nil {
					return false, ctx.Err()
				}
				if err != nil || int64(was.revision) != entry.Revision || was.revision == 0 { //nolint:gosec // converted from an int64
					continue
				}
				if string(was.lock) != entry.Lock || entry.State == "" {
					entry.Lock = ""
				}
				if err := s.write(tx, was, entry); err != nil {
					return false, err
				}
				replaced++
			}
			return replaced > 0, nil
		})
		return replaced, err
	})
}

// write saves the entry, or deletes an entry without a state.
func (s *IdempotencyStore) write(tx *bbolt.Tx, was record, entry store.Entry) error {
	now := record{uint64(entry.Revision) + 1, s.clock().now(), string(entry.State), []byte(entry.Lock), entry.Data} //nolint:gosec // equal to the revision of was
	entries, locks, states := tx.Bucket(entryBucket), tx.Bucket(lockBucket), tx.Bucket(stateBucket)
	var err error
	if was.revision > 0 {
		err = states.Delete(listed(was.state, was.at, entry.Key))
	}
	if len(was.lock) > 0 && !bytes.Equal(was.lock, now.lock) {
		err = errors.Join(err, locks.Delete(was.lock))
	}
	if entry.Lock != "" && !bytes.Equal(was.lock, now.lock) {
		err = errors.Join(err, locks.Put(now.lock, []byte(entry.Key)))
	}
	if entry.State == "" {
		return errors.Join(err, entries.Delete([]byte(entry.Key)), s.clock().note(tx))
	}
	return errors.Join(err,
		states.Put(listed(now.state, now.at, entry.Key), nil),
		entries.Put([]byte(entry.Key), now.bytes()),
		s.clock().note(tx))
}

// within calls f and returns its result, but does not wait for the disk longer than ctx.
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
