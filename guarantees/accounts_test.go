package guarantees_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
)

// A name with a space is another name. A key would then belong to nobody's account.
func TestNameOfAnAccountHasNoSpaces(t *testing.T) {
	for _, name := range []string{"acme ", " acme", "acme\n", "\u00a0acme", " ", ""} {
		_, err := lending.New("https://lending.example", lending.WithAccount(name))
		assert.ErrorContains(t, err, "WithAccount needs a name without spaces around it", "%q", name)
	}
	for _, name := range []string{"acme", "acme production"} {
		client, err := lending.New("https://lending.example", lending.WithAccount(name))
		require.NoError(t, err)
		client.Close()
	}
}

// The clients of fifty accounts share a process, a log and a page. Each loses the response of its
// mutation, and each customer exists once. No account goes on with a key of another.
func TestFiftyAccountsInAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const accounts = 50
		log, err := idempotency.NewLog(store.NewMemory(), nil)
		require.NoError(t, err)
		var services [accounts]*lendingtest.Service
		var clients [accounts]*lending.Client
		sessions := map[string]*lending.Session{}
		create := func(n int, account string) error {
			ctx := lending.WithIdempotencyKey(t.Context(), account+"/order-1/create-customer")
			_, err := clients[n].Applications.CreateCustomer(ctx, fake.Ada())
			return err
		}
		var working sync.WaitGroup
		for n := range accounts {
			account := fmt.Sprintf("account-%02d", n)
			services[n] = lendingtest.New()
			defer services[n].Close() //nolint:gocritic // a service for each account, until the end of the test
			services[n].Fail(fake.CreateRoute, lendingtest.Fault{ResetAfter: true})
			clients[n] = fake.SignIn(t, services[n], nil, lending.WithAccount(account), lending.WithIdempotency(log))
			sessions[account] = clients[n].Session()
			working.Go(func() {
				for err := create(n, account); err != nil; err = create(n, account) {
					next := lending.NextOf(err)
					if !assert.True(t, next.Retry, "%v", err) {
						return
					}
					bubble.Elapse(next.After)
				}
			})
		}
		working.Wait()
		assert.ErrorIs(t, create(1, "account-00"), idempotency.ErrOtherAccount)
		for n, service := range services {
			assert.Equal(t, 1, service.Executed(fake.CreateRoute), n)
		}
		page := httptest.NewRecorder()
		ops.Handler(ops.Options{Log: log, Sessions: sessions}).ServeHTTP(page,
			httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "/ops/api/sessions", nil))
		var shown []struct {
			Name     string
			SignedIn bool
		}
		require.NoError(t, json.Unmarshal(page.Body.Bytes(), &shown))
		require.Len(t, shown, accounts)
		for n, session := range shown {
			assert.Equal(t, fmt.Sprintf("account-%02d", n), session.Name)
			assert.True(t, session.SignedIn)
		}
	})
}
