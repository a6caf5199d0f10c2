package lendingtest_test

import (
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
		r := newRig(t)
		r.Fail(route, lendingtest.Fault{DelayBefore: 3 * time.Second})
		for _, r.token = range []string{r.token, "nobody's"} {
			r.get("/api/Webhook/get-all-subscriptions")
		}
		requests := r.Requests()
		require.Len(t, requests, 2)
		assert.Equal(t, lendingtest.Username, requests[0].Username, "also where the answer is a 403")
		assert.Equal(t, 3*time.Second, requests[0].Duration)
		assert.Empty(t, requests[1].Username)
		assert.Zero(t, requests[1].Duration)
		assert.Equal(t, []int{1, 2}, []int{requests[0].Number, requests[1].Number})
	})
}
