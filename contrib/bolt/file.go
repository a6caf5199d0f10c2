package lendingbolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// file is a bbolt database that commits together what is changed at the same time, and
// whose damage is an error: bbolt panics, and faults where the file has become shorter.
type file struct {
	db     *bbolt.DB
	broken atomic.Pointer[error]

	turn chan struct{} // held by the caller who commits for all
	mu   sync.Mutex
	next []*change
}

// change is one caller's part of a transaction.
type change struct {
	apply func(tx *bbolt.Tx) (changed bool, err error)
	done  chan error
}

func openFile(path string, wait time.Duration) (*file, error) {
	if err := examine(path, wait); err != nil {
		return nil, err
	}
	f := &file{turn: make(chan struct{}, 1)}
	err := contained(func() (err error) {
		f.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout: wait,
			// The free pages are found when the file is opened: to write them with each
			// commit costs the more, the longer the queue has been.
			NoFreelistSync: true,
			// Which gives the first pages that are free: what is written together lies together.
			FreelistType: bbolt.FreelistArrayType,
		})
		return err
	})
	return f, locked(err)
}

// examine reads all that bbolt will read to find the free pages, which it does in a
// goroutine whose panic nobody could contain.
func examine(path string, wait time.Duration) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	} else if err != nil {
		return err
	}
	return locked(contained(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: wait, ReadOnly: true})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
				return errors.Join(err, fmt.Errorf("%w: it is shorter than it says", errDamaged))
			}
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { return nil })
			})
		})
	}))
}

func locked(err error) error {
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return errors.New("another process has the file open")
	}
	return err
}

var errDamaged = errors.New("the file is damaged")

func damaged(err error) bool { return errors.Is(err, errDamaged) }

// contained calls f and returns a panic as an error, also that of a page that is not
// there.
func contained(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	return f()
}

// use calls f unless the file is damaged, and notes if it is. The state of bbolt after a
// panic is unknown: nothing is done with it from then on.
func (f *file) use(call func() error) error {
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	err := contained(call)
	if damaged(err) {
		err = fmt.Errorf("lendingbolt: %w", err)
		f.broken.Store(&err)
	}
	return err
}

func (f *file) view(read func(tx *bbolt.Tx) error) error {
	return f.use(func() error { return f.db.View(read) })
}

// update makes a change, which is on the disk when it returns nil. Whatever comes while
// one commit is under way is the next.
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

// commit makes the changes in one transaction, without those that fail.
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

// try makes all changes or none. failed is the one that has failed, or negative.
func (f *file) try(changes []*change) (failed int, err error) {
	failed = -1
	err = f.use(func() error {
		tx, err := f.db.Begin(true)
		if err != nil {
			return err
		}
		// Not tx.Commit's own way back, which reads the whole file.
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
	case <-time.After(time.Second): // it waits for what the panic has left
		return *f.broken.Load()
	}
}
