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
	return b.endClaim(ctx, deadLetter, b.dead, entry, text, entry.Event.Body())
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
	entry, _ := entryOf(messages[0]) // the cause tells why Parse rejects the bytes
	return entry.Event, nil
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

//nolint:dupword // the ends of blocks
var drop = redis.NewScript(`
local letters = {}
for _, id in ipairs(ARGV) do
	local message = redis.call('XRANGE', KEYS[1], id, id)[1]
	if message then
		redis.call('XDEL', KEYS[1], id)
		letters[#letters + 1] = message[2][2]
	end
end
return letters`)

// Drop implements [webhook.DeadLetters].
func (b *Inbox) Drop(ctx context.Context, who string, ids ...string) (int, error) {
	if err := claimer.CheckDrop(who, ids); err != nil {
		return 0, err
	}
	letters, err := drop.Run(ctx, b.client(), []string{b.dead}, idArguments(ids)...).StringSlice()
	keys := make([]string, len(letters))
	for i, text := range letters {
		letter, _ := letterOf("", text)
		keys[i] = letter.Key
	}
	claimer.LogDrop(ctx, b.logger(), who, keys)
	return len(keys), err
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
