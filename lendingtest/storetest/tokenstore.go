package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	run(t, tokenStoreRules, func(t *testing.T) tokens {
		t.Helper()
		return tokens{begin(t, place(t))}
	})
}

var tokenStoreRules = []rule[tokens]{
	{"a new store is empty", tokens.empty},
	{"Load returns the last saved token", tokens.last},
	{"Save refuses an older token, and compares only the fence", tokens.fenced},
	{"a lease lasts for ttl from now, and expires", tokens.expires},
	{"Release ends the lease of its owner only", tokens.release},
	{"the fence is higher with every lease", tokens.rises},
	{"processes share the token and the lease", tokens.shared},
	{"one of many parallel Acquires gets the lease", tokens.oneOfMany},
	{"parallel Saves are not mixed", tokens.unmixed},
	{"methods return when their context has ended", tokens.contexts},
}

type tokens struct{ trial[lending.TokenStore] }

func (s tokens) another() tokens { return tokens{begin(s.TB, s.open)} }

func token(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

func (s tokens) acquire(owner string, ttl time.Duration) int64 {
	s.Helper()
	fence, err := s.store.Acquire(s.Context(), owner, ttl)
	s.succeeds(fmt.Sprintf("Acquire for %q, when no other owner has the lease", owner), err)
	return fence
}

func (s tokens) held(owner, why string) {
	s.Helper()
	fence, err := s.store.Acquire(s.Context(), owner, long)
	s.require(errors.Is(err, lending.ErrLeaseHeld),
		"Acquire for %q: got fence %d and error %v, want ErrLeaseHeld: %s", owner, fence, err, why)
}

func (s tokens) comes(owner, why string) (fence int64) {
	s.Helper()
	var err error
	eventually(func() bool {
		fence, err = s.store.Acquire(s.Context(), owner, long)
		return !errors.Is(err, lending.ErrLeaseHeld)
	})
	s.succeeds(fmt.Sprintf("Acquire for %q, tried for %v: %s", owner, patience, why), err)
	return fence
}

func (s tokens) releases(owner string) {
	s.Helper()
	s.succeeds(fmt.Sprintf("Release for %q, whoever has the lease", owner), s.store.Release(s.Context(), owner))
}

func (s tokens) save(kept lending.StoredToken) {
	s.Helper()
	s.succeeds(fmt.Sprintf("Save with fence %d, when none that is higher is kept", kept.Fence), s.store.Save(s.Context(), kept))
}

func (s tokens) refused(old lending.StoredToken) {
	s.Helper()
	err := s.store.Save(s.Context(), old)
	s.require(errors.Is(err, lending.ErrFenced),
		"Save with fence %d, when a higher one is kept: got error %v, want ErrFenced", old.Fence, err)
}

// loads fails unless Load returns the wanted token. The tokens of the suite are no secrets.
func (s tokens) loads(want lending.StoredToken, why string) {
	s.Helper()
	got, err := s.store.Load(s.Context())
	s.succeeds("Load", err)
	s.require(got.Fence == want.Fence && got.Data.Reveal() == want.Data.Reveal(), "Load: got fence %d and %.80q, want %d and %.80q: %s",
		got.Fence, got.Data.Reveal(), want.Fence, want.Data.Reveal(), why)
}

func (s tokens) empty() {
	nothing := func(when string) {
		s.Helper()
		got, err := s.store.Load(s.Context())
		s.require(err == nil && got.Fence == 0 && got.Data.IsZero() && got.Expires.IsZero(),
			"Load %s: got fence %d, expiry %v and error %v, want the zero StoredToken and no error", when, got.Fence, got.Expires, err)
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
	quoted := "{\"quoted\":\"a \\\"b\\\" \\\\ %s ' ü 漢 \\u0000\\n\"}\n"
	for _, text := range []string{"first", newer, quoted, strings.Repeat("x", 32<<10), "last"} {
		kept := token(fence, text)
		s.save(kept)
		s.loads(kept, "it was saved last, under the same fence, and nobody knows when it expires")
		kept.Expires = time.Now().Add(time.Hour)
		s.save(kept)
		s.loads(kept, "it was saved last, under the same fence, and expires in an hour")
	}
}

func (s tokens) fenced() {
	slow := token(s.acquire("slow", long), "made under an earlier lease")
	s.releases("slow")
	fast := s.acquire("fast", long)
	s.save(slow)
	s.loads(slow, "nothing newer was kept, whoever has the lease")
	kept := token(fast, "made under the lease")
	s.save(kept)
	s.refused(slow)
	s.loads(kept, "what was refused must not be kept")
	s.releases("fast")
	s.save(token(fast, "saved after the lease"))
	s.loads(token(fast, "saved after the lease"), "an equal fence is not higher, and nobody has the lease")
}

func (s tokens) expires() {
	s.acquire("a", short)
	s.acquire("a", long)
	wait(short + short/2)
	s.held("b", "its owner has acquired it again, for longer")
	start := time.Now()
	kept := token(s.acquire("a", short), "outlives the lease")
	s.save(kept)
	next := s.comes("b", "its owner has acquired it again, for "+short.String())
	took := time.Since(start)
	s.require(took >= short-slack, "Acquire for another owner succeeded %v after a lease for %v was acquired", took, short)
	s.require(next > kept.Fence, "Acquire after the end of a lease: got fence %d, want one above %d", next, kept.Fence)
	s.loads(kept, "the end of a lease does not take the token along")
}

func (s tokens) release() {
	s.releases("nobody")
	s.acquire("a", long)
	s.releases("b")
	s.held("b", "b has released what it does not have")
	s.releases("a")
	s.acquire("b", long)
	s.releases("a")
	s.held("a", "a has released a second time, when b had it")
}

func (s tokens) rises() {
	var last int64
	for i, owner := range []string{"a", "a", "b", "c", "a"} {
		fence := s.acquire(owner, long)
		s.require(fence > last, "lease %d, for %q: got fence %d, want one above %d, that of the lease before, which was released",
			i+1, owner, fence, last)
		if last = fence; i%2 == 0 {
			s.save(token(fence, "a token"))
		}
		s.releases(owner)
	}
}

func (s tokens) shared() {
	other := s.another()
	kept := token(s.acquire("a", long), "saved by one")
	s.save(kept)
	other.loads(kept, "another process has saved it")
	other.held("b", "a has it, in another process")
	again := other.acquire("a", long)
	s.require(again == kept.Fence, "Acquire for the owner of the lease, in another process: got fence %d, want %d", again, kept.Fence)
	s.releases("a")
	next := token(other.acquire("b", long), "saved by the other")
	s.require(next.Fence > again, "Acquire after a lease of another process: got fence %d, want one above %d", next.Fence, again)
	s.held("a", "b has it, in another process")
	other.save(next)
	s.loads(next, "another process has saved it")
	s.refused(kept)
}

func (s tokens) oneOfMany() {
	stores := []tokens{s, s.another()}
	for round := range 5 {
		owner := func(i int) string { return fmt.Sprint(round, "/", i) }
		winner := s.oneWins(lending.ErrLeaseHeld, func(i int) error {
			_, err := stores[i%2].store.Acquire(s.Context(), owner(i), long)
			return err
		})
		s.releases(owner(winner))
	}
}

func (s tokens) unmixed() {
	stores := []tokens{s, s.another()}
	first := s.acquire("a", long)
	const writers, readers, each = 8, 4, 10
	text := func(fence int64) string { return strings.Repeat(strconv.FormatInt(fence, 10)+" ", 200) }
	s.save(token(first, text(first)))
	s.atOnce(writers+readers, func(i int) error {
		store := stores[i%2].store
		var highest int64
		for n := range each {
			if i < writers {
				fence := first + int64(n*writers+i)
				if err := store.Save(s.Context(), token(fence, text(fence))); err != nil && !errors.Is(err, lending.ErrFenced) {
					return fmt.Errorf("Save: got error %w, want ErrFenced or success", err)
				}
				continue
			}
			got, err := store.Load(s.Context())
			if err != nil || got.Fence < highest || got.Data.Reveal() != text(got.Fence) {
				return fmt.Errorf("Load: got fence %d after %d, with the text %.80q, and error %w", got.Fence, highest, got.Data.Reveal(), err)
			}
			highest = got.Fence
		}
		return nil
	})
	last := first + each*writers - 1
	s.loads(token(last, text(last)), "of many that were saved at once the highest fence stays")
}

func (s tokens) contexts() {
	s.endedContext(map[string]func(context.Context){
		"Load":    func(ctx context.Context) { _, _ = s.store.Load(ctx) },
		"Save":    func(ctx context.Context) { _ = s.store.Save(ctx, token(1, "a token")) },
		"Acquire": func(ctx context.Context) { _, _ = s.store.Acquire(ctx, "gone", time.Millisecond) },
		"Release": func(ctx context.Context) { _ = s.store.Release(ctx, "gone") },
	})
	kept := token(s.comes("b", "calls whose context had ended must not hold it up"), "a token")
	s.save(kept)
	s.loads(kept, "calls whose context had ended must not be in its way")
}
