package lendingredis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

func inbox(t *testing.T, client *redis.Client, opts *lendingredis.InboxOptions) *lendingredis.Inbox {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	inbox, err := lendingredis.NewInbox(t.Context(), client, "test", opts)
	require.NoError(t, err)
	return inbox
}

func TestConstructorsRefuseNoClient(t *testing.T) {
	_, err := lendingredis.NewInbox(t.Context(), nil, "", nil)
	require.ErrorContains(t, err, "client is nil")
}

func TestInboxKeepsItsContract(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := startRedis(t)
	storetest.Inbox(t, func(t *testing.T, lease time.Duration) func() webhook.Inbox {
		require.NoError(t, server.client().FlushAll(t.Context()).Err())
		return func() webhook.Inbox {
			return inbox(t, server.client(), &lendingredis.InboxOptions{Lease: lease, Encryption: webhooktest.Encryption()})
		}
	})
}

func event(name lending.EventName) *webhook.Event { return &webhook.Event{Name: name} }

func TestInboxPutsAsideWhatIsNoEvent(t *testing.T) {
	client := startRedis(t).client()
	inbox := inbox(t, client, nil)
	require.NoError(t,
		client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: "{test}:events",
			Values: []any{"tries", "0", "body", "{{{"},
		}).Err())
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	webhooktest.SetsAsideWhatIsNoEvent(t, inbox)
}

func TestInboxForgets(t *testing.T) {
	client := startRedis(t).client()
	keeps, forgets := inbox(t, client, nil), inbox(t, client, &lendingredis.InboxOptions{Keep: time.Millisecond})
	require.NoError(t, keeps.Put(t.Context(), event("a")))
	require.NoError(t, forgets.Put(t.Context(), event("b")))
	require.Eventually(t, func() bool { return forgets.Put(t.Context(), event("b")) == nil }, time.Minute,
		20*time.Millisecond)
	require.ErrorIs(t, forgets.Put(t.Context(), event("a")), webhook.ErrDuplicate)
}

// After a loss of data the inbox is empty, not broken.
func TestInboxAfterALossOfData(t *testing.T) {
	server := startRedis(t)
	inbox := inbox(t, server.client(), nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	taken, err := inbox.Take(t.Context())
	require.NoError(t, err)
	server.kill()
	require.Error(t, inbox.Put(t.Context(), event("b")))
	server.start(t)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{})
	require.NoError(t, inbox.Retry(t.Context(), taken, 0), "a lost event")
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 1})
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("a"), entry.Event.Name)
}

// A prefix of the address selects an inbox with a short lease.
const quickAt = "quick:"

