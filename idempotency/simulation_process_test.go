package idempotency_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
)

// fleetMember is a process: a client of its own, and its way to the store and to the service,
// at each step of which it can be killed or stand still.
type fleetMember struct {
	sched  *schedule
	id     int
	client *lending.Client
	log    *idempotency.Log
	dead   atomic.Bool
}

func (s *schedule) newMember(id int) *fleetMember {
	p := &fleetMember{sched: s, id: id}
	p.log = fake.Must(idempotency.NewLog(p, &idempotency.Options{MaxLateness: s.maxLateness}))
	p.client = fake.Must(lending.New("https://lending.example", lending.WithIdempotency(p.log),
		lending.WithTokenSource(lending.StaticToken(s.token)), lending.WithHTTPClient(&http.Client{Transport: p}),
		lending.WithObserver(func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
			return ctx, func(c lending.Call) {
				if c.Effect == lending.Mutation {
					callerIn(ctx).action = c.Idempotency
				}
			}
		}, nil)))
	return p
}

// caller is one goroutine of a process: what happens to it follows from its own random
// numbers. It is in the context of its calls.
type caller struct {
	p      *fleetMember
	name   string
	random *rand.Rand

	// Of the call under way.
	key, number string
	sends       int  // how often it has left
	reached     bool // it reaches the service, if late
	repeats     bool // the mutation may be executed twice
	action      string
}

// String names the caller in a trace.
func (c *caller) String() string {
	if c == nil {
		return "-"
	}
	return c.name
}

type callerKey struct{}

func callerIn(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

func (c *caller) note(format string, args ...any) { c.p.sched.note(c, format, args...) }

// chance reports whether what happens once in so many times happens now. Nothing does when
// the faults have ended.
func (c *caller) chance(once int) bool {
	return once > 0 && c.random.IntN(once) == 0 && !c.p.sched.over.Load()
}

// point is a step of the process: it may be its last, or take very long.
func (c *caller) point(what string) {
	s := c.p.sched
	bubble.Elapse(time.Duration(1+c.random.IntN(5_000_000)) * time.Nanosecond)
	switch {
	case c.p.dead.Load():
		runtime.Goexit()
	case c.chance(s.crashes):
		c.crash(what)
	case c.chance(s.freezes):
		long := time.Duration(c.random.Int64N(int64(10 * time.Second)))
		if c.random.IntN(2) == 0 {
			long = time.Duration(c.random.Int64N(int64(2*time.Minute + 2*s.maxLateness)))
		}
		c.note("stands still for %v %s", long.Round(time.Millisecond), what)
		s.count("freeze")
		bubble.Elapse(long)
		if c.p.dead.Load() {
			runtime.Goexit()
		}
	}
}

// crash kills the process. Its other goroutines end at their next step.
func (c *caller) crash(what string) {
	c.note("is killed %s", what)
	c.p.sched.count("crash")
	c.p.dead.Store(true)
	runtime.Goexit()
}

var errStoreDown = errors.New("the store is down")

// storeStep takes a step of the store, or what a fault makes of it. Only who is on the way to
// it can be late: the store itself changes nothing after it has said so.
func storeStep[T any](ctx context.Context, what string, effect func() (T, error)) (none T, _ error) {
	c := callerIn(ctx)
	s := c.p.sched
	c.point("before " + what)
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if c.chance(s.storeFaults) {
		fault := []string{"fails", "loses", "lags", "hangs", "mutes", "contradicts"}[c.random.IntN(6)]
		c.note("%s %s", what, fault)
		var result T
		var err error
		switch fault {
		case "loses", "mutes", "contradicts":
			result, err = effect()
		case "lags":
			late := time.Duration(c.random.Int64N(int64(15 * time.Second)))
			s.late.Go(func() {
				bubble.Elapse(late)
				_, err := effect()
				c.note("%s is done late: %v", what, err)
			})
		}
		switch {
		case fault == "contradicts" && err == nil && strings.HasPrefix(what, "save "):
			return none, store.ErrConflict
		case fault == "contradicts":
			return result, err
		case (fault == "hangs" || fault == "mutes") && ctx.Done() != nil:
			<-ctx.Done()
			return none, ctx.Err()
		}
		return none, errStoreDown
	}
	result, err := effect()
	c.note("%s: %v", what, err)
	c.point("after " + what)
	return result, err
}

// Load is the way of the log to its store, as are the next three.
func (p *fleetMember) Load(ctx context.Context, key string) (*store.Entry, error) {
	return storeStep(ctx, "load "+key, func() (*store.Entry, error) {
		return p.sched.entries.Load(context.Background(), key)
	})
}

func (p *fleetMember) Save(ctx context.Context, entry store.Entry) error {
	_, err := storeStep(ctx, "save "+entry.Key+" as "+string(entry.State), func() (struct{}, error) {
		return struct{}{}, p.sched.entries.Save(context.Background(), entry)
	})
	return err
}

func (p *fleetMember) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	return storeStep(ctx, "replace", func() (int, error) {
		return p.sched.entries.Replace(context.Background(), entries)
	})
}

