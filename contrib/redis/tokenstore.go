// Package lendingredis keeps the token that the replicas of a program share in Redis.
//
// The other stores of this project are in databases, because a lost event or entry can cost money:
// see contrib/README.md.
package lendingredis

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/redis/go-redis/v9"
)

// TokenStore is a [lending.TokenStore] in a Redis hash, for the replicas of a program. All
// replicas use the same token. A lease lets a single replica at a time sign in or refresh the
// token.
//
// While Redis cannot be reached, the replicas use the token they have. Redis needs no
// persistence for tokens, and may be a cluster: every step is a script on a single key. Use
// Redis 5 or later.
type TokenStore struct {
	client opaque.Value[redis.UniversalClient]
	key    string
}

var _ lending.TokenStore = (*TokenStore)(nil)

// NewTokenStore returns a store in the hash key. Use another key for each account and each
// service. The token is stored in plain text: wrap the store in [lending.NewEncryptedTokenStore]
// to encrypt it.
//
// Create the client with ContextTimeoutEnabled. A session allows each step a few seconds, or
// less for a short-lived token, and then continues. Without the option, go-redis observes the
// context only between its attempts, and [lending.Client.Close] waits until go-redis gives up.
// With the defaults of go-redis, a Redis that hangs costs:
//
//   - 5 seconds (ReadTimeout) for each of 4 attempts (MaxRetries) to send a command
//   - 5 seconds (DialTimeout) for each of 5 dials (DialerRetries) in an attempt without a
//     connection
//
// For a Redis in the same network, a second, two attempts and a single dial are enough.
func NewTokenStore(client redis.UniversalClient, key string) (*TokenStore, error) {
	if client == nil || key == "" {
		return nil, errors.New("lendingredis: the token store needs a client and a key")
	}
	return &TokenStore{opaque.Hide(client), key}, nil
}

// Load implements [lending.TokenStore].
func (s *TokenStore) Load(ctx context.Context) (lending.StoredToken, error) {
	var fields struct {
		Fence   int64          `redis:"fence"`
		Data    string         `redis:"data"`
		Version format.Version `redis:"format"`
	}
	err := s.client().HMGet(ctx, s.key, "fence", "data", "format").Scan(&fields)
	if err := cmp.Or(err, fields.Version.Check(hashVersion, tokenName)); err != nil {
		return lending.StoredToken{}, err
	}
	return lending.StoredToken{Fence: fields.Fence, Data: lending.NewSecret(fields.Data)}, nil
}

const (
	// hashVersion is the version of the hash. A newer hash has its version in the field "format".
	hashVersion format.Version = 1
	tokenName                  = "the token in Redis"
)

// known ends a script that meets a token of a newer release.
const known = `
local written = redis.call('HGET', KEYS[1], 'format')
if written and tonumber(written) > 1 then return redis.error_reply('NEWER ' .. written) end`

// ofNewer returns the error of a script that has met a token of a newer release.
func ofNewer(err error) error {
	if err == nil {
		return nil
	}
	if text, newer := strings.CutPrefix(err.Error(), "NEWER "); newer {
		written, _, _ := strings.Cut(text, " ")
		version, _ := strconv.Atoi(written)
		return cmp.Or(format.Version(version).Check(hashVersion, tokenName), err)
	}
	return err
}

var save = redis.NewScript(known + `
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'data', ARGV[2])
if ARGV[3] == '0' then
	redis.call('PERSIST', KEYS[1])
else
	local time = redis.call('TIME')
	local lease = (tonumber(redis.call('HGET', KEYS[1], 'until') or 0) - time[1] * 1000000 - time[2]) / 1000
	redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(tonumber(ARGV[3]), lease)))
end
return 1`)

// Save implements [lending.TokenStore]. The Redis key expires a minute after the token.
func (s *TokenStore) Save(ctx context.Context, token lending.StoredToken) error {
	var life int64
	if !token.Expires.IsZero() {
		life = (max(time.Until(token.Expires), 0) + time.Minute).Milliseconds()
	}
	saved, err := save.Run(ctx, s.client(), []string{s.key}, token.Fence, token.Data.Reveal(), life).Bool()
	if err == nil && !saved {
		return lending.ErrFenced
	}
	return ofNewer(err)
}

// The time of a lease is that of the Redis server, so the clocks of the replicas do not matter.
// The lifetime of a token comes from the replica's clock. Fences start at the time in
// microseconds, so they rise even after Redis has lost its data or the key has expired. A lease
// ends at most ttl from now, even if the clock of Redis was ahead when the lease was given.
var acquire = redis.NewScript(known + `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = redis.call('HMGET', KEYS[1], 'owner', 'until', 'lease', 'fence', 'ttl')
local fence = tonumber(lease[3] or 0)
if lease[1] ~= ARGV[1] then
	local most = now + tonumber(lease[5] or 0)
	if lease[1] and tonumber(lease[2]) > most then
		redis.call('HSET', KEYS[1], 'until', string.format('%.0f', most))
	end
	if lease[1] and math.min(tonumber(lease[2]), most) > now then return false end
	fence = math.max(fence + 1, tonumber(lease[4] or 0) + 1, now)
end
local text = string.format('%.0f', fence)
local left = redis.call('PTTL', KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]), 'ttl', ARGV[2], 'lease', text)
if left ~= -1 and left < ARGV[2] / 1000 then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ARGV[2] / 1000)) end
return text`)

// Acquire implements [lending.TokenStore].
func (s *TokenStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	fence, err := acquire.Run(ctx, s.client(), []string{s.key}, owner, ttl.Microseconds()).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, lending.ErrLeaseHeld
	}
	return fence, ofNewer(err)
}

var release = redis.NewScript(known + `
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then redis.call('HDEL', KEYS[1], 'owner') end
return 1`)

// Release implements [lending.TokenStore].
func (s *TokenStore) Release(ctx context.Context, owner string) error {
	return ofNewer(release.Run(ctx, s.client(), []string{s.key}, owner).Err())
}
