// Package storetest holds a store of your own to the contract of its interface, as the
// stores of this library and of contrib are held:
//
//	func TestFileTokenStoreKeepsItsContract(t *testing.T) {
//		storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
//			path := filepath.Join(t.TempDir(), "token")
//			return func() lending.TokenStore {
//				store, err := lending.NewFileTokenStore(path)
//				require.NoError(t, err)
//				return store
//			}
//		})
//	}
//
// A suite is a list of rules, each a subtest with its name: what the documentation of the
// interface says, and nothing that it leaves open. Each asks for an empty place of its own,
// a file, a table, a prefix, and opens the store there as a process does: another one beside
// the first, or one after it. So a store that keeps in its own memory what it should share
// does not pass unseen. What cannot be tested of a store the suite says in its log.
//
// Time is the store's, and passes: a suite takes a few seconds, and its claims and leases a
// fraction of one where they must end. A slow machine makes it slower, not wrong.
//
// What no program can bring about from outside is left to the tests of the store itself: that
// a token that cannot be read is [lending.ErrCorruptToken], that a clock is set back, that
// kill -9, a full disk or the loss of power leave what was promised.
package storetest

import (
	"sync"
	"testing"
	"time"
)

// rule is one sentence of a contract. It is given where to put a store, in the way of its
// suite, and a [testing.TB], so that the tests of this package can see it fail.
type rule[P any] struct {
	name  string
	check func(tb testing.TB, place P)
}

const (
	long     = time.Minute            // what lasts longer than a rule takes
	short    = 300 * time.Millisecond // what ends while a rule waits
	patience = 10 * time.Second       // for what must come
	slack    = 5 * time.Millisecond   // of clocks that count in milliseconds
)

// wait passes time, in a bubble of testing/synctest too.
func wait(d time.Duration) { <-time.After(d) }

// eventually calls f until it returns true, and reports whether it did.
func eventually(f func() bool) bool {
	for start := time.Now(); !f(); wait(5 * time.Millisecond) {
		if time.Since(start) > patience {
			return false
		}
	}
	return true
}

// atOnce calls f n times at the same time.
func atOnce(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// returns reports whether f does, in time.
func returns(f func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
		return true
	case <-time.After(patience):
		return false
	}
}
