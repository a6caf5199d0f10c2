package lendingotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

// TestSpansOfKeys takes mutations with keys through all that a log does. Their spans are in
// testdata/keys.txt: how the log treated the call, its checks, and why the log did not send it.
func TestSpansOfKeys(t *testing.T) {
	service, _ := fake.Start(t)
	tel, entries := newTelemetry(), store.NewMemory()
	token := account{lending.StaticToken(service.Token(lendingtest.Username))}
	clientOf := func(entries store.Store, opts *idempotency.Options) (*lending.Client, *idempotency.Log) {
		log := fake.Must(idempotency.NewLog(entries, opts))
		return wire.NewClient(t, service.URL, tel.observe(), lending.WithTokenSource(token),
			lending.WithIdempotency(log)), log
	}
	client, log := clientOf(entries, nil)
	torn, _ := clientOf(tornStore{}, nil)
	quick, quickLog := clientOf(entries, &idempotency.Options{MaxLateness: time.Nanosecond})
	var parent trace.Span
	within := func(key string) context.Context {
		return lending.WithIdempotencyKey(trace.ContextWithSpan(t.Context(), parent), "order-42/"+key)
	}
	createIn := func(ctx context.Context, client *lending.Client, key, name string) error {
		user := fake.Ada()
		user.LastName, user.Email = name, key+"@example.com"
		_, err := client.Applications.CreateCustomer(ctx, user)
		return err
	}
	create := func(client *lending.Client, key, name string) error { return createIn(within(key), client, key, name) }
	var apps [2]lending.ApplicationID
	for i := range apps {
		apps[i] = fake.Must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	}
	cancel := func(client *lending.Client, app int, key string) error {
		return client.Applications.Cancel(within(key), apps[app])
	}
	person := func(context.Context) (idempotency.Verdict, error) { return idempotency.NeedsReview("who knows"), nil }
	by := idempotency.Decision{By: "dora", Why: "an incident"}
	none, unsent, lost := lendingtest.Fault{}, lendingtest.Fault{ResetBefore: true}, lendingtest.Fault{ResetAfter: true}
	during := lendingtest.Fault{Reached: func() {
		assert.ErrorIs(t, cancel(client, 0, "cancel"), idempotency.ErrInProgress)
	}}

	var all strings.Builder
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		want  error
		call  func() error
	}{
		{"the store fails", none, idempotency.ErrStore, func() error { return create(torn, "ada", "Lovelace") }},
		{"sent", unsent, lending.ErrOutcomeUnknown, func() error { return create(client, "ada", "Lovelace") }},
		{"in doubt", none, idempotency.ErrInDoubt, func() error { return create(client, "ada", "Lovelace") }},
		{"sent again", lost, lending.ErrOutcomeUnknown, func() error { return create(quick, "ada", "Lovelace") }},
		{"rebuilt", none, nil, func() error { return create(quick, "ada", "Lovelace") }},
		{"reused", none, idempotency.ErrKeyReused, func() error { return create(client, "ada", "Byron") }},
		{"a person", unsent, idempotency.ErrNeedsReview, func() error {
			lost := create(client, "bab", "Bage")
			return errors.Join(lost, createIn(idempotency.WithCheck(within("bab"), person), client, "bab", "Bage"))
		}},
		{"in progress", during, nil, func() error { return cancel(client, 0, "cancel") }},
		{"replayed", none, nil, func() error { return cancel(client, 0, "cancel") }},
		{"locked", unsent, idempotency.ErrLocked, func() error {
			return errors.Join(cancel(client, 1, "first"), cancel(client, 1, "second"))
		}},
		{"paused", none, idempotency.ErrPaused, func() error {
			defer log.Resume(t.Context())
			return errors.Join(log.Pause(t.Context(), by), cancel(client, 0, "third"))
		}},
		{"erased", none, idempotency.ErrErased, func() error {
			_, err := quickLog.Erase(t.Context(), by, apps[0].String())
			return errors.Join(err, cancel(quick, 0, "cancel"))
		}},
		{"without a key", none, nil, func() error {
			_, err := client.Applications.Status(trace.ContextWithSpan(t.Context(), parent), apps[0])
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, route := range []string{fake.CreateRoute, "POST /api/Application/cancel-application/{applicationId}"} {
				service.Fail(route, test.fault)
			}
			_, parent = tel.tracers.Tracer("caller").Start(t.Context(), "parent")
			err := test.call()
			service.ClearFaults()
			require.ErrorIs(t, err, test.want)
			fmt.Fprintf(&all, "# %s\n%s\n", test.name, tel.shown(t, parent))
		})
	}
	golden.Check(t, "testdata/keys.txt", all.String())
}

// account is a source of which a log knows the service only: each client has a token of its own.
type account struct{ lending.TokenSource }

// tornStore is a failing store.
type tornStore struct{ store.Store }

func (tornStore) Load(context.Context, string) (*store.Entry, error) { return nil, errors.New("torn") }
