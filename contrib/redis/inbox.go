package lendingredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/redis/go-redis/v9"
)

// InboxOptions are what can be changed in an [Inbox]. A nil pointer and zero fields
// leave it at the defaults.
type InboxOptions struct {
	// Lease is how long a worker may act on an event before another takes it for dead.
	// The context of the function ends a little earlier.
	Lease time.Duration // 5 min
	Keep  time.Duration // how long an event is known, and its exact repetition swallowed; 72 h
}

// Inbox is a [lending.Inbox] in Redis, for the replicas of a receiver: a stream with a
// consumer group, a sorted set of what will be tried again, and a stream of what was
// put aside. Use Redis 6.2 or later; it may be a cluster.
//
// It keeps what Redis keeps. To survive kill -9 and the loss of power Redis needs
// "appendonly yes" and "appendfsync always"; its memory policy must be "noeviction".
// Events lie in it as they came, codes and personal data included.
type Inbox struct {
	client                         redis.UniversalClient
	options                        InboxOptions
	stream, later, dead, seenStart string

	mu     sync.Mutex
	tended time.Time // when it was last looked for what is due again
}

var _ lending.Inbox = (*Inbox)(nil)

const (
	group = "lending" // all replicas are one consumer in one group: claims need no names
	// tending is how often a worker looks for what is due again or stuck.
	tending = 100 * time.Millisecond
)

