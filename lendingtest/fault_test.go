package lendingtest_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"testing"
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
var forms = map[string]func(*testing.T) *rig{
	"transport": func(t *testing.T) *rig { return newRig(t) },
	"http":      func(t *testing.T) *rig { return serverRig(t) },
	"https":     func(t *testing.T) *rig { return serverRig(t, lendingtest.WithTLS()) },
	"http2":     func(t *testing.T) *rig { return serverRig(t, lendingtest.WithHTTP2()) },
}

func inEveryForm(t *testing.T, f func(*testing.T, *rig)) {
	t.Parallel()
	for name, start := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t))
		})
	}
}

func (r *rig) cancel(id string) reply {
	return r.post("/api/Application/cancel-application/"+id, "")
}

func TestFaultStatus(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		id := r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Status: 429, RetryAfter: 90 * time.Second, Times: 2})
		r.Fail("*", lendingtest.Fault{
			Status: 502, Body: []byte("<h1>Bad Gateway</h1>"), ContentType: "text/html",
			Header: http.Header{"Server": {"proxy"}, "X-Two": {"1", "2"}},
		})
		for range 2 {
			reply := r.cancel(id)
			reply.refused(429, "InjectedFault")
			assert.Equal(t, "90", reply.header.Get("Retry-After"))
		}
		reply := r.cancel(id)
		assert.Equal(t, []any{502, "<h1>Bad Gateway</h1>", "text/html"}, []any{reply.status, reply.body, reply.header.Get("Content-Type")})
		assert.Equal(t, []string{"1", "2"}, reply.header["X-Two"])
		assert.Zero(t, r.Executed(cancelRoute))
		r.cancel(id).ok()
		assert.Equal(t, []int{1, 4}, []int{r.Executed(cancelRoute), r.Arrived(cancelRoute)})
	})
}

func TestFaultEmptyBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Fail("*", lendingtest.Fault{Status: 500, Body: []byte{}})
	reply := r.get("/api/Loan/is-loan-closed/" + unknownID)
	assert.Equal(t, []any{500, "", ""}, []any{reply.status, reply.body, reply.header.Get("Content-Type")})
}

// The route runs and the caller is told that it failed.
func TestFaultExecutes(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		id := r.application()
		r.Fail(cancelRoute, lendingtest.Fault{Status: 504, Executes: true})
		r.cancel(id).refused(504, "InjectedFault")
		assert.Equal(t, 1, r.Executed(cancelRoute))
		assert.Equal(t, lendingtest.StatusCancelled, r.Snapshot().Applications[0].Status)
	})
}

func TestFaultResets(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		id := r.application()
		for i, fault := range []lendingtest.Fault{{ResetBefore: true}, {ResetAfter: true}} {
			r.Fail(cancelRoute, fault)
			err := r.cancel(id).err
			require.Error(t, err)
			// Over HTTP/2 a stream is reset, not the connection.
			if r.Requests()[0].Proto == "HTTP/1.1" {
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			}
			assert.Equal(t, i, r.Executed(cancelRoute))
			assert.Equal(t, i+1, r.Arrived(cancelRoute))
		}
		assert.Equal(t, lendingtest.StatusCancelled, r.Snapshot().Applications[0].Status)
		journal := r.Requests()
		assert.Zero(t, journal[len(journal)-1].Status)
	})
}

func TestFaultCutBody(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		id := r.application()
		const route = "GET /api/Application/application-status/{applicationId}"
		for _, cut := range []int{-1, 3, 1000} {
			r.Fail(route, lendingtest.Fault{CutBody: cut})
			reply := r.get("/api/Application/application-status/" + id)
			require.Error(t, reply.err)
			assert.Equal(t, 200, reply.status)
			whole := strconv.Quote(lendingtest.StatusCreated)
			assert.Equal(t, whole[:min(max(cut, 0), len(whole))], reply.body)
			if r.Requests()[0].Proto == "HTTP/1.1" {
				assert.ErrorIs(t, reply.err, io.ErrUnexpectedEOF)
			}
		}
		assert.Equal(t, 3, r.Executed(route))
		r.get("/api/Application/application-status/" + id).ok()
	})
}

// A delayed request ends with its context, unexecuted.
func TestFaultDelayHonoursTheContext(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		id := r.application()
		for _, fault := range []lendingtest.Fault{{Delay: time.Hour}, {Until: make(chan struct{})}} {
			ctx, cancel := context.WithCancel(t.Context())
			fault.Reached = cancel
			r.Fail(cancelRoute, fault)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/api/Application/cancel-application/"+id, nil)
			require.NoError(t, err)
			resp, err := r.client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Zero(t, r.Executed(cancelRoute))
	})
}

func TestFaultUntil(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	release := make(chan struct{})
	r.Fail(cancelRoute, lendingtest.Fault{Until: release, Reached: func() { close(release) }})
	r.cancel(id).ok()
}

func TestFaultForEverUntilCleared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	r.Fail("*", lendingtest.Fault{Status: 503, Times: -1})
	for range 20 {
		r.cancel(id).refused(503, "InjectedFault")
	}
	r.ClearFaults()
	r.cancel(id).ok()
}

func TestUnknownRoutePanics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const route = "GET /api/Loan/get-loan/{id}"
	for _, f := range []func(){
		func() { r.Fail(route, lendingtest.Fault{}) },
		func() { r.Answer(route, nil) },
		func() { r.Executed(route) },
		func() { r.Arrived(route) },
	} {
		assert.PanicsWithValue(t, `lendingtest: no route "GET /api/Loan/get-loan/{id}"; spell it as the interface does, `+
			`for example "GET /api/Loan/get-loan/{loanId}"`, f)
	}
}

func TestAnswerIsReplaced(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		const route = "POST /api/Communication/post-messages/{applicationId}"
		r.Answer(route, func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, req.PathValue("applicationId")+req.URL.RawQuery+string(body))
		})
		reply := r.as("").post("/api/Communication/post-messages/x?a=b", `{}`)
		assert.Equal(t, []any{http.StatusTeapot, "xa=b{}"}, []any{reply.status, reply.body})
		assert.Equal(t, []int{0, 1}, []int{r.Executed(route), r.Arrived(route)})
		assert.Equal(t, http.StatusTeapot, r.Requests()[0].Status)
		r.Answer(route, nil)
		r.post("/api/Communication/post-messages/x", `{}`).refused(bad, invalid, "applicationId InvalidGuid")
	})
}

// A long upload that is refused early still reads the refusal.
func TestFaultOnUploadIsReadable(t *testing.T) {
	inEveryForm(t, func(t *testing.T, r *rig) {
		path := statement(r)
		for _, want := range []int{429, 413, 401} {
			switch want {
			case 429:
				r.Fail("*", lendingtest.Fault{Status: 429})
			case 401:
				r.token = "x"
			}
			reply := r.post(path, oversized())
			require.NoError(t, reply.err)
			assert.Equal(t, want, reply.status)
		}
	})
}
