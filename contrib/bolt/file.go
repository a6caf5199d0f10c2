package lendingbolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// file is a bbolt database with two additions. Concurrent changes share a commit. A damaged file
// is an error, where bbolt itself panics, or faults on a file that has become shorter.
type file struct {
	db     *bbolt.DB
	broken atomic.Pointer[error]

	turn chan struct{} // held by the caller that commits for all
	mu   sync.Mutex
	next []*change
}

// change is a caller's part of a transaction.
type change struct {
	apply func(tx *bbolt.Tx) (changed bool, err error)
	done  chan error
}

// openFile opens a file with these buckets, or a new file. It waits for another process to close the file: 5 seconds
// unless wait is positive.
func openFile(path string, wait time.Duration, buckets [][]byte) (*file, error) {
	if wait <= 0 {
		wait = 5 * time.Second
	}
	if err := examine(path, wait, buckets); err != nil {
		return nil, err
	}
	f := &file{turn: make(chan struct{}, 1)}
	err := contained(func() (err error) {
		f.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout: wait,
			// bbolt finds the free pages when it opens the file. Writing them with each commit
			// would cost more with every page that a long queue has used.
			NoFreelistSync: true,
			// This type returns the first free pages, so pages of a commit lie together.
			FreelistType: bbolt.FreelistArrayType,
		})
		return err
	})
	return f, explained(err)
}

// examine reads everything that bbolt reads to find the free pages. bbolt does this in a
// goroutine, whose panic cannot be recovered, and a panic would keep the lock of the file. A bucket of another name may be
// a damaged one, in whose place an empty bucket would be made.
func examine(path string, wait time.Duration, buckets [][]byte) error {
	content, err := os.Open(path) //nolint:gosec // the path of the caller
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer content.Close()
	if info, err := content.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	return explained(contained(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: wait, ReadOnly: true})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if info, err := content.Stat(); err != nil || info.Size() < tx.Size() {
				return errors.Join(err, fmt.Errorf("shorter than its header says: %w", errDamaged))
			}
			size := db.Info().PageSize
			p := pages{content, int64(size), make([]bool, tx.Size()/int64(size))}
			if err := p.tree(uint64(tx.Cursor().Bucket().Root()), true, nil, nil); err != nil {
				return err
			}
			if err := checkFormat(tx); err != nil {
				return err
			}
			return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
				if !slices.ContainsFunc(buckets, func(b []byte) bool { return bytes.Equal(b, name) }) {
					return errForeign
				}
				return nil
			})
		})
	}))
}

// pages reads the trees of a file. In a damaged file, its methods return an error or panic with a runtime.Error.
type pages struct {
	content io.ReaderAt
	size    int64
	seen    []bool // by number
}

// native is the order of bytes in a file.
var native = binary.NativeEndian

// tree checks the tree below a page. Its keys are not before from, and before to unless to is nil.
func (p pages) tree(number uint64, isRoot bool, from, to []byte) error {
	at := int64(number) * p.size //nolint:gosec // a page at an overflow has another number
	page := make([]byte, 16)
	if _, err := p.content.ReadAt(page, at); err != nil || native.Uint64(page) != number || number < 2 {
		return errDamaged
	}
	all := p.seen[number:][:1+native.Uint32(page[12:])]
	if slices.Contains(all, true) {
		return errDamaged
	}
	for i := range all {
		all[i] = true
	}
	page = make([]byte, int64(len(all))*p.size)
	if _, err := p.content.ReadAt(page, at); err != nil {
		return err
	}
	return p.check(page, isRoot, from, to)
}

