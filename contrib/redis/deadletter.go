package lendingredis

import (
	"context"
	"encoding/json"
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

var _ webhook.DeadLetters = (*Inbox)(nil)

var deadLetter = redis.NewScript(claimOf + `
local reply = add(KEYS[2], 'letter', ARGV[4], ARGV[5], 'XDEL', KEYS[1], ARGV[2])
if type(reply) == 'table' then return reply end
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])`)

// DeadLetter implements [webhook.Inbox].
func (b *Inbox) DeadLetter(ctx context.Context, entry *webhook.InboxEntry, cause error) error {
	text, err := json.Marshal(webhook.NewDeadLetter(entry, cause))
	if err != nil {
		return err
	}
	return b.endClaim(ctx, deadLetter, b.dead, entry, text, b.options.Encryption.Seal(entry.Event))
}

// letterID is the ID of an entry in the stream of dead letters. The ID contains the time.
type letterID struct{ milliseconds, number uint64 }

func letterIDOf(id string) (parsed letterID, ok bool) {
	first, second, _ := strings.Cut(id, "-")
	milliseconds, err := strconv.ParseUint(first, 10, 64)
	number, failed := strconv.ParseUint(second, 10, 64)
	return letterID{milliseconds, number}, err == nil && failed == nil
}

func (i letterID) String() string { return fmt.Sprintf("%d-%d", i.milliseconds, i.number) }

func (i letterID) time() time.Time {
	return time.UnixMilli(int64(min(i.milliseconds, math.MaxInt64))).UTC()
}

// notBefore returns the first ID of the first millisecond at or after t.
func notBefore(t time.Time) letterID {
	milliseconds := t.Add(time.Millisecond - 1).UnixMilli()
	return letterID{milliseconds: uint64(max(0, milliseconds))}
}

// list returns descriptions without the events.
var list = redis.NewScript(`
local letters = {}
for _, message in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])) do
	letters[#letters + 1] = message[1]
	letters[#letters + 1] = message[2][2]
end
return letters`)

// listed is the number of dead letters that a request reads.
const listed = 100

// DeadLetters implements [webhook.DeadLetters].
func (b *Inbox) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	filter = filter.WithDefaults()
	start, end := "-", "+"
	if !filter.From.IsZero() {
		start = notBefore(filter.From).String()
	}
	after, ok := letterIDOf(filter.After)
	if ok && !after.time().Before(filter.From) {
		start = "(" + after.String()
	}
	if !filter.Before.IsZero() {
		end = "(" + notBefore(filter.Before).String()
	}
	var page []webhook.DeadLetter
	for {
		reply, err := list.Run(ctx, b.client(), []string{b.dead}, start, end, listed).StringSlice()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(reply); i += 2 {
			letter, err := letterOf(reply[i], reply[i+1])
			if err != nil {
				return nil, err
			}
			if filter.Matches(letter) {
				page = append(page, letter)
			}
			if len(page) == filter.Limit {
				return page, nil
			}
			start = "(" + letter.ID
		}
		if len(reply) < 2*listed {
			return page, nil
		}
	}
}

func letterOf(id, text string) (letter webhook.DeadLetter, err error) {
	if json.Unmarshal([]byte(text), &letter) != nil {
		err = errors.New("lendingredis: a dead letter cannot be read: another program has written the entry; correct or delete the entry")
	}
	parsed, _ := letterIDOf(id)
	letter.ID, letter.SetAside = id, parsed.time()
	return letter, err
}

// DeadLetterEvent implements [webhook.DeadLetters].
func (b *Inbox) DeadLetterEvent(ctx context.Context, id string) (*webhook.Event, error) {
	if _, ok := letterIDOf(id); !ok {
		return nil, webhook.ErrNoDeadLetter
	}
	messages, err := b.client().XRange(ctx, b.dead, id, id).Result()
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, webhook.ErrNoDeadLetter
	}
	entry, err := b.entryOf(messages[0])
	if entry.Event == nil {
		return nil, err
	}
	return entry.Event, nil // the cause tells why Parse rejects the bytes
}

//nolint:dupword // the ends of blocks
var redrive = redis.NewScript(move + `
local redriven = 0
for _, id in ipairs(ARGV) do
	local message = redis.call('XRANGE', KEYS[2], id, id)[1]
	if message then
		local reply = add(KEYS[1], 'tries', '0', message[2][4], 'XDEL', KEYS[2], id)
		if type(reply) == 'table' then return reply end
		redriven = redriven + 1
	end
end
return redriven`)

// Redrive implements [webhook.DeadLetters].
func (b *Inbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	if err := claimer.CheckRedrive(ids); err != nil {
		return 0, err
	}
	return redrive.Run(ctx, b.client(), []string{b.stream, b.dead}, idArguments(ids)...).Int()
}

// lettersOf returns the ids that are there, each with its description.
//
//nolint:dupword // the ends of blocks
var lettersOf = redis.NewScript(`
local letters = {}
for _, id in ipairs(ARGV) do
	local message = redis.call('XRANGE', KEYS[1], id, id)[1]
	if message then
		letters[#letters + 1] = id
		letters[#letters + 1] = message[2][2]
	end
end
return letters`)

