package ops_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/orders"
)

// TestVerdictMovesTheOrder has two replicas wait for a person. The order ends within 5 seconds of
// the verdict at a replica with Resolved, and within a pass at one without.
func TestVerdictMovesTheOrder(t *testing.T) {
	t.Parallel()
	const route = "POST /api/Application/submit-bankstatement-document/{applicationId}"
	for _, test := range []struct {
		name   string
		hinted bool
		most   time.Duration
	}{{"with Resolved", true, 5 * time.Second}, {"without", false, time.Minute}} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				entries, isOpen := store.NewMemory(), new(atomic.Bool)
				isOpen.Store(true)
				application := fake.Must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
				service.Fail(route, lendingtest.Fault{ResetAfter: true})
				var handler http.Handler
				var running sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				defer running.Wait()
				defer stop()
				tokens := lending.NewMemoryTokenStore()
				for range 2 {
					log := fake.Must(idempotency.NewLog(entries, nil))
					client := fake.SignIn(t, service, nil, lending.WithIdempotency(log), lending.WithTokenStore(tokens))
					worker := fake.Must(orders.New(func(context.Context) ([]string, error) {
						if isOpen.Load() {
							return []string{"order-1"}, nil
						}
						return nil, nil
					}, func(ctx context.Context, order string) error {
						if !isOpen.Load() {
							return nil
						}
						err := client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, order+"/statement"),
							application, lending.Document{Name: "a.pdf", Content: strings.NewReader("content")})
						if err == nil {
							isOpen.Store(false)
						}
						return err
					}, nil))
					options := ops.Options{Log: log, Who: func(*http.Request) (string, bool) { return person, true }}
					if test.hinted {
						options.Resolved = func(key string) { worker.Hint(strings.TrimSuffix(key, "/statement")) }
					}
					handler = ops.Handler(options)
					running.Go(func() { _ = worker.Run(ctx) })
				}
				bubble.Elapse(20*time.Minute + 15*time.Second) // in the middle of two passes
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ops/api/resolve",
					strings.NewReader(`{"key":"order-1/statement","verdict":"happened","why":"the support has the document"}`))
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
				assert.Equal(t, http.StatusOK, answer.Code, answer.Body)
				bubble.Elapse(test.most)
				assert.False(t, isOpen.Load())
				assert.Equal(t, 1, service.Executed(route))
			})
		})
	}
}
