package gateways_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAuditOfRepeatedProcessings has nginx send Process again to the other instance of the service. The response is of
// the second run. The service shows the offer of the last end: the audit finds the repetition if the first run ends
// last. Otherwise no read shows a repetition.
func TestAuditOfRepeatedProcessings(t *testing.T) {
	for _, test := range []struct {
		name   string
		isLate bool
		found  int
	}{
		{"the first run ends first", false, 0},
		{"the first run ends last", true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := lendingtest.New()
			t.Cleanup(service.Close)
			var arrived atomic.Int64
			first, second := make(chan struct{}), make(chan struct{}) // closed at the end of a run
			o := newOrigin(t, time.Minute, func(i *instance) {
				i.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					isProcess := strings.Contains(r.URL.Path, "/process-application/")
					if !isProcess || arrived.Add(1) > 1 {
						service.ServeHTTP(w, r)
						if isProcess {
							close(second)
						}
						return
					}
					run := func() {
						service.ServeHTTP(httptest.NewRecorder(), r.Clone(t.Context()))
						close(first)
					}
					if test.isLate {
						go func() {
							<-second
							run()
						}()
					} else {
						run()
					}
					panic(http.ErrAbortHandler)
				})
			})
			g := start(t, "nginx/default", o)
			log, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: time.Millisecond})
			require.NoError(t, err)
			client, err := lending.New("https://"+g.Listen, lending.WithTLS(trust()), lending.WithIdempotency(log),
				lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			customer, err := lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"}).ID)
			require.NoError(t, err)
			id, err := client.Applications.Create(lending.WithIdempotencyKey(t.Context(), "order/application"),
				lending.ApplicationRequest{CustomerID: customer, BusinessName: "Lovelace", BusinessZip: "94105"}, nil)
			require.NoError(t, err)
			_, err = client.Applications.AddOrUpdateBankingData(t.Context(), id, &lending.BankingDataRequest{
				Extra: map[string]any{"accounts": []lendingtest.BankAccount{{
					AccountName: "Checking", AccountNumber: "000123456789", RoutingNumber: "110000000", Balance: "48210.55",
					Transactions: []lendingtest.BankTransaction{{Date: "2026-08-03", Description: "Invoice", Amount: "12500.00"}},
				}}},
			}, nil)
			require.NoError(t, err)
			_, err = client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "order/process"), id)
			require.NoError(t, err)
			<-first
			require.Equal(t, 2, service.Snapshot().Applications[0].ProcessRuns)
			<-time.After(2 * time.Millisecond) // MaxLateness

			period := idempotency.AuditOptions{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), Client: client}
			for _, err := range log.Audit(t.Context(), period) {
				require.NoError(t, err)
			}
			result, err := log.Audited(t.Context())
			require.NoError(t, err)
			assert.Equal(t, test.found, result.Found[idempotency.Unexplained], "%+v", result.Differences)
			assert.Len(t, result.Differences, test.found)
			assert.Equal(t, 1, result.NotAuditable["GET /api/Application/process-application/{applicationId}"])
		})
	}
}