// Drop implements [webhook.DeadLetters].
func (b *Inbox) Drop(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	if err := claimer.CheckDrop(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	reply, err := lettersOf.Run(ctx, b.client(), []string{b.dead}, idArguments(ids)...).StringSlice()
	if err != nil {
		return 0, err
	}
	var found []any // an id and a trace for each
	for i := 0; i+1 < len(reply); i += 2 {
		letter, _ := letterOf(reply[i], reply[i+1])
		found = append(found, letter.ID, traceOf(webhook.NewRemoved(by, letter.ID, letter.Key, letter.Event)))
	}
	return b.remove(ctx, b.dead, found)
}

func traceOf(removed webhook.Removed) string {
	text, _ := json.Marshal(removed) //nolint:errchkjson // texts and a time
	return string(text)
}

// removeAll removes entries of a stream or of the sorted set, and keeps who did so. A full Redis
// refuses a script only before its first write, so the script begins with a removal.
//
//nolint:dupword // the ends of blocks
var removeAll = redis.NewScript(`
redis.call('LREM', KEYS[2], 0, '')
local removed = 0
for i = 2, #ARGV, 2 do
	local there
	if ARGV[1] == 'zset' then
		there = redis.call('ZSCORE', KEYS[1], ARGV[i])
	else
		there = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
	end
	if there then
		redis.call('LPUSH', KEYS[2], ARGV[i + 1])
		if ARGV[1] == 'zset' then
			redis.call('ZREM', KEYS[1], ARGV[i])
		else
			redis.call('XDEL', KEYS[1], ARGV[i])
			redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[i])
		end
		removed = removed + 1
	end
end
return removed`)

// remove removes entries, each with its trace.
func (b *Inbox) remove(ctx context.Context, from string, entries []any) (int, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	kind := group
	if from == b.later {
		kind = "zset"
	}
	return removeAll.Run(ctx, b.client(), []string{from, b.removed}, append([]any{kind}, entries...)...).Int()
}

// Erase implements [webhook.DeadLetters]. It reads the events again until it finds none, because
// events move while workers handle them.
func (b *Inbox) Erase(ctx context.Context, by webhook.Decision, ids ...string) (erased int, err error) {
	if err := claimer.CheckErase(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	for {
		n, unreadable, err := b.eraseOnce(ctx, by, ids)
		if erased += n; err != nil || n == 0 {
			return erased, errors.Join(err, unreadable)
		}
	}
}

func (b *Inbox) eraseOnce(ctx context.Context, by webhook.Decision, ids []string) (erased int, unreadable, err error) {
	for _, from := range []string{b.stream, b.later, b.dead} {
		for next := "-"; next != "" && err == nil; {
			var page []stored
			page, next, err = b.page(ctx, from, next)
			var found []any
			for _, s := range page {
				event, failed := b.options.Encryption.Open([]byte(s.body))
				if event == nil {
					unreadable = failed
				} else if event.Mentions(ids...) {
					letter := ""
					if from == b.dead {
						letter = s.id
					}
					found = append(found, s.id, traceOf(webhook.NewRemoved(by, letter, event.Key(), event.Name)))
				}
			}
			if err == nil {
				var n int
				n, err = b.remove(ctx, from, found)
				erased += n
			}
		}
	}
	return erased, unreadable, err
}

// stored is an entry of a stream or of the sorted set, whose id is the member.
type stored struct{ id, body string }

// page returns entries, and the place of the next page, empty after the last.
func (b *Inbox) page(ctx context.Context, from, at string) (page []stored, next string, err error) {
	if from == b.later {
		cursor, _ := strconv.ParseUint(at, 10, 64)
		pairs, cursor, err := b.client().ZScan(ctx, from, cursor, "", listed).Result()
		for i := 0; i+1 < len(pairs); i += 2 {
			_, body, _ := strings.Cut(pairs[i], ":")
			page = append(page, stored{pairs[i], body})
		}
		if cursor > 0 {
			next = strconv.FormatUint(cursor, 10)
		}
		return page, next, err
	}
	messages, err := b.client().XRangeN(ctx, from, at, "+", listed).Result()
	for _, message := range messages {
		body, _ := message.Values["body"].(string)
		page = append(page, stored{message.ID, body})
		next = "(" + message.ID
	}
	return page, next, err
}

// Removed implements [webhook.DeadLetters].
func (b *Inbox) Removed(ctx context.Context, limit int) (newest []webhook.Removed, err error) {
	texts, err := b.client().LRange(ctx, b.removed, 0, int64(claimer.Limit(limit))-1).Result()
	for _, text := range texts {
		var trace webhook.Removed
		if err := json.Unmarshal([]byte(text), &trace); err != nil {
			return newest, err
		}
		newest = append(newest, trace)
	}
	return newest, err
}

// idArguments returns the valid ids, which Redis can read.
func idArguments(ids []string) (arguments []any) {
	for _, id := range ids {
		if parsed, ok := letterIDOf(id); ok {
			arguments = append(arguments, parsed.String())
		}
	}
	return arguments
}