// openStore opens the store for the receivers that the tests below start.
func openStore(store string) (webhooktest.Store, error) {
	lease := 3 * time.Second
	if address, quick := strings.CutPrefix(store, quickAt); quick {
		store, lease = address, 400*time.Millisecond
	}
	for { // Redis may be on its way back
		inbox, err := lendingredis.NewInbox(context.Background(), newRedis(store), "test",
			&lendingredis.InboxOptions{Lease: lease})
		if err == nil {
			return webhooktest.Store{Inbox: inbox}, nil
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Redis is killed with SIGKILL too, and started again from its log.
func TestNothingIsLostUnderKill(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	restarts := 0
	webhooktest.Kill(t, server.address(), func() {
		server.kill()
		server.start(t)
		restarts++
	})
	t.Logf("Redis killed and restarted %d times", restarts)
}

// The event that ends its process again and again becomes a dead letter, and the events beside it do not.
func TestKillerIsSetAsideAndInnocentsAreNot(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	webhooktest.Crash(t, quickAt+startRedis(t).address(), openStore)
}

// refuse removes commands from the rights of the tests' user.
func refuse(t *testing.T, admin *redis.Client, commands ...string) {
	t.Helper()
	rules := []any{"ACL", "SETUSER", "default"}
	for _, command := range commands {
		rules = append(rules, "-"+command)
	}
	require.NoError(t, admin.Do(t.Context(), rules...).Err())
}

// administrator is a second user, with all rights.
func administrator(t *testing.T, server *server) *redis.Client {
	t.Helper()
	require.NoError(t,
		server.client().Do(t.Context(), "ACL", "SETUSER", "admin", "on", "nopass", "~*", "&*", "+@all").Err())
	admin := redis.NewClient(&redis.Options{Addr: server.address(), Username: "admin", Password: "x"})
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

// The inbox does not remember an event that Redis refuses: its redelivery is no duplicate.
func TestInboxAcceptsNothingThatIsRefused(t *testing.T) {
	right := func(rule string) func(*redis.Client) error {
		return func(admin *redis.Client) error { return admin.Do(t.Context(), "ACL", "SETUSER", "default", rule).Err() }
	}
	for _, test := range []struct {
		name        string
		spoil, mend func(admin *redis.Client) error
	}{
		{"no right to XADD", right("-xadd"), right("+xadd")},
		{"no right to SET", right("-set"), right("+set")},
		{
			"another type",
			func(admin *redis.Client) error {
				return errors.Join(admin.Rename(t.Context(), "{test}:events", "{test}:kept").Err(),
					admin.Set(t.Context(), "{test}:events", "x", 0).Err())
			},
			func(admin *redis.Client) error {
				return admin.Rename(t.Context(), "{test}:kept", "{test}:events").Err()
			},
		},
		{
			"no id left",
			func(admin *redis.Client) error {
				return admin.XAdd(t.Context(),
					&redis.XAddArgs{
						Stream: "{test}:events", ID: "18446744073709551615-18446744073709551615",
						Values: []any{"body", "{}"},
					}).Err()
			},
			func(admin *redis.Client) error {
				return errors.Join(admin.Del(t.Context(), "{test}:events").Err(),
					admin.XGroupCreateMkStream(t.Context(), "{test}:events", "lending", "0").Err())
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := startRedis(t)
			admin, inbox := administrator(t, server), inbox(t, server.client(), nil)
			require.NoError(t, test.spoil(admin))
			for range 3 {
				err := inbox.Put(t.Context(), event("a"))
				require.Error(t, err)
				require.NotErrorIs(t, err, webhook.ErrDuplicate, "an event was acknowledged that Redis does not have")
			}
			require.NoError(t, test.mend(admin))
			require.NoError(t, inbox.Put(t.Context(), event("a")))
			webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 1})
		})
	}
}

// If Redis refuses to move an event, the event stays in its place once, and can be moved later.
func TestInboxLosesNothingThatIsRefused(t *testing.T) {
	type move func(*lendingredis.Inbox, *webhook.InboxEntry) error
	retry := func(b *lendingredis.Inbox, e *webhook.InboxEntry) error { return b.Retry(t.Context(), e, time.Hour) }
	deadLetter := func(b *lendingredis.Inbox, e *webhook.InboxEntry) error { return b.DeadLetter(t.Context(), e, nil) }
	done := func(b *lendingredis.Inbox, e *webhook.InboxEntry) error { return b.Done(t.Context(), e) }
	redrive := func(b *lendingredis.Inbox, e *webhook.InboxEntry) error {
		_, err := b.Redrive(t.Context(), e.ID)
		return err
	}
	drop := func(b *lendingredis.Inbox, e *webhook.InboxEntry) error {
		_, err := b.Drop(t.Context(), webhook.Decision{By: "tester", Why: "a test"}, e.ID)
		return err
	}
	running, dead, waiting := webhook.InboxCounts{Running: 1}, webhook.InboxCounts{DeadLetters: 1},
		webhook.InboxCounts{Waiting: 1}
	for _, test := range []struct {
		name          string
		command       string
		move          move
		before, after webhook.InboxCounts
	}{
		{"retry without ZADD", "zadd", retry, running, waiting},
		{"deadLetter without XADD", "xadd", deadLetter, running, dead},
		{"deadLetter without XDEL", "xdel", deadLetter, running, dead},
		{"done without XDEL", "xdel", done, running, webhook.InboxCounts{}},
		{"redrive without XADD", "xadd", redrive, dead, waiting},
		{"redrive without XDEL", "xdel", redrive, dead, waiting},
		{"drop without XDEL", "xdel", drop, dead, webhook.InboxCounts{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := startRedis(t)
			admin, inbox := administrator(t, server), inbox(t, server.client(), nil)
			require.NoError(t, inbox.Put(t.Context(), event("a")))
			entry, err := inbox.Take(t.Context())
			require.NoError(t, err)
			if test.before.DeadLetters > 0 {
				require.NoError(t, inbox.DeadLetter(t.Context(), entry, nil))
				letters, err := inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{})
				require.NoError(t, err)
				entry.ID = letters[0].ID
			}
			refuse(t, admin, test.command)
			for range 3 {
				require.Error(t, test.move(inbox, entry))
			}
			webhooktest.WantCounts(t, inbox, test.before)
			require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "+"+test.command).Err())
			require.NoError(t, test.move(inbox, entry))
			webhooktest.WantCounts(t, inbox, test.after)
		})
	}
}

