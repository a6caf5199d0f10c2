package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// dedupeModel is a deduper that keeps its contract except for its flaw.
type dedupeModel struct {
	flaw string
	opts *webhook.DeduperOptions
	mu   sync.Mutex
	keys map[string]*claimModel
}

type claimModel struct {
	model *dedupeModel
	key   string
	done  bool
	until time.Time
}

func openDedupers(flaw string) deduperPlace {
	return func(opts *webhook.DeduperOptions) func() webhook.Deduper {
		shared := &dedupeModel{flaw: flaw, opts: opts, keys: map[string]*claimModel{}}
		return func() webhook.Deduper {
			if flaw == "is each process's own" {
				return &dedupeModel{flaw: flaw, opts: opts, keys: map[string]*claimModel{}}
			}
			return shared
		}
	}
}

func (m *dedupeModel) Claim(ctx context.Context, key string) (webhook.Claim, error) {
	switch {
	case ctx.Err() == nil || m.flaw == "heeds no context":
	case m.flaw == "outlasts its context":
		wait(long)
		fallthrough
	default:
		return nil, ctx.Err()
	}
	switch {
	case m.flaw == "does not tell the case of keys":
		key = strings.ToLower(key)
	case m.flaw == "cuts keys" && len(key) > 255:
		key = key[:255]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, lives := m.keys[key], false
	if c != nil {
		lives = time.Now().Before(c.until) || m.flaw == "has claims that do not end" && !c.done ||
			m.flaw == "forgets nothing" && c.done
	}
	switch {
	case lives && c.done:
		return nil, webhook.ErrDuplicate
	case lives && m.flaw == "says that what is claimed is done":
		return nil, webhook.ErrDuplicate
	case lives && m.flaw != "claims what is claimed":
		return nil, webhook.ErrClaimed
	case m.flaw == "looks before it locks":
		m.mu.Unlock()
		pause()
		m.mu.Lock()
	}
	lease := m.opts.Lease
	if m.flaw == "ends a claim early" {
		lease /= 2
	}
	c = &claimModel{model: m, key: key, until: time.Now().Add(lease)}
	m.keys[key] = c
	if _, ends := ctx.Deadline(); ends && m.flaw == "keeps a claim whose context has ended" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c, nil
}

func (c *claimModel) Done(context.Context) error {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	keep := c.model.opts.Keep
	switch c.model.flaw {
	case "does not record what is done late":
		if !time.Now().Before(c.until) {
			return nil
		}
	case "remembers what is done as long as a claim":
		keep = c.model.opts.Lease
	case "forgets early":
		keep /= 2
	}
	c.done, c.until = true, time.Now().Add(keep)
	c.model.keys[c.key] = c
	return nil
}

func (c *claimModel) Release(context.Context) error {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	switch now := c.model.keys[c.key]; {
	case c.model.flaw == "does not release":
	case now == c && (!c.done || c.model.flaw == "releases what is done"),
		now != c && c.model.flaw == "releases the claim of another":
		delete(c.model.keys, c.key)
	}
	return nil
}

func TestDeduperFindsFlaws(t *testing.T) {
	eachFlaw(t, deduperRules(), openDedupers, map[string][]string{
		"claims what is claimed": {
			"a key is claimed once", "a released key is free",
			"a claim expires", "Release does not end the claim of another", "processes share the keys",
			"one of many parallel Claims succeeds",
		},
		"says that what is claimed is done": {
			"a key is claimed once", "a released key is free",
			"a claim expires", "Release does not end the claim of another", "processes share the keys",
			"one of many parallel Claims succeeds",
		},
		"does not release":      {"a released key is free", "processes share the keys"},
		"releases what is done": {"a done key is a duplicate"},
		"ends a claim early":    {"a claim expires"},
		"has claims that do not end": {
			"a claim expires",
			"Done counts after the claim has expired", "Release does not end the claim of another",
		},
		"remembers what is done as long as a claim": {"a done key outlasts its claim", "a done key is forgotten after Keep"},
		"does not record what is done late":         {"Done counts after the claim has expired"},
		"releases the claim of another": {
			"Done counts after the claim has expired",
			"Release does not end the claim of another",
		},
		"forgets nothing":                       {"a done key is forgotten after Keep"},
		"forgets early":                         {"a done key is forgotten after Keep"},
		"does not tell the case of keys":        {"keys differ in every byte"},
		"cuts keys":                             {"keys differ in every byte"},
		"is each process's own":                 {"processes share the keys", "one of many parallel Claims succeeds"},
		"looks before it locks":                 {"one of many parallel Claims succeeds"},
		"heeds no context":                      {"Claim fails when its context has ended"},
		"keeps a claim whose context has ended": {"a cancelled Claim leaves the key free"},
		"outlasts its context":                  {"Claim fails when its context has ended"},
	})
}
