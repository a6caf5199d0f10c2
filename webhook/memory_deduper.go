package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/opaque"
)

// NewMemoryDeduper returns a [Deduper] for one process. It forgets everything when the process
// ends, and needs about 200 bytes of memory for each key until Keep has passed.
func NewMemoryDeduper(opts *DeduperOptions) Deduper {
	d := &dedupeState{options: opts.WithDefaults(), keys: map[string]*claimState{}}
	return memoryDeduper{opaque.Hide(d)}
}

type (
	memoryDeduper struct{ state opaque.Value[*dedupeState] }
	memoryClaim   struct{ state opaque.Value[*claimState] }
)

type dedupeState struct {
	options DeduperOptions

	mu   sync.Mutex
	keys map[string]*claimState
	done []*claimState // in the order in which they are forgotten
}

type claimState struct {
	deduper *dedupeState
	key     string
	done    bool
	until   time.Time // when the claim ends, or when the done key is forgotten
}

func (m memoryDeduper) Claim(ctx context.Context, key string) (Claim, error) {
	d := m.state()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.forget(now)
	if c := d.keys[key]; c != nil && c.done {
		return nil, ErrDuplicate
	} else if c != nil && now.Before(c.until) {
		return nil, ErrClaimed
	}
	c := &claimState{deduper: d, key: key, until: now.Add(d.options.Lease)}
	d.keys[key] = c
	return memoryClaim{opaque.Hide(c)}, nil
}

// forget removes the done keys whose time has passed. The caller holds the lock.
func (d *dedupeState) forget(now time.Time) {
	for len(d.done) > 0 && !now.Before(d.done[0].until) {
		if forgotten := d.done[0]; d.keys[forgotten.key] == forgotten {
			delete(d.keys, forgotten.key)
		}
		d.done[0] = nil
		d.done = d.done[1:]
	}
}

func (m memoryClaim) Done(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if !c.done {
		c.done, c.until = true, time.Now().Add(c.deduper.options.Keep)
		c.deduper.keys[c.key] = c
		c.deduper.done = append(c.deduper.done, c)
	}
	return nil
}

func (m memoryClaim) Release(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if c.deduper.keys[c.key] == c && !c.done {
		delete(c.deduper.keys, c.key)
	}
	return nil
}
