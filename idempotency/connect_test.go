package idempotency_test

import (
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

// A mutation whose connection fails is not in doubt.
func TestUnreachableServiceLeavesTheKeyFree(t *testing.T) {
	entries := store.NewMemory()
	layer := lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil)))
	token := lending.WithTokenSource(lending.StaticToken("test-token"))
	client := wire.NewClient(t, "http://127.0.0.1:1", token, layer)
	ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
	err := client.Applications.SendLink(ctx, catalog.Application)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	require.ErrorContains(t, err, "cannot connect to 127.0.0.1:1")
	assert.True(t, lending.NextOf(err).Retry)
	assert.False(t, lending.NextOf(err).Person)
	assert.Equal(t, store.Free, fake.Must(entries.Load(t.Context(), ":the/key")).State)
}
