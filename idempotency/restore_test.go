package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

const (
	linkRoute    = "POST /api/Application/send-application-link"
	confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
)

// atNight runs f with a store from a copy, after the order of the operator.
func atNight(t *testing.T, f func(*testing.T, *lendingtest.Service, *lending.Client, *idempotency.Log)) {
	t.Helper()
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(24 * time.Hour)
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(time.Second)
		f(t, service, client, log)
	})
}

func copyOfAnHourAgo() idempotency.Restoration {
	return idempotency.Restoration{By: "kim", Copy: time.Now().Add(-time.Hour)}
}

// claiming is copyOfAnHourAgo where keys claim records.
func claiming() idempotency.Restoration {
	r := copyOfAnHourAgo()
	r.Claim = true
	return r
}

// TestUnknownKeyIsLookedUpBeforeItIsSent has the service know the effect of a key, or not.
func TestUnknownKeyIsLookedUpBeforeItIsSent(t *testing.T) {
	customer := func(t *testing.T, c *lending.Client, _ order) error {
		t.Helper()
		return creation(t, c, fake.Ada())("the/key")
	}
	application := func(t *testing.T, c *lending.Client, o order) error { return o.creates(t, c)("the/key") }
	rename := func(t *testing.T, c *lending.Client, o order) error { return o.rename(t, c, "the/key", "New") }
	link := func(t *testing.T, c *lending.Client, o order) error {
		return c.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
	}
	known := func(s *lendingtest.Service) { s.AddCustomer(lendingtest.Customer{Email: fake.Ada().Email}) }
	review := idempotency.ErrNeedsReview
	for _, test := range []struct {
		name, route string
		prepare     func(*lendingtest.Service)
		call        func(*testing.T, *lending.Client, order) error
		early, late error // at once, and when MaxLateness is over
		sends       int
	}{
		{"customer that exists", fake.CreateRoute, known, customer, nil, nil, 0},
		{"customer that does not exist", fake.CreateRoute, nil, customer, idempotency.ErrInDoubt, nil, 1},
		{"several applications", createApplicationRoute, nil, application, review, review, 0},
		{"value", renameRoute, nil, rename, nil, nil, 1},
		{"no read tells", linkRoute, nil, link, review, review, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
				o := newOrder(service)
				if test.prepare != nil {
					test.prepare(service)
				}
				assert.Equal(t, lending.OutcomeUnknown, fake.Must(log.Lookup(t.Context(), "the/key")).Outcome)
				require.ErrorIs(t, test.call(t, client, o), test.early)
				require.ErrorIs(t, o.rename(t, client, "the/key", "Other"), idempotency.ErrKeyReused)
				bubble.Elapse(maxLateness)
				require.ErrorIs(t, test.call(t, client, o), test.late)
				assert.Equal(t, test.sends, service.Executed(test.route))
				counts, keys := fake.Must(log.Counts(t.Context())), fake.Must(log.Keys(t.Context(), doubtful))
				if test.late == nil {
					assert.Zero(t, counts.NeedsReview.Count)
					return
				}
				assert.Equal(t, 1, counts.NeedsReview.Count)
				assert.True(t, keys[0].NeedsPerson)
				assert.Contains(t, keys[0].Why, "restored from a copy")
				assert.Contains(t, keys[0].History[0].Why, "the store is a copy of 2000-01-01 23:00:00 UTC")
			})
		})
	}
}

// TestOrderAfterARestoreEnds has the order in force for three hours. After that an unknown key is sent at once.
func TestOrderAfterARestoreEnds(t *testing.T) {
	atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
		r := copyOfAnHourAgo()
		r.Lasts = 3 * time.Hour
		restored(t, log, r)
		bubble.Elapse(3*time.Hour - time.Minute)
		o := newOrder(service)
		ctx := lending.WithIdempotencyKey(t.Context(), "order-42/link")
		require.ErrorIs(t, client.Applications.SendLink(ctx, o.application), idempotency.ErrNeedsReview)
		require.NotNil(t, fake.Must(log.Standing(t.Context())).Restored)
		bubble.Elapse(time.Minute)
		require.Nil(t, fake.Must(log.Standing(t.Context())).Restored)
		require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(ctx, "order-43/link"), o.application))
		require.ErrorIs(t, client.Applications.SendLink(ctx, o.application), idempotency.ErrNeedsReview, "a review stays")
		assert.Equal(t, 1, service.Executed(linkRoute))
	})
}

