package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// Each service has a state, clock, faults, counters and page of its own, until it is deleted.
func TestServicesMeetNoOther(t *testing.T) {
	t.Parallel()
	s := start(t, "-log=false", "-control")
	ctx, main := t.Context(), steer.Control{URL: s.url + "/_control"}
	var one, two, next control.Service
	require.NoError(t, main.Post(ctx, "services", nil, &one))
	require.NoError(t, main.Post(ctx, "services", nil, &two))
	first, second := steer.Control{URL: one.Control}, steer.Control{URL: two.Control}

	const status = "GET /api/Application/application-status/{applicationId}"
	var loan lendingtest.Loan
	require.NoError(t, first.Post(ctx, "add-loan", lendingtest.Loan{}, &loan))
	require.NoError(t, first.Fail(ctx, status, lendingtest.Fault{Status: 503}))
	require.NoError(t, first.Post(ctx, "advance", map[string]string{"by": (48 * time.Hour).String()}, nil))
	for _, other := range []steer.Control{main, second} {
		var snap lendingtest.Snapshot
		require.NoError(t, other.Get(ctx, "snapshot", nil, &snap))
		assert.Empty(t, snap.Loans)
		assert.Equal(t, 2026, snap.Time.Year())
		assert.Equal(t, 20, snap.Time.Day(), "the clock of the first has moved alone")
		var theirs lendingtest.Loan
		require.NoError(t, other.Post(ctx, "add-loan", theirs, &theirs))
		assert.NotEqual(t, loan.ID, theirs.ID, "an identifier says whose it is")
	}
	code, _, _ := s.do(http.MethodGet, "/services/"+one.ID+"/api/Loan/get-loan/"+loan.ID, "")
	assert.Equal(t, http.StatusUnauthorized, code)
	_, _, page := s.do(http.MethodGet, "/services/"+one.ID, "") // leads to the address with a slash
	assert.Contains(t, page, "<code>"+one.URL+"/api</code>")
	assert.Contains(t, page, "<code>/api/Loan/get-loan/"+loan.ID+"</code>")
	_, _, page = s.do(http.MethodGet, "/services/"+two.ID+"/", "")
	assert.NotContains(t, page, loan.ID)

	require.ErrorContains(t, first.Post(ctx, "services", nil, &next), "ask the control of the sandbox itself")
	require.NoError(t, main.Post(ctx, "delete-service", map[string]string{"id": one.ID}, nil))
	require.ErrorContains(t, main.Post(ctx, "delete-service", map[string]string{"id": one.ID}, nil), "no service")
	code, _, _ = s.do(http.MethodGet, "/services/"+one.ID+"/api/Loan/get-loan/"+loan.ID, "")
	assert.Equal(t, http.StatusNotFound, code)
	var left []control.Service
	require.NoError(t, main.Get(ctx, "services", nil, &left))
	assert.Equal(t, []control.Service{two}, left)
	for range 99 {
		require.NoError(t, main.Post(ctx, "services", nil, &next))
	}
	require.ErrorContains(t, main.Post(ctx, "services", nil, &next),
		"100 services are open; send delete-service for one of them")
}
