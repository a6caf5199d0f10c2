package lendingtest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The request log says whose token it was, and how long the answer took.
func TestRequestsTellWhoAndHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const route = "GET /api/Webhook/get-all-subscriptions"
		s := lendingtest.New()
		defer s.Close()
		client := &http.Client{Transport: s.Transport()}
		s.Fail(route, lendingtest.Fault{DelayBefore: 3 * time.Second})
		for _, token := range []string{s.Token(lendingtest.Username), "nobody's"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://service/api/Webhook/get-all-subscriptions", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		requests := s.Requests()
		require.Len(t, requests, 2)
		assert.Equal(t, lendingtest.Username, requests[0].Username, "also where the answer is a 403")
		assert.Equal(t, 3*time.Second, requests[0].Duration)
		assert.Empty(t, requests[1].Username)
		assert.Zero(t, requests[1].Duration)
		assert.Equal(t, []int{1, 2}, []int{requests[0].Number, requests[1].Number})
	})
}
