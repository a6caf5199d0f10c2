package lendingredis

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// InboxOptions change an [Inbox]. A nil pointer and zero fields mean the defaults.
type InboxOptions struct {
	// Lease is the longest time for handling an event. Afterwards another worker takes the
	// event, because the first process may be dead. The context of the function ends a little
	// earlier.
	Lease time.Duration // 5 min
	Keep  time.Duration // how long an exact redelivery of an event is recognized and dropped; 72 h
	// Encryption encrypts the events in Redis. Nil stores them in plain text.
	Encryption *webhook.Encryption
}

// Inbox is a [webhook.Inbox] in Redis, for the replicas of a receiver. Use Redis 6.2 or later;
// Redis may be a cluster. The inbox is a stream with a consumer group, a sorted set of the
// events to try again, and a stream of the dead letters.
//
// To survive kill -9 and the loss of power, Redis needs "appendonly yes" and "appendfsync
// always". The memory policy must be "noeviction": a full Redis then accepts no new event, but
// workers can still handle, retry and set aside the stored events. contrib/README.md has a table
// of the settings. Without Encryption, Redis holds the events in plain text, including codes and
// personal data.
//
// If a process dies, its events are due again after Lease, and up to half of Lease later at
// different times. A process that waits for
// events asks Redis about twice a second. Its workers return within a second after the end of
// their context.
type Inbox struct {
	client                         opaque.Value[redis.UniversalClient]
	options                        InboxOptions
	stream, later, dead, seenStart string
	removed                        string // list of who removed an event, and why, the newest first
	format                         string // version of these keys; version 1 without the key
	claims                         opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
}

var _ webhook.Inbox = (*Inbox)(nil)

// keysVersion is the version of the keys of each store. A key or field "format" has a newer one.
const keysVersion format.Version = 1

// ofNewer returns the error of a script that has met keys of a newer release.
func ofNewer(err error, name string) error {
	if err == nil {
		return nil
	}
	if text, newer := strings.CutPrefix(err.Error(), "NEWER "); newer {
		written, _, _ := strings.Cut(text, " ")
		version, _ := strconv.Atoi(written)
		return cmp.Or(format.Version(version).Check(keysVersion, name), err)
	}
	return err
}

const group = "lending" // all replicas share a consumer and its group

// NewInbox returns the inbox with a name, and creates the inbox if it does not exist.
func NewInbox(ctx context.Context, client redis.UniversalClient, name string, opts *InboxOptions) (*Inbox, error) {
	if client == nil {
		return nil, errors.New("lendingredis: the client is nil")
	}
	o := *cmp.Or(opts, new(InboxOptions))
	claimer.SetDefault(&o.Lease, 5*time.Minute)
	claimer.SetDefault(&o.Keep, 72*time.Hour)
	name = "{" + name + "}:" // one slot of a cluster
	b := &Inbox{
		client:  opaque.Hide(client),
		options: o,
		stream:  name + "events", later: name + "scheduled", dead: name + "dead-letters", seenStart: name + "seen:",
		removed: name + "removed", format: name + "format",
	}
	options := claimer.Options{Poll: min(tending, b.options.Lease/4), Blocks: true}
	b.claims = opaque.Hide(claimer.New[*webhook.InboxEntry](source{b}, options))
	if err := b.create(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 1) }

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	return b.claims().Take(ctx, false)
}

// create creates the group if there is none. The check comes first, because a full Redis refuses
// to create a group even if the group exists.
func (b *Inbox) create(ctx context.Context) error {
	written, err := b.client().Get(ctx, b.format).Int()
	if err == nil {
		err = format.Version(written).Check(keysVersion, "the inbox in Redis")
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	err = b.client().XPending(ctx, b.stream, group).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOGROUP") {
		return err
	}
	err = b.client().XGroupCreateMkStream(ctx, b.stream, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil // another process was faster
	}
	return err
}

// Redis does not undo a script that fails midway. So all scripts read first, then add, and then
// remove. If a script fails in between, an event is there twice, but is not lost.
const (
	// add removes the added entry if the next command fails. Otherwise the next try would add a
	// second entry.
	add = `
local function add(key, name, value, body, ...)
	local id = redis.pcall('XADD', key, '*', name, value, 'body', body)
	if type(id) == 'table' then return id end
	local reply = redis.pcall(...)
	if type(reply) == 'table' and reply.err then redis.call('XDEL', key, id) end
	return reply
end`
	// A full Redis refuses a script only before its first write. A script that moves an entry
	// needs no additional memory in the end, so the script begins with the removal of a missing
	// entry.
	move = add + `
redis.call('XDEL', KEYS[1], '0-1')`
)

var put = redis.NewScript(add + `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local reply = add(KEYS[1], 'tries', '0', ARGV[1], 'SET', KEYS[2], '1', 'PX', ARGV[2])
if reply.err then return reply end
return 1`)

// Put implements [webhook.Inbox]. Put returns when Redis has the event.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	if _, err := webhook.Parse(event.Body()); err != nil {
		return err // a handmade event; no worker could read it
	}
	body := b.options.Encryption.Seal(event)
	added, err := put.Run(ctx, b.client(), []string{b.stream, b.seenStart + event.Key()}, body, milliseconds(b.options.Keep)).Bool()
	if err == nil && !added {
		return webhook.ErrDuplicate
	}
	return err
}

// Without a group, for example after a loss of data, no event is pending.
const pending = `
local function pending(...)
	local reply = redis.pcall('XPENDING', KEYS[1], ARGV[1], ...)
	if reply.err and not string.find(reply.err, 'NOGROUP', 1, true) then error(reply.err) end
	return reply
end`

var done = redis.NewScript(`
redis.call('XDEL', KEYS[1], ARGV[2])
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])`)

// Done implements [webhook.Inbox]. Done removes a handled event even after the end of its claim.
// Another worker may be handling the event at that time, but no worker takes it afterwards.
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	id, _, _ := strings.Cut(entry.ID, "/")
	return done.Run(ctx, b.client(), []string{b.stream}, group, id).Err()
}

// claimOf ends the script unless the caller still has the claim.
const claimOf = pending + `
local claim = pending(ARGV[2], ARGV[2], 1)[1]
if not claim or claim[4] ~= tonumber(ARGV[3]) then return 0 end` + move

func (b *Inbox) endClaim(ctx context.Context, script *redis.Script, to string, entry *webhook.InboxEntry, arguments ...any) error {
	id, count, _ := strings.Cut(entry.ID, "/")
	return script.Run(ctx, b.client(), []string{b.stream, to}, append([]any{group, id, count}, arguments...)...).Err()
}

var retryLater = redis.NewScript(claimOf + `
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 + ARGV[4], ARGV[5])
redis.call('XDEL', KEYS[1], ARGV[2])
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])`)

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	return b.due(ctx, entry, wait, entry.Tries, string(b.options.Encryption.Seal(entry.Event)))
}

// due ends the claim. The event with the stored body is due again after wait.
func (b *Inbox) due(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration, tries int, body string) error {
	err := b.endClaim(ctx, retryLater, b.later, entry, wait.Milliseconds(), strconv.Itoa(tries)+":"+body)
	if err == nil {
		b.claims().LookIn(wait)
	}
	return err
}
