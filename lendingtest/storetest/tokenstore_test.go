package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
)

// tokenModel is a token store that keeps its contract except for its flaw.
type tokenModel struct {
	flaw  string
	mu    sync.Mutex
	kept  lending.StoredToken
	owner string
	last  string // the last owner
	until time.Time
	lease int64
}

func openTokens(flaw string) func() lending.TokenStore {
	shared := &tokenModel{flaw: flaw}
	return func() lending.TokenStore {
		switch flaw {
		case "is each process's own":
			return &tokenModel{flaw: flaw}
		case "caches what it has loaded":
			return &cachedTokens{tokenModel: shared}
		}
		return shared
	}
}

func (m *tokenModel) Load(ctx context.Context) (lending.StoredToken, error) {
	m.lock(ctx)
	defer m.mu.Unlock()
	if m.flaw == "shows a lease as a token" && m.kept.Fence == 0 {
		return lending.StoredToken{Fence: m.lease}, nil
	}
	return m.kept, nil
}

func (m *tokenModel) lock(ctx context.Context) {
	if m.flaw == "outlasts its context" && ctx.Err() != nil {
		wait(long)
	}
	m.mu.Lock()
}

func (m *tokenModel) Save(ctx context.Context, token lending.StoredToken) error {
	m.lock(ctx)
	defer m.mu.Unlock()
	if token.Fence < m.kept.Fence {
		if m.flaw == "keeps what it refuses" {
			m.kept = token
		}
		return lending.ErrFenced
	}
	switch text := token.Data.Reveal(); {
	case m.flaw == "cuts a text" && len(text) > 4096:
		token.Data = lending.NewSecret(text[:4096])
	case m.flaw == "saves for the owner of the lease alone" && (m.owner == "" || token.Fence < m.lease):
		return lending.ErrFenced
	case m.flaw == "refuses an equal fence" && token.Fence == m.kept.Fence:
		return lending.ErrFenced
	case m.flaw == "writes the fence before the text":
		m.kept.Fence = token.Fence
		m.mu.Unlock()
		pause()
		m.mu.Lock()
	}
	m.kept = token
	return nil
}

func (m *tokenModel) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	m.lock(ctx)
	defer m.mu.Unlock()
	held := m.owner != "" && (time.Now().Before(m.until) || m.flaw == "has leases that do not end")
	if held && m.owner != owner {
		return 0, lending.ErrLeaseHeld
	}
	if m.flaw == "looks before it locks" {
		m.mu.Unlock()
		pause()
		m.mu.Lock()
	}
	if !held && m.owner != "" && m.flaw == "ends a token with the lease" {
		m.kept = lending.StoredToken{}
	}
	until := time.Now().Add(ttl)
	switch {
	case held && (m.flaw == "does not prolong" && until.After(m.until) || m.flaw == "does not shorten" &&
		until.Before(m.until)):
		until = m.until
	case m.flaw == "ends a lease early":
		until = time.Now().Add(ttl / 2)
	}
	again := m.flaw == "gives an owner the fence that it had" && m.owner == "" && m.last == owner
	if !held && !again || m.flaw == "gives the owner another fence" {
		m.lease++
	}
	m.owner, m.last, m.until = owner, owner, until
	return m.lease, nil
}

func (m *tokenModel) Release(ctx context.Context, owner string) error {
	m.lock(ctx)
	defer m.mu.Unlock()
	switch {
	case m.owner == owner || m.flaw == "lets anybody release":
		m.owner = ""
		if m.flaw == "does not release" {
			m.owner = owner
		}
	case m.flaw == "fails to release what is another's":
		return lending.ErrLeaseHeld
	}
	return nil
}

// cachedTokens shares the lease but returns the token that this process read or saved last.
type cachedTokens struct {
	*tokenModel
	one  sync.Mutex
	seen lending.StoredToken
}

func (c *cachedTokens) Load(context.Context) (lending.StoredToken, error) {
	c.one.Lock()
	defer c.one.Unlock()
	return c.seen, nil
}

func (c *cachedTokens) Save(ctx context.Context, token lending.StoredToken) error {
	c.one.Lock()
	defer c.one.Unlock()
	err := c.tokenModel.Save(ctx, token)
	if err == nil {
		c.seen = token
	}
	return err
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
			"has leases that do not end", "ends a lease early", "ends a token with the lease",
		},
		"Release ends the lease of its owner only": {
			"lets anybody release", "does not release", "fails to release what is another's",
		},
		"the fence is higher with every lease": {"gives an owner the fence that it had"},
		"processes share the token and the lease": {
			"caches what it has loaded", "is each process's own", "gives the owner another fence",
		},
		"one of many parallel Acquires gets the lease": {"looks before it locks"},
		"parallel Saves are not mixed":                 {"writes the fence before the text"},
		"methods return when their context has ended":  {"outlasts its context"},
	})
}