// TestIndexEndsWithTheRestoration has a second restoration after the first: the log has kept nothing in between.
func TestIndexEndsWithTheRestoration(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		list := &hiding{Store: entries.Store}
		entries.Store = list
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		require.NoError(t, o.rename(t, client, "before", "New"))
		for i := range 2 {
			r := copyOfAnHourAgo()
			r.Lasts = time.Hour
			restored(t, log, r)
			for j := range 2 {
				bubble.Elapse(time.Minute)
				err := client.Applications.SendLink(withKey(t.Context(), fmt.Sprint(i, "/", j)), o.application)
				require.ErrorIs(t, err, idempotency.ErrNeedsReview)
				assert.Equal(t, 1+2*i, list.whole)
			}
			list.behind = 10 * time.Second // the next primary of the store
			bubble.Elapse(time.Second)
			err := client.Applications.SendLink(withKey(t.Context(), fmt.Sprint(i, "/behind")), o.application)
			require.ErrorIs(t, err, idempotency.ErrNeedsReview)
			assert.Equal(t, 2+2*i, list.whole)
			list.behind = 0
			bubble.Elapse(time.Hour)
			require.NoError(t, o.rename(t, client, fmt.Sprint("after/", i), "New"))
		}
	})
}

// TestFirstReadOfALargeLogIsNamed has the read of the whole log last longer than a call. Orders accepted after the
// restore do not wait for the read.
func TestFirstReadOfALargeLogIsNamed(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		restored(t, fake.Must(idempotency.NewLog(entries, nil)), copyOfAnHourAgo())
		bubble.Elapse(time.Minute)
		doubtful := o
		added := service.AddCustomer(lendingtest.Customer{Email: "new@example.com"})
		doubtful.customer = fake.Must(lending.ParseCustomerID(added.ID))
		other := processWith(t, service, fake.Must(idempotency.NewLog(entries, nil)))
		require.NoError(t, doubtful.creates(t, other)("known", accepted))
		require.ErrorIs(t, doubtful.creates(t, other)("doubtful"), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		entries.list = func() error {
			bubble.Elapse(time.Minute)
			return context.DeadlineExceeded
		}
		called := make(chan error)
		for _, key := range []string{"reads", "waits"} {
			go func() { called <- o.rename(t, client, key, key) }()
		}
		go func() {
			ctx, stop := context.WithTimeout(withKey(t.Context(), "doubtful"), 10*time.Second)
			defer stop()
			_, err := client.Applications.Create(ctx, doubtful.request(), nil)
			called <- err
		}()
		for range 3 {
			err := <-called
			require.ErrorIs(t, err, idempotency.ErrInDoubt)
			require.ErrorContains(t, err, "reads the whole log once, and this read goes on; retry after 1s")
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
		}
		require.NoError(t, o.creates(t, client)("new", accepted))
		entries.list = nil
		require.NoError(t, o.rename(t, client, "reads", "New"))
	})
}

// TestCheckKeepsTheAgeOfTheRestoration has the instructions saved again and again, each time a while after a call has
// read them.
func TestCheckKeepsTheAgeOfTheRestoration(t *testing.T) {
	withStore(t, nil, func(t *testing.T, _ *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, began := fake.Must(idempotency.NewLog(entries, nil)), time.Now()
		restored(t, log, copyOfAnHourAgo())
		for range 100 {
			bubble.Elapse(time.Minute)
			fake.Must(log.Lookup(t.Context(), "unknown"))
			bubble.Elapse(400 * time.Millisecond)
			fake.Must(log.Check(t.Context(), client))
		}
		assert.Equal(t, time.Since(began), fake.Must(log.Standing(t.Context())).Restored.Age)
	})
}

