package lendingredis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

func TestIdempotencyStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
		t.Helper()
		return func() store.Store { // a client of its own, as each process has
			client := server.client()
			t.Cleanup(func() { _ = client.Close() })
			return storeOf(client, t.Name())
		}
	})
	client := server.client()
	defer client.Close()
	left, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Greater(t, len(left), 200)
	for _, key := range left {
		require.True(t, strings.HasPrefix(key, "{idempotency:"+t.Name()+"/"), "a key in another slot: %s", key)
		ttl, err := client.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.EqualValues(t, -1, ttl, "a key that Redis would forget")
	}
}

func log(t *testing.T, client *redis.Client) *lendingredis.IdempotencyStore {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	return storeOf(client, "test")
}

// storeOf returns a store in a test server, which may lose entries.
func storeOf(client redis.UniversalClient, name string) *lendingredis.IdempotencyStore {
	options := &lendingredis.IdempotencyStoreOptions{MayLoseEntries: true}
	entries, err := lendingredis.NewIdempotencyStore(client, name, options)
	if err != nil {
		panic(err)
	}
	return entries
}

// The store detects a Redis that would lose entries before it sends the first mutation. If INFO
// fails, the store checks nothing.
func TestIdempotencyStoreNeedsARedisThatKeepsEntries(t *testing.T) {
	appends := []string{"--appendonly", "yes", "--maxmemory-policy"}
	for _, test := range []struct {
		name      string
		arguments []string
		isLoose   bool
		forbid    bool
		want      string
	}{
		{"as it comes", nil, false, false, "set appendonly yes and appendfsync always, or the option MayLoseEntries"},
		{"a policy that evicts", append(appends[:3:3], "allkeys-lru"), false, false, "set maxmemory-policy noeviction"},
		{"a policy for keys that expire", append(appends[:3:3], "volatile-lru"), false, false, ""},
		{"an append-only file", []string{"--appendonly", "yes"}, false, false, ""},
		{"meant so", nil, true, false, ""},
		{"INFO is forbidden", nil, false, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := startRedis(t, test.arguments...)
			client := server.client()
			t.Cleanup(func() { _ = client.Close() })
			if test.forbid {
				refuse(t, administrator(t, server), "info")
			}
			options := &lendingredis.IdempotencyStoreOptions{MayLoseEntries: test.isLoose}
			entries, err := lendingredis.NewIdempotencyStore(client, "test", options)
			require.NoError(t, err)
			err = entries.Save(t.Context(), sent("a", ""))
			kept, failed := entries.Load(t.Context(), "a")
			require.NoError(t, failed)
			if test.want == "" {
				require.NoError(t, err)
				require.NotNil(t, kept)
			} else {
				require.ErrorContains(t, err, test.want)
				require.Nil(t, kept)
			}
		})
	}
	_, err := lendingredis.NewIdempotencyStore(nil, "test", nil)
	require.EqualError(t, err, "lendingredis: the idempotency store needs a client and a name")
}

func sent(key, lock string) store.Entry {
	return store.Entry{Key: key, State: store.Sent, Lock: lock, Data: []byte("data of " + key)}
}

func listSent(t *testing.T, entries store.Store) (keys []string) {
	t.Helper()
	listed, err := entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 100})
	require.NoError(t, err)
	for _, entry := range listed {
		keys = append(keys, entry.Key)
	}
	return keys
}

// go-redis sends a command again after a lost response. A second try of the same Save succeeds;
// the Save of another caller conflicts.
func TestIdempotencySavesThoughTheAnswerIsLost(t *testing.T) {
	server := startRedis(t)
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: server.address(), MaxRetries: 1, ReadTimeout: 10 * time.Second,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := new(net.Dialer).DialContext(ctx, network, address)
			return &lossy{connection, &lose}, err
		},
	})
	entries := log(t, client)
	require.NoError(t, entries.Save(t.Context(), sent("a", "lock"))) // the server knows the script now
	for revision := int64(1); revision < 4; revision++ {
		entry := sent("a", "lock")
		entry.Revision = revision
		lose.Store(true)
		require.NoError(t, entries.Save(t.Context(), entry))
		require.False(t, lose.Load(), "no answer was lost")
		require.ErrorIs(t, entries.Save(t.Context(), entry), store.ErrConflict, "the same, of another")
		kept, err := entries.Load(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, revision+1, kept.Revision)
	}
	lose.Store(true)
	require.NoError(t, entries.Save(t.Context(), sent("b", "")))
}

