package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
)

// TokenStore tests the contract of a [lending.TokenStore]. The place function makes an empty
// place, for example a table, and returns a function that opens the store there. The suite calls
// open several times, like several processes. Stores that are open at the same time must share
// the token and the lease.
func TokenStore(t *testing.T, place func(t *testing.T) (open func() lending.TokenStore)) {
	t.Helper()
	for _, rule := range tokenStoreRules() {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, place(t)) })
	}
}

func tokenStoreRules() []rule[func() lending.TokenStore] {
	var rules []rule[func() lending.TokenStore]
	for _, r := range []struct {
		name  string
		check func(s tokens)
	}{
		{"a new store is empty", tokens.empty},
		{"Load returns the last saved token", tokens.last},
		{"Save refuses an older token", tokens.older},
		{"Save compares only the fence", tokens.anyOwner},
		{"a lease lasts for ttl from now", tokens.fromNow},
		{"a lease expires", tokens.ends},
		{"Release ends the lease of its owner only", tokens.release},
		{"the fence is higher with every lease", tokens.rises},
		{"processes share the token", tokens.sharedToken},
		{"processes share the lease", tokens.sharedLease},
		{"one of many parallel Acquires gets the lease", tokens.oneOfMany},
		{"parallel Saves are not mixed", tokens.unmixed},
		{"methods return when their context has ended", tokens.contexts},
	} {
		rules = append(rules, rule[func() lending.TokenStore]{r.name, func(tb testing.TB, open func() lending.TokenStore) {
			tb.Helper()
			r.check(tokens{tb, open, open()})
		}})
	}
	return rules
}

// tokens is a store under test.
type tokens struct {
	testing.TB
	open  func() lending.TokenStore
	store lending.TokenStore
}

// another opens the store as another process does.
func (s tokens) another() tokens { return tokens{s.TB, s.open, s.open()} }