// TestKeysOfANewRecordAreSent has a customer and an application made after the restore: nobody is asked
// about their mutations.
func TestKeysOfANewRecordAreSent(t *testing.T) {
	atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
		bubble.Elapse(maxLateness)
		key := func(step string) context.Context { return lending.WithIdempotencyKey(t.Context(), "order-42/"+step) }
		user := fake.Must(client.Applications.CreateCustomer(key("customer"), fake.Newcomer()))
		application := fake.Must(client.Applications.Create(key("application"), lending.ApplicationRequest{
			CustomerID: user.ID, BusinessName: "B", BusinessZip: "94105",
		}, nil))
		for range 3 { // the index reads the entries, and then reads them again
			bubble.Elapse(time.Minute)
			require.NoError(t, client.Applications.SendLink(key(time.Now().String()), application))
			fake.Must(order{service: service, customer: user.ID}.createsID(t, client)(time.Now().String()))
		}
		assert.Empty(t, fake.Must(log.Keys(t.Context(), doubtful)))
		for _, k := range fake.Must(log.Keys(t.Context(), idempotency.Filter{})) {
			assert.Equal(t, k.Key == "order-42/customer", k.History[0].State == store.InDoubt, k.Key)
		}
	})
}

// TestUnreadableEntryLeavesRecordsToAPerson has the entry of an application from a newer release: an older
// replica does not take the application for that of another key.
func TestUnreadableEntryLeavesRecordsToAPerson(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := order{service: service, customer: user.ID}.creates(t, client)
		require.NoError(t, create("order-1"))
		entry := *fake.Must(entries.Load(t.Context(), ":order-1"))
		entry.Data = bytes.Replace(entry.Data, []byte(`"format":1`), []byte(`"format":3`), 1)
		require.NoError(t, entries.Save(t.Context(), entry))
		bubble.Elapse(time.Hour)
		log := fake.Must(idempotency.NewLog(entries, nil))
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create("order-2"), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// hiding is a store whose list lacks a key: its save has begun before, and ends after those in the list. Or the list
// has the key with an age of 0, since the clock was set back.
type hiding struct {
	store.Store
	key     string
	setBack bool
	behind  time.Duration // of the clock for the ages of loaded entries
	whole   int           // the number of lists from the first entry on
}

func (h *hiding) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := h.Store.Load(ctx, key)
	if entry != nil {
		entry.Age -= h.behind
	}
	return entry, err
}

func (h *hiding) List(ctx context.Context, f store.Filter) ([]store.Entry, error) {
	if f.After == "" && len(f.States) > 3 {
		h.whole++
	}
	all, err := h.Store.List(ctx, f)
	if i := slices.IndexFunc(all, func(e store.Entry) bool { return e.Key == h.key }); i >= 0 && h.setBack {
		all[i].Age = 0
		return all, err
	}
	return slices.DeleteFunc(all, func(e store.Entry) bool { return e.Key == h.key }), err
}

// TestLateEntryOfTheListIsRead has an entry come into the list before an entry that was read, or look young there.
func TestLateEntryOfTheListIsRead(t *testing.T) {
	for _, setBack := range []bool{false, true} {
		t.Run(fmt.Sprint("clock set back ", setBack), func(t *testing.T) { lateEntry(t, setBack) })
	}
}

func lateEntry(t *testing.T, setBack bool) {
	t.Helper()
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		list := &hiding{Store: entries.Store, setBack: setBack}
		entries.Store = list
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := order{service: service, customer: user.ID}.createsID(t, client)
		for i := range 100 { // the log does not read the next entry again for the customer
			require.NoError(t, creation(t, client, fake.Newcomer())(fmt.Sprint("others/", i)))
		}
		bubble.Elapse(time.Hour)
		restored(t, fake.Must(idempotency.NewLog(entries, nil)), copyOfAnHourAgo())
		bubble.Elapse(maxLateness)
		first := fake.Must(create("order-1"))
		list.key = ":order-1"
		another := service.AddCustomer(lendingtest.Customer{Email: fake.Ada().Email})
		require.NoError(t, creation(t, client, fake.Ada())("another"))
		if setBack { // the later entries are old
			bubble.Elapse(time.Minute)
		}
		other := order{service: service, customer: fake.Must(lending.ParseCustomerID(another.ID))}
		require.NoError(t, other.creates(t, client)("another/application"), "after a read of the list")
		list.key = ""
		bubble.Elapse(time.Minute)
		assert.NotEqual(t, first, fake.Must(create("order-2")))
	})
}

