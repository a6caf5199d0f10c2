package lendingredis

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/redis/go-redis/v9"
)

// IdempotencyStore is a [store.Store] in Redis, for mutations with a key in the replicas of a
// program. Every step is a script in a single slot of a cluster. Use Redis 5 or later.
//
// # Durability
//
// A mutation whose entry is lost can be sent twice. Redis must therefore keep its writes: set
// "appendonly yes", "appendfsync always" and the memory policy "noeviction". contrib/README.md
// has a table of the settings.
//
// The first Save fails if INFO reports no append-only file, or a policy that evicts keys without
// expiry. If the provider forbids INFO, the store checks nothing. A full Redis refuses new
// mutations, which are then not sent, and still accepts the outcomes of sent mutations. No entry
// expires.
//
// A failover to a replica can lose the last entries under every setting, because Redis answers
// before the replica has them. WAIT and min-replicas-to-write make such a loss rarer but do not
// prevent it, so the store does not call WAIT. If a mutation must not happen twice even then,
// use a Redis without failover, or another store.
//
// # Clocks
//
// The age of an entry is the time since the last Save by the clock of the Redis server. A clock
// that is set back makes no entry older. A clock that is set ahead, or a failover to a replica
// with a clock ahead, makes entries older than they are. Keep the difference to a fraction of
// MaxLateness of the log.
type IdempotencyStore struct {
	client  opaque.Value[redis.UniversalClient]
	name    string
	trusted *atomic.Bool // true after the check of the settings
}

var _ store.Store = (*IdempotencyStore)(nil)

const storeName = "the idempotency store in Redis"

// IdempotencyStoreOptions change an [IdempotencyStore]. A nil pointer and zero fields mean the
// defaults.
type IdempotencyStoreOptions struct {
	// MayLoseEntries accepts a Redis that loses or evicts entries, for example in tests. A
	// mutation whose entry is lost is sent again.
	MayLoseEntries bool
}

// NewIdempotencyStore returns a store. Stores with different names are independent. Responses
// are stored in plain text, with personal data: wrap the store in [store.NewEncrypted] to
// encrypt them.
//
// Create the client with ContextTimeoutEnabled. Calls then return when their context ends, even
// if Redis hangs: see [NewTokenStore].
func NewIdempotencyStore(client redis.UniversalClient, name string, options *IdempotencyStoreOptions) (*IdempotencyStore, error) {
	if client == nil || name == "" {
		return nil, errors.New("lendingredis: the idempotency store needs a client and a name")
	}
	s := &IdempotencyStore{opaque.Hide(client), "{idempotency:" + name + "}:", new(atomic.Bool)} // one slot of a cluster
	s.trusted.Store(options != nil && options.MayLoseEntries)
	return s, nil
}

// retention reads the settings of the slot's server. If INFO fails, the fields are empty.
var retention = redis.NewScript(`
local function info(section, field)
	local text = redis.pcall('INFO', section)
	return type(text) == 'string' and string.match(text, field .. ':([^\r\n]*)') or ''
end
return {info('persistence', 'aof_enabled'), info('memory', 'maxmemory_policy')}`)

// trust returns an error if the server may lose entries. trust asks until the first success.
func (s *IdempotencyStore) trust(ctx context.Context) error {
	if s.trusted.Load() {
		return nil
	}
	said, err := retention.Run(ctx, s.client(), []string{s.keys()}).StringSlice()
	switch {
	case err != nil:
		return err
	case said[0] == "0":
		return errors.New("lendingredis: Redis has no append-only file and would lose entries, whose mutations are then sent again; " +
			"set appendonly yes and appendfsync always, or the option MayLoseEntries")
	case strings.HasPrefix(said[1], "allkeys-"):
		return errors.New("lendingredis: Redis evicts entries when its memory is full, and their mutations are then sent again; " +
			"set maxmemory-policy noeviction, or the option MayLoseEntries")
	}
	s.trusted.Store(true)
	return nil
}

func (s *IdempotencyStore) entry(key string) string { return s.name + "entry:" + key }
func (s *IdempotencyStore) locks() string           { return s.name + "locks" }
func (s *IdempotencyStore) keys() string            { return s.name + "keys" }
func (s *IdempotencyStore) clock() string           { return s.name + "clock" }

// An entry is a hash, which is the only source of truth. The other keys are indexes. They may
// hold too much, because Redis does not undo a script that fails midway.
//
//   - locks is a hash from a lock to the key of its holder.
//   - keys is a sorted set of all keys, in the order of their bytes.
//   - "state:" and a state is a sorted set of the keys in this state, by the time of saving.
//
// Times are microseconds with 16 digits, which Lua numbers represent exactly. Revisions are text
// in Lua, because large ones would be rounded.

