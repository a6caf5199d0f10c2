package idempotency_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// tokenSource is a function as a source of tokens.
type tokenSource func() (lending.Token, error)

func (s tokenSource) Token(context.Context) (lending.Token, error) { return s() }

// TestPauseReachesACallThatWaits has a call wait in several places between the save of "sent" and
// its connection, and the pause come meanwhile.
func TestPauseReachesACallThatWaits(t *testing.T) {
	const places = 90 // the requests of a client over HTTP/2 at once
	for _, where := range []string{"TokenSource", "WithHeader", "place"} {
		t.Run(where, func(t *testing.T) {
			service := lendingtest.NewServer(lendingtest.WithHTTP2())
			defer service.Close()
			entries := &tampered{Store: store.NewMemory()}
			log := fake.Must(idempotency.NewLog(entries, nil))
			held, released := make(chan struct{}), make(chan struct{})
			var isSent atomic.Bool
			hold := func(at string) {
				if at == where && isSent.CompareAndSwap(true, false) {
					close(held)
					<-released
				}
			}
			token := lending.StaticToken(service.Token(lendingtest.Username))
			client := wire.NewClient(t, service.URL, lending.WithIdempotency(log),
				lending.WithTLS(&tls.Config{RootCAs: service.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}),
				lending.WithTokenSource(tokenSource(func() (lending.Token, error) {
					hold("TokenSource")
					return token.Token(t.Context())
				})),
				lending.WithHeader(func(context.Context, http.Header) { hold("WithHeader") }))
			o := newOrder(service.Service)
			require.NoError(t, client.Applications.SendLink(t.Context(), o.application))
			var others sync.WaitGroup
			entries.save = func(e store.Entry) error {
				if e.State != store.Sent {
					return nil
				}
				if isSent.Store(true); where == "place" {
					takePlaces(t, service, client, &others, places, released)
					close(held)
				}
				return nil
			}
			ended := make(chan error)
			go func() {
				ended <- client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
			}()
			<-held
			before := service.Executed(linkRoute)
			require.NoError(t, log.Pause(t.Context(), incident))
			close(released)
			err := <-ended
			others.Wait()
			require.ErrorIs(t, err, idempotency.ErrPaused)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			assert.Equal(t, "retry after 1m0s", lending.NextOf(err).String())
			assert.Equal(t, before, service.Executed(linkRoute))
			assert.Equal(t, store.Free, fake.Must(entries.Load(t.Context(), ":the/key")).State)
		})
	}
}

// takePlaces has calls without a key wait for their responses until released.
func takePlaces(t *testing.T, service *lendingtest.Server, client *lending.Client,
	calls *sync.WaitGroup, n int, released chan struct{},
) {
	t.Helper()
	application := newOrder(service.Service).application
	var arrived sync.WaitGroup
	arrived.Add(n)
	for range n {
		wait := func() { arrived.Done(); <-released }
		service.Fail(renameRoute, lendingtest.Fault{Reached: wait, Status: http.StatusNotFound})
		calls.Go(func() { _, _ = client.Applications.UpdateName(t.Context(), application, "New") })
	}
	arrived.Wait()
}
