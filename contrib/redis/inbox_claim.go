package lendingredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// tending is the interval at which a process looks for expired claims and due retries, and the
// longest time that a request waits in Redis.
const tending = time.Second

// source is the inbox for its claimer.
type source struct{ *Inbox }

type seen = claimer.Seen[*webhook.InboxEntry]

// Claim implements [claimer.Source]. Claim takes due retries and expired claims if it is time
// for them, otherwise new events. If the first fail, Claim still takes new events.
func (s source) Claim(ctx context.Context, ask claimer.Ask) (seen, error) {
	found, err := s.look(ctx, ask.Wait)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") { // Redis has lost its data
		return seen{}, s.create(ctx)
	}
	return found, err
}

func (s source) look(ctx context.Context, wait time.Duration) (found seen, failed error) {
	block, next := max(wait, time.Millisecond), time.Duration(-1)
	if wait == 0 {
		block = -1
		if found, failed = s.tend(ctx); found.Entry != nil {
			return found, failed
		}
		next = found.Next
	}
	found, err := s.read(ctx, block)
	found.Next = next
	if !found.Found && err == nil {
		err = failed
	}
	return found, err
}

// tend moves due retries into the stream, and takes an expired claim. Claims of the same moment
// expire at different times, up to half of Lease later: if one of their events ends its process,
// the others meet it no more.
//
//nolint:dupword // keys and arguments
var tend = redis.NewScript(move + `
local function lasts(claim)
	local digits = string.sub(redis.sha1hex(claim[1] .. '/' .. claim[4]), 1, 6)
	return ARGV[2] * (1 + tonumber(digits, 16) / 2 / 0xffffff)
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
local expired
for _, claim in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[2], '-', '+', 100)) do
	if not expired and claim[3] >= lasts(claim) then expired = claim end
end
if not expired then return {wait, refused} end
local message = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[1], ARGV[2], expired[1])[1]
if not message then
	redis.call('XACK', KEYS[1], ARGV[1], expired[1])
	return {0, refused}
end
return {wait, refused, expired[4] + 1, message[1], message[2]}`)

func (s source) tend(ctx context.Context) (found seen, err error) {
	start := time.Now()
	found.Next = -1
	reply, err := tend.Run(ctx, s.client(), []string{s.stream, s.later}, group, milliseconds(s.options.Lease)).Slice()
	if err != nil {
		return found, err
	}
	wait, _ := reply[0].(int64)
	refused, _ := reply[1].(string)
	if refused != "" {
		err = fmt.Errorf("lendingredis: events that are due again cannot be moved to the stream: %s; check the memory of Redis", refused)
	} else if wait >= 0 {
		found.Next = time.Duration(wait+1) * time.Millisecond
	}
	if len(reply) < 5 {
		return found, err
	}
	claims, _ := reply[2].(int64)
	id, _ := reply[3].(string)
	fields, _ := reply[4].([]any)
	values := map[string]any{}
	for i := 1; i < len(fields); i += 2 {
		values[fmt.Sprint(fields[i-1])] = fields[i]
	}
	return s.claimed(ctx, redis.XMessage{ID: id, Values: values}, claims, start) // there may be more
}

// read claims a new event. It waits for the event for at most block, unless block is negative.
func (s source) read(ctx context.Context, block time.Duration) (found seen, err error) {
	start := time.Now()
	streams, err := s.client().XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: group, Streams: []string{s.stream, ">"}, Count: 1, Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return found, nil
	} else if err != nil || len(streams) == 0 || len(streams[0].Messages) == 0 {
		return found, err
	}
	return s.claimed(ctx, streams[0].Messages[0], 1, start)
}

// claimed returns the entry of a claim. claims is the number of claims of the entry in the stream. The
// ID of a claim contains the number, so that an earlier worker, which may only be slow, cannot end
// the claim. An entry without a valid event becomes a dead letter, because it would fail each
// time. An event that another process has to read waits.
func (s source) claimed(ctx context.Context, message redis.XMessage, claims int64, start time.Time) (seen, error) {
	entry, err := s.entryOf(message)
	tries := entry.Tries
	entry.Tries += int(claims)
	entry.ID = fmt.Sprint(message.ID, "/", claims)
	entry.Until = start.Add(s.options.Lease / 10 * 9)
	if err != nil && entry.Event == nil {
		body, _ := message.Values["body"].(string)
		err = errors.Join(fmt.Errorf("lendingredis: an event cannot be read here: %w", err),
			s.due(ctx, entry, claimer.Unreadable, tries+int(claims)-1, body))
	} else if err != nil {
		err = errors.Join(fmt.Errorf("lendingredis: an entry is now a dead letter: %w", err), s.DeadLetter(ctx, entry, err))
	}
	return seen{Entry: entry, Found: err == nil}, err
}

// entryOf returns the entry in message, with its tries before it was added to the stream. See
// [webhook.Encryption.Open] for its event and the error.
func (b *Inbox) entryOf(message redis.XMessage) (*webhook.InboxEntry, error) {
	body, _ := message.Values["body"].(string)
	text, _ := message.Values["tries"].(string)
	tries, _ := strconv.Atoi(text)
	event, err := b.options.Encryption.Open([]byte(body))
	return &webhook.InboxEntry{Event: event, Tries: tries, ID: message.ID}, err
}
