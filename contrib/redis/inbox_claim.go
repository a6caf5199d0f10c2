package lendingredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// tending is how often a process looks for what others have left, or have made due,
// and how long a request waits in Redis.
const tending = time.Second

// source is the inbox as its claimer has it.
type source struct{ *Inbox }

type give = func(claimer.Claim[*webhook.InboxEntry])

// Claim implements [claimer.Source]. It looks for what is due or stuck if it is time, and else for
// what is new: also if what is due could not be had.
func (s source) Claim(ctx context.Context, ask claimer.Ask, give give) (claimer.Outlook, error) {
	seen, err := s.look(ctx, ask, give)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") { // Redis has lost its data
		return claimer.Outlook{More: true}, s.create(ctx)
	}
	return seen, err
}

func (s source) look(ctx context.Context, ask claimer.Ask, give give) (seen claimer.Outlook, failed error) {
	block := max(ask.Wait, time.Millisecond)
	if ask.Wait == 0 {
		block = -1
		if seen, failed = s.tend(ctx, ask, give); seen.More || seen.Suspect {
			return seen, nil
		}
	}
	n, err := s.read(ctx, int64(ask.N), block, give)
	if n == 0 && err == nil {
		err = failed
	}
	seen.More = n == ask.N
	return seen, err
}

// tend puts what is due again in the stream, and takes what was taken and not given back
// in time: of several what was taken the least often, so that each gets its turn however
// often the process ends. If that is one that nothing may run beside, it says so, unless
// there are events that nobody has read and that were put before it was taken: they come first.
//
//nolint:dupword // keys and arguments
var tend = redis.NewScript(move + `
local function unread(before)
	for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
		local of = {}
		for i = 1, #info, 2 do of[info[i]] = info[i + 1] end
		if of.name == ARGV[1] then
			local first = redis.call('XRANGE', KEYS[1], '(' .. of['last-delivered-id'], '+', 'COUNT', 1)[1]
			return first and tonumber(string.match(first[1], '%d+')) < before
		end
	end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local refused = ''
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
	local colon = string.find(member, ':', 1, true)
	local reply = add(KEYS[1], 'tries', string.sub(member, 1, colon - 1), string.sub(member, colon + 1), 'ZREM', KEYS[2], member)
	if type(reply) == 'table' then
		refused = reply.err
		break
	end
end
local wait = -1
local following = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if following[2] then wait = math.max(0, math.ceil(following[2] - now)) end
local least
for _, claim in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[2], '-', '+', 100)) do
	if not least or claim[4] < least[4] then least = claim end
end
if not least or least[4] >= tonumber(ARGV[4]) and unread(now - least[3]) then return {wait, refused, 0} end
if least[4] > tonumber(ARGV[3]) then return {wait, refused, least[4]} end
local message = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[1], ARGV[2], least[1])[1]
if not message then
	redis.call('XACK', KEYS[1], ARGV[1], least[1])
	return {0, refused, 0}
end
return {wait, refused, least[4], message[1], message[2]}`)

func (s source) tend(ctx context.Context, ask claimer.Ask, give give) (seen claimer.Outlook, err error) {
	start, unended := time.Now(), claimer.AloneAfter-1
	if ask.Alone {
		unended = math.MaxInt32
	}
	reply, err := tend.Run(ctx, s.client(), []string{s.stream, s.later}, group, milliseconds(s.options.Lease), unended, claimer.AloneAfter).Slice()
	if err != nil {
		return seen, err
	}
	wait, _ := reply[0].(int64)
	refused, _ := reply[1].(string)
	tries, _ := reply[2].(int64) // that did not end
	if refused != "" {
		err = fmt.Errorf("lendingredis: what is due again: %s", refused)
	} else if wait >= 0 {
		seen.Next = time.Duration(wait+1) * time.Millisecond
	}
	if len(reply) < 4 {
		seen.Suspect = tries >= claimer.AloneAfter
		return seen, err
	}
	id, _ := reply[3].(string)
	fields, _ := reply[4].([]any)
	values := map[string]any{}
	for i := 1; i < len(fields); i += 2 {
		values[fmt.Sprint(fields[i-1])] = fields[i]
	}
	s.hand(ctx, redis.XMessage{ID: id, Values: values}, tries+1, start, give)
	return claimer.Outlook{More: true, Next: 1}, nil // there may be more
}

// read claims up to n events that nobody has taken. It waits for one for block, unless that is
// negative.
func (s source) read(ctx context.Context, n int64, block time.Duration, give give) (claimed int, err error) {
	start := time.Now()
	streams, err := s.client().XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: group, Streams: []string{s.stream, ">"}, Count: n, Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	for _, stream := range streams {
		for _, message := range stream.Messages {
			s.hand(ctx, message, 1, start, give)
			claimed++
		}
	}
	return claimed, err
}

// hand gives an entry that was claimed count times since it was put or tried last. A claim is known
// by its count too, so that the worker before it, which may only be slow, cannot give it back. What is
// no event would be none each time.
func (s source) hand(ctx context.Context, message redis.XMessage, count int64, start time.Time, give give) {
	entry, err := entryOf(message)
	entry.Crashes = int(max(0, count-1-claimer.AloneAfter))
	entry.ID = fmt.Sprint(message.ID, "/", count)
	entry.Until = start.Add(s.options.Lease / 10 * 9)
	if err != nil {
		err = errors.Join(fmt.Errorf("lendingredis: an entry is now a dead letter: %w", err), s.DeadLetter(ctx, entry, err))
	}
	give(claimer.Claim[*webhook.InboxEntry]{
		Entry: entry, ID: entry.ID, Until: entry.Until, Alone: count > claimer.AloneAfter, Err: err,
	})
}

//nolint:dupword // XCLAIM gets the stream's entry twice
var giveBack = redis.NewScript(claimOf + `
return redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[1], 0, ARGV[2], 'IDLE', ARGV[4], 'RETRYCOUNT', ARGV[3] - 1, 'JUSTID')`)

// GiveBack implements [claimer.Source]: the claim has ended, and does not count. If that fails, the
// claim ends by itself.
func (s source) GiveBack(ctx context.Context, entry *webhook.InboxEntry) {
	_ = s.endClaim(ctx, giveBack, s.later, entry, milliseconds(s.options.Lease))
}

// entryOf returns the entry in message. If it holds no event, as [webhook.Parse]
// says, that of the entry is nothing but the bytes.
func entryOf(message redis.XMessage) (*webhook.InboxEntry, error) {
	body, _ := message.Values["body"].(string)
	text, _ := message.Values["tries"].(string)
	tries, _ := strconv.Atoi(text)
	event, err := webhook.Parse([]byte(body))
	if err != nil {
		event = new(webhook.Event)
		_ = event.Record.UnmarshalJSON([]byte(body)) // takes anything
	}
	return &webhook.InboxEntry{Event: event, Tries: tries + 1, ID: message.ID}, err
}