// TestDoubtOfTheCopyWaitsForMaxLatenessAgain has a mutation in doubt at the time of the copy.
func TestDoubtOfTheCopyWaitsForMaxLatenessAgain(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		bubble.Elapse(time.Hour)
		log := fake.Must(idempotency.NewLog(entries, nil))
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(maxLateness - time.Second)
		require.ErrorIs(t, create("the/key"), idempotency.ErrInDoubt, "a resend after the copy can still be executed")
		bubble.Elapse(time.Second)
		require.NoError(t, create("the/key"))
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestKeysOfARecordInDoubtInTheCopyAreLookedUp has the application of an order in doubt at the time of the
// copy. Its link was sent since.
func TestKeysOfARecordInDoubtInTheCopyAreLookedUp(t *testing.T) {
	for _, by := range []string{"call", "Check"} {
		t.Run(by, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
				create := (order{service: service, customer: user.ID}).createsID(t, client)
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
				_, err := create("the/key")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(time.Hour)
				log := fake.Must(idempotency.NewLog(entries, nil))
				restored(t, log, claiming())
				bubble.Elapse(maxLateness + time.Millisecond/2)
				if by == "Check" {
					fake.Must(log.Check(t.Context(), client))
				}
				application := fake.Must(create("the/key"))
				history := fake.Must(log.Lookup(t.Context(), "the/key")).History
				assert.Equal(t, maxLateness, (history[0].Age - time.Hour).Truncate(time.Second), "since the send")
				err = client.Applications.SendLink(withKey(t.Context(), "link"), application)
				require.ErrorIs(t, err, idempotency.ErrNeedsReview)
				assert.Zero(t, service.Executed(linkRoute))
			})
		})
	}
}

// TestCheckLeavesAKeyOfTheCopyToItsCall has the check of a call fail. [idempotency.Log.Check] asks no person
// then: the next call with the key checks again.
func TestCheckLeavesAKeyOfTheCopyToItsCall(t *testing.T) {
	atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
		o := newOrder(service)
		send := func(verdict idempotency.Verdict, err error) error {
			check := withCheck(func(context.Context) (idempotency.Verdict, error) { return verdict, err })
			return client.Applications.SendLink(withKey(t.Context(), "the/key", check), o.application)
		}
		require.ErrorIs(t, send(idempotency.NotHappened(), errors.New("the mailer is down")), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		fake.Must(log.Check(t.Context(), client))
		assert.Zero(t, fake.Must(log.Counts(t.Context())).NeedsReview.Count)
		require.NoError(t, send(idempotency.Happened(nil), nil))
		assert.Zero(t, service.Executed(linkRoute))
	})
}

// TestVerdictOnAReviewOfTheCopyWaits has a key in review at the time of the copy. A person may have decided since,
// and the mutation may have been sent again.
func TestVerdictOnAReviewOfTheCopyWaits(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		link := func() error { return client.Applications.SendLink(withKey(t.Context(), "the/key"), o.application) }
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, link(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, link(), idempotency.ErrNeedsReview)
		bubble.Elapse(time.Hour)
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(time.Minute)
		resolve := func() error { return log.Resolve(t.Context(), "the/key", says(idempotency.NotHappened())) }
		require.ErrorIs(t, resolve(), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness - time.Minute)
		require.NoError(t, resolve())
	})
}

// TestRejectedKeyOfTheCopyIsLookedUp has a mutation rejected before the copy. Since the copy a try may have
// succeeded.
func TestRejectedKeyOfTheCopyIsLookedUp(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		service.Fail(fake.CreateRoute, lendingtest.Fault{Status: 429})
		create := creation(t, client, fake.Ada())
		require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(create("the/key")))
		require.NoError(t, creation(t, client, fake.Newcomer())("done/key"))
		service.AddCustomer(lendingtest.Customer{Email: fake.Ada().Email})
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(time.Hour)
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(time.Second)
		assert.Equal(t, lending.OutcomeDone, fake.Must(log.Lookup(t.Context(), "done/key")).Outcome)
		assert.Equal(t, lending.OutcomeUnknown, fake.Must(log.Lookup(t.Context(), "the/key")).Outcome)
		require.NoError(t, create("the/key"))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute), "of the key that is done")
	})
}

