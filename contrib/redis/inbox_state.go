package lendingredis

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

var counts = redis.NewScript(pending + `
local running = pending()[1] or 0
return {redis.call('XLEN', KEYS[1]) - running + redis.call('ZCARD', KEYS[2]), running, redis.call('XLEN', KEYS[3])}`)

// Counts implements [webhook.Inbox].
func (b *Inbox) Counts(ctx context.Context) (webhook.InboxCounts, error) {
	n, err := counts.Run(ctx, b.client(), []string{b.stream, b.later, b.dead}, group).Int64Slice()
	if err != nil {
		return webhook.InboxCounts{}, err
	}
	return webhook.InboxCounts{Waiting: int(n[0]), Running: int(n[1]), DeadLetters: int(n[2])}, nil
}

// The first unread event follows the last delivered ID. An ID contains the time.
//
//nolint:dupword // the ends of blocks
var ages = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function age(first)
	if not first then return 0 end
	return math.max(0, now - tonumber(string.match(first, '^%d+')))
end
local delivered = '-'
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
for _, group in ipairs(groups.err and {} or groups) do
	for i = 1, #group, 2 do
		if group[i] == 'last-delivered-id' then delivered = '(' .. group[i + 1] end
	end
end
local due = age((redis.call('XRANGE', KEYS[1], delivered, '+', 'COUNT', 1)[1] or {})[1])
local later = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
return {math.max(due, age(later)), age((redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1] or {})[1])}`)

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(ctx context.Context) (webhook.InboxAges, error) {
	n, err := ages.Run(ctx, b.client(), []string{b.stream, b.later, b.dead}).Int64Slice()
	if err != nil {
		return webhook.InboxAges{}, err
	}
	return webhook.InboxAges{
		Due: time.Duration(n[0]) * time.Millisecond, DeadLetter: time.Duration(n[1]) * time.Millisecond,
	}, nil
}

// Ready implements [webhook.Inbox].
func (b *Inbox) Ready(ctx context.Context) error {
	if err := b.client().XLen(ctx, b.stream).Err(); err != nil {
		return fmt.Errorf("lendingredis: the inbox is not ready: %w; check Redis and the connection", err)
	}
	return nil
}
