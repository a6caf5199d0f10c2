package lendingtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

const (
	processRoute = "GET /api/Application/process-application/{applicationId}"
	cancelRoute  = "POST /api/Application/cancel-application/{applicationId}"
)

// forms are the ways to reach a service; faults have to show in each.
var forms = map[string][]lendingtest.Option{
	"transport": nil,
	"http":      nil,
	"https":     {lendingtest.WithTLS()},
	"http2":     {lendingtest.WithHTTP2()},
}

func inEveryForm(t *testing.T, f func(*rig)) {
	t.Helper()
	t.Parallel()
	for name, opts := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "transport" {
				f(newRig(t))
				return
			}
			f(serverRig(t, opts...))
		})
	}
}

func (r *rig) cancel(id string) reply {
	return r.post("/api/Application/cancel-application/"+id, "")
}

func TestFaultStatus(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Status: 429, RetryAfter: 90 * time.Second, Times: 2})
		r.Fail("*", lendingtest.Fault{
			Status: 502, Body: []byte("<h1>Bad Gateway</h1>"), ContentType: "text/html",
			Header: http.Header{"Server": {"proxy"}, "X-Two": {"1", "2"}},
		})
		for range 2 {
			reply := r.cancel(id)
			reply.refused(429, "InjectedFault")
			assert.Equal(r.t, "90", reply.header.Get("Retry-After"))
		}
		reply := r.cancel(id)
		assert.Equal(r.t, "502 text/html <h1>Bad Gateway</h1>", reply.shown())
		assert.Equal(r.t, []string{"1", "2"}, reply.header["X-Two"])
		assert.NotContains(r.t, reply.header, "Retry-After")
		r.Fail("*", lendingtest.Fault{Status: 500, Body: []byte{}})
		assert.Equal(r.t, "500  ", r.cancel(id).shown())
		r.Fail("*", lendingtest.Fault{Status: 503, Header: http.Header{"content-type": {"text/html"}}})
		assert.Equal(r.t, []string{"text/html"}, r.cancel(id).header["Content-Type"], "in place of the service's own")
		assert.Zero(r.t, r.Executed(cancelRoute))
		r.cancel(id).ok()
		assert.Equal(r.t, []int{1, 6}, []int{r.Executed(cancelRoute), r.Arrived(cancelRoute)})
	})
}

// The route runs and the caller is told that it failed.
func TestFaultExecutes(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Status: 504, Executes: true})
		r.cancel(id).refused(504, "InjectedFault")
		assert.Equal(r.t, 1, r.Executed(cancelRoute))
		assert.Equal(r.t, lendingtest.StatusCancelled, r.Snapshot().Applications[0].Status)
	})
}

func TestFaultResets(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		for i, fault := range []lendingtest.Fault{{ResetBefore: true}, {ResetAfter: true}} {
			r.Fail(cancelRoute, fault)
			err := r.cancel(id).err
			require.Error(r.t, err)
			// Over HTTP/2 a stream is reset, not the connection.
			if r.Requests()[0].Proto == "HTTP/1.1" {
				assert.ErrorIs(r.t, err, syscall.ECONNRESET)
			}
			assert.Equal(r.t, i, r.Executed(cancelRoute))
			assert.Equal(r.t, i+1, r.Arrived(cancelRoute))
		}
		assert.Equal(r.t, lendingtest.StatusCancelled, r.Snapshot().Applications[0].Status)
		requests := r.Requests()
		assert.Zero(r.t, requests[len(requests)-1].Status)
	})
}

func TestFaultCutBody(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		const route = "GET /api/Application/application-status/{applicationId}"
		for _, cut := range []int{-1, 3, 1000} {
			r.Fail(route, lendingtest.Fault{CutBody: cut})
			reply := r.get("/api/Application/application-status/" + id)
			require.Error(r.t, reply.err)
			assert.Equal(r.t, 200, reply.status)
			whole := strconv.Quote(lendingtest.StatusCreated)
			assert.Equal(r.t, whole[:min(max(cut, 0), len(whole))], reply.body)
			if r.Requests()[0].Proto == "HTTP/1.1" {
				assert.ErrorIs(r.t, reply.err, io.ErrUnexpectedEOF)
			}
		}
		assert.Equal(r.t, 3, r.Executed(route))
		r.get("/api/Application/application-status/" + id).ok()
	})
}

