package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// frozen is a store that keeps one process waiting after it has saved a mutation as sent, or
// before it saves the outcome.
type frozen struct {
	store.Store
	sent bool
	goOn chan struct{}
}

func (f frozen) Save(ctx context.Context, entry store.Entry) error {
	isSent := entry.State == store.Sent
	if !isSent && !f.sent {
		<-f.goOn
	}
	err := f.Store.Save(ctx, entry)
	if isSent && f.sent {
		<-f.goOn
	}
	return err
}

// besideFrozen calls a mutation in a process that stands still: after it has saved sent, or before it saves
// the outcome. It returns another process, its log, and a function that lets the first process go on to its end.
func besideFrozen(t *testing.T, service *lendingtest.Service, sent bool, call func(*lending.Client) error) (
	other *lending.Client, log *idempotency.Log, goOn func() error,
) {
	t.Helper()
	entries, wake, owned := store.NewMemory(), make(chan struct{}), make(chan error)
	owner := processWith(t, service, fake.Must(idempotency.NewLog(frozen{entries, sent, wake}, nil)))
	log = fake.Must(idempotency.NewLog(entries, nil))
	go func() { owned <- call(owner) }()
	return processWith(t, service, log), log, func() error {
		close(wake)
		return <-owned
	}
}

// TestOwnerKnowsMore freezes a process while another makes the check. The result of the first process
// counts more than a review, and less than a check with a result.
func TestOwnerKnowsMore(t *testing.T) {
	for _, test := range []struct {
		name string
		sent bool
	}{{"done", false}, {"not sent", true}} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				id := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID))
				post := func(client *lending.Client) error {
					ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "greeting"),
						10*time.Second)
					defer stop()
					return client.Communication.Post(ctx, id,
						&lending.CommunicationRequest{Extra: map[string]string{"message": "hello"}})
				}
				other, _, goOn := besideFrozen(t, service, test.sent, post)
				bubble.Elapse(11 * time.Second)
				require.ErrorIs(t, post(other), idempotency.ErrNeedsReview)
				if err := goOn(); test.sent {
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, post(other), "the owner knew")
				assert.Len(t, service.Snapshot().Applications[0].Messages, 1)
			})
		})
	}
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		user := fake.Newcomer()
		create := func(client *lending.Client) (*lending.UserResponse, error) {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "customer"), 10*time.Second)
			defer stop()
			return client.Applications.CreateCustomer(ctx, user)
		}
		other, _, goOn := besideFrozen(t, service, true, func(client *lending.Client) error {
			_, err := create(client)
			return err
		})
		bubble.Elapse(11 * time.Second)
		_, err := other.Applications.CreateCustomer(t.Context(), user) // by somebody without a key
		require.NoError(t, err)
		found, err := create(other)
		require.NoError(t, err)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(goOn()))
		replayed, err := create(other)
		require.NoError(t, err, "it has been returned as done")
		assert.Equal(t, found, replayed)
	})
}

// TestFrozenOwner freezes a process after the arrival of the answer. Another process sends the
// mutation again, which is executed late or refused.
func TestFrozenOwner(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		fault lendingtest.Fault
	}{
		{"sent again", 11 * time.Second, lendingtest.Fault{Late: maxLateness - time.Second}},
		{"refused", 11*time.Second + maxLateness, lendingtest.Fault{Status: http.StatusTooManyRequests}},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o := newOrder(service)
				older := func(client *lending.Client) error { return o.rename(t, client, "older", "Older") }
				other, _, goOn := besideFrozen(t, service, false, older)
				bubble.Elapse(test.after)
				service.Fail(renameRoute, test.fault)
				require.Error(t, older(other))
				require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), idempotency.ErrLocked)
				require.NoError(t, goOn())
				bubble.Elapse(11 * time.Second) // the send of the other has ended
				require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), idempotency.ErrLocked)
				bubble.Elapse(maxLateness)
				require.NoError(t, o.rename(t, other, "newer", "Newer"))
				require.NoError(t, older(other))
				require.NoError(t, service.Wait(t.Context()))
				assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
}

