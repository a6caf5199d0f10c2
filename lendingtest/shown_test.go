package lendingtest_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// TestAServiceCanBePrinted prints one while it works: its maps and its lock would be
// walked otherwise.
func TestAServiceCanBePrinted(t *testing.T) {
	server := lendingtest.NewServer()
	defer server.Close()
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				server.AddLoan(lendingtest.Loan{})
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://lending.example/api/Nothing",
					nil)
				if assert.NoError(t, err) {
					resp, err := server.Transport().RoundTrip(r)
					if assert.NoError(t, err) {
						_ = resp.Body.Close()
					}
				}
			}
		}
	})
	var shown bytes.Buffer
	for range 20 {
		for _, v := range []any{
			server, server.Service,
			[]any{server.Service},
			struct{ S *lendingtest.Service }{server.Service},
		} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
				fmt.Fprintf(&shown, verb, v)
			}
			slog.New(slog.NewTextHandler(&shown, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&shown, nil)).Info("m", "v", v)
		}
	}
	close(done)
	working.Wait()
	assert.Contains(t, shown.String(), "lendingtest service")
	assert.NotContains(t, shown.String(), lendingtest.Password)
}
