package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
)

// flawedTokens is a token store in memory that keeps its contract except for its flaw.
type flawedTokens struct {
	lending.TokenStore
	flaw  string
	lease atomic.Pointer[lease]               // the last
	seen  atomic.Pointer[lending.StoredToken] // the last that this process saved
}

// lease is a lease that a store has given.
type lease struct {
	owner string
	fence int64
}

// held returns the last lease, or none.
func (f *flawedTokens) held() lease {
	if last := f.lease.Load(); last != nil {
		return *last
	}
	return lease{}
}

func openTokens(flaw string) func() lending.TokenStore {
	shared := &flawedTokens{TokenStore: lending.NewMemoryTokenStore(), flaw: flaw}
	return func() lending.TokenStore {
		switch flaw {
		case "is each process's own":
			return lending.NewMemoryTokenStore()
		case "caches what it has loaded":
			return &flawedTokens{TokenStore: shared.TokenStore, flaw: flaw}
		}
		return shared
	}
}

func (f *flawedTokens) Load(ctx context.Context) (lending.StoredToken, error) {
	if f.flaw == "outlasts its context" && ctx.Err() != nil {
		wait(long)
	}
	kept, err := f.TokenStore.Load(ctx)
	switch {
	case f.flaw == "shows a lease as a token" && kept.Fence == 0:
		kept.Fence = f.held().fence
	case f.flaw == "reads the fence before the text":
		wait(3 * time.Millisecond)
		later, _ := f.TokenStore.Load(ctx)
		kept.Data = later.Data
	case f.flaw == "caches what it has loaded":
		if seen := f.seen.Load(); seen != nil {
			return *seen, nil
		}
		return lending.StoredToken{}, nil
	}
	return kept, err
}

func (f *flawedTokens) Save(ctx context.Context, token lending.StoredToken) error {
	kept, _ := f.TokenStore.Load(ctx)
	switch text := token.Data.Reveal(); {
	case f.flaw == "cuts a text":
		token.Data = lending.NewSecret(text[:min(len(text), 4096)])
	case f.flaw == "saves for the owner of the lease alone" && (f.held().owner == "" || token.Fence < f.held().fence),
		f.flaw == "refuses an equal fence" && token.Fence == kept.Fence:
		return lending.ErrFenced
	case f.flaw == "reads the fence before the text":
		pause()
	}
	err := f.TokenStore.Save(ctx, token)
	if f.flaw == "caches what it has loaded" {
		f.seen.Store(&token)
	}
	if f.flaw == "keeps what it refuses" && err != nil {
		token.Fence = kept.Fence
		_ = f.TokenStore.Save(ctx, token)
	}
	return err
}

func (f *flawedTokens) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	asked := ttl
	switch {
	case f.flaw == "has leases that do not end":
		ttl = 1000 * long
	case f.flaw == "does not prolong" && owner == f.held().owner:
		ttl = min(ttl, short)
	case f.flaw == "does not shorten" && owner == f.held().owner:
		ttl = max(ttl, long)
	case f.flaw == "ends a lease early":
		ttl /= 2
	}
	last := f.held().owner
	fence, err := f.TokenStore.Acquire(ctx, owner, ttl)
	switch {
	case f.flaw == "gives many the lease" && err != nil && asked == long:
		return f.held().fence, nil
	case err != nil:
		return fence, err
	case f.flaw == "gives an owner the fence that it had" && owner == last:
		fence = f.held().fence
	case f.flaw == "gives the owner another fence" && owner == last:
		fence++
	}
	f.lease.Store(&lease{owner, fence})
	return fence, nil
}

func (f *flawedTokens) Release(ctx context.Context, owner string) error {
	switch {
	case f.flaw == "lets anybody release":
		owner = f.held().owner
	case f.flaw == "does not release":
		return nil
	case f.flaw == "fails to release what is another's" && owner != f.held().owner:
		return lending.ErrLeaseHeld
	}
	return f.TokenStore.Release(ctx, owner)
}

func TestTokenStoreFindsFlaws(t *testing.T) {
	eachFlaw(t, tokenStoreRules, func(tb testing.TB, flaw string) tokens {
		tb.Helper()
		return tokens{begin(tb, openTokens(flaw))}
	}, map[string][]string{
		"a new store is empty":              {"shows a lease as a token"},
		"Load returns the last saved token": {"cuts a text"},
		"Save refuses an older token, and compares only the fence": {
			"refuses an equal fence", "keeps what it refuses", "saves for the owner of the lease alone",
		},
		"a lease lasts for ttl from now, and expires": {
			"does not prolong", "does not shorten",
			"has leases that do not end", "ends a lease early",
		},
		"Release ends the lease of its owner only": {
			"lets anybody release", "does not release", "fails to release what is another's",
		},
		"the fence is higher with every lease": {"gives an owner the fence that it had"},
		"processes share the token and the lease": {
			"caches what it has loaded", "is each process's own", "gives the owner another fence",
		},
		"one of many parallel Acquires gets the lease": {"gives many the lease"},
		"parallel Saves are not mixed":                 {"reads the fence before the text"},
		"methods return when their context has ended":  {"outlasts its context"},
	})
}
