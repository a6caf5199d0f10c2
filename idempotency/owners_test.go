package idempotency_test

import (
	"bytes"
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
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestDoubtThatAnotherHasEndedIsOver has a person say that a mutation has not happened while it is
// about to be sent again: what the service rejects then has not happened at all.
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
			return log.Resolve(t.Context(), "the/key", idempotency.Resolution{
				By: "ada", Why: "looked it up", Verdict: idempotency.NotHappened(),
			})
		}
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		_, err = client.Applications.UpdateName(ctx, o.application, "New")
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
		assert.Equal(t, store.Free, fake.Must(entries.Load(t.Context(), ":the/key")).State)
	})
}

// TestAnotherAccountEndsNoDoubt has the client of another service meet a mutation in doubt, in Check and by
// its lock: the reads of the other service prove nothing.
func TestAnotherAccountEndsNoDoubt(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log, sandbox := newOrder(service), fake.Must(idempotency.NewLog(entries, nil)), lendingtest.New()
		defer sandbox.Close()
		stranger := wire.NewClient(t, "https://sandbox.example", lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: sandbox.Transport()}),
			lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: sandbox})))
		state := func() store.State { return fake.Must(entries.Load(t.Context(), ":first")).State }
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, o.creates(t, client)("first"), lending.ErrOutcomeUnknown)
		second := newOrder(sandbox)
		require.Equal(t, o.customer, second.customer, "it has the same lock")
		bubble.Elapse(maxLateness)
		fake.Must(log.Check(t.Context(), stranger))
		require.Equal(t, store.InDoubt, state())
		require.NoError(t, second.creates(t, stranger)("second"))
		assert.Equal(t, store.NeedsReview, state())
		require.ErrorIs(t, o.creates(t, client)("first"), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestLockThatWasFreedMeanwhileIsTaken has the owner of a lock free it after the store has refused
// the lock to another, and before the other looks at the owner.
func TestLockThatWasFreedMeanwhileIsTaken(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		rename := o.renames(t, client)
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(rename("owner")))
		entries.save = func(store.Entry) error {
			entries.save = nil // once
			return &store.LockedError{Key: ":owner"}
		}
		require.NoError(t, rename("other"))
	})
}

// TestLockOfACheckIsWaitedForAMoment has a second mutation meet a first during its check: the wait is a
// moment, not the longest time of a check.
func TestLockOfACheckIsWaitedForAMoment(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := creating(t, service)
		var refused *idempotency.Error
		entries.saved = func(store.Entry) error {
			entries.saved = nil // once
			_, err := create(client, "second")
			require.ErrorIs(t, err, idempotency.ErrLocked)
			require.ErrorAs(t, err, &refused)
			return nil
		}
		_, err := create(client, "first")
		require.NoError(t, err)
		assert.Equal(t, time.Second, refused.RetryAfter)
	})
}

// TestLostEntryIsWrittenAgain has the store lose an entry while its mutation is under way: the
// answer is recorded, and the next call returns it.
func TestLostEntryIsWrittenAgain(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
		lose := func() { entries.Store = store.NewMemory() }
		service.Fail(fake.CreateRoute, lendingtest.Fault{Reached: lose})
		saves := 0
		entries.save = func(store.Entry) error {
			saves++
			require.Less(t, saves, 10, "it goes on for ever")
			return nil
		}
		first := fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, first, fake.Must(client.Applications.CreateCustomer(ctx, user)))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestAbsencesDoNotProveAnOffer has the service say in two ways that there is no offer.
func TestAbsencesDoNotProveAnOffer(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		status := http.StatusNotFound
		const offer = "GET /api/Application/application-offer/{applicationId}"
		service.Answer(offer, func(w http.ResponseWriter, r *http.Request) {
			wire.Answer(status, `{"title":"None","errorCode":"NotFound"}`)(w, r)
		})
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		call := func() error {
			_, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
			return err
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		status = http.StatusBadRequest
		require.ErrorIs(t, call(), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
	})
}

