package guarantees_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// BenchmarkKeyedMutation sends mutations with a key, whose log is in memory. The floor is the same
// mutation without a key.
func BenchmarkKeyedMutation(b *testing.B) {
	server := httptest.NewServer(wire.Answer(http.StatusOK, "true"))
	defer server.Close()
	client := wire.NewClient(b, server.URL, withToken,
		lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
	n := 0
	versus(b,
		func() error { return client.Applications.Cancel(background, catalog.Application) },
		func() error {
			n++
			return client.Applications.Cancel(lending.WithIdempotencyKey(background, fmt.Sprint("order-", n)),
				catalog.Application)
		})
}
