package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
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

// tampered is a store with something in front of its methods.
type tampered struct {
	lending.JournalStore
	load  func() error
	save  func(lending.JournalEntry) error // before
	saved func(lending.JournalEntry) error // after
}

func (s *tampered) Load(ctx context.Context, key string) (*lending.JournalEntry, error) {
	if s.load != nil {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	return s.JournalStore.Load(ctx, key)
}

func (s *tampered) Save(ctx context.Context, entry lending.JournalEntry) error {
	if s.save != nil {
		if err := s.save(entry); err != nil {
			return err
		}
	}
	err := s.JournalStore.Save(ctx, entry)
	if err == nil && s.saved != nil {
		err = s.saved(entry)
	}
	return err
}

var errStore = errors.New("the store is gone")

// journaled runs f in a bubble with a service, a store and a client.
func journaled(t *testing.T, opts *lending.JournalOptions, f func(*testing.T, *lendingtest.Service, *tampered, *lending.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		store := &tampered{JournalStore: lending.NewMemoryJournalStore()}
		f(t, service, store, wire.NewClient(t, "https://lending.example", lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
			lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})), lending.WithJournal(lending.NewJournal(store, opts))))
	})
}

func TestNothingIsSentThatIsNotWrittenDown(t *testing.T) {
	for name, after := range map[string]bool{"the save fails": false, "the save fails and is done": true} {
		t.Run(name, func(t *testing.T) {
			journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
				fail := func(entry lending.JournalEntry) error {
					if entry.State == lending.CommandSent {
						store.save, store.saved = nil, nil // once
						return errStore
					}
					return nil
				}
				if store.save = fail; after {
					store.save, store.saved = nil, fail
				}
				user, ctx := fake.Newcomer(), lending.WithKey(t.Context(), "the/key")
				_, err := client.Applications.CreateCustomer(ctx, user)
				require.ErrorIs(t, err, lending.ErrJournal)
				require.ErrorIs(t, err, errStore)
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				assert.Zero(t, service.Executed(fake.CreateRoute))
				fake.Must(client.Applications.CreateCustomer(ctx, user))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
			})
		})
	}
}

func TestNothingIsSentWhatTheJournalCannotRead(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		store.load = func() error { return errStore }
		_, err := client.Applications.CreateCustomer(lending.WithKey(t.Context(), "the/key"), fake.Newcomer())
		require.ErrorIs(t, err, lending.ErrJournal)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "an earlier call may have sent it")
		store.load = nil
		require.NoError(t, store.Save(t.Context(), lending.JournalEntry{Key: ":the/key", State: lending.CommandDone, Data: []byte("{")}))
		_, err = client.Applications.CreateCustomer(lending.WithKey(t.Context(), "the/key"), fake.Newcomer())
		require.ErrorIs(t, err, lending.ErrCorruptEntry)
		assert.Zero(t, service.Executed(fake.CreateRoute))
	})
}

func TestTheStoreFailsAfterTheAnswer(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		done := func(entry lending.JournalEntry) error {
			if entry.State == lending.CommandDone {
				return errStore
			}
			return nil
		}
		user, ctx := fake.Newcomer(), lending.WithKey(t.Context(), "the/key")
		store.save = done
		_, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, lending.ErrJournal)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		store.save = nil
		bubble.Elapse(2 * time.Minute)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		other, otherCtx := fake.Newcomer(), lending.WithKey(t.Context(), "another/key")
		begun := time.Now()
		store.save = func(entry lending.JournalEntry) error {
			if time.Since(begun) < 5*time.Second {
				return done(entry)
			}
			return nil
		}
		fake.Must(client.Applications.CreateCustomer(otherCtx, other))
		assert.Equal(t, 2, service.Executed(fake.CreateRoute))
	})
}

func TestNothingIsSentWhenTheLookBeforeFails(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		service.Fail("GET /api/Customer/get-customer-by-email", lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Hour})
		user, ctx := fake.Newcomer(), lending.WithKey(t.Context(), "the/key")
		_, err := client.Applications.CreateCustomer(ctx, user)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, fake.CreateRoute, failed.Method+" "+failed.Route)
		assert.Equal(t, time.Hour, failed.RetryAfter)
		require.NotErrorIs(t, err, lending.ErrRateLimited, "the status is that of another call")
		assert.Zero(t, service.Executed(fake.CreateRoute))
		fake.Must(client.Applications.CreateCustomer(ctx, user))
	})
}

// TestNothingIsInDoubtWithoutAToken holds that a command which waits for a sign-in, or for a
// person who is asked for a code, is not written down as sent.
func TestNothingIsInDoubtWithoutAToken(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		service.Fail(fake.LoginRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
		store.save = func(entry lending.JournalEntry) error {
			assert.NotEqual(t, lending.CommandSent, entry.State)
			return nil
		}
		o := newOrder(service)
		err := client.Applications.SendLink(lending.WithKey(t.Context(), "the/key"), o.application)
		require.Error(t, err)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	})
}

