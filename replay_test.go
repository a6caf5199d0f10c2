package lending_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
)

// TestTransportThatRepeatsIsStoppedEveryTime repeats what TestConformance tries once per
// route: the end of the context alone stops most requests on a reused connection, but
// not all.
func TestTransportThatRepeatsIsStoppedEveryTime(t *testing.T) {
	var arrivals atomic.Int32
	twice := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return resp, err
		}
		_ = resp.Body.Close()
		again := r.Clone(r.Context())
		again.Body = http.NoBody
		return http.DefaultTransport.RoundTrip(again)
	})
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		answer(http.StatusServiceUnavailable, "{}")(w, r)
	}, lending.WithHTTPClient(&http.Client{Transport: twice}))
	for range 2000 {
		assert.ErrorContains(t, client.Applications.Cancel(t.Context(), theApplication), "second time")
	}
	assert.EqualValues(t, 2000, arrivals.Load())
}
