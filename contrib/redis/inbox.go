package lendingredis

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// InboxOptions are what can be changed in an [Inbox]. A nil pointer and zero fields
// leave it at the defaults.
type InboxOptions struct {
	// Lease is how long a worker may act on an event before another takes it for dead.
	// The context of the function ends a little earlier.
	Lease time.Duration // 5 min
	Keep  time.Duration // how long an event is known, and its exact repetition swallowed; 72 h
	// Logger logs who drops dead letters. Nil logs nothing.
	Logger *slog.Logger
}

// Inbox is a [webhook.Inbox] in Redis, for the replicas of a receiver: a stream with a
// consumer group, a sorted set of what will be tried again, and a stream of what was
// set aside. Use Redis 6.2 or later; it may be a cluster.
//
// It keeps what Redis keeps, which contrib/README.md has as a table. To survive kill -9
// and the loss of power Redis needs "appendonly yes" and "appendfsync always"; its memory
// policy must be "noeviction": a full Redis accepts no event then, and those that it has
// can be acted on, tried again and set aside. Events lie in it as they came, codes and
// personal data included.
//
// What a process was acting on when it ended is due again when its Lease has passed.
// A process that waits for events asks Redis about twice a second; its workers notice
// the end of their context within a second.
type Inbox struct {
	client                         opaque.Value[redis.UniversalClient]
	options                        InboxOptions // without the logger
	logger                         opaque.Value[*slog.Logger]
	stream, later, dead, seenStart string
	claims                         opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
}

var _ webhook.Inbox = (*Inbox)(nil)

const group = "lending" // all replicas are one consumer in one group: claims need no names

var errNoClient = errors.New("lendingredis: the client is nil")

// NewInbox returns the inbox of that name, and makes it if there is none.
func NewInbox(ctx context.Context, client redis.UniversalClient, name string, opts *InboxOptions) (*Inbox, error) {
	if client == nil {
		return nil, errNoClient
	}
	var o InboxOptions
	if opts != nil {
		o = *opts
	}
	times := (&webhook.DeduperOptions{Lease: o.Lease, Keep: o.Keep}).WithDefaults()
	name = "{" + name + "}:" // one slot of a cluster
	b := &Inbox{
		client:  opaque.Hide(client),
		options: InboxOptions{Lease: times.Lease, Keep: times.Keep}, logger: opaque.Hide(o.Logger),
		stream: name + "events", later: name + "scheduled", dead: name + "dead-letters", seenStart: name + "seen:",
	}
	options := claimer.Options{Poll: min(tending, b.options.Lease/4), Blocks: true}
	b.claims = opaque.Hide(claimer.New[*webhook.InboxEntry](source{b}, options))
	if err := b.create(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	return b.claims().Take(ctx, false)
}

// create makes the group. It looks first: a full Redis refuses to make one that it has.
func (b *Inbox) create(ctx context.Context) error {
	err := b.client().XPending(ctx, b.stream, group).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOGROUP") {
		return err
	}
	err = b.client().XGroupCreateMkStream(ctx, b.stream, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil // another was faster
	}
	return err
}

// A script that is refused in the middle is not undone by Redis. So all of them look,
// then add, then remove or remember: what is refused in between is there twice, not lost.
const (
	// add takes back what it has added if what belongs to it is refused: the next attempt
	// would add it again.
	add = `
local function add(key, name, value, body, ...)
	local id = redis.pcall('XADD', key, '*', name, value, 'body', body)
	if type(id) == 'table' then return id end
	local reply = redis.pcall(...)
	if type(reply) == 'table' and reply.err then redis.call('XDEL', key, id) end
	return reply
end`
	// A script that has written is not refused for lack of memory: what moves an entry
	// needs none in the end. It begins with the removal of what is not there.
	move = add + `
redis.call('XDEL', KEYS[1], '0-1')`
)

var put = redis.NewScript(add + `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local reply = add(KEYS[1], 'tries', '0', ARGV[1], 'SET', KEYS[2], '1', 'PX', ARGV[2])
if reply.err then return reply end
return 1`)

// Put implements [webhook.Inbox]. It returns when Redis has the event.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return err // made by hand: nobody could take it out
	}
	added, err := put.Run(ctx, b.client(), []string{b.stream, b.seenStart + event.Key()}, body, milliseconds(b.options.Keep)).Bool()
	if err == nil && !added {
		return webhook.ErrDuplicate
	}
	return err
}

// Without a group, as after a loss of data, nothing is pending.
const pending = `
local function pending(...)
	local reply = redis.pcall('XPENDING', KEYS[1], ARGV[1], ...)
	if reply.err and not string.find(reply.err, 'NOGROUP', 1, true) then error(reply.err) end
	return reply
end`

var done = redis.NewScript(`
redis.call('XDEL', KEYS[1], ARGV[2])
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])`)

// Done implements [webhook.Inbox]. What was acted on is removed also when the claim has
// ended: another may act on it by then, but nobody after that.
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	id, _, _ := strings.Cut(entry.ID, "/")
	err := done.Run(ctx, b.client(), []string{b.stream}, group, id).Err()
	return b.claims().Ended(entry.ID, err)
}

// claimOf ends the script unless the claim is still the one that the caller has.
const claimOf = pending + `
local claim = pending(ARGV[2], ARGV[2], 1)[1]
if not claim or claim[4] ~= tonumber(ARGV[3]) then return 0 end` + move

func (b *Inbox) endClaim(ctx context.Context, script *redis.Script, to string, entry *webhook.InboxEntry, arguments ...any) error {
	id, count, _ := strings.Cut(entry.ID, "/")
	err := script.Run(ctx, b.client(), []string{b.stream, to}, append([]any{group, id, count}, arguments...)...).Err()
	return b.claims().Ended(entry.ID, err)
}

var retryLater = redis.NewScript(claimOf + `
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 + ARGV[4], ARGV[5])
redis.call('XDEL', KEYS[1], ARGV[2])
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])`)

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	member := strconv.Itoa(entry.Tries) + ":" + string(entry.Event.Body())
	err := b.endClaim(ctx, retryLater, b.later, entry, wait.Milliseconds(), member)
	if err == nil {
		b.claims().LookIn(wait)
	}
	return err
}
