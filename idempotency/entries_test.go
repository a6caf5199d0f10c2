package idempotency_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestReplayedResponseIsMarked captures the response of a mutation and that of its replay: the
// same body and media type, and a header that tells them apart.
func TestReplayedResponseIsMarked(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		user, bodies := fake.Newcomer(), map[string]bool{}
		for _, want := range []string{"", "replayed"} {
			var response lending.Response
			ctx := lending.CaptureResponse(lending.WithIdempotencyKey(t.Context(), "the/key"), &response)
			fake.Must(client.Applications.CreateCustomer(ctx, user))
			assert.Equal(t, "application/json; charset=utf-8", response.Header.Get("Content-Type"))
			assert.Equal(t, want, response.Header.Get("Lending-Idempotency"))
			bodies[string(response.Body)] = true
		}
		assert.Len(t, bodies, 1)
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// MaxAnswer counts itself.
func TestLargestAnswerIsKept(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		want string // the action of the next call
	}{{"of MaxAnswer", 38, idempotency.ActionReplayed}, {"larger", 37, idempotency.ActionRebuilt}} {
		t.Run(test.name, func(t *testing.T) {
			opts := &idempotency.Options{MaxAnswer: test.most}
			withStore(t, opts, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
				o := newOrder(service)
				var response lending.Response
				for range 3 { // the answer is an id in quotes
					ctx := lending.CaptureResponse(lending.WithIdempotencyKey(t.Context(), "the/key"), &response)
					fake.Must(client.Applications.Create(ctx, o.request(), nil))
				}
				assert.Equal(t, test.want, response.Header.Get("Lending-Idempotency"))
			})
		})
	}
}

// TestSweepSkipsOtherNamespacesAndYoungEntries has answers of another namespace, and answers that are younger
// than MaxLateness: a late owner may still compare itself with them.
func TestSweepSkipsOtherNamespacesAndYoungEntries(t *testing.T) {
	opts := &idempotency.Options{KeepAnswers: time.Second, Namespace: "a"}
	withStore(t, opts, func(t *testing.T, _ *lendingtest.Service, entries *tampered, _ *lending.Client) {
		for _, key := range []string{"a:1", "b:1"} {
			data := []byte(`{"request":{"route":"POST /a"},"response":{"status":200}}`)
			entry := store.Entry{Key: key, State: store.Done, Data: data}
			require.NoError(t, entries.Save(t.Context(), entry))
		}
		log := fake.Must(idempotency.NewLog(entries, opts))
		bubble.Elapse(maxLateness - time.Second)
		assert.Zero(t, fake.Must(log.Sweep(t.Context())))
		bubble.Elapse(time.Second)
		assert.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		assert.Equal(t, store.Done, fake.Must(entries.Load(t.Context(), "b:1")).State)
	})
}

// TestNamespacesShareNoLock has a mutation in doubt in one namespace: the same record is free in
// another, which stands for another service.
func TestNamespacesShareNoLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, entries := newOrder(service), store.NewMemory()
		rename := func(namespace, key string) error {
			log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Namespace: namespace}))
			_, err := processWith(t, service, log).Applications.UpdateName(
				lending.WithIdempotencyKey(t.Context(), key), o.application, "New")
			return err
		}
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, rename("a", "1"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, rename("a", "2"), idempotency.ErrLocked)
		require.NoError(t, rename("b", "2"))
	})
}

// The lock of a mutation whose record stands in the query is that of this record.
func TestSubscriptionOfACustomerHasALock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client := process()
		update := func(key string, customer lendingtest.Customer) error {
			target := lending.ForCustomer(fake.Must(lending.ParseCustomerID(customer.ID)))
			return client.Webhooks.UpdateURI(lending.WithIdempotencyKey(t.Context(), key), target,
				"https://receiver.invalid/")
		}
		ada := service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"})
		grace := service.AddCustomer(lendingtest.Customer{Email: "grace@example.com"})
		service.Fail("POST /api/Webhook/update-webhook-uri", lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, update("1", ada), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, update("2", ada), idempotency.ErrLocked)
		require.NotErrorIs(t, update("3", grace), idempotency.ErrLocked)
	})
}

// TestSweptValueHoldsNoLock repeats a mutation when the first can no longer be executed:
// a newer value need not wait.
func TestSweptValueHoldsNoLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		rename := o.renames(t, client)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, rename("older"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, rename("older"))
		require.NoError(t, rename("newer"))
	})
}

// TestListThatFailsAfterwardsIsNotCounted has the read after a mutation fail as the service
// fails for what is missing: no number is made of that.
func TestListThatFailsAfterwardsIsNotCounted(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		err := create("the/key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		assert.ErrorContains(t, err, "the current count of records is not known")
		require.NoError(t, create("the/key"), "the next read shows it")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestLateOwnerLeavesAReview has a process stand still when its answer is lost, while another
// finds that no read tells. What the first writes down then does not begin the review anew.
func TestLateOwnerLeavesAReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), 10*time.Second)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{ResetAfter: true})
		other, log, goOn := besideFrozen(t, service, false, send)
		bubble.Elapse(11 * time.Second)
		require.ErrorIs(t, send(other), idempotency.ErrNeedsReview)
		require.ErrorIs(t, goOn(), lending.ErrOutcomeUnknown)
		assert.Equal(t, store.NeedsReview, fake.Must(log.Keys(t.Context(), doubtful))[0].State)
	})
}
