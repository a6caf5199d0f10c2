package lendingredis

import (
	"cmp"
	"context"
	"strconv"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// listEntries reads a part of the entries after a position: all entries of the prefix if there
// are few, otherwise the first entries of each state. The reply has the time, the start of the
// next part ("" if the page is complete), and the entries. The function before compares bytes,
// because Lua compares texts by the locale of the server.
//
//nolint:dupword // the ends of blocks
var listEntries = clocked("KEYS[2]", `
local name, prefix, older, at, key, limit, bytes, had, part = unpack(ARGV, 1, 9)
local after, newest = {at = tonumber(at), key = key}, now - older
limit, bytes, part = tonumber(limit), tonumber(bytes), tonumber(part)
local reply, wanted = {text(now), '', ''}, {}
if newest < 0 then return reply end
for i = 10, #ARGV do wanted[ARGV[i]] = true end

local function before(a, b)
	if a.at ~= b.at then return a.at < b.at end
	if a.list and a.list == b.list then return a.n < b.n end -- Redis has sorted the list
	for i = 1, math.min(#a.key, #b.key) do
		local x, y = string.byte(a.key, i), string.byte(b.key, i)
		if x ~= y then return x < y end
	end
	return #a.key < #b.key
end

local function ofPrefix()
	local first, last = '[' .. prefix, '(' .. prefix .. '\255'
	if redis.call('ZLEXCOUNT', KEYS[1], first, last) > 1000 then return nil end
	local found = {}
	for n, key in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], first, last)) do
		local entry = redis.call('HMGET', name .. 'entry:' .. key, 'state', 'at', 'revision')
		local at = tonumber(entry[2] or '')
		if entry[3] and not (entry[1] and at) then return nil end
		if at and wanted[entry[1]] and at <= newest then table.insert(found, {key = key, at = at, state = entry[1], list = 'keys', n = n}) end
	end
	return found
end

local rest
local function ofStates()
	local found = {}
	for state in pairs(wanted) do
		local range = redis.call('ZRANGEBYSCORE', name .. 'state:' .. state, text(after.at), text(newest), 'WITHSCORES', 'LIMIT', 0, part)
		for i = 1, #range, 2 do table.insert(found, {key = range[i], at = tonumber(range[i + 1]), state = state, list = state, n = i}) end
		local last = found[#found]
		if #range == 2 * part and (not rest or before(last, rest)) then rest = last end
	end
	return found
end

local found = ofPrefix() or ofStates()
table.sort(found, before)
local n = 0
for _, f in ipairs(found) do
	if rest and before(rest, f) then break end
	if before(after, f) and string.sub(f.key, 1, #prefix) == prefix then
		local entry = redis.call('HMGET', name .. 'entry:' .. f.key, 'revision', 'state', 'lock', 'data', 'at')
		if entry[1] and (entry[2] or f.state) == f.state then
			bytes = bytes - #(entry[4] or '')
			if n == limit or bytes < 0 and n + had > 0 then return reply end
			n = n + 1
			reply[#reply + 1] = {f.key, f.state, text(f.at), entry}
		end
	end
end
if rest then reply[2], reply[3] = text(rest.at), rest.key end
return reply`)

// List implements [store.Store]. Each script reads a part of the entries, because a script
// blocks Redis.
func (s *IdempotencyStore) List(ctx context.Context, filter store.Filter) (page []store.Entry, err error) {
	after, key, err := filter.After.At()
	if err != nil {
		return nil, err
	}
	bytes, first := store.PageBytes, "" // the time of the first reply, for all ages
	at := strconv.FormatUint(after, 10)
	for part := max(0, min(filter.Limit, 500)) + 1; ; part = min(2*part, 4000) {
		args := []any{
			s.name, filter.Prefix, filter.Older.Microseconds(), at, key,
			max(0, filter.Limit) - len(page), bytes, len(page), part,
		}
		for _, state := range filter.States {
			args = append(args, string(state))
		}
		reply, err := listEntries.Run(ctx, s.client(), []string{s.keys(), s.clock()}, args...).Slice()
		if err != nil {
			return page, ofNewer(err, storeName)
		}
		now, _ := reply[0].(string)
		first = cmp.Or(first, now)
		for _, listed := range reply[3:] {
			entry := listedEntry(listed, first)
			bytes -= len(entry.Data)
			page = append(page, entry)
		}
		at, _ = reply[1].(string)
		key, _ = reply[2].(string)
		if at == "" || len(page) >= filter.Limit {
			return page, nil
		}
	}
}

// listedEntry returns an entry, without data if the entry cannot be read. The position is that
// of the index, which is later than the entry's time after a Save that failed midway.
func listedEntry(listed any, now string) store.Entry {
	fields, _ := listed.([]any)
	key, _ := fields[0].(string)
	state, _ := fields[1].(string)
	at, _ := fields[2].(string)
	entry, err := readEntry(key, fields[3].([]any), now)
	inIndex, _ := readEntry(key, []any{"0", state, "", "", at}, now)
	if err != nil {
		entry = inIndex
		entry.Data = nil
	}
	entry.Position = inIndex.Position
	return entry
}