// TestConflictBeginsTheCallAnew has another process change an entry while this call takes the
// lock of its mutation, or frees one that nobody needs any more: the call goes on.
func TestConflictBeginsTheCallAnew(t *testing.T) {
	for _, test := range []struct {
		name string
		in   func(store.Entry) bool
	}{
		{"the lock of another command is freed", func(e store.Entry) bool {
			return e.Key == ":first" && e.Lock == ""
		}},
		{"the lock is taken before the reads", func(e store.Entry) bool {
			return e.Key == ":second" && e.State == store.Free && e.Lock != ""
		}},
		{"the command is written down", func(e store.Entry) bool {
			return e.Key == ":second" && e.State == store.Sent
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				create := o.creates(t, client)
				service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusForbidden})
				require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(create("first")), "it has the lock")
				bubble.Elapse(time.Minute)
				conflicts := 0
				entries.save = func(entry store.Entry) error {
					if conflicts == 0 && test.in(entry) {
						conflicts++
						return store.ErrConflict
					}
					return nil
				}
				require.NoError(t, create("second"))
				assert.Equal(t, 1, conflicts)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// lastSaved is a store that has what was saved, and returns what the test says.
type lastSaved struct {
	store.Store
	saved []store.Entry
	next  *store.Entry
}

func (s *lastSaved) Save(_ context.Context, entry store.Entry) error {
	entry.Revision++
	entry.Data = bytes.Clone(entry.Data)
	s.saved = append(s.saved, entry)
	return nil
}

func (s *lastSaved) Load(context.Context, string) (*store.Entry, error) { return s.next, nil }

// TestEncryptedEntryIsOfItsState returns, to an encrypted store, the data of an entry as that
// of another key, revision or state.
func TestEncryptedEntryIsOfItsState(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*store.Entry)
		want   error
	}{
		{"unchanged", func(*store.Entry) {}, nil},
		{"another key", func(e *store.Entry) { e.Key = "other" }, store.ErrCorrupt},
		{"a later revision", func(e *store.Entry) { e.Revision++ }, store.ErrCorrupt},
		{"another state", func(e *store.Entry) { e.State = store.Done }, store.ErrCorrupt},
		{"a changed byte", func(e *store.Entry) { e.Data[20] ^= 1 }, store.ErrCorrupt},
		{"no data", func(e *store.Entry) { e.Data = nil }, store.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := &lastSaved{}
			entries := fake.Must(store.NewEncrypted(inner, bytes.Repeat([]byte("k"), 32)))
			entry := store.Entry{Key: "key", State: store.Free, Lock: "lock", Data: []byte("data")}
			require.NoError(t, entries.Save(t.Context(), entry))
			inner.next = &inner.saved[0]
			test.change(inner.next)
			loaded, err := entries.Load(t.Context(), "key")
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				entry.Revision = 1
				assert.Equal(t, &entry, loaded)
			}
		})
	}
}

// TestEncryptedLocksNeedTheKey saves the same lock with two keys: what the store has of it
// differs, so that nobody without the key can tell what it is of.
func TestEncryptedLocksNeedTheKey(t *testing.T) {
	locks := map[string]bool{"lock": true}
	for _, key := range []string{"a", "b", "a"} {
		t.Run(key, func(t *testing.T) {
			inner := &lastSaved{}
			entries := fake.Must(store.NewEncrypted(inner, bytes.Repeat([]byte(key), 32)))
			entry := store.Entry{Key: "key", State: store.Free, Lock: "lock"}
			require.NoError(t, entries.Save(t.Context(), entry))
			locks[inner.saved[0].Lock] = true
		})
	}
	assert.Len(t, locks, 3, "one of each key, and none that is the plain text")
}

// TestLockedCallSaysWhenToCallAgain has a mutation in flight, which has the lock of another: the
// other says how long the first may take, and is not sent.
func TestLockedCallSaysWhenToCallAgain(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client, other := newOrder(service), process(), process()
		require.NoError(t, client.Session().SignIn(t.Context()))
		held, ended := make(chan struct{}), make(chan error)
		service.Fail(renameRoute, lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Hour})
		go func() { ended <- o.rename(t, client, "first", "First") }()
		<-held
		var refused *idempotency.Error
		err := o.rename(t, other, "second", "Second")
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, refused, idempotency.ErrLocked)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		assert.Equal(t, []string{"second", "first"}, []string{refused.Key, refused.Held})
		assert.Equal(t, 10*time.Second, refused.RetryAfter)
		require.ErrorIs(t, <-ended, lending.ErrOutcomeUnknown)
	})
}