func token(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

func (s tokens) acquire(owner string, ttl time.Duration) int64 {
	s.Helper()
	fence, err := s.store.Acquire(s.Context(), owner, ttl)
	if err != nil {
		s.Fatalf("Acquire for %q failed, though no other owner has the lease: %v", owner, err)
	}
	return fence
}

func (s tokens) held(owner, why string) {
	s.Helper()
	if fence, err := s.store.Acquire(s.Context(), owner, long); !errors.Is(err, lending.ErrLeaseHeld) {
		s.Fatalf("Acquire for %q: got fence %d and error %v, want ErrLeaseHeld: %s", owner, fence, err, why)
	}
}

// comes waits until Acquire succeeds for owner.
func (s tokens) comes(owner, why string) (fence int64) {
	s.Helper()
	var err error
	if !eventually(func() bool {
		fence, err = s.store.Acquire(s.Context(), owner, long)
		if err != nil && !errors.Is(err, lending.ErrLeaseHeld) {
			s.Fatalf("Acquire for %q: got error %v, want ErrLeaseHeld or success", owner, err)
		}
		return err == nil
	}) {
		s.Fatalf("Acquire for %q: still %v after %v: %s", owner, err, patience, why)
	}
	return fence
}

func (s tokens) releases(owner string) {
	s.Helper()
	if err := s.store.Release(s.Context(), owner); err != nil {
		s.Fatalf("Release for %q: got error %v, want none, whoever has the lease", owner, err)
	}
}

func (s tokens) save(kept lending.StoredToken) {
	s.Helper()
	if err := s.store.Save(s.Context(), kept); err != nil {
		s.Fatalf("Save with fence %d, when none that is higher is kept: %v", kept.Fence, err)
	}
}

func (s tokens) refused(old lending.StoredToken) {
	s.Helper()
	if err := s.store.Save(s.Context(), old); !errors.Is(err, lending.ErrFenced) {
		s.Fatalf("Save with fence %d, when a higher one is kept: got error %v, want ErrFenced", old.Fence, err)
	}
}

func (s tokens) loads(want lending.StoredToken, why string) {
	s.Helper()
	got, err := s.store.Load(s.Context())
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	if got.Fence != want.Fence || got.Data.Reveal() != want.Data.Reveal() {
		s.Fatalf("Load: got fence %d and %s, want %d and %s: %s", got.Fence, shown(got), want.Fence, shown(want), why)
	}
}

// shown returns the quoted text of a token, shortened if long. The tokens of the suite are no
// secrets.
func shown(token lending.StoredToken) string {
	const most = 80
	if text := token.Data.Reveal(); len(text) > most {
		return strconv.Quote(text[:most]) + "... of " + strconv.Itoa(len(text)) + " bytes"
	}
	return strconv.Quote(token.Data.Reveal())
}

func (s tokens) empty() {
	nothing := func(when string) {
		s.Helper()
		got, err := s.store.Load(s.Context())
		if err != nil || got.Fence != 0 || !got.Data.IsZero() || !got.Expires.IsZero() {
			s.Fatalf("Load %s: got fence %d, %s, expiry %v and error %v, want the zero StoredToken and no error", when, got.Fence, shown(got), got.Expires, err)
		}
	}
	nothing("from an empty store")
	s.acquire("a", long)
	nothing("when there is a lease and no token")
	s.releases("a")
	nothing("after a lease")
}

func (s tokens) last() {
	fence := s.acquire("a", long)
	newer := `{"v":3,"later":{"x":[1]}}`
	for _, text := range []string{"first", newer, "{\"quoted\":\"a \\\"b\\\" \\\\ %s ' ü 漢 \\u0000\\n\"}\n", strings.Repeat("x", 32<<10), "last"} {
		kept := token(fence, text)
		s.save(kept)
		s.loads(kept, "it was saved last, under the same fence, and nobody knows when it expires")
		kept.Expires = time.Now().Add(time.Hour)
		s.save(kept)
		s.loads(kept, "it was saved last, under the same fence, and expires in an hour")
	}
}

func (s tokens) older() {
	slow := s.acquire("slow", long)
	s.releases("slow")
	kept := token(s.acquire("fast", long), "new")
	s.save(kept)
	s.refused(token(slow, "old"))
	s.loads(kept, "what was refused must not be kept")
	s.save(token(kept.Fence, "newer"))
	s.loads(token(kept.Fence, "newer"), "an equal fence is not higher")
}

func (s tokens) anyOwner() {
	slow := s.acquire("slow", long)
	s.releases("slow")
	fast := s.acquire("fast", long)
	s.save(token(slow, "made under an earlier lease"))
	s.loads(token(slow, "made under an earlier lease"), "nothing newer was kept, whoever has the lease")
	s.save(token(fast, "made under the lease"))
	s.releases("fast")
	s.save(token(fast, "saved after the lease"))
	s.loads(token(fast, "saved after the lease"), "nothing newer was kept, and nobody has the lease")
}

func (s tokens) fromNow() {
	s.acquire("a", short)
	s.acquire("a", long)
	wait(short + short/2)
	s.held("b", "its owner has acquired it again, for longer")
	s.acquire("a", short)
	s.comes("b", "its owner has acquired it again, for "+short.String())
}

func (s tokens) ends() {
	start := time.Now()
	kept := token(s.acquire("a", short), "outlives the lease")
	s.save(kept)
	next := s.comes("b", "the lease of a was for "+short.String())
	if took := time.Since(start); took < short-slack {
		s.Fatalf("Acquire for another owner succeeded %v after a lease for %v was acquired", took, short)
	}
	if next <= kept.Fence {
		s.Fatalf("Acquire after the end of a lease: got fence %d, want one above %d", next, kept.Fence)
	}
	s.loads(kept, "the end of a lease does not take the token along")
}

func (s tokens) release() {
	s.releases("nobody")
	s.acquire("a", long)
	s.releases("b")
	s.held("b", "b has released what it does not have")
	s.releases("a")
	if _, err := s.store.Acquire(s.Context(), "b", long); err != nil {
		s.Fatalf("Acquire after its owner has released the lease: %v", err)
	}
	s.releases("a")
	s.held("a", "a has released a second time, when b had it")
}

func (s tokens) rises() {
	var last int64
	for i, owner := range []string{"a", "a", "b", "c", "a"} {
		fence := s.acquire(owner, long)
		if fence <= last {
			s.Fatalf("lease %d, for %q: got fence %d, want one above %d, that of the lease before, which was released", i+1, owner, fence, last)
		}
		if last = fence; i%2 == 0 {
			s.save(token(fence, "a token"))
		}
		s.releases(owner)
	}
}

func (s tokens) sharedToken() {
	other := s.another()
	kept := token(s.acquire("a", long), "saved by one")
	s.save(kept)
	other.loads(kept, "another process has saved it")
	s.releases("a")
	next := token(other.acquire("b", long), "saved by the other")
	other.save(next)
	s.loads(next, "another process has saved it")
	s.refused(kept)
}

func (s tokens) sharedLease() {
	other := s.another()
	fence := s.acquire("a", long)
	other.held("b", "a has it, in another process")
	if again := other.acquire("a", long); again != fence {
		s.Fatalf("Acquire for the owner of the lease, in another process: got fence %d, want %d", again, fence)
	}
	s.releases("a")
	if next := other.acquire("b", long); next <= fence {
		s.Fatalf("Acquire after a lease of another process: got fence %d, want one above %d", next, fence)
	}
	s.held("a", "b has it, in another process")
}

func (s tokens) oneOfMany() {
	stores := []tokens{s, s.another()}
	for round := range 5 {
		var won, failed atomic.Int32
		owner := func(i int) string { return strconv.Itoa(round) + "/" + strconv.Itoa(i) }
		const owners = 16
		atOnce(owners, func(i int) {
			_, err := stores[i%2].store.Acquire(s.Context(), owner(i), long)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, lending.ErrLeaseHeld):
				failed.Add(1)
				s.Errorf("Acquire for one of many: got error %v, want ErrLeaseHeld or success", err)
			}
		})
		if n := won.Load(); n != 1 && failed.Load() == 0 {
			s.Fatalf("%d of %d owners that acquired at once have the lease, want 1", n, owners)
		}
		for i := range owners {
			s.releases(owner(i))
		}
	}
}

