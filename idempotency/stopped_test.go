package idempotency_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// lateTimer is a context whose timer has not fired when its deadline is over, as in a process
// that runs on after SIGCONT.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// TestStoppedProcessSendsNothingAfterItsDeadline has a process stand still, after "sent" is
// durable, until its deadline is over, and run on before the timer of its context does: another
// process may have sent the mutation meanwhile.
func TestStoppedProcessSendsNothingAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, where string
		foreign     bool
	}{
		{"after the save", "saved", false},
		{"after the save, with a transport of the caller's", "saved", true},
		{"with a connection in its hands", "connected", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			service := lendingtest.NewServer()
			defer service.Close()
			entries := &tampered{Store: store.NewMemory()}
			opts := []lending.Option{
				lending.WithCredentials(fake.Credentials(service)),
				lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))),
			}
			if test.foreign {
				opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: service.Transport()}))
			}
			client := wire.NewClient(t, service.URL, opts...)
			o := newOrder(service.Service)
			require.NoError(t, client.Session().SignIn(t.Context()))
			ctx := lateTimer{lending.WithIdempotencyKey(t.Context(), "the/key"), time.Now().Add(200 * time.Millisecond)}
			stop := func() { <-time.After(time.Until(ctx.deadline) + time.Millisecond) }
			var call context.Context = ctx
			if test.where == "saved" {
				entries.saved = func(entry store.Entry) error {
					if entry.State == store.Sent {
						stop()
					}
					return nil
				}
			} else {
				call = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
					GotConn: func(httptrace.GotConnInfo) { stop() },
				})
			}
			err := client.Applications.SendLink(call, o.application)
			require.Error(t, err)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), err)
			assert.Zero(t, service.Executed("POST /api/Application/send-application-link"))
			entry := fake.Must(entries.Load(t.Context(), ":the/key"))
			assert.Equal(t, store.Free, entry.State)
			require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application))
			assert.Equal(t, 1, service.Executed("POST /api/Application/send-application-link"))
		})
	}
}
