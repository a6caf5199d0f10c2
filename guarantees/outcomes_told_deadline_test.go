package guarantees_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// dialling is a transport that reads the deadline of a request by itself, as the net package does.
type dialling struct{}

func (dialling) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	<-time.After(time.Until(deadline))
	return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
}

// lateTimer is a context with a deadline that does not end it.
type lateTimer struct {
	context.Context

	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// TestDeadlineIsToldBeforeTheContextEnds: a transport can end the request before the timer of the context does.
func TestDeadlineIsToldBeforeTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := lending.WithHTTPClient(&http.Client{Transport: dialling{}})
		client := wire.NewClient(t, "https://lending.example", withToken, own)
		_, err := client.Loans.Get(lateTimer{t.Context(), time.Now().Add(time.Second)}, catalog.Loan)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