// clock counts the time by the clock of the server, and stands still when that clock is set
// back. The hash holds the count and the server's time of the last Save, and in a newer release
// the version of the keys.
const clock = `
local time, noted = redis.call('TIME'), redis.call('HMGET', CLOCK, 'count', 'server', 'format')
if noted[3] and tonumber(noted[3]) > 1 then return redis.error_reply('NEWER ' .. noted[3]) end
local server = time[1] * 1000000 + time[2]
local now = noted[1] and tonumber(noted[1]) + math.max(0, server - tonumber(noted[2])) or server
local function text(count) return string.format('%016.0f', count) end
`

func clocked(key, script string) *redis.Script {
	return redis.NewScript(strings.Replace(clock, "CLOCK", key, 1) + script)
}

var loadEntry = clocked("KEYS[2]", `
local entry = redis.call('HMGET', KEYS[1], 'revision', 'state', 'lock', 'data', 'at')
if not entry[1] then return false end
entry[6] = text(now)
return entry`)

// Load implements [store.Store].
func (s *IdempotencyStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	fields, err := loadEntry.Run(ctx, s.client(), []string{s.entry(key), s.clock()}).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // the interface asks for nil if there is no entry
	} else if err != nil {
		return nil, ofNewer(err, storeName)
	}
	now, _ := fields[5].(string)
	entry, err := readEntry(key, fields, now)
	if err != nil {
		return nil, err
	}
	return &entry, nil
}

// readEntry reads the fields revision, state, lock, data and at.
func readEntry(key string, fields []any, now string) (store.Entry, error) {
	text := make([]string, 5)
	for i := range text {
		text[i], _ = fields[i].(string)
	}
	revision, err := strconv.ParseInt(text[0], 10, 64)
	at, also := strconv.ParseUint(text[4], 10, 63)
	passed, third := strconv.ParseUint(now, 10, 63)
	if err != nil || also != nil || third != nil || text[1] == "" {
		return store.Entry{}, store.ErrCorrupt
	}
	return store.Entry{
		Key: key, Revision: revision, State: store.State(text[1]), Lock: text[2], Data: []byte(text[3]),
		Age:      max(0, time.Duration(int64(passed)-int64(at))*time.Microsecond),
		Position: store.PositionAt(at, key),
	}, nil
}

// A full Redis refuses a script only before its first write. A Save of a sent mutation's outcome
// therefore begins with the removal of a missing field. The token recognizes a second try of the
// same Save after a lost response.
var saveEntry = clocked("KEYS[4]", `
local key, revision, next, state, lock, data, token, name = unpack(ARGV)
local was = redis.call('HMGET', KEYS[1], 'revision', 'state', 'lock', 'token')
if (was[1] or '0') ~= revision then
	if was[1] == next and was[4] == token then return 'saved' end
	return 'conflict'
end
local holder = lock ~= '' and redis.call('HGET', KEYS[2], lock)
if holder and holder ~= key and redis.call('HGET', name .. 'entry:' .. holder, 'lock') == lock then return {holder} end
if was[1] then redis.call('HDEL', KEYS[1], '') end

local at = text(now)
redis.call('HSET', KEYS[4], 'count', at, 'server', text(server))
if lock ~= '' then redis.call('HSET', KEYS[2], lock, key) end
redis.call('ZADD', KEYS[3], 0, key)
redis.call('ZADD', name .. 'state:' .. state, at, key)
redis.call('HSET', KEYS[1], 'revision', next, 'state', state, 'lock', lock, 'data', data, 'at', at, 'token', token)

if was[2] and was[2] ~= state then redis.call('ZREM', name .. 'state:' .. was[2], key) end
if was[3] and was[3] ~= lock and redis.call('HGET', KEYS[2], was[3]) == key then redis.call('HDEL', KEYS[2], was[3]) end
return 'saved'`)

// Save implements [store.Store]. Save returns when Redis has the entry.
func (s *IdempotencyStore) Save(ctx context.Context, entry store.Entry) error {
	if err := s.trust(ctx); err != nil {
		return err
	}
	answer, err := saveEntry.Run(ctx, s.client(),
		[]string{s.entry(entry.Key), s.locks(), s.keys(), s.clock()},
		entry.Key, strconv.FormatInt(entry.Revision, 10), strconv.FormatInt(entry.Revision+1, 10),
		string(entry.State), entry.Lock, entry.Data, rand.Text(), s.name).Result()
	switch holder, held := answer.([]any); {
	case err != nil:
		return ofNewer(err, storeName)
	case held:
		key, _ := holder[0].(string)
		return &store.LockedError{Key: key}
	case answer != "saved":
		return store.ErrConflict
	}
	return nil
}