// TestForgottenOrdersLeaveRecordsToAPerson has the log forget or erase an order before the restore: an application
// that the log does not know can be of that order, also if keys claim records.
func TestForgottenOrdersLeaveRecordsToAPerson(t *testing.T) {
	for name, forget := range map[string]func(context.Context, *idempotency.Log, string) (int, error){
		"forgotten": func(ctx context.Context, log *idempotency.Log, _ string) (int, error) {
			return log.Forget(ctx, "old/")
		},
		"erased": func(ctx context.Context, log *idempotency.Log, customer string) (int, error) {
			return log.Erase(ctx, asked, customer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				log := fake.Must(idempotency.NewLog(entries, nil))
				require.NoError(t, creation(t, client, fake.Newcomer())("old/customer"))
				id := service.Snapshot().Customers[0].ID
				o := order{service: service, customer: fake.Must(lending.ParseCustomerID(id))}
				require.NoError(t, o.creates(t, client)("old/application"))
				bubble.Elapse(time.Hour)
				require.Equal(t, 2, fake.Must(forget(t.Context(), log, id)))
				restored(t, log, claiming())
				bubble.Elapse(time.Minute)
				err := o.creates(t, client)("order-42/application")
				require.ErrorIs(t, err, idempotency.ErrNeedsReview)
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

func TestRestorationIsChecked(t *testing.T) {
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	ok := copyOfAnHourAgo()
	for _, r := range []idempotency.Restoration{
		{},
		{By: "kim"},
		{Copy: ok.Copy},
		{By: "kim", Copy: time.Now().Add(time.Hour)},
		{By: "kim", Copy: ok.Copy, Lasts: -1},
	} {
		var argument *lending.ArgumentError
		require.ErrorAs(t, log.Restored(t.Context(), r), &argument)
		require.Nil(t, fake.Must(log.Standing(t.Context())).Restored)
	}
	restored(t, log, ok)
	now := fake.Must(log.Standing(t.Context())).Restored
	assert.Equal(t, 30*24*time.Hour, now.Lasts)
	assert.Equal(t, ok.Copy.UTC(), now.Copy)
	assert.Equal(t, "kim", now.By)
}

// TestWithdrawalOfTheCopy has a loan with a withdrawal, and the key of a withdrawal that the log does not
// know. The withdrawals that the log knows tell whose it is, if its application is of the day of the copy.
func TestWithdrawalOfTheCopy(t *testing.T) {
	for _, test := range []struct {
		name, first string // the key of the withdrawal before the restore; empty if the store has lost it
		age         time.Duration
		late        error
		sends       int
	}{
		{"lost", "", time.Hour, nil, 1},
		{"of another key", "order-41/confirm", time.Hour, nil, 2},
		{"of an old loan", "", 48 * time.Hour, idempotency.ErrNeedsReview, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				confirm := withdrawals(t, service, client)
				bubble.Elapse(test.age)
				require.NoError(t, confirm(test.first))
				bubble.Elapse(30 * time.Minute)
				log := fake.Must(idempotency.NewLog(entries, nil))
				r := idempotency.Restoration{By: "kim", Copy: time.Now().Add(-time.Minute), Claim: true}
				restored(t, log, r)
				bubble.Elapse(maxLateness)
				require.ErrorIs(t, confirm("order-42/confirm"), test.late)
				assert.Equal(t, test.sends, service.Executed(confirmRoute))
			})
		})
	}
}

// TestProcessingWithoutAnOfferNeedsAPerson has an application without an offer: it can be under review.
func TestProcessingWithoutAnOfferNeedsAPerson(t *testing.T) {
	atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, _ *idempotency.Log) {
		o := newOrder(service)
		bubble.Elapse(maxLateness)
		_, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "order-42/process"), o.offered)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
	})
}

