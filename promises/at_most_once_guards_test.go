package promises_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// Where a kept connection breaks net/http repeats what it takes for a read. A command that
// is a GET is not repeated because it does not look like one, and not only because it was stopped.
func TestCommandOnAConnectionThatBreaks(t *testing.T) {
	var arrivals atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if arrivals.Add(1) == 1 {
			answer(http.StatusOK, `"Approved"`)(w, r)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
		_ = conn.Close()
	}, lending.WithHTTPClient(&http.Client{Transport: &http.Transport{}}))
	_, err := client.Applications.Status(t.Context(), theApplication)
	require.NoError(t, err)
	_, err = client.Applications.Process(t.Context(), theApplication)
	require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
	assert.ErrorContains(t, err, "connection closed before the answer was complete")
	assert.EqualValues(t, 2, arrivals.Load())
}

// A command would be stopped on its way to the other place: a read shows that there is none.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		var arrivals atomic.Int32
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			arrivals.Add(1)
			w.Header().Set("Location", basePath+"/api/elsewhere")
			w.WriteHeader(status)
		})
		_, err := client.Applications.Status(t.Context(), theApplication)
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, status, failed.StatusCode)
		assert.EqualValues(t, 1, arrivals.Load())
	}
}
