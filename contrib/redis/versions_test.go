package lendingredis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

// The keys of a release are the commands of its append-only file.
func TestKeysOfEveryReleaseAreRead(t *testing.T) {
	t.Parallel()
	inboxes := func(client *redis.Client, lease time.Duration) (plain, encrypted *lendingredis.Inbox) {
		var err error
		plain, err = lendingredis.NewInbox(t.Context(), client, "plain",
			&lendingredis.InboxOptions{Lease: lease, Keep: released.Keep})
		require.NoError(t, err)
		encrypted, err = lendingredis.NewInbox(t.Context(), client, "encrypted",
			&lendingredis.InboxOptions{Lease: lease, Keep: released.Keep, Encryption: released.Encryption()})
		require.NoError(t, err)
		return plain, encrypted
	}
	released.Each(t, func(t *testing.T, folder string) {
		server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
		client := server.client()
		defer client.Close()
		plain, encrypted := inboxes(client, time.Minute)
		released.FillInbox(t, plain)
		released.FillInbox(t, encrypted)
		released.FillEntries(t, storeOf(client, "entries"))
		released.FillToken(t, tokenStore(t, client, "token"))
		files, err := filepath.Glob(filepath.Join(server.directory, "appendonlydir", "*.incr.aof"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		commands, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "commands.txt"), commands, 0o600))
	}, func(t *testing.T, folder string) {
		server := startRedis(t)
		commands, err := os.ReadFile(filepath.Join(folder, "commands.txt"))
		require.NoError(t, err)
		connection, err := net.Dial("unix", server.address())
		require.NoError(t, err)
		go func() {
			_, _ = connection.Write(commands)
			_ = connection.(*net.UnixConn).CloseWrite()
		}()
		_, err = io.Copy(io.Discard, connection)
		require.NoError(t, err)
		client := server.client()
		defer client.Close()
		plain, encrypted := inboxes(client, 300*time.Millisecond)
		released.ReadInbox(t, plain)
		released.ReadInbox(t, encrypted)
		released.ReadEntries(t, storeOf(client, "entries"))
		released.ReadToken(t, tokenStore(t, client, "token"))
	})
}

func TestKeysOfANewerReleaseStay(t *testing.T) {
	t.Parallel()
	client := startRedis(t).client()
	defer client.Close()
	entries, tokens := storeOf(client, "entries"), tokenStore(t, client, "token")
	first := store.Entry{Key: "a", State: store.Sent, Data: []byte("data")}
	require.NoError(t, entries.Save(t.Context(), first))
	require.NoError(t, client.HSet(t.Context(), "{idempotency:entries}:clock", "format", 3).Err())
	require.NoError(t, client.HSet(t.Context(), "token", "format", 3, "data", "hush").Err())
	require.NoError(t, client.Set(t.Context(), "{test}:format", 3, 0).Err())
	dump := func() (all []string) {
		for _, key := range client.Keys(t.Context(), "*").Val() {
			all = append(all, key+client.Dump(t.Context(), key).Val())
		}
		return all
	}
	before := dump()
	for name, call := range map[string]func(context.Context) error{
		"Load of an entry": func(ctx context.Context) error { _, err := entries.Load(ctx, "a"); return err },
		"Save of an entry": func(ctx context.Context) error {
			return entries.Save(ctx, store.Entry{Key: "b", State: store.Sent})
		},
		"Replace": func(ctx context.Context) error {
			_, err := entries.Replace(ctx, []store.Entry{{Key: "a", Revision: 1}})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := entries.List(ctx, store.Filter{States: []store.State{store.Sent}, Limit: 1})
			return err
		},
		"Load of a token": func(ctx context.Context) error { _, err := tokens.Load(ctx); return err },
		"Save of a token": func(ctx context.Context) error { return tokens.Save(ctx, stored(1, "x")) },
		"Acquire":         func(ctx context.Context) error { _, err := tokens.Acquire(ctx, "me", time.Second); return err },
		"Release":         func(ctx context.Context) error { return tokens.Release(ctx, "me") },
		"NewInbox": func(ctx context.Context) error {
			_, err := lendingredis.NewInbox(ctx, client, "test", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, call(t.Context()), " was written by a newer release, at least v0.3; update this replica")
		})
	}
	require.ElementsMatch(t, before, dump())
}

// An event with an unknown encryption key waits for another process, and is no dead letter.
func TestEncryptedEventWaitsForItsKey(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := server.client()
	with := inbox(t, client, &lendingredis.InboxOptions{Encryption: released.Encryption()})
	require.NoError(t, with.Put(t.Context(), event("E")))
	without := inbox(t, server.client(), nil)
	_, err := without.Take(t.Context())
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
	counts, err := without.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, webhook.InboxCounts{Waiting: 1}, counts)
	later, err := client.ZRange(t.Context(), "{test}:scheduled", 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, "0:\x00\x01", later[0][:4], "the claim is no try")
	_, err = without.Erase(t.Context(), webhook.Decision{By: "kim", Why: "asked"}, "the person's id")
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
}

// A stream keeps the bytes of a deleted event until the events beside it are gone: the dump has the
// events that the stream lists.
func TestErasedCustomerIsInNoDump(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	require.NoError(t, client.ConfigSet(t.Context(), "rdbcompression", "no").Err())
	inbox, err := lendingredis.NewInbox(t.Context(), client, "inbox", nil)
	require.NoError(t, err)
	storetest.Erase(t, storeOf(client, "entries"), inbox, func() (all string) {
		for _, key := range client.Keys(t.Context(), "*").Val() {
			value := client.Dump(t.Context(), key).Val()
			if client.Type(t.Context(), key).Val() == "stream" {
				value = fmt.Sprint(client.XRange(t.Context(), key, "-", "+").Val())
			}
			all += key + value + "\n"
		}
		return all
	})
}
