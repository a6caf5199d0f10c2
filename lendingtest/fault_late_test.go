package lendingtest_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// soon is as late as a mutation can be without anybody waiting for it.
const soon = time.Nanosecond

// The caller is let go at once. A late mutation holds nobody else up.
func TestFaultLateLetsTheCallerGo(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour})
		require.Error(r.t, r.cancel(id).err)
		r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour, Status: 504})
		r.cancel(id).refused(504, "InjectedFault")
		r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour, Status: 504, CutBody: -1})
		require.Error(r.t, r.cancel(id).err)
		assert.Equal(r.t, []int{3, 0}, []int{r.Arrived(cancelRoute), r.Executed(cancelRoute)})
		assert.Equal(r.t, lendingtest.StatusCreated, r.get("/api/Application/application-status/"+id).text())
	})
}

// Then it is executed, or refused as any other, and watchers are told.
func TestFaultLateIsExecuted(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		var mu sync.Mutex
		var seen []any
		r.watch = func(row lendingtest.Request, late bool) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, late, row.Status, row.Executed)
		}
		r.Fail("*", lendingtest.Fault{Late: soon})
		require.Error(r.t, r.cancel(id).err)
		r.wait()
		assert.Equal(r.t, lendingtest.StatusCancelled, r.Snapshot().Applications[0].Status)
		r.Fail("*", lendingtest.Fault{Late: soon, Status: 504})
		r.cancel(id).refused(504, "InjectedFault")
		r.wait()
		r.cancel(id).refused(bad, "ApplicationCancelled")
		assert.Equal(r.t, []int{3, 1}, []int{r.Arrived(cancelRoute), r.Executed(cancelRoute)})
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(r.t, []any{
			false, 0, false, true, 0, true, false, 504, false, true, 504, false, false, bad, false,
		}, seen)
	})
}

// A caller who leaves by himself does not take the mutation with him.
func TestFaultLateAfterTheCallerLeft(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		ctx, leave := context.WithCancel(r.t.Context())
		r.Fail(cancelRoute, lendingtest.Fault{Late: soon, DelayBefore: time.Hour, Reached: leave})
		require.ErrorIs(r.t, r.within(ctx).cancel(id).err, context.Canceled)
		r.wait()
		assert.Equal(r.t, 1, r.Executed(cancelRoute))
	})
}

// A file is taken in before its sender goes. One that does not arrive whole is not executed.
func TestFaultLateUpload(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.offered()
		path := "/api/Application/submit-bankstatement-document/" + id + "?fileName=may.pdf"
		const route = "POST /api/Application/submit-bankstatement-document/{applicationId}"
		r.Fail(route, lendingtest.Fault{Late: soon})
		require.Error(r.t, r.post(path, file(100_000)).err)
		r.wait()
		assert.EqualValues(r.t, 100_000, r.Snapshot().Applications[0].Documents[0].Size)
		sent := r.Requests()[len(r.Requests())-1]
		assert.Len(r.t, sent.Body, 64<<10, "the log has the beginning")
		r.Fail(route, lendingtest.Fault{Late: soon})
		require.Error(r.t, r.send(http.MethodPost, path, io.MultiReader(strings.NewReader(`"aaaa"`), broken{})).err)
		r.wait()
		assert.Equal(r.t, 1, r.Executed(route))
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// To the moment: three minutes after the caller has gone, by the state and the token of then.
func TestFaultLateCountsFromTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.application()
		start := time.Now()
		r.Fail(cancelRoute, lendingtest.Fault{DelayBefore: time.Minute, Late: 3 * time.Minute})
		require.Error(t, r.cancel(id).err)
		assert.Equal(t, time.Minute, time.Since(start))
		<-time.After(3*time.Minute - 1)
		assert.Zero(t, r.Executed(cancelRoute))
		require.NoError(t, r.Wait(t.Context()))
		assert.Equal(t, 4*time.Minute, time.Since(start))
		assert.Equal(t, 1, r.Executed(cancelRoute))

		id = r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour})
		require.Error(t, r.cancel(id).err)
		require.NoError(t, r.Wait(t.Context()))
		assert.Equal(t, 1, r.Executed(cancelRoute), "its token had expired")
	})
}

// Many at once, and each of them once.
func TestFaultLateForMany(t *testing.T) {
	t.Parallel()
	r := serverRig(t)
	customer := r.AddCustomer(lendingtest.Customer{}).ID
	const route = "POST /api/Application/create-application"
	r.Fail(route, lendingtest.Fault{Late: time.Millisecond, Status: 503, Times: -1})
	r.flood(customer)
	r.wait()
	assert.Equal(t, []int{200, 200, 200}, []int{r.Arrived(route), r.Executed(route), r.ExecutedFor(route)[customer]})
	assert.Len(t, r.Snapshot().Applications, 200)
}

// Close leaves nothing running, and executes nothing that still waits.
func TestCloseForgetsLateMutations(t *testing.T) { // not parallel: it counts goroutines
	before := runtime.NumGoroutine()
	r := newRig(t)
	id := r.application()
	r.Fail("*", lendingtest.Fault{Late: time.Hour, Times: -1})
	for range 50 {
		require.Error(t, r.cancel(id).err)
	}
	r.Close()
	require.Error(t, r.cancel(id).err)
	assert.Zero(t, r.Executed(cancelRoute))
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond,
		"goroutines left; one is Eventually's own")
}

// The mutations that wait have a bound, since each holds its body.
func TestFaultLateIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, lendingtest.WithTokenLifetime(24*time.Hour))
		id := r.application()
		const route = "GET /api/Application/application-status/{applicationId}"
		path := "/api/Application/application-status/" + id
		r.Fail(route, lendingtest.Fault{Late: time.Hour, Status: http.StatusGatewayTimeout, Times: -1})
		for range 1000 {
			require.Equal(t, http.StatusGatewayTimeout, r.get(path).status)
		}
		refused := r.get(path)
		assert.Equal(t, http.StatusServiceUnavailable, refused.status)
		assert.Contains(t, refused.body, "TooManyLate")
		require.NoError(t, r.Wait(t.Context()))
		assert.Equal(t, 1000, r.Executed(route))
		assert.Equal(t, http.StatusGatewayTimeout, r.get(path).status, "there is room again")
	})
}
