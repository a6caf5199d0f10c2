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

	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// lateTimer is a context with a deadline that does not end it.
type lateTimer struct {
	context.Context

	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// TestDeadlineIsToldBeforeTheContextEnds: a transport can end the request before the timer of the context does.
func TestDeadlineIsToldBeforeTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
			deadline, _ := r.Context().Deadline() // which the net package reads by itself, too
			<-time.After(time.Until(deadline))
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		})
		_, err := client.Loans.Get(lateTimer{t.Context(), time.Now().Add(time.Second)}, catalog.Loan)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