// TestNobodyOnTheWayHasTheKey has a call observer read with the context of the call.
func TestNobodyOnTheWayHasTheKey(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		o, reader := newOrder(service), process()
		client := process(lending.WithCallObserver(func(ctx context.Context, c lending.Call) (context.Context, func(lending.Call)) {
			_, err := reader.Applications.Status(ctx, o.application)
			assert.NoError(t, err)
			return ctx, nil
		}))
		require.NoError(t, client.Applications.SendLink(lending.WithKey(t.Context(), "the/key"), o.application))
	})
}

func TestRefusedCommandsMayBeCorrected(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		user, taken := fake.Newcomer(), fake.Newcomer()
		fake.Must(client.Applications.CreateCustomer(t.Context(), taken))
		ctx := lending.WithKey(t.Context(), "the/key")
		_, err := client.Applications.CreateCustomer(ctx, taken)
		require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, 2, service.Executed(fake.CreateRoute))
	})
}

func TestWhatAKeyMustNotBe(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		for _, key := range []string{"", "a\nb", "\xff", strings.Repeat("k", 257)} {
			_, err := client.Applications.CreateCustomer(lending.WithKey(t.Context(), key), fake.Newcomer())
			require.ErrorAs(t, err, new(*lending.ArgumentError), "%q", key)
		}
		ctx := lending.WithKey(t.Context(), "the/key")
		_, err := client.Customers.GetByEmail(ctx, "ada@example.com")
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = client.Auth.RefreshToken(ctx)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = wire.NewClient(t, "https://lending.example").Applications.CreateCustomer(ctx, fake.Newcomer())
		require.ErrorContains(t, err, "key needs a client with WithJournal")
		assert.Empty(t, service.Requests())

		fake.Must(client.Applications.CreateCustomer(lending.WithKey(t.Context(), strings.Repeat("ü", 128)), fake.Newcomer()))
		for _, r := range service.Requests() {
			assert.NotContains(t, fmt.Sprint(r.Header, r.Query, string(r.Body)), "ü", "a key is never sent")
		}
	})
	for name, opts := range map[string]*lending.JournalOptions{
		"Quiet": {Quiet: -1}, "KeepAnswers": {KeepAnswers: -1}, "MaxAnswer": {MaxAnswer: -1}, "Namespace": {Namespace: "a:b"},
	} {
		journal := lending.NewJournal(lending.NewMemoryJournalStore(), opts)
		_, err := lending.New("https://lending.example", lending.WithJournal(journal))
		require.ErrorContains(t, err, name)
		_, err = journal.Unsettled(t.Context(), 1)
		require.ErrorContains(t, err, name)
	}
	for _, journal := range []*lending.Journal{nil, {}, lending.NewJournal(nil, nil)} {
		_, err := lending.New("https://lending.example", lending.WithJournal(journal))
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = journal.Sweep(t.Context())
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		require.ErrorAs(t, journal.Resolve(t.Context(), "k", lending.Resolution{}), new(*lending.ArgumentError))
	}
}

func TestAPersonDecides(t *testing.T) {
	withJournal(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client, journal *lending.Journal) {
		o, client := newOrder(service), process()
		const sendLink = "POST /api/Application/send-application-link"
		send := func() error {
			return client.Applications.SendLink(lending.WithKey(t.Context(), "the/key"), o.application)
		}
		resolve := func(v lending.Verdict) error {
			return journal.Resolve(t.Context(), "the/key", lending.Resolution{By: "ada", Why: "asked the customer", Verdict: v})
		}
		require.ErrorAs(t, resolve(lending.Happened(nil)), new(*lending.ArgumentError), "there is no such command")
		service.Fail(sendLink, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, send(), lending.ErrUndecided)
		bubble.Elapse(time.Minute)

		unsettled, err := journal.Unsettled(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, []lending.UnsettledCommand{{
			Key: "the/key", Route: sendLink, State: lending.CommandUndecided, Age: time.Minute, Sends: 1, Why: "nothing that is published shows it",
		}}, unsettled)
		err = resolve(lending.NotHappened())
		require.ErrorIs(t, err, lending.ErrUnsettled, "it can still be executed")
		var refused *lending.KeyError
		require.ErrorAs(t, err, &refused)
		bubble.Elapse(refused.RetryAfter)
		require.NoError(t, resolve(lending.NotHappened()))
		require.NoError(t, send())
		assert.Equal(t, 1, service.Executed(sendLink))
		require.ErrorAs(t, resolve(lending.Happened(nil)), new(*lending.ArgumentError), "it is not in doubt any more")
		unsettled, err = journal.Unsettled(t.Context(), 10)
		require.NoError(t, err)
		assert.Empty(t, unsettled)
		require.ErrorAs(t, journal.Resolve(t.Context(), "the/key", lending.Resolution{}), new(*lending.ArgumentError))
	})
}

