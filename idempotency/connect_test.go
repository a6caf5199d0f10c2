package idempotency_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestUnreachableServiceLeavesTheKeyFree holds that a mutation is recorded as sent only when its
// connection is there: a process that is killed while it connects leaves no doubt.
func TestUnreachableServiceLeavesTheKeyFree(t *testing.T) {
	entries := &tampered{Store: store.NewMemory(), saved: func(entry store.Entry) error {
		assert.NotEqual(t, store.Sent, entry.State)
		return nil
	}}
	layer := lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil)))
	token := lending.WithTokenSource(lending.StaticToken("test-token"))
	client := wire.NewClient(t, "http://127.0.0.1:1", token, layer)
	ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
	err := client.Applications.SendLink(ctx, catalog.Application)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	require.ErrorContains(t, err, "cannot connect to 127.0.0.1:1")
	assert.True(t, lending.NextOf(err).Retry)
	assert.False(t, lending.NextOf(err).Person)
	if entry := fake.Must(entries.Load(t.Context(), ":the/key")); entry != nil {
		assert.Equal(t, store.Free, entry.State)
	}
}

// TestUnreachableServiceKeepsADoubt holds that a resend that is not sent does not end the doubt
// about the first send.
func TestUnreachableServiceKeepsADoubt(t *testing.T) {
	entries := store.NewMemory()
	server := httptest.NewServer(wire.Answer(http.StatusServiceUnavailable, "{}"))
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))))
	ctx := idempotency.SafeToRepeat(lending.WithIdempotencyKey(t.Context(), "the/key"))
	require.ErrorIs(t, client.Applications.SendLink(ctx, catalog.Application), lending.ErrOutcomeUnknown)
	server.Close()
	err := client.Applications.SendLink(ctx, catalog.Application)
	require.ErrorIs(t, err, idempotency.ErrInDoubt)
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	assert.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":the/key")).State)
}

// TestConnectionIsMadeBesideTheCheck has a service that answers the check when the connection of
// the mutation is there, and not before.
func TestConnectionIsMadeBesideTheCheck(t *testing.T) {
	connections := make(chan struct{}, 100)
	var checks, mutations atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			mutations.Add(1)
			wire.Answer(http.StatusOK, `{"id":"`+catalog.Loan.String()+`"}`)(w, r)
			return
		}
		for range 2 {
			<-connections
		}
		checks.Add(1)
		wire.Answer(http.StatusNotFound, `{"title":"Not Found"}`)(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
	_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), catalog.User())
	require.NoError(t, err)
	assert.EqualValues(t, 1, checks.Load())
	assert.EqualValues(t, 1, mutations.Load())
}

// TestCallWaitsForItsConnection holds that a call whose check fails stops the goroutine that
// connects, and waits for its end.
func TestCallWaitsForItsConnection(t *testing.T) {
	isOver := false // without a lock: the race detector sees a call that does not wait
	connected, stop := idempotency.Beside(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		isOver = true
		return context.Cause(ctx)
	})
	stop()
	assert.True(t, isOver)
	assert.ErrorIs(t, connected(), context.Canceled)
}

// waitingToken is a source that gives the second token, which is for the check, after the first
// connection.
type waitingToken struct {
	asked     atomic.Int32
	connected chan struct{}
}

func (w *waitingToken) Token(context.Context) (lending.Token, error) {
	if w.asked.Add(1) == 2 {
		<-w.connected
	}
	return lending.Token{Value: lending.NewSecret("test-token")}, nil
}

// TestHangingConnectionEndsWithTheCheck has the connection of the mutation hang in the TLS
// handshake while the check fails, because nobody knows the certificate.
func TestHangingConnectionEndsWithTheCheck(t *testing.T) {
	unknown := httptest.NewUnstartedServer(nil)
	unknown.Config.ErrorLog = wire.QuietLog
	unknown.StartTLS()
	defer unknown.Close()
	source, ended := &waitingToken{connected: make(chan struct{})}, make(chan struct{})
	var connections atomic.Int32
	address := wire.ListenRaw(t, func(conn net.Conn) {
		if connections.Add(1) == 1 {
			close(source.connected)
			_, _ = io.Copy(io.Discard, conn)
			close(ended)
			return
		}
		_ = tls.Server(conn, unknown.TLS).Handshake()
	})
	entries := store.NewMemory()
	client := wire.NewClient(t, "https://"+address, lending.WithTokenSource(source),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))))
	_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), catalog.User())
	<-ended
	require.ErrorContains(t, err, "TLS certificate not accepted")
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	assert.EqualValues(t, 2, connections.Load())
	assert.Nil(t, fake.Must(entries.Load(t.Context(), ":the/key")), "nothing was recorded")
}

// TestPanicWhileConnectingIsAnError has a hook of the caller panic. Beside a check the hook runs in
// a goroutine of the library, where a panic would end the process. The panics use up no connection.
func TestPanicWhileConnectingIsAnError(t *testing.T) {
	const most = 2
	client := wire.Serve(t, wire.Answer(http.StatusOK, "true"), lending.WithMaxConns(most),
		lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
	ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
	panics := httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{ConnectStart: func(string, string) { panic("123-45-6789") }})
	for range most {
		err := client.Applications.SendLink(panics, catalog.Application)
		var panicked *lending.PanicError
		require.ErrorAs(t, err, &panicked)
		assert.NotContains(t, err.Error(), "123-45-6789")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	}
	require.NoError(t, client.Applications.SendLink(ctx, catalog.Application))
}
