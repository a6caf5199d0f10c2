package lendingredis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/redis/go-redis/v9"
)

// IdempotencyStore is a [store.Store] in Redis, for mutations with a key of the replicas
// of a service. Every step is one script in one slot of a cluster. Use Redis 5 or later.
//
// What is lost is a command that can be sent twice, so Redis must keep what it has said to
// keep: "appendonly yes" and "appendfsync always", and the memory policy "noeviction". A full
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
	client opaque.Value[redis.UniversalClient]
	name   string
}

var _ store.Store = (*IdempotencyStore)(nil)

// NewIdempotencyStore returns the store of that name. Answers lie in it in the clear, with
// personal data, unless it is given to [store.NewEncrypted].
//
// Make the client with ContextTimeoutEnabled, so that a call returns when its context ends
// also if Redis hangs: see [NewTokenStore].
func NewIdempotencyStore(client redis.UniversalClient, name string) *IdempotencyStore {
	return &IdempotencyStore{opaque.Hide(client), "{idempotency:" + name + "}:"} // one slot of a cluster
}

func (s *IdempotencyStore) entry(key string) string { return s.name + "entry:" + key }
func (s *IdempotencyStore) locks() string           { return s.name + "locks" }
func (s *IdempotencyStore) index() string           { return s.name + "index" }
func (s *IdempotencyStore) clock() string           { return s.name + "clock" }

// An entry is a hash. It alone counts: the other keys find it, and may hold more than is
// true when a script was refused in the middle, which Redis does not undo. locks is a hash
// of the key that has each. index is a sorted set of "state:time:key", all with the score 0:
// it is sorted by its bytes. Times are microseconds in 16 digits, which Lua can count;
// revisions are text to it, as it could not count them all.

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
	entry, _, err := s.load(ctx, key, "")
	return entry, err
}

// load returns the entry and when it was saved. Its age is that at now, if it is given.
func (s *IdempotencyStore) load(ctx context.Context, key, now string) (entry *store.Entry, at string, err error) {
	fields, err := loadEntry.Run(ctx, s.client(), []string{s.entry(key), s.clock()}).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, "", nil
	} else if err != nil {
		return nil, "", err
	}
	text := make([]string, 6)
	for i := range text {
		text[i], _ = fields[i].(string)
	}
	revision, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil || text[1] == "" {
		return nil, "", store.ErrCorrupt
	}
	age, err := between(text[4], cmp.Or(now, text[5]))
	return &store.Entry{
		Key: key, Revision: revision, State: store.State(text[1]), Lock: text[2], Data: []byte(text[3]), Age: age,
	}, text[4], err
}

// between is never negative.
func between(at, now string) (time.Duration, error) {
	began, err := strconv.ParseInt(at, 10, 64)
	ended, also := strconv.ParseInt(now, 10, 64)
	if err != nil || also != nil {
		return 0, store.ErrCorrupt
	}
	return max(0, time.Duration(ended-began)*time.Microsecond), nil
}

// A script that has written is not refused for lack of memory: one that saves what became
// of a command begins with the removal of what is not there. A Save that is made again is
// one whose answer was lost on the way: it is known by its token.
var saveEntry = clocked("KEYS[4]", `
local key, revision, next, state, lock, data, token, entries = unpack(ARGV)
local was = redis.call('HMGET', KEYS[1], 'revision', 'state', 'lock', 'at', 'token')
if (was[1] or '0') ~= revision then
	if was[1] == next and was[5] == token then return 'saved' end
	return 'conflict'
end
local holder = lock ~= '' and redis.call('HGET', KEYS[2], lock)
if holder and holder ~= key and redis.call('HGET', entries .. holder, 'lock') == lock then return {holder} end
if was[1] then redis.call('HDEL', KEYS[1], '') end

local at = text(now)
local function member(state, at) return state .. ':' .. at .. ':' .. key end
redis.call('HSET', KEYS[4], 'count', at, 'server', text(server))
if lock ~= '' then redis.call('HSET', KEYS[2], lock, key) end
redis.call('ZADD', KEYS[3], 0, member(state, at))
redis.call('HSET', KEYS[1], 'revision', next, 'state', state, 'lock', lock, 'data', data, 'at', at, 'token', token)

if was[1] and member(was[2], was[4]) ~= member(state, at) then redis.call('ZREM', KEYS[3], member(was[2], was[4])) end
if was[3] and was[3] ~= lock and redis.call('HGET', KEYS[2], was[3]) == key then redis.call('HDEL', KEYS[2], was[3]) end
return 'saved'`)

// Save implements [store.Store]. It returns when Redis has the entry.
func (s *IdempotencyStore) Save(ctx context.Context, entry store.Entry) error {
	answer, err := saveEntry.Run(ctx, s.client(),
		[]string{s.entry(entry.Key), s.locks(), s.index(), s.clock()},
		entry.Key, strconv.FormatInt(entry.Revision, 10), strconv.FormatInt(entry.Revision+1, 10),
		string(entry.State), entry.Lock, entry.Data, rand.Text(), s.entry("")).Result()
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

// listEntries looks through a part of the index, of one state and from where the part before
// has ended, for entries that are as old as asked for. It returns the time, where it has
// ended, which is "" at the end, and the members.
//
//nolint:dupword // the ends of blocks
var listEntries = clocked("KEYS[2]", `
local entries, state, prefix, older, limit, from, listed = unpack(ARGV)
if listed == '' then listed = text(now) end
local newest = tonumber(listed) - older
if newest < 0 then return {listed, ''} end
local members = redis.call('ZRANGEBYLEX', KEYS[1], from, '(' .. state .. ':' .. text(newest + 1), 'LIMIT', 0, 1000)
local reply = {listed, #members == 1000 and members[1000] or ''}
for _, member in ipairs(members) do
	local at = string.sub(member, #state + 2, #state + 17)
	local key = string.sub(member, #state + 19)
	if #reply - 2 < tonumber(limit) and string.sub(key, 1, #prefix) == prefix then
		local entry = redis.call('HMGET', entries .. key, 'state', 'at')
		if entry[1] == state and entry[2] == at then reply[#reply + 1] = member end
	end
end
return reply`)

// List implements [store.Store]. It looks through a thousand entries of a state at
// a time; what is saved meanwhile can be missing.
func (s *IdempotencyStore) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	type member struct{ state, at, key string }
	var members []member
	now := ""
	for _, state := range slices.Compact(slices.Sorted(slices.Values(filter.States))) {
		found := 0
		for from := "[" + string(state) + ":"; from != "(" && found < filter.Limit; {
			reply, err := listEntries.Run(ctx, s.client(), []string{s.index(), s.clock()}, s.entry(""),
				string(state), filter.Prefix, filter.Older.Microseconds(), filter.Limit-found, from, now).StringSlice()
			if err != nil {
				return nil, err
			}
			now, from = reply[0], "("+reply[1]
			for _, text := range reply[2:] {
				at, key, _ := strings.Cut(strings.TrimPrefix(text, string(state)+":"), ":")
				members = append(members, member{string(state), at, key})
				found++
			}
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Or(strings.Compare(a.at, b.at), strings.Compare(a.key, b.key)) })
	var entries []store.Entry
	var failed error
	for _, m := range members[:min(len(members), max(0, filter.Limit))] {
		entry, at, err := s.load(ctx, m.key, now)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			failed = err
		case err != nil:
			return entries, err
		case entry != nil && at == m.at && string(entry.State) == m.state: // it has not changed meanwhile
			entries = append(entries, *entry)
		}
	}
	return entries, failed
}
