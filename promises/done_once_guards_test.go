package promises_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestCommandLaterThanQuietIsDoneTwice shows what Quiet stands for, and that the service
// counts it: what is executed later than that is done twice.
func TestCommandLaterThanQuietIsDoneTwice(t *testing.T) {
	for _, late := range []time.Duration{quiet - time.Second, quiet + time.Second} {
		keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
			client, customer := process(), service.AddCustomer(lendingtest.Customer{})
			request := lending.ApplicationRequest{CustomerID: lending.CustomerID(uuid.MustParse(customer.ID)), BusinessName: "B", BusinessZip: "94105"}
			service.Fail(createApplicationRoute, lendingtest.Fault{Late: late})
			ctx := lending.WithKey(t.Context(), "order-42/application")
			_, err := client.Applications.Create(ctx, request, nil)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			elapse(quiet)
			_, err = client.Applications.Create(ctx, request, nil)
			require.NoError(t, err)
			require.NoError(t, service.Wait(t.Context()))
			want := 1
			if late > quiet {
				want = 2
			}
			assert.Equal(t, want, service.ExecutedFor(createApplicationRoute)[customer.ID])
		})
	}
}

const createApplicationRoute = "POST /api/Application/create-application"

// TestWhatWasSeenBeforeIsOfNow has another application made for the customer between the look
// of the second command and its sending.
func TestWhatWasSeenBeforeIsOfNow(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		customer := service.AddCustomer(lendingtest.Customer{})
		request := lending.ApplicationRequest{CustomerID: lending.CustomerID(uuid.MustParse(customer.ID)), BusinessName: "B", BusinessZip: "94105"}
		looked, goOn := make(chan struct{}), make(chan struct{})
		slow := process(lending.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := service.Transport().RoundTrip(r)
			if r.Method == http.MethodGet && looked != nil {
				close(looked)
				looked = nil
				<-goOn
			}
			return resp, err
		})}))
		seen := looked
		second := make(chan error)
		ctx := lending.WithKey(t.Context(), "second")
		go func() {
			_, err := slow.Applications.Create(ctx, request, nil)
			second <- err
		}()
		<-seen
		elapse(time.Minute)
		first, err := process().Applications.Create(lending.WithKey(t.Context(), "first"), request, nil)
		require.NoError(t, err)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		close(goOn)
		require.ErrorIs(t, <-second, lending.ErrOutcomeUnknown)
		elapse(quiet)
		id, err := process().Applications.Create(ctx, request, nil)
		require.NoError(t, err)
		assert.NotEqual(t, first, id, "the application of another key was taken for this one's")
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

const renameRoute = "GET /api/Application/update-application-name/{applicationId}"

// TestLateValueUndoesNothing has a name sent twice, of which the first is executed late: no
// other may be sent before, however the second has come to its end.
func TestLateValueUndoesNothing(t *testing.T) {
	for _, end := range []struct {
		name  string
		fault lendingtest.Fault
		calls int
	}{{"answered", lendingtest.Fault{}, 1}, {"found by the caller", lendingtest.Fault{ResetAfter: true}, 2}} {
		t.Run(end.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
				id, client := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID)), process()
				ctx := lending.WithKey(t.Context(), "older", lending.SettleWith(func(context.Context) (lending.Verdict, error) {
					if service.Executed(renameRoute) > 0 {
						return lending.Happened(true), nil
					}
					return lending.NotHappened(), nil
				}))
				service.Fail(renameRoute, lendingtest.Fault{Late: quiet - time.Second})
				_, err := client.Applications.UpdateName(ctx, id, "Older")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				service.Fail(renameRoute, end.fault)
				for range end.calls {
					_, err = client.Applications.UpdateName(ctx, id, "Older")
				}
				require.NoError(t, err)
				newer := func() error {
					_, err := client.Applications.UpdateName(lending.WithKey(t.Context(), "newer"), id, "Newer")
					return err
				}
				err = newer()
				require.ErrorIs(t, err, lending.ErrScopeHeld)
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				elapse(failed.RetryAfter)
				require.NoError(t, newer())
				require.NoError(t, service.Wait(t.Context()))
				assert.Equal(t, "Newer", service.Snapshot().Applications[0].BusinessName)
			})
		})
	}
}

// TestCutAnswerIsNotKept has an answer cut on its way: it is no answer for the next call.
func TestCutAnswerIsNotKept(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		client, user := process(), newcomer()
		service.Fail(createRoute, lendingtest.Fault{CutBody: 10})
		ctx := lending.WithKey(t.Context(), "order-42/customer")
		_, err := client.Applications.CreateCustomer(ctx, user)
		require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		_, err = client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, lending.ErrAnswerLost)
		require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		assert.Equal(t, 1, service.Executed(createRoute))
	})
}

// frozen is a store that keeps one process waiting before it saves what is done.
type frozen struct {
	lending.JournalStore
	goOn chan struct{}
}

func (f frozen) Save(ctx context.Context, entry lending.JournalEntry) error {
	if entry.State == lending.CommandDone {
		<-f.goOn
	}
	return f.JournalStore.Save(ctx, entry)
}

// TestFrozenOwnerLeavesTheScope has a process stand still with the answer in its hands, and
// another one send the command again, which is executed late.
func TestFrozenOwnerLeavesTheScope(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		id := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID))
		store, goOn := lending.NewMemoryJournalStore(), make(chan struct{})
		owner := process(lending.WithJournal(lending.NewJournal(frozen{store, goOn}, nil)))
		other := process(lending.WithJournal(lending.NewJournal(store, nil)))
		ctx := lending.WithKey(t.Context(), "older")
		owned := make(chan error)
		go func() {
			ctx, stop := context.WithTimeout(ctx, 10*time.Second)
			defer stop()
			_, err := owner.Applications.UpdateName(ctx, id, "Older")
			owned <- err
		}()
		elapse(11 * time.Second)
		service.Fail(renameRoute, lendingtest.Fault{Late: quiet - time.Second})
		_, err := other.Applications.UpdateName(ctx, id, "Older")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		close(goOn)
		require.NoError(t, <-owned)
		_, err = other.Applications.UpdateName(lending.WithKey(t.Context(), "newer"), id, "Newer")
		require.ErrorIs(t, err, lending.ErrScopeHeld)
		elapse(quiet + 2*time.Minute)
		_, err = other.Applications.UpdateName(lending.WithKey(t.Context(), "newer"), id, "Newer")
		require.NoError(t, err)
		require.NoError(t, service.Wait(t.Context()))
		assert.Equal(t, "Newer", service.Snapshot().Applications[0].BusinessName)
	})
}
