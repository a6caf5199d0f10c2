package idempotency_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestUnreachableServiceLeavesTheKeyFree holds that a mutation is recorded as sent only when its
// connection is there: a process that is killed while it connects leaves no doubt.
func TestUnreachableServiceLeavesTheKeyFree(t *testing.T) {
	entries := &tampered{Store: store.NewMemory(), saved: func(entry store.Entry) error {
		assert.NotEqual(t, store.Sent, entry.State)
		return nil
	}}
	layer := lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil)))
	token := lending.WithTokenSource(lending.StaticToken("test-token"))
	client := wire.NewClient(t, "http://127.0.0.1:1", token, layer)
	ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
	err := client.Applications.SendLink(ctx, catalog.Application)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	require.ErrorContains(t, err, "cannot connect to 127.0.0.1:1")
	assert.True(t, lending.NextOf(err).Retry)
	assert.False(t, lending.NextOf(err).Person)
	if entry := fake.Must(entries.Load(t.Context(), ":the/key")); entry != nil {
		assert.Equal(t, store.Free, entry.State)
	}
}

// TestUnreachableServiceKeepsADoubt holds that a resend that is not sent does not end the doubt
// about the first send.
func TestUnreachableServiceKeepsADoubt(t *testing.T) {
	entries := store.NewMemory()
	server := httptest.NewServer(wire.Answer(http.StatusServiceUnavailable, "{}"))
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))))
	ctx := idempotency.SafeToRepeat(lending.WithIdempotencyKey(t.Context(), "the/key"))
	require.ErrorIs(t, client.Applications.SendLink(ctx, catalog.Application), lending.ErrOutcomeUnknown)
	server.Close()
	err := client.Applications.SendLink(ctx, catalog.Application)
	require.ErrorIs(t, err, idempotency.ErrInDoubt)
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	assert.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":the/key")).State)
}

// TestConnectionIsMadeBesideTheCheck has a service that answers the check when the connection of
// the mutation is there, and not before.
func TestConnectionIsMadeBesideTheCheck(t *testing.T) {
	connections := make(chan struct{}, 100)
	var checks, mutations atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			mutations.Add(1)
			wire.Answer(http.StatusOK, `{"id":"`+catalog.Loan.String()+`"}`)(w, r)
			return
		}
		for range 2 {
			<-connections
		}
		checks.Add(1)
		wire.Answer(http.StatusNotFound, `{"title":"Not Found"}`)(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
	_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), catalog.User())
	require.NoError(t, err)
	assert.EqualValues(t, 1, checks.Load())
	assert.EqualValues(t, 1, mutations.Load())
}
