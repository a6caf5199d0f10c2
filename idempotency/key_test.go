package idempotency_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
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

const maxLateness = 5 * time.Minute // the default of Options

// doubtful selects the entries in doubt.
var doubtful = idempotency.Filter{States: idempotency.InDoubtStates(), Limit: 1000}

// newClient starts another process: a client of its own, which shares the log.
type newClient = func(...lending.Option) *lending.Client

// keyed runs f in a bubble with a service and a function that starts another process: a
// client of its own, which shares the log.
func keyed(t *testing.T, f func(*testing.T, *lendingtest.Service, newClient)) {
	t.Helper()
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		f(t, service, process)
	})
}

// withLog is keyed, and the log.
func withLog(t *testing.T, f func(*testing.T, *lendingtest.Service, newClient, *idempotency.Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nobody := &http.Client{Transport: wire.Reply(http.StatusOK, "")}
		service := lendingtest.New(lendingtest.WithDeliveryClient(nobody))
		defer service.Close()
		log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		f(t, service, func(opts ...lending.Option) *lending.Client { return processWith(t, service, log, opts...) }, log)
	})
}

// A call checks again after growing pauses, and finds a mutation that the service executes just
// within MaxLateness.
func TestKeyWaitsUntilAnAbsenceHasLasted(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, user := process(), fake.Newcomer()
		service.Fail(fake.CreateRoute, lendingtest.Fault{Late: maxLateness - time.Second})
		ctx := lending.WithIdempotencyKey(t.Context(), "order-42/customer")
		_, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		var waits []time.Duration
		for err != nil {
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			if _, err = client.Applications.CreateCustomer(ctx, user); err != nil {
				require.ErrorIs(t, err, idempotency.ErrInDoubt)
				waits = append(waits, lending.NextOf(err).After.Round(time.Second))
				bubble.Elapse(lending.NextOf(err).After)
			}
		}
		var want []time.Duration
		for _, seconds := range []int{1, 1, 2, 4, 8, 16, 32, 64, 128, 44} { // together MaxLateness
			want = append(want, time.Duration(seconds)*time.Second)
		}
		assert.Equal(t, want, waits)
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// keyOption is an option of package idempotency for the key in a context.
type keyOption = func(context.Context) context.Context

func withKey(ctx context.Context, key string, opts ...keyOption) context.Context {
	ctx = lending.WithIdempotencyKey(ctx, key)
	for _, opt := range opts {
		ctx = opt(ctx) //nolint:fatcontext // a few options
	}
	return ctx
}

func withCheck(check func(context.Context) (idempotency.Verdict, error)) keyOption {
	return func(ctx context.Context) context.Context { return idempotency.WithCheck(ctx, check) }
}

// processWith is another process, with a log of its own.
func processWith(t *testing.T, service *lendingtest.Service, log *idempotency.Log,
	opts ...lending.Option,
) *lending.Client {
	t.Helper()
	return wire.NewClient(t, "https://lending.example", append([]lending.Option{
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})),
		lending.WithIdempotency(log),
	}, opts...)...)
}
