package lendingredis_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/webhooktest"
	"github.com/redis/go-redis/v9"
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

func TestDeduper(t *testing.T) {
	client := startRedis(t).client()
	defer client.Close()
	webhooktest.Deduper(t, func(opts lending.DeduperOptions) lending.Deduper {
		return lendingredis.NewDeduper(client, "test:", opts)
	})
	left, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range left {
		ttl, err := client.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Positive(t, ttl, "a key that Redis would keep for ever")
	}
}

// The client asks again when an answer is lost on its way: that claim is its own.
func TestDeduperClaimsThoughTheAnswerIsLost(t *testing.T) {
	server := startRedis(t)
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: server.address(), MaxRetries: 1, ReadTimeout: 500 * time.Millisecond, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := new(net.Dialer).DialContext(ctx, network, address)
		return &lossy{connection, &lose}, err
	}})
	defer client.Close()
	deduper := lendingredis.NewDeduper(client, "test:", lending.DeduperOptions{})
	_, err := deduper.Claim(t.Context(), "a") // the server knows the script now
	require.NoError(t, err)
	lose.Store(true)
	claim, err := deduper.Claim(t.Context(), "b")
	require.NoError(t, err)
	require.False(t, lose.Load(), "no answer was lost")
	_, err = deduper.Claim(t.Context(), "b")
	require.ErrorIs(t, err, lending.ErrClaimed)
	require.NoError(t, claim.Release(t.Context()))
}

// lossy loses one answer.
type lossy struct {
	net.Conn
	lose *atomic.Bool
}

func (l *lossy) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err == nil && l.lose.Swap(false) {
		return 0, io.EOF
	}
	return n, err
}

func TestDeduperFailsWithoutRedis(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	deduper := lendingredis.NewDeduper(client, "test:", lending.DeduperOptions{})
	claim, err := deduper.Claim(t.Context(), "a")
	require.NoError(t, err)
	server.kill()
	_, err = deduper.Claim(t.Context(), "b")
	require.Error(t, err)
	require.NotErrorIs(t, err, lending.ErrDuplicate)
	require.Error(t, claim.Done(t.Context()))
}

func TestInbox(t *testing.T) {
	webhooktest.Inbox(t, inbox(t, startRedis(t).client(), nil))
}

func event(name lending.EventName) *lending.Event { return &lending.Event{Name: name} }

func TestInboxTakesOverFromTheDead(t *testing.T) {
	server := startRedis(t)
	one := inbox(t, server.client(), &lendingredis.InboxOptions{Lease: 300 * time.Millisecond})
	other := inbox(t, server.client(), &lendingredis.InboxOptions{Lease: 300 * time.Millisecond})
	require.NoError(t, one.Put(t.Context(), event("a")))
	for try := 1; try <= 3; try++ {
		start := time.Now()
		entry, err := other.Take(t.Context())
		require.NoError(t, err)
		require.Equal(t, try, entry.Tries, "a try that did not end counts")
		require.WithinDuration(t, start.Add(300*time.Millisecond), entry.Until, 400*time.Millisecond)
		if try > 1 {
			require.Greater(t, time.Since(start), 200*time.Millisecond)
		}
		one, other = other, one
	}
	counts, err := one.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1}, counts)
}

// A worker that was slow, and that another has taken for dead, gives back and puts
// aside what is its own only.
func TestInboxKeepsTheClaimOfAnother(t *testing.T) {
	inbox := inbox(t, startRedis(t).client(), &lendingredis.InboxOptions{Lease: 300 * time.Millisecond})
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	slow, err := inbox.Take(t.Context())
	require.NoError(t, err)
	other, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, other.Tries)
	require.NoError(t, inbox.Retry(t.Context(), slow, time.Hour))
	require.NoError(t, inbox.Bury(t.Context(), slow))
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1}, counts)
	require.NoError(t, inbox.Retry(t.Context(), other, 0))
	again, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, again.Tries)
	require.NoError(t, inbox.Bury(t.Context(), again))
	counts, err = inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Dead: 1}, counts)
}