// A Redis at maxmemory refuses new mutations, which are not sent, and accepts the outcomes of
// sent mutations.
func TestFullRedisTakesOutcomes(t *testing.T) {
	server := startRedis(t, "--maxmemory-policy", "noeviction")
	client := server.client()
	entries := log(t, client)
	for i := range 20 {
		require.NoError(t, entries.Save(t.Context(), sent(fmt.Sprint("key ", i), fmt.Sprint("lock ", i))))
	}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, entries.Save(t.Context(), sent("new", "lock of new")), "OOM")
	kept, err := entries.Load(t.Context(), "new")
	require.NoError(t, err)
	require.Nil(t, kept)
	require.Len(t, listSent(t, entries), 20)
	for i := range 20 {
		entry := sent(fmt.Sprint("key ", i), "")
		entry.Revision, entry.State, entry.Data = 1, store.Done, []byte(strings.Repeat("an answer ", 1000))
		require.NoError(t, entries.Save(t.Context(), entry))
	}
	require.Empty(t, listSent(t, entries))
	n, err := entries.Replace(t.Context(), []store.Entry{{Key: "key 3", Revision: 2}})
	require.NoError(t, err, "to delete makes room")
	require.Equal(t, 1, n)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, entries.Save(t.Context(), sent("new", "lock of new")))
}

// A script that fails midway leaves nothing that counts. The same Save succeeds when Redis
// accepts commands again.
func TestIdempotencySaveThatIsRefusedInTheMiddle(t *testing.T) {
	server := startRedis(t)
	admin, entries := administrator(t, server), log(t, server.client())
	allow := func(command string) {
		require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "+"+command).Err())
	}
	a := sent("a", "lock of a")
	require.NoError(t, entries.Save(t.Context(), a))
	a.Revision, a.State, a.Lock = 1, store.InDoubt, "another of a"

	refuse(t, admin, "zadd") // when the lock is taken
	require.Error(t, entries.Save(t.Context(), a))
	require.Error(t, entries.Save(t.Context(), sent("new", "lock of new")))
	allow("zadd")
	kept, err := entries.Load(t.Context(), "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, kept.Revision)
	kept, err = entries.Load(t.Context(), "new")
	require.NoError(t, err)
	require.Nil(t, kept)
	var held *store.LockedError
	require.ErrorAs(t, entries.Save(t.Context(), sent("b", "lock of a")), &held, "it has it still")
	require.NoError(t, entries.Save(t.Context(), sent("b", "another of a")), "it was not saved with it")
	require.NoError(t, entries.Save(t.Context(), sent("c", "lock of new")), "it was not saved with it")
	require.Equal(t, []string{"a", "b", "c"}, listSent(t, entries))

	refuse(t, admin, "zrem") // when the entry is saved
	a.Lock = "third of a"
	require.Error(t, entries.Save(t.Context(), a))
	allow("zrem")
	kept, err = entries.Load(t.Context(), "a")
	require.NoError(t, err)
	require.EqualValues(t, 2, kept.Revision, "nobody knows, but here it is saved")
	require.Equal(t, []string{"b", "c"}, listSent(t, entries))
	listed, err := entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 1})
	require.NoError(t, err)
	require.Len(t, listed, 1, "a wrong row of the index does not count")
	require.NoError(t, entries.Save(t.Context(), sent("d", "lock of a")), "it was given up")
	require.ErrorAs(t, entries.Save(t.Context(), sent("e", "third of a")), &held)
	require.Equal(t, "a", held.Key)
}

