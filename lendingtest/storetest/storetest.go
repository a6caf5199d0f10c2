// Package storetest tests a store of your own against the contract of its interface. The stores
// of this library and of contrib pass the same suites:
//
//	func TestTokenStoreKeepsItsContract(t *testing.T) {
//		client := startRedis(t).client()
//		defer client.Close()
//		storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
//			return func() lending.TokenStore { return tokenStore(t, client, t.Name()) }
//		})
//	}
//
// A suite is a list of rules from the documentation of the interface. Each rule is a subtest. A
// rule asks for an empty place, such as a file, a table or a prefix, and opens the store there
// several times: two stores at the same time, or a store after the end of another. This finds
// stores that keep in memory the data that processes must share. If a suite cannot test a rule,
// the suite logs why.
//
// The suites run in real time, for a few seconds each. Leases that must expire last less than a
// second. A slow machine makes a suite slower but does not make a rule fail.
//
// The following needs a test of the store itself:
//
//   - An unreadable token is a [lending.ErrCorruptToken].
//   - The store still works after its clock is set back.
//   - Stored data survives kill -9, a full disk and a power failure.
package storetest

import (
	"sync"
	"testing"
	"time"
)

// rule is a sentence of a contract. Its check gets the place of the suite, and a [testing.TB] so
// that the tests of this package can observe failures.
type rule[P any] struct {
	name  string
	check func(tb testing.TB, place P)
}

const (
	long     = time.Minute            // longer than any rule runs
	short    = 300 * time.Millisecond // expires while a rule waits
	patience = 30 * time.Second       // time limit for events that must happen
	slack    = 5 * time.Millisecond   // for clocks with a resolution of milliseconds
)

// wait waits for d, on the fake clock if the test runs in testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

// eventually calls f until f returns true or patience is over, and reports whether f returned
// true.
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

// returns reports whether f returns before patience is over.
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