// A delayed request ends with its context, unexecuted.
func TestFaultDelayHonoursTheContext(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		ctx, cancel := context.WithCancel(r.t.Context())
		r.Fail(cancelRoute, lendingtest.Fault{DelayBefore: time.Hour, Reached: cancel})
		require.ErrorIs(r.t, r.within(ctx).cancel(id).err, context.Canceled)
		assert.Zero(r.t, r.Executed(cancelRoute))
	})
}

// A slow service executes at once: a caller who gives up and sends the request again does it twice.
func TestFaultAnswerDelayExecutesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		customer := r.customer()
		const route = "POST /api/Application/create-application"
		create := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return r.within(ctx).post("/api/Application/create-application", `{"customerId":"`+customer+`"}`).err
		}
		start := time.Now()
		r.Fail(route, lendingtest.Fault{AnswerDelay: 5 * time.Second})
		require.ErrorIs(t, create(3*time.Second), context.DeadlineExceeded)
		assert.Equal(t, 1, r.Executed(route))
		r.Fail(route, lendingtest.Fault{AnswerDelay: 5 * time.Second})
		require.NoError(t, create(10*time.Second))
		assert.Equal(t, 8*time.Second, time.Since(start))
		assert.Equal(t, 2, r.ExecutedFor(route)[customer])

		r.Fail(route, lendingtest.Fault{AnswerDelay: 5 * time.Second, Status: http.StatusServiceUnavailable})
		require.NoError(t, create(10*time.Second))
		assert.Equal(t, 13*time.Second, time.Since(start))
		assert.Equal(t, 2, r.Executed(route))
	})
}

func TestAnswerIsReplaced(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		const route = "POST /api/Communication/post-messages/{applicationId}"
		r.Answer(route, func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, req.PathValue("applicationId")+req.URL.RawQuery+string(body))
		})
		answer := r.as("").post("/api/Communication/post-messages/x?a=b", `{}`)
		assert.Equal(r.t, []any{http.StatusTeapot, "xa=b{}"}, []any{answer.status, answer.body})
		assert.Equal(r.t, []int{0, 1}, []int{r.Executed(route), r.Arrived(route)})
		assert.Equal(r.t, http.StatusTeapot, r.Requests()[0].Status)
		answer = r.post("/api/Communication/post-messages/x", `{}`) // the service reads the body of a known user first
		assert.Equal(r.t, "x{}", answer.body)
		r.Answer(route, nil)
		r.post("/api/Communication/post-messages/x", `{}`).refused(bad, invalid, "applicationId InvalidGuid")
	})
}

// A sender that does not look up from a long body still reads an early refusal.
func TestEarlyRefusalOfAnUploadIsReadable(t *testing.T) {
	t.Parallel()
	r := serverRig(t)
	upload := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		statement(r), 20<<20, strings.Repeat("A", 20<<20))
	status, _, _ := r.raw(upload)
	assert.Equal(t, 401, status)
	r.Fail("*", lendingtest.Fault{Status: 429})
	status, _, _ = r.raw(upload)
	assert.Equal(t, 429, status)
}

// What is planned can be looked at: how often each fault still shows, in the order of Fail.
func TestFaultsArePlanned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	assert.Empty(t, r.Faults())
	r.Fail(processRoute, lendingtest.Fault{Status: 503, Times: 2})
	r.Fail("*", lendingtest.Fault{Status: 504, Times: -1})
	r.Fail(processRoute, lendingtest.Fault{Status: 429})
	for _, want := range [][]int{{2, -1, 1}, {1, -1, 1}, {-1, 1}, {-1}} {
		var left []int
		for _, planned := range r.Faults() {
			left = append(left, planned.Left)
		}
		assert.Equal(t, want, left)
		r.get("/api/Application/process-application/x")
	}
	planned := r.Faults()
	assert.Equal(t, "*", planned[0].Route)
	assert.Equal(t, 504, planned[0].Fault.Status)
	assert.Negative(t, planned[0].Left)
	planned[0].Route = "" // a copy
	assert.Equal(t, "*", r.Faults()[0].Route)
	r.ClearFaults()
	assert.Empty(t, r.Faults())
}