// An unreadable entry is an error, not a missing entry: its mutation is not sent.
func TestIdempotencyEntryThatCannotBeRead(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	entries := log(t, client)
	require.NoError(t, entries.Save(t.Context(), sent("a", "")))
	require.NoError(t, entries.Save(t.Context(), sent("b", "")))
	for _, test := range []struct{ field, value string }{{"revision", "x"}, {"at", ""}, {"", ""}} {
		key := "{idempotency:test}:entry:a"
		whole := client.HGetAll(t.Context(), key).Val()
		if test.field != "" {
			require.NoError(t, client.HSet(t.Context(), key, test.field, test.value).Err())
		} else {
			require.NoError(t, client.HDel(t.Context(), key, "state").Err())
		}
		_, err := entries.Load(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.Error(t, entries.Save(t.Context(), sent("a", "")))
		require.NoError(t, client.HSet(t.Context(), key, whole).Err())
	}
	require.NoError(t, client.HSet(t.Context(), "{idempotency:test}:entry:a", "revision", "x").Err())
	for _, prefix := range []string{"", "a"} {
		filter := store.Filter{Prefix: prefix, States: []store.State{store.Sent}, Limit: 2}
		listed, err := entries.List(t.Context(), filter)
		require.NoError(t, err)
		require.Len(t, listed, 2-len(prefix))
		require.Equal(t, "a", listed[0].Key)
		require.Nil(t, listed[0].Data, "it cannot be read")
	}
	require.NoError(t, client.Set(t.Context(), "{idempotency:test}:entry:c", "of another type", 0).Err())
	_, err := entries.Load(t.Context(), "c")
	require.Error(t, err)
}

// A clock that is set back makes no entry older, and ages continue from their last value.
func TestIdempotencyClockSetBack(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	entries, start := log(t, client), time.Now()
	require.NoError(t, entries.Save(t.Context(), sent("a", "")))
	const slack = 5 * time.Millisecond
	age := func() time.Duration {
		t.Helper()
		entry, err := entries.Load(t.Context(), "a")
		require.NoError(t, err)
		require.GreaterOrEqual(t, entry.Age, time.Duration(0))
		return entry.Age
	}
	move := func(by time.Duration) { // as if the server's clock had been set, since it was noted
		t.Helper()
		require.NoError(t, client.HIncrBy(t.Context(), "{idempotency:test}:clock", "server", -by.Microseconds()).Err())
	}
	move(-time.Hour)
	require.Zero(t, age())
	require.NoError(t, entries.Save(t.Context(), sent("b", ""))) // from here on it counts
	require.Eventually(t, func() bool { return age() > 20*time.Millisecond }, time.Minute, slack)
	require.LessOrEqual(t, age(), time.Since(start)+slack)
	require.NoError(t, entries.Save(t.Context(), sent("c", "")))
	require.Equal(t, []string{"a", "b", "c"}, listSent(t, entries))
	move(time.Hour)
	require.InDelta(t, time.Hour, age(), float64(time.Minute), "the documentation says so")
	require.NoError(t, entries.Save(t.Context(), store.Entry{Key: "a", Revision: 1, State: store.Sent}))
	require.LessOrEqual(t, age(), time.Since(start)+slack)
}

// Without persistence Redis forgets all entries, and the mutations are sent again.
func TestIdempotencyAfterALossOfData(t *testing.T) {
	server := startRedis(t)
	entries := log(t, server.client())
	require.NoError(t, entries.Save(t.Context(), sent("a", "lock")))
	server.kill()
	_, err := entries.Load(t.Context(), "a")
	require.Error(t, err, "nil would say that the command was never sent")
	require.Error(t, entries.Save(t.Context(), sent("b", "")))
	server.start(t)
	kept, err := entries.Load(t.Context(), "a")
	require.NoError(t, err)
	require.Nil(t, kept, "the README says that it is lost")
	require.NoError(t, entries.Save(t.Context(), sent("b", "lock")))
}

// Redis is killed with SIGKILL again and again while the workers of several processes save
// entries. Every acknowledged Save is there, with its lock, and is listed.
func TestIdempotencyUnderKill(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx, stop := context.WithCancel(t.Context())
	var saves atomic.Int64
	var saved [8]int64 // the acknowledged revisions
	entryOf := func(worker int, revision int64) store.Entry {
		entry := sent(fmt.Sprint("key ", worker), fmt.Sprintf("lock %d of %d", revision%2, worker))
		entry.Revision = revision
		return entry
	}
	var working sync.WaitGroup
	for worker := range saved {
		entries := log(t, server.client())
		working.Go(func() {
			for ctx.Err() == nil {
				kept, err := entries.Load(ctx, fmt.Sprint("key ", worker))
				if err != nil {
					continue
				}
				entry := entryOf(worker, 0)
				if kept != nil {
					entry = entryOf(worker, kept.Revision)
				}
				switch err := entries.Save(ctx, entry); {
				case err == nil:
					saved[worker] = entry.Revision + 1
					saves.Add(1)
				case errors.Is(err, store.ErrConflict), errors.As(err, new(*store.LockedError)):
					t.Errorf("%q, which nobody else saves: %v", entry.Key, err)
				}
			}
		})
	}
	for range 12 {
		before := saves.Load()
		require.Eventually(t, func() bool { return saves.Load() > before+100 }, 2*time.Minute, time.Millisecond)
		server.kill()
		server.start(t)
	}
	stop()
	working.Wait()
	server.kill() // a Save whose context has ended is executed before, or never
	server.start(t)
	entries := log(t, server.client())
	listed, err := entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 100})
	require.NoError(t, err)
	require.Len(t, listed, len(saved))
	for worker, revision := range saved {
		kept, err := entries.Load(t.Context(), fmt.Sprint("key ", worker))
		require.NoError(t, err)
		require.GreaterOrEqual(t, kept.Revision, revision)
		holds := entryOf(worker, kept.Revision-1).Lock
		require.Equal(t, holds, kept.Lock)
		require.ErrorAs(t, entries.Save(t.Context(), sent("other", holds)), new(*store.LockedError))
		free := sent(fmt.Sprint("taker ", worker), entryOf(worker, kept.Revision).Lock)
		require.NoError(t, entries.Save(t.Context(), free), "a lock that the entry has given back")
	}
	t.Logf("Redis killed 13 times, %d Saves", saves.Load())
}

// lossy drops a single response.
type lossy struct {
	net.Conn
	lose *atomic.Bool
}

func (l *lossy) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err == nil && l.lose.Swap(false) {
		_ = l.Close()
		return 0, io.EOF
	}
	return n, err
}
