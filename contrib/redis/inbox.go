package lendingredis

import (
	"context"
	"errors"
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
		messages, next, err := b.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: b.stream, Group: group, Consumer: group, MinIdle: b.options.Lease, Start: from, Count: 1,
		}).Result()
		if err != nil {
			return nil, err
		}
		if len(messages) > 0 {
			return b.stuck(ctx, messages[0])
		}
		if from = next; from == "0-0" {
			return nil, nil //nolint:nilnil // see above
		}
	}
}

// stuck returns an entry that was taken before, which counts as a try each time.
func (b *Inbox) stuck(ctx context.Context, message redis.XMessage) (*lending.InboxEntry, error) {
	pending, err := b.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: b.stream, Group: group, Start: message.ID, End: message.ID, Count: 1,
	}).Result()
	if err != nil {
		return nil, err
	}
	entry, err := entryOf(message)
	if err == nil && len(pending) > 0 {
		entry.Tries += int(pending[0].RetryCount) - 1
	}
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
	return entryOf(streams[0].Messages[0])
}

func entryOf(message redis.XMessage) (*lending.InboxEntry, error) {
	body, _ := message.Values["body"].(string)
	text, _ := message.Values["tries"].(string)
	tries, _ := strconv.Atoi(text)
	event, err := lending.ParseEvent([]byte(body))
	if err != nil {
		return nil, err
	}
	return &lending.InboxEntry{Event: event, Tries: tries + 1, ID: message.ID}, nil
}

var done = redis.NewScript(`
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
return redis.call('XDEL', KEYS[1], ARGV[2])`)

// Done implements [lending.Inbox].
func (b *Inbox) Done(ctx context.Context, entry *lending.InboxEntry) error {
	return done.Run(ctx, b.client, []string{b.stream}, group, entry.ID).Err()
}

var retryLater = redis.NewScript(`
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
local time = redis.call('TIME')
return redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 + ARGV[3], ARGV[4])`)

// Retry implements [lending.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *lending.InboxEntry, wait time.Duration) error {
	member := strconv.Itoa(entry.Tries) + ":" + string(entry.Event.Body())
	return retryLater.Run(ctx, b.client, []string{b.stream, b.later}, group, entry.ID, wait.Milliseconds(), member).Err()
}

var bury = redis.NewScript(`
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('XADD', KEYS[2], '*', 'tries', ARGV[3], 'body', ARGV[4])
return 1`)

// Bury implements [lending.Inbox]. [Inbox.Dead] lists what was put aside.
func (b *Inbox) Bury(ctx context.Context, entry *lending.InboxEntry) error {
	return bury.Run(ctx, b.client, []string{b.stream, b.dead}, group, entry.ID, entry.Tries-1, entry.Event.Body()).Err()
}

// Dead returns the events that were put aside, oldest first.
func (b *Inbox) Dead(ctx context.Context) ([]*lending.InboxEntry, error) {
	messages, err := b.client.XRange(ctx, b.dead, "-", "+").Result()
	if err != nil {
		return nil, err
	}
	var entries []*lending.InboxEntry
	for _, message := range messages {
		entry, err := entryOf(message)
		if err != nil {
			return nil, err
		}
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

var counts = redis.NewScript(`
local running = redis.call('XPENDING', KEYS[1], ARGV[1])[1]
return {redis.call('XLEN', KEYS[1]) - running + redis.call('ZCARD', KEYS[2]), running, redis.call('XLEN', KEYS[3])}`)

// Counts implements [lending.Inbox].
func (b *Inbox) Counts(ctx context.Context) (lending.InboxCounts, error) {
	n, err := counts.Run(ctx, b.client, []string{b.stream, b.later, b.dead}, group).Int64Slice()
	if err != nil {
		return lending.InboxCounts{}, err
	}
	return lending.InboxCounts{Waiting: int(n[0]), Running: int(n[1]), Dead: int(n[2])}, nil
}
