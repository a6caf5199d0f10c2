package lendingredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
)

// tending is how often a process looks for what others have left, or have made due,
// and how long a worker waits in Redis, which the end of its context does not cut short.
const tending = time.Second

// aloneAfter is how many tries have not ended of what is acted on alone from then on: it
// may have ended the process each time.
const aloneAfter = 2

// claimer is what the workers of this process share. One of them waits in Redis for all,
// so that few commands are sent while nothing happens.
type claimer struct {
	turn chan struct{} // held by the worker that waits in Redis

	mu        sync.Mutex
	changed   chan struct{}        // closed and made anew when something may be taken again
	look      time.Time            // when to look again for what is due or stuck
	reading   int                  // workers that Redis may give an event
	running   map[string]time.Time // until when the entries are this process's, by ID
	deciding  bool                 // whether something may be alone
	exclusive bool                 // what is running is alone
	wanted    bool                 // an entry waits to be alone
}

func newClaimer() *claimer {
	return &claimer{turn: make(chan struct{}, 1), changed: make(chan struct{}), running: map[string]time.Time{}}
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	for first := true; ; first = false {
		entry, err := b.try(ctx, first)
		switch {
		case err != nil && entry != nil: // it would be refused each time
			return nil, errors.Join(fmt.Errorf("lendingredis: an entry is now a dead letter: %w", err), b.DeadLetter(ctx, entry))
		case err != nil && strings.HasPrefix(err.Error(), "NOGROUP"): // Redis has lost its data
			err = b.create(ctx)
		case entry != nil:
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

// try looks for what is due or stuck if it is time, and else for what is new: also if
// what is due could not be had.
func (b *Inbox) try(ctx context.Context, first bool) (*webhook.InboxEntry, error) {
	var failed error
	if b.claimer().isTime(b.interval()) {
		entry, err := b.tend(ctx)
		if entry != nil {
			return entry, err
		}
		failed = err
	}
	entry, err := b.next(ctx, first)
	if entry == nil && err == nil {
		err = failed
	}
	return entry, err
}

func (b *Inbox) interval() time.Duration { return min(tending, b.options.Lease/4) }

// tend puts what is due again in the stream, and takes what was taken and not given back
// in time: of several what was taken the least often, so that each gets its turn however
// often the process ends. If that is one that nothing may run beside, it says so.
//
//nolint:dupword // keys and arguments
var tend = redis.NewScript(move + `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local refused = ''
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
	local colon = string.find(member, ':', 1, true)
	local reply = add(KEYS[1], string.sub(member, 1, colon - 1), string.sub(member, colon + 1), 'ZREM', KEYS[2], member)
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
if not least then return {wait, refused, 0} end
if least[4] > tonumber(ARGV[3]) then return {wait, refused, least[4]} end
local message = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[1], ARGV[2], least[1])[1]
if not message then
	redis.call('XACK', KEYS[1], ARGV[1], least[1])
	return {0, refused, 0}
end
return {wait, refused, least[4], message[1], message[2]}`)

func (b *Inbox) tend(ctx context.Context) (entry *webhook.InboxEntry, err error) {
	start, alone := time.Now(), false
	unended, reserved := b.claimer().reserve()
	defer func() { b.claimer().decided(reserved, entry, alone) }() // also if a hook of the client's panics
	reply, err := tend.Run(ctx, b.client(), []string{b.stream, b.later}, group, milliseconds(b.options.Lease), unended).Slice()
	if err != nil {
		return nil, err
	}
	wait, _ := reply[0].(int64)
	refused, _ := reply[1].(string)
	tries, _ := reply[2].(int64) // that did not end
	alone = tries >= aloneAfter
	if wait >= 0 && refused == "" {
		b.claimer().lookIn(time.Duration(wait)*time.Millisecond + time.Millisecond)
	}
	if refused != "" {
		err = fmt.Errorf("lendingredis: what is due again: %s", refused)
	}
	if len(reply) < 4 {
		return nil, err
	}
	b.claimer().lookIn(0) // there may be more
	id, _ := reply[3].(string)
	fields, _ := reply[4].([]any)
	values := map[string]any{}
	for i := 1; i < len(fields); i += 2 {
		values[fmt.Sprint(fields[i-1])] = fields[i]
	}
	return b.claimed(redis.XMessage{ID: id, Values: values}, tries+1, start)
}

// next waits for an event that nobody has taken. Before a worker waits for its turn to
// wait it asks once, so that those with much to do are not in each other's way.
func (b *Inbox) next(ctx context.Context, first bool) (*webhook.InboxEntry, error) {
	if first {
		if entry, err := b.read(ctx, -1); entry != nil || err != nil {
			return entry, err
		}
	}
	timer := time.NewTimer(b.claimer().wait(ctx))
	defer timer.Stop()
	select {
	case b.claimer().turn <- struct{}{}:
		defer func() { <-b.claimer().turn }()
		return b.read(ctx, b.claimer().wait(ctx))
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil //nolint:nilnil // there is none, and no error
}

func (b *Inbox) read(ctx context.Context, block time.Duration) (entry *webhook.InboxEntry, err error) {
	if changed := b.claimer().begin(); changed != nil {
		if block >= 0 {
			_ = backoff.Wait(ctx, block, changed)
		}
		return nil, nil //nolint:nilnil // see above
	}
	start := time.Now()
	defer func() { b.claimer().end(entry) }() // also if a hook of the client's panics
	streams, err := b.client().XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: group, Streams: []string{b.stream, ">"}, Count: 1, Block: block,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil //nolint:nilnil // see above
	case err == nil && len(streams) > 0 && len(streams[0].Messages) > 0:
		return b.claimed(streams[0].Messages[0], 1, start)
	}
	return nil, err
}

// claimed returns an entry that was taken count times since it was put or tried last. With
// an error, which says that it holds no event, it returns the bytes as an event. A claim
// is known by its count too, so that the worker before it, which may only be slow, cannot
// give it back.
func (b *Inbox) claimed(message redis.XMessage, count int64, start time.Time) (*webhook.InboxEntry, error) {
	entry, err := entryOf(message)
	entry.Crashes = int(max(0, count-1-aloneAfter))
	entry.ID = fmt.Sprint(message.ID, "/", count)
	entry.Until = start.Add(b.options.Lease / 10 * 9)
	return entry, err
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

// isTime reports whether to look for what is due, and if so has nobody else do it.
func (c *claimer) isTime(interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.look) {
		return false
	}
	c.look = now.Add(interval)
	return true
}

func (c *claimer) lookIn(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(wait); at.Before(c.look) {
		c.look = at
	}
}

// wait is how long until it is time to look, or until ctx ends.
func (c *claimer) wait(ctx context.Context) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.look
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return max(time.Until(until), time.Millisecond)
}

// reserve returns how many tries may not have ended of what can be taken now. If it is
// any number nothing else is taken until that is decided.
func (c *claimer) reserve() (unended int, reserved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, until := range c.running {
		if time.Now().After(until) {
			delete(c.running, id) // it is another's now
		}
	}
	c.exclusive = c.exclusive && len(c.running) > 0
	switch {
	case c.exclusive || c.deciding:
		return 0, false
	case c.reading > 0 || len(c.running) > 0:
		return aloneAfter - 1, false
	}
	c.deciding = true
	return math.MaxInt32, true
}

// decided notes what became of it.
func (c *claimer) decided(reserved bool, entry *webhook.InboxEntry, alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reserved {
		c.deciding = false
	}
	c.wanted = alone && entry == nil
	if entry != nil {
		c.running[entry.ID] = entry.Until
		c.exclusive = c.exclusive || alone
	}
	c.notify()
}

// begin notes that Redis may give an event, unless none may be taken: then it returns
// what to wait for.
func (c *claimer) begin() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deciding || c.exclusive || c.wanted {
		return c.changed
	}
	c.reading++
	return nil
}

func (c *claimer) end(entry *webhook.InboxEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	if entry != nil {
		c.running[entry.ID] = entry.Until
	}
	c.drained()
}

// ended notes that an entry is not running here any more, unless err says that Redis
// does not know that, and returns err.
func (c *claimer) ended(entry *webhook.InboxEntry, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.running[entry.ID]; running && err == nil {
		delete(c.running, entry.ID)
		c.drained()
	}
	return err
}

// drained lets what waits for the end of all that is running go on. The caller holds
// the lock.
func (c *claimer) drained() {
	if (c.exclusive || c.wanted) && c.reading == 0 && len(c.running) == 0 {
		c.exclusive, c.look = false, time.Time{}
		c.notify()
	}
}

func (c *claimer) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}
