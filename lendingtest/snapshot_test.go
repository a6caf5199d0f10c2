package lendingtest_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}

func TestReset(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	id := r.application()
	r.wait()
	r.SetDeliveryMode(lendingtest.DeliveryMode{Hold: true})
	r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour})
	require.Error(t, r.cancel(id).err)
	r.Fail("*", lendingtest.Fault{Status: 500, Times: -1})
	r.Answer(cancelRoute, func(http.ResponseWriter, *http.Request) {})
	r.Advance(time.Hour)
	seen := 0
	r.watch = func(lendingtest.Request, bool) { seen += len(r.Requests()) } // a watcher may call the service

	r.Reset()
	r.wait()
	r.get("/api/Application/application-status/"+id).refused(401, "TokenInvalid")
	r.token = r.Token(lendingtest.Username)
	require.Len(t, r.Requests(), 1)
	assert.Equal(t, 1, r.Requests()[0].Number)
	assert.Equal(t, 1, seen, "the watcher stays")
	assert.Empty(t, r.Deliveries())
	assert.Empty(t, r.ExecutedFor("POST /api/Application/create-application"))
	assert.Equal(t, []int{0, 0}, []int{r.Arrived(cancelRoute), r.Executed("POST /api/Application/create-application")})
	r.post("/api/Application/cancel-application/"+id, "").refused(404, "ApplicationNotFound")
	assert.WithinDuration(t, time.Now(), r.Now(), time.Minute)
	assert.Equal(t, id, r.application(), "identifiers begin again")
}