// check checks the elements of a page, and the trees below.
func (p pages) check(page []byte, isRoot bool, from, to []byte) error {
	const branch, leaf, bucket = 1, 2, 1
	kind, n := int(native.Uint16(page[8:])), int(native.Uint16(page[10:]))
	if kind != branch && kind != leaf || kind == branch && n == 0 {
		return errDamaged
	}
	element := func(i int) (e, key []byte, end uint32) {
		e = page[16+16*i:]
		place := e[4*(kind-branch):] // behind the flags of a leaf's element
		begin, size := native.Uint32(place), native.Uint32(place[4:])
		return e, e[begin:][:size], begin + size
	}
	for i := range n {
		e, key, end := element(i)
		next := to
		if i < n-1 {
			_, next, _ = element(i + 1)
		}
		if bytes.Compare(key, from) < 0 || next != nil && bytes.Compare(key, next) >= 0 {
			return errDamaged
		}
		var err error
		switch flags := native.Uint32(e); {
		case kind == branch:
			err = p.tree(native.Uint64(e[8:]), isRoot, key, next)
		case flags > bucket || (flags == bucket) != isRoot:
			err = errDamaged
		default:
			value := e[end:][:native.Uint32(e[12:]):native.Uint32(e[12:])]
			if isRoot {
				err = p.bucket(value)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket checks the tree of a bucket. A small bucket has its only page behind the value.
func (p pages) bucket(value []byte) error {
	if root := native.Uint64(value); root != 0 {
		return p.tree(root, false, nil, nil)
	}
	return p.check(value[16:], false, nil, nil)
}

// formatKey is a bucket of a file of a newer release, with its version. Files of version 1 have
// no such bucket.
var formatKey = []byte("format")

func checkFormat(tx *bbolt.Tx) error {
	bucket := tx.Bucket(formatKey)
	if bucket == nil {
		return nil
	}
	written, _ := strconv.Atoi(string(bucket.Get(formatKey)))
	return max(format.Version(written), 2).Check(1, "the file")
}

// explained returns err with the next step, for the errors of bbolt that a user can meet.
func explained(err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return errLocked
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch), errors.Is(err, bbolterrors.ErrChecksum):
		return errForeign
	case errors.Is(err, bbolterrors.ErrDatabaseNotOpen):
		return errClosed
	}
	return err
}

// The texts of these errors are safe: package redact shows them in the errors of a log.
const (
	errLocked  = redact.Text("another process has the file open; stop that process or use another file")
	errForeign = redact.Text("the file is not of this package, or damaged; use another path, or read Restore in docs/second-year.md: a backup lacks all that came after it")
	errClosed  = redact.Text("the file is closed; open it again")
	errDamaged = redact.Text("the file is damaged, or was copied while in use: copy it only after the end of its program; stop the program, keep the file, restore a backup, and run \"lending-ops restored\" before anything is sent: see docs/second-year.md")
)

func damaged(err error) bool { return errors.Is(err, errDamaged) }

// contained calls f and returns a panic as an error, including the fault of a missing page.
func contained(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch value := recover().(type) {
		case nil:
		case runtime.Error: // its text tells nothing about the file
			err = errDamaged
		default:
			err = fmt.Errorf("%v: %w", value, errDamaged)
		}
	}()
	return f()
}

// use calls f unless the file is damaged, and remembers new damage. After a panic the state of
// bbolt is unknown, so later calls return the error.
func (f *file) use(call func() error) error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	err := explained(contained(call))
	if damaged(err) {
		err = fmt.Errorf("lendingbolt: %w", err)
		f.broken.Store(&err)
	}
	return err
}

func (f *file) view(read func(tx *bbolt.Tx) error) error {
	return f.use(func() error { return f.db.View(read) })
}

// update makes a change and returns nil when the change is on the disk. All changes that come
// during a commit share the next commit.
func (f *file) update(apply func(tx *bbolt.Tx) (changed bool, err error)) error {
	c := &change{apply, make(chan error, 1)}
	f.mu.Lock()
	f.next = append(f.next, c)
	f.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case f.turn <- struct{}{}:
	}
	defer func() { <-f.turn }()
	if len(c.done) == 0 {
		f.mu.Lock()
		changes := f.next
		f.next = nil
		f.mu.Unlock()
		f.commit(changes)
	}
	return <-c.done
}

// commit makes the changes in a single transaction, without the changes that fail.
func (f *file) commit(changes []*change) {
	for len(changes) > 0 {
		failed, err := f.try(changes)
		if failed < 0 {
			for _, c := range changes {
				c.done <- err
			}
			return
		}
		changes[failed].done <- err
		changes = append(changes[:failed], changes[failed+1:]...)
	}
}

// try makes all changes or none. failed is the index of the change that failed, or negative.
func (f *file) try(changes []*change) (failed int, err error) {
	failed = -1
	err = f.use(func() error {
		tx, err := f.db.Begin(true)
		if err != nil {
			return err
		}
		// The rollback of tx.Commit itself would read the whole file.
		defer func() { _ = tx.Rollback() }()
		dirty := false
		for i, c := range changes {
			changed, err := c.apply(tx)
			if err != nil {
				failed = i
				return err
			}
			dirty = dirty || changed
		}
		if !dirty {
			return nil
		}
		return tx.Commit()
	})
	return failed, err
}

func (f *file) close() error {
	if f.broken.Load() == nil {
		return f.db.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- contained(f.db.Close) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(time.Second): // Close waits for a transaction that the panic has left open
		return *f.broken.Load()
	}
}
