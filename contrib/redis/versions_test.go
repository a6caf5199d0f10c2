package lendingredis_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/stretchr/testify/require"
)

// The token of a release is in the commands of its append-only file.
func TestTokenOfEveryReleaseIsRead(t *testing.T) {
	t.Parallel()
	released.Each(t, func(t *testing.T, folder string) {
		client, directory := startRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
		released.FillToken(t, tokenStore(t, client, "token"))
		files, err := filepath.Glob(filepath.Join(directory, "appendonlydir", "*.incr.aof"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		commands, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "commands.txt"), commands, 0o600))
	}, func(t *testing.T, folder string) {
		client, _ := startRedis(t)
		commands, err := os.ReadFile(filepath.Join(folder, "commands.txt"))
		require.NoError(t, err)
		connection, err := net.Dial("unix", client.Options().Addr)
		require.NoError(t, err)
		go func() {
			_, _ = connection.Write(commands)
			_ = connection.(*net.UnixConn).CloseWrite()
		}()
		_, err = io.Copy(io.Discard, connection)
		require.NoError(t, err)
		released.ReadToken(t, tokenStore(t, client, "token"))
	})
}

func TestTokenOfANewerReleaseStays(t *testing.T) {
	t.Parallel()
	client, _ := startRedis(t)
	tokens := tokenStore(t, client, "token")
	require.NoError(t, client.HSet(t.Context(), "token", "format", 3, "data", "hush").Err())
	before := client.Dump(t.Context(), "token").Val()
	for _, test := range []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"Load", func(ctx context.Context) error { _, err := tokens.Load(ctx); return err }},
		{"Save", func(ctx context.Context) error { return tokens.Save(ctx, stored(1, "x")) }},
		{"Acquire", func(ctx context.Context) error { _, err := tokens.Acquire(ctx, "me", time.Second); return err }},
		{"Release", func(ctx context.Context) error { return tokens.Release(ctx, "me") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.call(t.Context())
			require.ErrorContains(t, err, " was written by a newer release, at least v0.3; update this replica")
		})
	}
	require.Equal(t, before, client.Dump(t.Context(), "token").Val())
}
