//go:build unix

package lendingredis_test

import (
	"os"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fleettest"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

const tokenKey = "lending:token"

func TestMain(m *testing.M) {
	if fleettest.Replica(openForReplica) {
		return
	}
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	skipExamples()
	os.Exit(webhooktest.Main(m, openStore))
}

func openForReplica(address string) (lending.TokenStore, error) {
	return lendingredis.NewTokenStore(newRedis(address), tokenKey)
}

// Eight processes share a sign-in, and a refresh for each lifetime of the token. Meanwhile Redis
// is killed and comes back empty, and a process stops in the middle of a refresh.
func TestFleet(t *testing.T) {
	longrun.Kills(t)
	t.Parallel() // it waits most of the time
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	start := func() { server.start(t) }
	fleettest.Run(t, 8, fleettest.Store{
		Name: server.address(), Local: tokenStore(t, client, tokenKey),
		Empty: func() { require.NoError(t, client.FlushAll(t.Context()).Err()) },
		Kill:  server.kill, Start: start, Away: server.kill, Back: start,
	})
}