// TestFrozenOwnerFindsTheLockTaken has a process stand still with the answer in its hands
// until a person has freed the mutation, and another has the lock. The answer is kept all the same.
func TestFrozenOwnerFindsTheLockTaken(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		older := func(client *lending.Client) error { return o.rename(t, client, "older", "Older") }
		other, log, goOn := besideFrozen(t, service, false, older)
		bubble.Elapse(11 * time.Second)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, older(other), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, log.Resolve(t.Context(), "older", idempotency.Resolution{
			By: "Grace", Why: "not seen", Sends: 2, Verdict: idempotency.NotHappened(),
		}))
		bubble.Elapse(maxLateness)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), lending.ErrOutcomeUnknown)
		require.NoError(t, goOn())
		require.NoError(t, older(other))
		require.NoError(t, o.rename(t, other, "newer", "Newer"))
		assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
	})
}

// TestLateOwnerKeepsTheReview has a process stand still when its answer is lost, while another
// finds no read. The later save of the first process does not restart the review.
func TestLateOwnerKeepsTheReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), 10*time.Second)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		other, log, goOn := besideFrozen(t, service, false, send)
		bubble.Elapse(11 * time.Second)
		require.ErrorIs(t, send(other), idempotency.ErrNeedsReview)
		require.ErrorIs(t, goOn(), lending.ErrOutcomeUnknown)
		assert.Equal(t, store.NeedsReview, fake.Must(log.Keys(t.Context(), doubtful))[0].State)
	})
}

// TestDoubtThatAnotherHasEndedIsOver has a person decide NotHappened just before the resend. If the
// service rejects the resend, the mutation did not happen at all.
func TestDoubtThatAnotherHasEndedIsOver(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		_, err := client.Applications.UpdateName(ctx, o.application, "New")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		entries.save = func(store.Entry) error {
			entries.save = nil // once
			return log.Resolve(t.Context(), "the/key", says(idempotency.NotHappened()))
		}
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		_, err = client.Applications.UpdateName(ctx, o.application, "New")
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
		assert.Equal(t, store.Free, fake.Must(entries.Load(t.Context(), ":the/key")).State)
	})
}

// TestFreeMutationMakesANewCheck frees a mutation that may have left, by a person or by a refusal,
// and has another mutation of its lock happen before the resend.
func TestFreeMutationMakesANewCheck(t *testing.T) {
	for _, resolved := range []bool{true, false} {
		t.Run(fmt.Sprint(resolved), func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				create := newOrder(service).createsID(t, process())
				lost := lendingtest.Fault{ResetBefore: true}
				service.Fail(createApplicationRoute, lost)
				_, err := create("first")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				said := idempotency.Resolution{By: "Grace", Why: "looked it up", Verdict: idempotency.NotHappened()}
				require.ErrorIs(t, log.Resolve(t.Context(), "first", said), idempotency.ErrInDoubt)
				bubble.Elapse(maxLateness)
				if resolved {
					require.NoError(t, log.Resolve(t.Context(), "first", said))
				} else {
					service.Fail(createApplicationRoute, lendingtest.Fault{Status: http.StatusTooManyRequests})
					_, err = create("first")
					require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
				}
				second, err := create("second")
				require.NoError(t, err)
				service.Fail(createApplicationRoute, lost)
				_, err = create("first")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				first, err := create("first")
				require.NoError(t, err)
				assert.NotEqual(t, second, first)
				assert.Equal(t, 2, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestLatenessBeginsWithTheEndOfTheLease has a process stand still before it sends: it goes on
// when a resend is allowed, or not yet, and frees no entry of another process.
func TestLatenessBeginsWithTheEndOfTheLease(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		other, log, goOn := besideFrozen(t, service, true, func(owner *lending.Client) error {
			return o.creates(t, owner)("key")
		})
		create := o.createsID(t, other)
		bubble.Elapse(time.Minute)
		_, err := create("key")
		require.ErrorIs(t, err, idempotency.ErrInProgress)
		said := idempotency.Resolution{By: "Grace", Why: "looked it up", Verdict: idempotency.Happened(nil)}
		require.ErrorIs(t, log.Resolve(t.Context(), "key", said), idempotency.ErrInProgress)
		bubble.Elapse(maxLateness) // since the first call, and the lease is of two minutes
		_, err = create("key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		service.Fail(createApplicationRoute, lendingtest.Fault{Late: time.Minute})
		_, err = create("key")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(goOn()))
		_, err = create("key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		require.NoError(t, service.Wait(t.Context()))
		found, err := create("key")
		require.NoError(t, err)
		arrived := len(service.Requests())
		replayed, err := create("key")
		require.NoError(t, err)
		assert.Equal(t, found, replayed)
		assert.Len(t, service.Requests(), arrived, "what is found is written down")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}