// withdrawals returns a function that makes a withdrawal of a loan with a key, or without one.
func withdrawals(t *testing.T, service *lendingtest.Service, client *lending.Client) func(key string) error {
	t.Helper()
	application := fake.Must(newOrder(service).createsID(t, client)("order-41/application"))
	row := service.AddLoan(lendingtest.Loan{ApplicationID: application.String()})
	loan := fake.Must(lending.ParseLoanID(row.ID))
	return func(key string) error {
		ctx := t.Context()
		fake.Must(client.Calculation.Invoice(ctx, application, fake.Invoice()))
		begun := fake.Must(client.Loans.WithdrawInvoice(ctx, loan,
			lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()}))
		if key != "" {
			ctx = lending.WithIdempotencyKey(ctx, key)
		}
		_, err := client.Loans.ConfirmInvoiceWithdrawal(ctx, *begun, lending.WithdrawInvoiceRequestData{
			DateUTC: catalog.Date, OTP: lending.NewSecret(service.OTP(row.ID)),
		})
		return err
	}
}

// TestClaimedRecordMayBeOfAnotherLostKey has one record, of a lost key, and another key that takes it for its
// own: a new key, or a key that was in doubt at the time of the copy. Then a person decides about the lost key.
func TestClaimedRecordMayBeOfAnotherLostKey(t *testing.T) {
	applications := func(t *testing.T, service *lendingtest.Service, client *lending.Client) func(key string) error {
		t.Helper()
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := (order{service: service, customer: user.ID}).creates(t, client)
		return func(key string) error {
			if key == "" {
				service.AddApplication(lendingtest.Application{CustomerID: user.ID.String()})
				return nil
			}
			return create(key)
		}
	}
	for _, list := range []struct {
		name, route string
		adds        func(*testing.T, *lendingtest.Service, *lending.Client) func(key string) error
	}{{"withdrawals", confirmRoute, withdrawals}, {"applications", createApplicationRoute, applications}} {
		for _, isOld := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/in doubt at the copy %v", list.name, isOld), func(t *testing.T) {
				withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
					add := list.adds(t, service, client)
					if isOld {
						service.Fail(list.route, lendingtest.Fault{ResetBefore: true})
						require.ErrorIs(t, add("another"), lending.ErrOutcomeUnknown)
					}
					bubble.Elapse(time.Hour)
					require.NoError(t, add(""), "by the lost key")
					bubble.Elapse(time.Minute)
					log := fake.Must(idempotency.NewLog(entries, nil))
					r := idempotency.Restoration{By: "kim", Copy: time.Now().Add(-time.Hour), Claim: true}
					restored(t, log, r)
					bubble.Elapse(maxLateness)
					sent := service.Executed(list.route)
					require.NoError(t, add("another"))
					err := add("lost")
					require.ErrorIs(t, err, idempotency.ErrNeedsReview)
					assert.ErrorContains(t, err, `key "another" may have taken its record`)
					assert.Equal(t, sent, service.Executed(list.route))
				})
			})
		}
	}
}

// TestDoubtOfTheCopyBesideALaterRecord has a key in doubt at the time of the copy, and two withdrawals in the
// books after it: that of the key, and that of a key that the copy does not have. No read tells whose is whose.
func TestDoubtOfTheCopyBesideALaterRecord(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		later []string // withdrawals after the copy
	}{
		{"executed before the copy", lendingtest.Fault{ResetAfter: true}, []string{"lost"}},
		{"sent again after the copy", lendingtest.Fault{ResetBefore: true}, []string{"old", "lost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				confirm := withdrawals(t, service, client)
				service.Fail(confirmRoute, test.fault)
				require.ErrorIs(t, confirm("old"), lending.ErrOutcomeUnknown)
				bubble.Elapse(time.Minute)
				for range test.later {
					require.NoError(t, confirm(""), "the copy has no trace of it")
				}
				bubble.Elapse(time.Minute)
				log := fake.Must(idempotency.NewLog(entries, nil))
				r := idempotency.Restoration{By: "kim", Copy: time.Now().Add(-90 * time.Second)}
				restored(t, log, r)
				for range 3 {
					bubble.Elapse(maxLateness)
					for _, key := range []string{"old", "lost"} {
						require.ErrorIs(t, confirm(key), idempotency.ErrNeedsReview, key)
					}
				}
				assert.Equal(t, 2, service.Executed(confirmRoute))
			})
		})
	}
}