// NewInbox returns the inbox of that name, and makes it if there is none.
func NewInbox(ctx context.Context, client redis.UniversalClient, name string, opts *InboxOptions) (*Inbox, error) {
	var o InboxOptions
	if opts != nil {
		o = *opts
	}
	times := lending.DeduperOptions{Lease: o.Lease, Keep: o.Keep}.WithDefaults()
	name = "{" + name + "}:" // one slot of a cluster
	b := &Inbox{
		client:  client,
		options: InboxOptions{times.Lease, times.Keep},
		stream:  name + "events", later: name + "later", dead: name + "dead", seenStart: name + "seen:",
	}
	if err := b.create(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Inbox) create(ctx context.Context) error {
	err := b.client.XGroupCreateMkStream(ctx, b.stream, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}

var put = redis.NewScript(`
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('XADD', KEYS[1], '*', 'tries', '0', 'body', ARGV[1])
return 1`)

// Put implements [lending.Inbox]. It returns when Redis has the event.
func (b *Inbox) Put(ctx context.Context, event *lending.Event) error {
	body := event.Body()
	if _, err := lending.ParseEvent(body); err != nil {
		return err // made by hand: nobody could take it out
	}
	added, err := put.Run(ctx, b.client, []string{b.stream, b.seenStart + event.Key()}, body, milliseconds(b.options.Keep)).Bool()
	if err == nil && !added {
		return lending.ErrDuplicate
	}
	return err
}

// Take implements [lending.Inbox].
func (b *Inbox) Take(ctx context.Context) (*lending.InboxEntry, error) {
	for {
		start := time.Now()
		entry, err := b.tend(ctx)
		if err == nil && entry == nil {
			entry, err = b.next(ctx)
		}
		switch {
		case err != nil && entry != nil: // it would be refused each time
			return nil, errors.Join(fmt.Errorf("lendingredis: an entry was put aside: %w", err), b.Bury(ctx, entry))
		case err != nil && strings.HasPrefix(err.Error(), "NOGROUP"): // Redis has lost its data
			err = b.create(ctx)
		case err == nil && entry != nil:
			entry.Until = start.Add(b.options.Lease / 10 * 9)
			return entry, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

var promote = redis.NewScript(`
local time = redis.call('TIME')
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', time[1] * 1000 + time[2] / 1000, 'LIMIT', 0, 100)
for _, member in ipairs(due) do
	local colon = string.find(member, ':', 1, true)
	redis.call('XADD', KEYS[1], '*', 'tries', string.sub(member, 1, colon - 1), 'body', string.sub(member, colon + 1))
	redis.call('ZREM', KEYS[2], member)
end
return #due`)

// tend puts what is due again in the stream, and takes an event whose worker is stuck
// or gone. It does so now and then only.
func (b *Inbox) tend(ctx context.Context) (*lending.InboxEntry, error) {
	b.mu.Lock()
	early := time.Since(b.tended) < min(tending, b.options.Lease/4)
	if !early {
		b.tended = time.Now()
	}
	b.mu.Unlock()
	if early {
		return nil, nil //nolint:nilnil // there is none, and no error
	}
	if err := promote.Run(ctx, b.client, []string{b.stream, b.later}).Err(); err != nil {
		return nil, err
	}
	for from := "0-0"; ; {
		reply, err := claimStuck.Run(ctx, b.client, []string{b.stream}, group, milliseconds(b.options.Lease), from).Slice()
		if err != nil {
			return nil, err
		}
		if len(reply) > 1 {
			b.mu.Lock()
			b.tended = time.Time{} // there may be more
			b.mu.Unlock()
			id, _ := reply[1].(string)
			fields, _ := reply[2].([]any)
			count, _ := reply[3].(int64)
			values := map[string]any{}
			for i := 1; i < len(fields); i += 2 {
				values[fmt.Sprint(fields[i-1])] = fields[i]
			}
			return claimed(redis.XMessage{ID: id, Values: values}, count)
		}
		if from, _ = reply[0].(string); from == "0-0" {
			return nil, nil //nolint:nilnil // see above
		}
	}
}

// What is claimed again is known by its count, so that the worker before it, which may
// only be slow, cannot give it back.
//
//nolint:dupword // this is Lua
var claimStuck = redis.NewScript(`
local reply = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[1], ARGV[2], ARGV[3], 'COUNT', 1)
local message = reply[2][1]
if not message then return {reply[1]} end
local claim = redis.call('XPENDING', KEYS[1], ARGV[1], message[1], message[1], 1)[1]
return {reply[1], message[1], message[2], claim[4]}`)

// claimed returns an entry that was taken count times, each of which counts as a try.
// With an error it returns the entry too.
func claimed(message redis.XMessage, count int64) (*lending.InboxEntry, error) {
	entry, err := entryOf(message)
	entry.Tries += int(count) - 1
	entry.ID = fmt.Sprint(message.ID, "/", count)
	return entry, err
}

// next waits a moment for an event that nobody has taken.
func (b *Inbox) next(ctx context.Context) (*lending.InboxEntry, error) {
	wait := min(tending, b.options.Lease/4)
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	streams, err := b.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: group, Streams: []string{b.stream, ">"}, Count: 1, Block: max(wait, time.Millisecond),
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && (len(streams) == 0 || len(streams[0].Messages) == 0) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, err
	}
	return claimed(streams[0].Messages[0], 1)
}

// entryOf returns the entry in message. If it holds no event, as [lending.ParseEvent]
// says, that of the entry is nothing but the bytes.
func entryOf(message redis.XMessage) (*lending.InboxEntry, error) {
	body, _ := message.Values["body"].(string)
	text, _ := message.Values["tries"].(string)
	tries, _ := strconv.Atoi(text)
	event, err := lending.ParseEvent([]byte(body))
	if err != nil {
		event = new(lending.Event)
		_ = event.Record.UnmarshalJSON([]byte(body)) // takes anything
	}
	return &lending.InboxEntry{Event: event, Tries: tries + 1, ID: message.ID}, err
}

// Without a group, as after a loss of data, nothing is pending.
const pending = `
local function pending(...)
	local reply = redis.pcall('XPENDING', KEYS[1], ARGV[1], ...)
	if reply.err and not string.find(reply.err, 'NOGROUP', 1, true) then error(reply.err) end
	return reply
end`

var done = redis.NewScript(`
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
return redis.call('XDEL', KEYS[1], ARGV[2])`)

// Done implements [lending.Inbox]. What was acted on is removed also when the claim has
// ended: another may act on it by then, but nobody after that.
func (b *Inbox) Done(ctx context.Context, entry *lending.InboxEntry) error {
	id, _, _ := strings.Cut(entry.ID, "/")
	return done.Run(ctx, b.client, []string{b.stream}, group, id).Err()
}

// giveUp removes an entry if the claim is still the one that the caller has.
const giveUp = pending + `
local claim = pending(ARGV[2], ARGV[2], 1)[1]
if not claim or claim[4] ~= tonumber(ARGV[3]) then return 0 end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])`

func (b *Inbox) giveUp(ctx context.Context, script *redis.Script, to string, entry *lending.InboxEntry, arguments ...any) error {
	id, count, _ := strings.Cut(entry.ID, "/")
	return script.Run(ctx, b.client, []string{b.stream, to}, append([]any{group, id, count}, arguments...)...).Err()
}

var retryLater = redis.NewScript(giveUp + `
local time = redis.call('TIME')
return redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 + ARGV[4], ARGV[5])`)

// Retry implements [lending.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *lending.InboxEntry, wait time.Duration) error {
	member := strconv.Itoa(entry.Tries) + ":" + string(entry.Event.Body())
	return b.giveUp(ctx, retryLater, b.later, entry, wait.Milliseconds(), member)
}

var bury = redis.NewScript(giveUp + `
redis.call('XADD', KEYS[2], '*', 'tries', ARGV[4], 'body', ARGV[5])
return 1`)

// Bury implements [lending.Inbox]. [Inbox.Dead] lists what was put aside.
func (b *Inbox) Bury(ctx context.Context, entry *lending.InboxEntry) error {
	return b.giveUp(ctx, bury, b.dead, entry, entry.Tries-1, entry.Event.Body())
}

// Dead returns the events that were put aside, oldest first. One without a name holds
// what [lending.ParseEvent] refuses: [lending.Event.Body] returns it.
func (b *Inbox) Dead(ctx context.Context) ([]*lending.InboxEntry, error) {
	messages, err := b.client.XRange(ctx, b.dead, "-", "+").Result()
	if err != nil {
		return nil, err
	}
	var entries []*lending.InboxEntry
	for _, message := range messages {
		entry, _ := entryOf(message) // why it was refused was told then
		entries = append(entries, entry)
	}
	return entries, nil
}

var revive = redis.NewScript(`
if redis.call('XDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[1], '*', 'tries', '0', 'body', ARGV[2])
return 1`)

// Revive makes an event that was put aside due again, as if it had not been tried.
func (b *Inbox) Revive(ctx context.Context, entry *lending.InboxEntry) error {
	return revive.Run(ctx, b.client, []string{b.stream, b.dead}, entry.ID, entry.Event.Body()).Err()
}

var counts = redis.NewScript(pending + `
local running = pending()[1] or 0
return {redis.call('XLEN', KEYS[1]) - running + redis.call('ZCARD', KEYS[2]), running, redis.call('XLEN', KEYS[3])}`)

// Counts implements [lending.Inbox].
func (b *Inbox) Counts(ctx context.Context) (lending.InboxCounts, error) {
	n, err := counts.Run(ctx, b.client, []string{b.stream, b.later, b.dead}, group).Int64Slice()
	if err != nil {
		return lending.InboxCounts{}, err
	}
	return lending.InboxCounts{Waiting: int(n[0]), Running: int(n[1]), Dead: int(n[2])}, nil
}