func TestInboxPutsAsideWhatIsNoEvent(t *testing.T) {
	client := startRedis(t).client()
	inbox := inbox(t, client, nil)
	require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: "{test}:events", Values: []any{"tries", "0", "body", "{{{"}}).Err())
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	_, err := inbox.Take(t.Context())
	require.ErrorContains(t, err, "put aside")
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("a"), entry.Event.Name)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1, Dead: 1}, counts)
	dead, err := inbox.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, "{{{", string(dead[0].Event.Body()))
	require.Equal(t, 1, dead[0].Tries)
}

// One at a time and now and then would take 2 s.
func TestInboxTakesAllThatIsStuck(t *testing.T) {
	inbox := inbox(t, startRedis(t).client(), &lendingredis.InboxOptions{Lease: 500 * time.Millisecond})
	for i := range 20 {
		require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(rune('a'+i)))))
	}
	for range 20 {
		_, err := inbox.Take(t.Context())
		require.NoError(t, err)
	}
	start := time.Now()
	for range 20 {
		entry, err := inbox.Take(t.Context())
		require.NoError(t, err)
		require.NoError(t, inbox.Done(t.Context(), entry))
		require.Equal(t, 2, entry.Tries)
	}
	require.Less(t, time.Since(start), 1500*time.Millisecond)
}

func TestInboxForgets(t *testing.T) {
	inbox := inbox(t, startRedis(t).client(), &lendingredis.InboxOptions{Keep: 200 * time.Millisecond})
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), lending.ErrDuplicate)
	require.Eventually(t, func() bool { return inbox.Put(t.Context(), event("a")) == nil }, 5*time.Second, 20*time.Millisecond)
}

func TestInboxRevivesTheDead(t *testing.T) {
	inbox := inbox(t, startRedis(t).client(), nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.NoError(t, inbox.Bury(t.Context(), entry))
	dead, err := inbox.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, lending.EventName("a"), dead[0].Event.Name)
	require.Equal(t, 1, dead[0].Tries)
	require.NoError(t, inbox.Revive(t.Context(), dead[0]))
	require.NoError(t, inbox.Revive(t.Context(), dead[0]), "twice is once")
	entry, err = inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, entry.Tries)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1}, counts)
}

// Redis that has lost its data is an empty inbox, not a broken one.
func TestInboxAfterALossOfData(t *testing.T) {
	server := startRedis(t)
	inbox := inbox(t, server.client(), nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	taken, err := inbox.Take(t.Context())
	require.NoError(t, err)
	server.kill()
	require.Error(t, inbox.Put(t.Context(), event("b")))
	server.start(t)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{}, counts)
	require.NoError(t, inbox.Retry(t.Context(), taken, 0), "what is lost")
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	counts, err = inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Waiting: 1}, counts)
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("a"), entry.Event.Name)
}

// onceAt is in front of the address for a receiver with a deduper instead of an inbox.
const onceAt = "once:"

// openStore is for the receivers that the tests below start.
func openStore(store string) (webhooktest.Store, error) {
	if address, once := strings.CutPrefix(store, onceAt); once {
		return webhooktest.Store{Deduper: lendingredis.NewDeduper(newRedis(address), "test:", lending.DeduperOptions{Lease: 3 * time.Second})}, nil
	}
	for { // Redis may be on its way back
		inbox, err := lendingredis.NewInbox(context.Background(), newRedis(store), "test", &lendingredis.InboxOptions{Lease: 3 * time.Second})
		if err == nil {
			return webhooktest.Store{Inbox: inbox}, nil
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Without an inbox too: the sender is told of success after the act only.
func TestOnceUnderKill(t *testing.T) {
	t.Parallel()
	webhooktest.Kill(t, onceAt+startRedis(t).address(), nil)
}

// Redis is killed with SIGKILL too, and started again from its log.
func TestNothingIsLostUnderKill(t *testing.T) {
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
