package lendingredis

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// replaceEntries replaces or deletes entries, with six arguments for each entry. The token
// recognizes entries that an earlier try with a lost response has replaced. A full Redis refuses
// a script only before its first write, so the script begins with the removal of a missing
// field.
//
//nolint:dupword // the ends of blocks
var replaceEntries = clocked("KEYS[3]", `
local name, token, replaced = ARGV[1], ARGV[2], 0
local at = text(now)
redis.call('HDEL', KEYS[3], '')
redis.call('HSET', KEYS[3], 'count', at, 'server', text(server))
for i = 3, #ARGV, 6 do
	local key, revision, next, state, lock, data = unpack(ARGV, i, i + 5)
	local entry = name .. 'entry:' .. key
	local was = redis.call('HMGET', entry, 'revision', 'state', 'lock', 'token')
	if was[1] == next and was[4] == token then
		replaced = replaced + 1
	elseif was[1] == revision then
		if lock ~= was[3] or state == '' then lock = '' end
		if state == '' then
			redis.call('DEL', entry)
			redis.call('ZREM', KEYS[2], key)
		else
			redis.call('ZADD', name .. 'state:' .. state, at, key)
			redis.call('HSET', entry, 'revision', next, 'state', state, 'lock', lock, 'data', data, 'at', at, 'token', token)
		end
		if was[2] and was[2] ~= state then redis.call('ZREM', name .. 'state:' .. was[2], key) end
		if was[3] and was[3] ~= lock and redis.call('HGET', KEYS[1], was[3]) == key then redis.call('HDEL', KEYS[1], was[3]) end
		replaced = replaced + 1
	end
end
return replaced`)

// inScript is the number of entries that a script replaces at most. A script blocks Redis.
const inScript = 500

// Replace implements [store.Store] with a script for every 500 entries.
func (s *IdempotencyStore) Replace(ctx context.Context, entries []store.Entry) (replaced int, err error) {
	for some := range slices.Chunk(entries, inScript) {
		args := []any{s.name, rand.Text()}
		for _, e := range some {
			args = append(args, e.Key, strconv.FormatInt(e.Revision, 10), strconv.FormatInt(e.Revision+1, 10), string(e.State), e.Lock, e.Data)
		}
		n, err := replaceEntries.Run(ctx, s.client(), []string{s.locks(), s.keys(), s.clock()}, args...).Int()
		if replaced += n; err != nil {
			return replaced, ofNewer(err, storeName)
		}
	}
	return replaced, nil
}