func TestAnswersAreForgotten(t *testing.T) {
	opts := &lending.JournalOptions{KeepAnswers: time.Hour, MaxAnswer: 200}
	journaled(t, opts, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		journal := lending.NewJournal(store, opts)
		user := fake.Newcomer()
		ctx := lending.WithKey(t.Context(), "the/key")
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		swept := fake.Must(journal.Sweep(t.Context()))
		assert.Zero(t, swept)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		bubble.Elapse(time.Hour)
		for _, want := range []int{1, 0} {
			assert.Equal(t, want, fake.Must(journal.Sweep(t.Context())))
		}
		_, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, lending.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		loan := service.AddLoan(lendingtest.Loan{CustomerID: service.Snapshot().Customers[0].ID})
		invoice := func() error {
			id := fake.Must(lending.ParseApplicationID(loan.ApplicationID))
			_, err := client.Calculation.Invoice(lending.WithKey(t.Context(), "large"), id, fake.Invoice())
			return err
		}
		require.NoError(t, invoice())
		require.ErrorIs(t, invoice(), lending.ErrAnswerLost, "it was too large to be kept")
	})
}

func TestTheJournalHoldsNoSecret(t *testing.T) {
	const canary = "C4n4ry-5ecret!"
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		var kept []lending.JournalEntry
		store.save = func(entry lending.JournalEntry) error { kept = append(kept, entry); return nil }
		user := fake.Newcomer()
		user.Password, user.Extra = lending.NewSecret(canary), catalog.Unpublished{"token": lending.NewSecret(canary)}
		fake.Must(client.Applications.CreateCustomer(lending.WithKey(t.Context(), "customer"), user))
		_, err := client.Applications.UpdateCustomerData(lending.WithKey(t.Context(), "data"), catalog.Application, lending.CustomerData{
			FirstName: "Ada", LastName: "L", Address: "1", State: "CA", City: "SF", SSN: lending.NewSecret(canary), Mobile: "4155550100", DateOfBirth: catalog.Born,
		})
		require.Error(t, err)
		require.Len(t, kept, 4)
		for _, entry := range kept {
			assert.NotContains(t, string(entry.Data)+entry.Key+entry.Scope, canary)
			assert.NotContains(t, entry.Scope, user.Email)
		}
		assert.NotContains(t, string(kept[0].Data), user.Email, "no body of a request")
		assert.Contains(t, string(service.Requests()[1].Body)+string(service.Requests()[2].Body)+string(service.Requests()[3].Body), canary)
	})
}

func TestEncryptedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		plain := lending.NewMemoryJournalStore()
		client := func(key string) *lending.Client {
			store, err := lending.NewEncryptedJournalStore(plain, []byte(strings.Repeat(key, 32)))
			require.NoError(t, err)
			return wire.NewClient(t, "https://lending.example", lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
				lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})), lending.WithJournal(lending.NewJournal(store, nil)))
		}
		o := newOrder(service)
		create := func(secret, key string) error {
			_, err := client(secret).Applications.Create(lending.WithKey(t.Context(), key), o.request(), nil)
			return err
		}
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("a", "the/key"), lending.ErrOutcomeUnknown)
		entry := fake.Must(plain.Load(t.Context(), ":the/key"))
		assert.NotContains(t, string(entry.Data), "route")
		require.ErrorIs(t, create("a", "other/key"), lending.ErrScopeHeld, "the scope is keyed, and the same")
		require.ErrorIs(t, create("b", "the/key"), lending.ErrCorruptEntry, "it has another key")
		require.NoError(t, create("a", "the/key"))

		moved := fake.Must(plain.Load(t.Context(), ":the/key"))
		moved.Key, moved.Revision = ":moved/key", 0
		require.NoError(t, plain.Save(t.Context(), *moved))
		require.ErrorIs(t, create("a", "moved/key"), lending.ErrCorruptEntry, "it is the entry of another command")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
	_, err := lending.NewEncryptedJournalStore(lending.NewMemoryJournalStore(), []byte("short"))
	require.ErrorAs(t, err, new(*lending.ArgumentError))
}

func TestNamespacesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		store := lending.NewMemoryJournalStore()
		for _, namespace := range []string{"", "sandbox-1", "sandbox-2"} {
			client := wire.NewClient(t, "https://lending.example", lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
				lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})),
				lending.WithJournal(lending.NewJournal(store, &lending.JournalOptions{Namespace: namespace})))
			fake.Must(client.Applications.CreateCustomer(lending.WithKey(t.Context(), "the/key"), fake.Newcomer()))
		}
		assert.Equal(t, 3, service.Executed(fake.CreateRoute))
	})
}
