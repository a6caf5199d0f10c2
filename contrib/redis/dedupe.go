package lendingredis

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/lendingapi/lending-go/internal/handover"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// Deduper is a [webhook.Deduper] in Redis, for several processes. Redis may be a cluster. Keys
// expire.
//
// While Redis cannot be reached, no key can be claimed, and the receiver answers with a failure.
// If Redis loses its data, an event is handled again when the service delivers the event again.
type Deduper struct {
	client  opaque.Value[redis.UniversalClient]
	prefix  string
	options webhook.DeduperOptions
}

var _ webhook.Deduper = (*Deduper)(nil)

// NewDeduper returns a deduper whose Redis keys begin with prefix. It returns an error if client
// is nil.
func NewDeduper(client redis.UniversalClient, prefix string, opts *webhook.DeduperOptions) (*Deduper, error) {
	if client == nil {
		return nil, errNoClient
	}
	return &Deduper{opaque.Hide(client), prefix, opts.WithDefaults()}, nil
}

// A second claim of the same owner is a retry after a lost response, and succeeds.
var claimKey = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if owner == 'done' then return 'done' end
if owner and owner ~= ARGV[1] then return 'claimed' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'ours'`)

// Claim implements [webhook.Deduper]. If ctx ends first, Claim returns at once, and the key is
// released when Redis has answered.
func (d *Deduper) Claim(ctx context.Context, key string) (webhook.Claim, error) {
	c := &claim{deduper: d, key: d.prefix + key, owner: rand.Text()}
	if err := handover.Take(ctx, c.take, c.Release); err != nil {
		return nil, err
	}
	return c, nil
}

type claim struct {
	deduper    *Deduper
	key, owner string
}

func (c *claim) take(ctx context.Context) error {
	lease := milliseconds(c.deduper.options.Lease)
	state, err := claimKey.Run(ctx, c.deduper.client(), []string{c.key}, c.owner, lease).Text()
	switch {
	case err != nil:
		return err
	case state == "done":
		return webhook.ErrDuplicate
	case state == "claimed":
		return webhook.ErrClaimed
	}
	return nil
}

func (c *claim) Done(ctx context.Context) error {
	return c.deduper.client().Set(ctx, c.key, "done", c.deduper.options.Keep).Err()
}

var releaseKey = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`)

func (c *claim) Release(ctx context.Context) error {
	return releaseKey.Run(ctx, c.deduper.client(), []string{c.key}, c.owner).Err()
}

func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 1) }
