package promises_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const updateName = "GET /api/Application/update-application-name/{applicationId}"

// TestARefusalOfTheSecondTimeSettlesNothing: what was sent, lost its answer and is sent
// again may have happened the first time, or happen yet, whatever becomes of the second.
func TestARefusalOfTheSecondTimeSettlesNothing(t *testing.T) {
	for name, second := range map[string]func(*lendingtest.Service) lending.Option{
		"refused":         refusesName(http.StatusBadRequest),
		"without a token": refusesName(http.StatusUnauthorized),
		"too often":       refusesName(http.StatusTooManyRequests),
		"no connection": func(service *lendingtest.Service) lending.Option {
			return lending.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "update-application-name") {
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}
				return service.Transport().RoundTrip(r)
			})})
		},
	} {
		t.Run(name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client, journal *lending.Journal) {
				o, client := newOrder(service), process()
				older, newer := lending.WithKey(t.Context(), "name-1"), lending.WithKey(t.Context(), "name-2")
				service.Fail(updateName, lendingtest.Fault{Late: quiet - time.Second})
				_, err := client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				_, err = process(second(service)).Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				unsettled := must(journal.Unsettled(t.Context(), 2))
				require.Len(t, unsettled, 1)
				assert.Equal(t, lending.CommandUnknown, unsettled[0].State)
				_, err = client.Applications.UpdateName(newer, o.application, "New")
				require.ErrorIs(t, err, lending.ErrScopeHeld, "the older one would overwrite it")
			})
		})
	}
}

func refusesName(status int) func(*lendingtest.Service) lending.Option {
	return func(service *lendingtest.Service) lending.Option {
		service.Fail(updateName, lendingtest.Fault{Status: status})
		return nil
	}
}

// TestAStoreThatFailsTheSecondTimeSettlesNothing either.
func TestAStoreThatFailsTheSecondTimeSettlesNothing(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
				o := newOrder(service)
				older, newer := lending.WithKey(t.Context(), "name-1"), lending.WithKey(t.Context(), "name-2")
				service.Fail(updateName, lendingtest.Fault{Late: quiet - time.Second})
				_, err := client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				fail := func(lending.JournalEntry) error {
					store.save, store.saved = nil, nil // once
					return errStore
				}
				if store.save = fail; after {
					store.save, store.saved = nil, fail
				}
				_, err = client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrJournal)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				_, err = client.Applications.UpdateName(newer, o.application, "New")
				require.ErrorIs(t, err, lending.ErrScopeHeld)
			})
		})
	}
}