func (s tokens) unmixed() {
	stores := []tokens{s, s.another()}
	first := s.acquire("a", long)
	const writers, readers = 8, 4
	text := func(fence int64) string { return strings.Repeat(strconv.FormatInt(fence, 10)+" ", 200) }
	s.save(token(first, text(first)))
	atOnce(writers+readers, func(i int) {
		store := stores[i%2].store
		var highest int64
		for n := range 10 {
			if i < writers {
				fence := first + int64(n*writers+i)
				if err := store.Save(s.Context(), token(fence, text(fence))); err != nil && !errors.Is(err, lending.ErrFenced) {
					s.Errorf("Save by one of many: got error %v, want ErrFenced or success", err)
				}
				continue
			}
			got, err := store.Load(s.Context())
			switch {
			case err != nil:
				s.Errorf("Load beside many that save: %v", err)
			case got.Fence < highest:
				s.Errorf("Load beside many that save: got fence %d after %d", got.Fence, highest)
			case got.Data.Reveal() != text(got.Fence):
				s.Errorf("Load beside many that save: the text under fence %d is that of another", got.Fence)
			}
			highest = max(highest, got.Fence)
		}
	})
	last := first + 10*writers - 1
	s.loads(token(last, text(last)), "of many that were saved at once the highest fence stays")
}

func (s tokens) contexts() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for name, call := range map[string]func(){
		"Load":    func() { _, _ = s.store.Load(ctx) },
		"Save":    func() { _ = s.store.Save(ctx, token(1, "a token")) },
		"Acquire": func() { _, _ = s.store.Acquire(ctx, "gone", time.Millisecond) },
		"Release": func() { _ = s.store.Release(ctx, "gone") },
	} {
		if !returns(call) {
			s.Fatalf("%s has not returned %v after the end of its context", name, patience)
		}
	}
	kept := token(s.comes("b", "calls whose context had ended must not hold it up"), "a token")
	s.save(kept)
	s.loads(kept, "calls whose context had ended must not be in its way")
}
