// Package storetest tests a store of your own against the contract of its interface. The stores
// of this library and of contrib pass the same suites:
//
//	func TestTokenStoreKeepsItsContract(t *testing.T) {
//		client, _ := startRedis(t)
//		storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
//			return func() lending.TokenStore { return tokenStore(t, client, t.Name()) }
//		})
//	}
//
// A suite is a list of rules from the documentation of the interface. Each rule is a subtest. A
// rule asks for an empty place, such as a file, a table or a prefix, and opens the store there
// several times: two stores at the same time, or a store after the end of another. This finds
// stores that keep in memory the data that processes must share. If a suite cannot test a rule,
// the subtest is skipped, or logs why.
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
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"
)

// rule is a sentence of a contract, with its check.
type rule[S any] struct {
	name  string
	check func(store S)
}

func run[S any](t *testing.T, rules []rule[S], open func(t *testing.T) S) {
	t.Helper()
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { rule.check(open(t)) })
	}
}

// trial is a store under test. The tests of this package observe failures with a TB of their own.
type trial[S any] struct {
	testing.TB
	open  func() S
	store S
}

func begin[S any](tb testing.TB, open func() S) trial[S] {
	tb.Helper()
	return trial[S]{tb, open, open()}
}

const (
	long     = time.Minute            // longer than any rule runs
	short    = 300 * time.Millisecond // expires while a rule waits
	patience = 30 * time.Second       // time limit for events that must happen
	slack    = 5 * time.Millisecond   // for clocks with a resolution of milliseconds
	racers   = 16                     // calls at the same time, of which one succeeds
)

// wait waits for d, on the fake clock if the test runs in testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

func (s trial[S]) require(ok bool, format string, arguments ...any) {
	s.Helper()
	if !ok {
		s.Fatalf(format, arguments...)
	}
}

func (s trial[S]) succeeds(what string, err error) {
	s.Helper()
	s.require(err == nil, "%s: got error %v, want none", what, err)
}

// next opens the store as the next process does. It skips the rest of the rule if the store ends
// with its process.
func (s *trial[S]) next() {
	before := s.store
	s.store = s.open()
	if reflect.ValueOf(before).Comparable() && any(before) == any(s.store) {
		s.Skip("not tested: the store ends with its process, the same was opened again")
	}
}

func eventually(f func() bool) {
	for start := time.Now(); !f() && time.Since(start) < patience; {
		wait(5 * time.Millisecond)
	}
}

// atOnce calls f n times at the same time. No call may fail.
func (s trial[S]) atOnce(n int, f func(i int) error) {
	s.Helper()
	s.succeeds("one of many calls at the same time", errors.Join(parallel(n, f)...))
}

// oneWins calls f many times at the same time, and returns the number of the successful call.
// Each other call must fail with refused.
func (s trial[S]) oneWins(refused error, f func(i int) error) (winner int) {
	s.Helper()
	winner = -1
	for i, err := range parallel(racers, f) {
		if err == nil {
			s.require(winner < 0, "two of many calls at the same time succeeded, want 1")
			winner = i
			continue
		}
		s.require(errors.Is(err, refused), "one of many calls at the same time: got error %v, want %v or success", err, refused)
	}
	s.require(winner >= 0, "none of many calls at the same time succeeded, want 1")
	return winner
}

func parallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

func (s trial[S]) endedContext(methods map[string]func(ctx context.Context)) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for name, method := range methods {
		s.returns(name, func() { method(ctx) })
	}
}

func (s trial[S]) returns(name string, f func()) {
	s.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		s.Fatalf("%s has not returned %v after the end of its context", name, patience)
	}
}
