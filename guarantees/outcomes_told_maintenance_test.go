package guarantees_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestPageWithAnyMediaTypeIsNoSuccess answers mutations with the page of a gateway.
func TestPageWithAnyMediaTypeIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"text/plain", "text/html", "application/json", "application/octet-stream", ""} {
		for _, name := range []string{"Applications.Cancel", "Applications.Process", "Applications.SendLink"} {
			t.Run(media+" "+name, func(t *testing.T) {
				client := afterRequest(t, wire.Reply(http.StatusOK, "<html>maintenance</html>", "Content-Type", media))
				_, err := catalog.Calls[name](t.Context(), client)
				assert.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			})
		}
	}
}

// TestEmptyAnswerShowsNoAbsence loses the response of a mutation that has run, and has a gateway in maintenance answer
// its check.
func TestEmptyAnswerShowsNoAbsence(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
	}{
		{200, ""}, {200, " \r\n"}, {200, "<html>"}, {202, ""}, {202, "[]"}, {203, "[]"}, {204, ""}, {205, ""},
	} {
		t.Run(fmt.Sprintf("%d %q", test.status, test.body), func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				d := newDesk(t, service)
				require.ErrorIs(t, creating("k", lendingtest.Fault{ResetAfter: true})(d), lending.ErrOutcomeUnknown)
				bubble.Elapse(5 * time.Minute)
				service.Answer(fake.ListRoute, wire.Answer(test.status, test.body))
				err := d.create("k")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				assert.True(t, lending.NextOf(err).Retry, "%v", err)
				service.Answer(fake.ListRoute, nil)
				require.NoError(t, d.create("k"))
				assert.Equal(t, 1, service.Executed(nextCreate))
			})
		})
	}
}

// TestEmptyAnswerShowsNoMissingCustomer has the read by e-mail address answer without a customer. The list of
// assumptions has 204 for this read; WithMissing says otherwise.
func TestEmptyAnswerShowsNoMissingCustomer(t *testing.T) {
	for _, test := range []struct {
		status   int
		body     string
		isFound  bool
		measured int // of WithMissing
	}{
		{200, "", false, 0},
		{200, " ", false, 0},
		{202, "", false, 0},
		{205, "", false, 0},
		{204, "", true, 0},
		{204, "", true, 204},
		{204, "", false, 404},
		{200, "null", true, 404},
		{404, `{"title":"Not Found"}`, true, 0},
	} {
		t.Run(fmt.Sprintf("%d %q %d", test.status, test.body, test.measured), func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				d := newDesk(t, service)
				if test.measured != 0 {
					d.signIn(nil, lending.WithMissing("Customers.GetByEmail", test.measured))
				}
				service.Answer(fake.EmailRoute, wire.Answer(test.status, test.body))
				_, err := d.client.Applications.CreateCustomer(lending.WithIdempotencyKey(d.ctx, "k"), fake.Newcomer())
				if test.isFound {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "the answer has no value and shows no absence")
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				_, err = d.client.Customers.GetByEmail(d.ctx, fake.Newcomer().Email)
				assert.True(t, lending.IsNotFound(err), "a read of the caller: %v", err)
			})
		})
	}
}