// The inbox takes new events even if due retries cannot be moved. Take returns that error only if
// there is no new event.
func TestInboxTakesWhatIsNewAlthoughWhatIsDueIsRefused(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	admin, inbox := administrator(t, server), inbox(t, client, nil)
	require.NoError(t, inbox.Put(t.Context(), event("again")))
	again, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.NoError(t, inbox.Retry(t.Context(), again, 0))
	refuse(t, admin, "zrem")
	for _, name := range []lending.EventName{"a", "b", "c"} {
		require.NoError(t, inbox.Put(t.Context(), event(name)))
	}
	for _, name := range []lending.EventName{"a", "b", "c"} {
		entry, err := inbox.Take(t.Context())
		require.NoError(t, err)
		require.Equal(t, name, entry.Event.Name)
		require.NoError(t, inbox.Done(t.Context(), entry))
	}
	for range 3 {
		_, err = inbox.Take(t.Context())
		require.ErrorContains(t, err, "due again")
	}
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 1})
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "+zrem").Err())
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, entry.Tries)
}

// A Redis at maxmemory accepts no events, but workers handle the stored events, even workers that
// start then.
func TestFullRedisIsDrained(t *testing.T) {
	server := startRedis(t, "--maxmemory-policy", "noeviction")
	client := server.client()
	before := inbox(t, client, nil)
	const events = 40
	for i := range events {
		require.NoError(t, before.Put(t.Context(), event(lending.EventName(rune('a'+i)))))
	}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	started := inbox(t, server.client(), nil)
	require.ErrorContains(t, started.Put(t.Context(), event("new")), "OOM")

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var acted atomic.Int32
	tries := sync.Map{}
	webhook.Work(ctx, started, func(_ context.Context, event *webhook.Event) error {
		if event.Name == "a" {
			return errors.New("broken")
		}
		if _, again := tries.LoadOrStore(event.Name, true); !again {
			return errors.New("broken once")
		}
		acted.Add(1)
		return nil
	},
		&webhook.WorkOptions{
			MaxTries: 2, Backoff: func(int) time.Duration { return 20 * time.Millisecond },
			Observe: func(h webhook.Result) {
				if h.Key == "" {
					assert.NoError(t, h.Err)
				}
				if counts, err := started.Counts(t.Context()); err == nil && counts.Waiting+counts.Running == 0 {
					cancel()
				}
			},
		})
	require.EqualValues(t, events-1, acted.Load())
	webhooktest.WantCounts(t, started, webhook.InboxCounts{DeadLetters: 1})
	redriven, err := webhook.RedriveAll(t.Context(), started, webhook.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, 1, redriven)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, started.Put(t.Context(), event("new")), "it was remembered though it was refused")
}

func TestInboxWithoutRedisIsNotReady(t *testing.T) {
	server := startRedis(t)
	inbox := inbox(t, server.client(), nil)
	require.NoError(t, inbox.Ready(t.Context()))
	server.kill()
	err := inbox.Ready(t.Context())
	require.ErrorContains(t, err, "lendingredis: the inbox is not ready: ")
	require.ErrorContains(t, err, "; check Redis and the connection")
	_, err = inbox.Ages(t.Context())
	require.Error(t, err)
}
