package idempotency_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

const offerRoute = "GET /api/Application/application-offer/{applicationId}"

// tracedOffer answers with an offer whose trace is another UUID in each read, as well as id if
// there is one.
func tracedOffer(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wire.Answer(http.StatusOK, `{"trace":"`+uuid.NewString()+`","offer":"`+id+`"}`)(w, r)
	}
}

// TestAnotherOfferProvesNoProcessing loses the request of a processing whose application has an
// offer already, which reads otherwise each time: no field of an offer is published, so that a
// difference does not prove the processing.
func TestAnotherOfferProvesNoProcessing(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		service.Answer(offerRoute, tracedOffer("00000001-0001-4000-8000-000000000009"))
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		call := func() error {
			_, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
			return err
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		err := call()
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.ErrorContains(t, err, "the record existed before")
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
		assert.Zero(t, service.Executed(fake.ProcessRoute))
	})
}

// TestRebuiltOfferIsReadTwice loses the answer of a processing: a UUID that another read does not
// show is not the id of the offer.
func TestRebuiltOfferIsReadTwice(t *testing.T) {
	const offer = "00000001-0001-4000-8000-000000000009"
	for _, test := range []struct {
		name, id string
		want     error
	}{
		{"the id beside another UUID", offer, nil},
		{"another UUID alone", "", idempotency.ErrAnswerLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetAfter: true})
				executed, ctx := service.Executed(fake.ProcessRoute), lending.WithIdempotencyKey(t.Context(), "the/key")
				_, err := client.Applications.Process(ctx, o.application)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				service.Answer(offerRoute, tracedOffer(test.id))
				id, err := client.Applications.Process(ctx, o.application)
				require.ErrorIs(t, err, test.want)
				if test.want == nil {
					assert.Equal(t, offer, id.String())
				}
				assert.Equal(t, executed+1, service.Executed(fake.ProcessRoute))
			})
		})
	}
}
