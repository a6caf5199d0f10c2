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

// IdempotencyStore is a [store.Store] in Redis, for mutations with a key of the replicas
// of a service. Every step is one script in one slot of a cluster. Use Redis 5 or later.
//
// What is lost is a command that can be sent twice, so Redis must keep what it has said to
// keep: "appendonly yes" and "appendfsync always", and the memory policy "noeviction". The
// first Save fails if INFO says that there is no append-only file, or that the policy evicts
// keys that do not expire. If INFO is forbidden, as by some providers, nothing is checked. A full
// Redis refuses commands that are new, which are not sent then, and takes what became of
// those that were. Nothing in it expires. contrib/README.md has the settings as a table.
//
// A Redis that fails over to a replica can lose the last entries under every setting: it
// answers before the replica has them. WAIT and min-replicas-to-write make that rarer and
// do not end it, so the store does not call WAIT. Where a command must not be done twice
// also then, use a Redis without failover, or another store.
//
// An age is what the clock of the Redis server has moved since the last Save, and nothing
// where it was set back: that makes nothing older. One that is set ahead does, and so does a
// failover to a replica whose clock is ahead: keep them to a fraction of
// the MaxLateness of the log.
type IdempotencyStore struct {
	client  opaque.Value[redis.UniversalClient]
	name    string
	trusted *atomic.Bool // to keep what it has said to keep
}

var _ store.Store = (*IdempotencyStore)(nil)

// IdempotencyStoreOptions change an [IdempotencyStore]. A nil pointer and zero fields mean the
// defaults.
type IdempotencyStoreOptions struct {
	// MayLoseEntries accepts a Redis that loses or evicts entries, for example in tests: a
	// mutation whose entry is lost is sent again.
	MayLoseEntries bool
}

// NewIdempotencyStore returns the store of that name. Answers lie in it in the clear, with
// personal data, unless it is given to [store.NewEncrypted].
//
// Make the client with ContextTimeoutEnabled, so that a call returns when its context ends
// also if Redis hangs: see [NewTokenStore].
func NewIdempotencyStore(client redis.UniversalClient, name string, options *IdempotencyStoreOptions) (*IdempotencyStore, error) {
	if client == nil || name == "" {
		return nil, errors.New("lendingredis: the idempotency store needs a client and a name")
	}
	s := &IdempotencyStore{opaque.Hide(client), "{idempotency:" + name + "}:", new(atomic.Bool)} // one slot of a cluster
	s.trusted.Store(options != nil && options.MayLoseEntries)
	return s, nil
}

// retention asks the server of the slot. An error of INFO is an answer without fields.
var retention = redis.NewScript(`
local function info(section, field)
	local text = redis.pcall('INFO', section)
	return type(text) == 'string' and string.match(text, field .. ':([^\r\n]*)') or ''
end
return {info('persistence', 'aof_enabled'), info('memory', 'maxmemory_policy')}`)

// trust fails if the server says that it does not keep entries, and asks once.
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

// An entry is a hash. It alone counts: the other keys find it, and may hold more than is
// true when a script was refused in the middle, which Redis does not undo. locks is a hash
// of the key that has each. keys is a sorted set of the keys of all entries by their bytes,
// and "state:" with a state one of the keys of those in that state, by the time of saving.
// Times are microseconds in 16 digits, which Lua can count; revisions are text to it, as it
// could not count them all.

// clock counts what the clock of the server has moved, and stands still when that is set
// back: passed is what has passed since it was noted last.
const clock = `
local time, noted = redis.call('TIME'), redis.call('HMGET', CLOCK, 'count', 'server')
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
		return nil, nil //nolint:nilnil // there is none, as the interface says
	} else if err != nil {
		return nil, err
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
		Age:      max(0, time.Duration(int64(passed)-int64(at))*time.Microsecond), //nolint:gosec // they have 63 bits
		Position: store.PositionAt(at, key),
	}, nil
}

// A script that has written is not refused for lack of memory: one that saves what became
// of a command begins with the removal of what is not there. A Save that is made again is
// one whose answer was lost on the way: it is known by its token.
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

// Save implements [store.Store]. It returns when Redis has the entry.
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
		return err
	case held:
		key, _ := holder[0].(string)
		return &store.LockedError{Key: key}
	case answer != "saved":
		return store.ErrConflict
	}
	return nil
}
