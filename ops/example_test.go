package ops_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

// The backend's own authentication names the user.
func userOf(r *http.Request) string   { return r.Header.Get("X-User") }
func isOperator(r *http.Request) bool { return userOf(r) == "dora" }

func ExampleHandler() {
	service := lendingtest.NewServer()
	defer service.Close()
	keys, inbox := fake.Must(idempotency.NewLog(store.NewMemory(), nil)), webhook.NewMemoryInbox()
	client := fake.Must(lending.New(service.URL,
		lending.WithCredentials(fake.Credentials(service)), lending.WithIdempotency(keys)))
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("/ops/", ops.Handler(ops.Options{
		Log:      keys,
		Inboxes:  map[string]webhook.DeadLetters{"webhooks": inbox},
		Sessions: map[string]*lending.Session{"service": client.Session()},
		Who:      func(r *http.Request) (name string, mayAct bool) { return userOf(r), isOperator(r) },
	}))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ops/api/keys?state=review", nil))
	fmt.Print(answer.Body)
	// Output: {"keys":[]}
}