func (p *fleetMember) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	return storeStep(ctx, "list", func() ([]store.Entry, error) {
		return p.sched.entries.List(context.Background(), filter)
	})
}

// isCommand reports whether r changes something.
func isCommand(r *http.Request) bool {
	return r.Method == http.MethodPost || strings.Contains(r.URL.Path, "/process-application/") ||
		strings.Contains(r.URL.Path, "/update-application-name")
}

var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// RoundTrip is the way of the client to the service. A frozen process sends nothing after the end of its
// context.
func (p *fleetMember) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c := callerIn(ctx)
	s, command := p.sched, isCommand(r)
	what := r.URL.Path[strings.LastIndex(strings.TrimRight(r.URL.Path, "0123456789abcdef-"), "/")+1:]
	what = "get " + strings.TrimSuffix(what, "/")
	if command {
		what = "SEND " + c.key
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	c.point("before " + what)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, number := c.key, c.number
	send := func(ctx context.Context) (*http.Response, error) {
		again := r.Clone(ctx)
		if body != nil {
			again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		if command {
			again.Header.Set(keyHeader, key)
			again.Header.Set(callHeader, number)
		}
		resp, err := s.service.Transport().RoundTrip(again)
		if err != nil {
			return nil, err
		}
		c.note("%s: %d", what, resp.StatusCode)
		return resp, nil
	}
	if !command {
		return p.read(c, r, what, send)
	}
	s.leaves(c)
	return p.command(c, r, what, send)
}

// way brings a request to the service.
type way = func(context.Context) (*http.Response, error)

// read brings a read to the service, or fails.
func (p *fleetMember) read(c *caller, r *http.Request, what string, send way) (*http.Response, error) {
	if c.chance(p.sched.readFaults) {
		c.note("%s fails", what)
		switch c.random.IntN(4) {
		case 0:
			return nil, syscall.ECONNRESET
		case 1:
			return answer(r, http.StatusServiceUnavailable, time.Second), nil
		case 2:
			return answer(r, http.StatusForbidden, 0), nil
		default:
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	}
	resp, err := send(r.Context())
	c.point("after " + what)
	return resp, err
}

// command brings a command to the service, or does what a fault makes of it.
func (p *fleetMember) command(c *caller, r *http.Request, what string, send way) (*http.Response, error) {
	s, ctx := p.sched, r.Context()
	if c.chance(s.crashes / 2) { // what it has sent goes its way
		deadline, _ := ctx.Deadline()
		s.sendLate(c, what, time.Until(deadline)+s.lateness(), send)
		c.crash("while it waits for the answer to " + what)
	}
	if !c.chance(s.sendFaults) {
		c.reached = true
		resp, err := send(ctx)
		c.point("after " + what)
		return resp, err
	}
	fault := sendFaults[c.random.IntN(len(sendFaults))]
	c.note("%s: %s", what, fault)
	c.reached = fault != "not sent"
	switch fault {
	case "not sent":
		return nil, errDial
	case "lost", "503", "429":
	case "answer lost", "503 though done", "no answer though done":
		_, _ = send(ctx)
	case "late", "503, late":
		s.sendLate(c, what, s.lateness(), send)
	case "after the deadline":
		<-ctx.Done()
		s.sendLate(c, what, s.lateness(), send)
	case "slow":
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(c.random.Int64N(int64(30 * time.Second)))):
		}
		return send(ctx)
	case "cut":
		resp, err := send(ctx)
		if err == nil && resp.StatusCode == http.StatusOK {
			resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, int64(c.random.IntN(8))), cutOff{}))
		}
		return resp, err
	}
	switch {
	case strings.HasPrefix(fault, "503"):
		return answer(r, http.StatusServiceUnavailable, 0), nil
	case fault == "429":
		return answer(r, http.StatusTooManyRequests, 3*time.Second), nil
	case strings.HasPrefix(fault, "no answer"):
		<-ctx.Done()
	}
	return nil, cmp.Or(ctx.Err(), error(syscall.ECONNRESET))
}

// sendFaults is what can happen to a command on its way.
var sendFaults = []string{
	"not sent", "lost", "answer lost", "503", "429", "503 though done", "no answer though done", "late", "503, late",
	"after the deadline", "slow", "cut", "answer lost", "late",
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// answer is a refusal of the service.
func answer(r *http.Request, status int, retryAfter time.Duration) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/problem+json")
	if retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(1+int(retryAfter.Seconds())))
	}
	w.WriteHeader(status)
	_, _ = w.WriteString(`{"title":"no"}`)
	resp := w.Result()
	resp.Request = r
	return resp
}
