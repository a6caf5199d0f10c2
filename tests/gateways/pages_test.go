package gateways_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// operator is an HTTP client of a person or of the sender of webhooks.
var operator = &http.Client{
	Transport:     &http.Transport{TLSClientConfig: trust()},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // as the page's script
}

func do(t *testing.T, method, address string, body []byte, header ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := operator.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(read)
}

// TestOpsPageBelowAPrefix reads the page and its refresh below a prefix, and pauses the log. A gateway that replaces
// the Host is named.
func TestOpsPageBelowAPrefix(t *testing.T) {
	for _, test := range []struct {
		configuration string
		mayAct        bool
	}{
		{"nginx/default", false},
		{"nginx/production", true},
		{"haproxy/default", true},
		{"haproxy/production", true},
		{"apache2/default", true}, // which sets X-Forwarded-Host
		{"apache2/production", true},
		{"caddy/default", true},
		{"caddy/production", true},
	} {
		t.Run(test.configuration, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, 0)
			log, err := idempotency.NewLog(store.NewMemory(), nil)
			require.NoError(t, err)
			o.partner = ops.Handler(ops.Options{
				Path: "/partner/ops/", Log: log, Who: func(*http.Request) (string, bool) { return "dora", true },
			})
			page := "https://" + start(t, test.configuration, o).Listen
			status, text := do(t, http.MethodGet, page+"/partner/ops/", nil)
			require.Equal(t, http.StatusOK, status, text)
			assert.Contains(t, text, "The log sends.")
			for _, part := range []string{"page.css", "page.js", "api/health"} {
				status, text := do(t, http.MethodGet, page+"/partner/ops/"+part, nil)
				require.Equal(t, http.StatusOK, status, "%s: %s", part, text)
			}
			pause := []byte(`{"why":"maintenance"}`)
			status, text = do(t, http.MethodPost, page+"/partner/ops/api/pause", pause, "Origin", page)
			if test.mayAct {
				require.Equal(t, http.StatusOK, status, text)
				_, text = do(t, http.MethodGet, page+"/partner/ops/", nil) // the refresh
				assert.Contains(t, text, "Paused: no replica sends a mutation with a key.")
				return
			}
			require.Equal(t, http.StatusForbidden, status)
			assert.Contains(t, text, "proxy_set_header Host $http_host")
		})
	}
}

// TestWebhooksReachOneOfTwoReplicas kills two replicas of a receiver in turn. An event that the receiver accepted is
// handled once, and the sender gets no false 2xx.
func TestWebhooksReachOneOfTwoReplicas(t *testing.T) {
	secret := lending.NewSecret("whs_0123456789abcdef0123456789abcdef")
	for _, product := range slices.Sorted(maps.Keys(products)) {
		configuration := product + "/production"
		t.Run(configuration, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, 0)
			inbox := webhook.NewMemoryInbox()
			receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
			require.NoError(t, err)
			o.partner = receiver
			g := start(t, configuration, o)
			var mu sync.Mutex
			handled := map[string]int{}
			ctx, stop := context.WithCancel(t.Context())
			var working sync.WaitGroup
			working.Go(func() {
				webhook.Work(ctx, inbox, func(_ context.Context, event *webhook.Event) error {
					mu.Lock()
					defer mu.Unlock()
					handled[event.Key()]++
					return nil
				}, nil)
			})
			killing := make(chan struct{})
			go func() {
				defer close(killing)
				killInTurn(t, nil, o)
			}()
			const events = 200
			refused := 0
			for n := range events {
				body := fmt.Appendf(nil, `{"id":%q,"webhookEvent":"WB_Loan_Created","data":{"n":%d}}`, uuid.NewString(), n)
				for range 20 { // as the service, which sends again
					status, _ := do(t, http.MethodPost, "https://"+g.Listen+"/partner/webhooks", body,
						webhook.SignatureHeader, lending.Sign(secret.Reveal(), body))
					if status == http.StatusNoContent {
						break
					}
					refused++
				}
			}
			<-killing
			assert.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(handled) == events
			}, 10*time.Second, time.Millisecond)
			stop()
			working.Wait()
			for event, n := range handled {
				assert.Equal(t, 1, n, event)
			}
			t.Logf("%s: %d events, %d deliveries refused", configuration, events, refused)
		})
	}
}
