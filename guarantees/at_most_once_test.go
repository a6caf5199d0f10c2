package guarantees_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// trial is one call under one fault.
type trial struct {
	fault  fault
	name   string // of the call
	call   catalog.Call
	route  catalog.Route
	answer string // of the service, if it succeeds
	doored bool   // with WithTLS and WithHeader
}

// expected is the result of the trial in the table.
func (tr *trial) expected() expectation {
	if tr.route.Reads {
		return tr.fault.Read
	}
	return tr.fault.Mutation
}

// errorNames are the errors that the table names.
var errorNames = map[string]func(error) bool{
	"any":        func(err error) bool { return err != nil },
	"closed":     func(err error) bool { return strings.Contains(fmt.Sprint(err), "connection ") },
	"sent again": sentAgain,
	"reset":      func(err error) bool { return strings.Contains(fmt.Sprint(err), "the HTTP/2 stream") || sentAgain(err) },
	"goaway": func(err error) bool {
		text := fmt.Sprint(err)
		return strings.Contains(text, "connection closed") || strings.Contains(text, "or the connection") ||
			strings.Contains(text, "refused the HTTP/2 stream") || sentAgain(err)
	},
	"canceled":     func(err error) bool { return errors.Is(err, context.Canceled) },
	"unauthorized": func(err error) bool { return errors.Is(err, lending.ErrUnauthorized) },
	"forbidden":    func(err error) bool { return errors.Is(err, lending.ErrForbidden) },
	"not found":    func(err error) bool { return errors.Is(err, lending.ErrNotFound) },
	"too large":    func(err error) bool { return errors.Is(err, lending.ErrTooLarge) },
	"rate limited": func(err error) bool { return errors.Is(err, lending.ErrRateLimited) },
	"no content":   func(err error) bool { return errors.Is(err, lending.ErrNoContent) },
	"dial": func(err error) bool {
		var network *net.OpError
		return errors.As(err, &network) && network.Op == "dial"
	},
}

func sentAgain(err error) bool { return strings.Contains(fmt.Sprint(err), "the request twice") }

// wants returns the name of the error that the route ends with, "" for success.
func (tr *trial) wants() string {
	kind, name, conditional := strings.Cut(tr.expected().Error, ":")
	if !conditional {
		return kind
	}
	applies := map[string]bool{
		"value":     tr.route.Answer != "-",
		"typed":     tr.route.Answer != "-" && tr.route.Answer != "undeclared",
		"record":    tr.route.Answer != "-" && !strings.HasPrefix(tr.route.Answer, "[]") || catalog.IsBatch(tr.route),
		"anonymous": tr.route.Anonymous,
	}
	if !applies[kind] {
		return ""
	}
	return name
}

// outcome returns the outcome that the error of a mutation must have.
func (tr *trial) outcome() string {
	outcome, exception, _ := strings.Cut(tr.expected().Outcome, ", ")
	applies := map[string]bool{
		"bulk": catalog.IsBatch(tr.route), "proof": catalog.NeedsProof(tr.route),
	}
	if who, what, ok := strings.Cut(exception, ": "); ok && applies[who] {
		return what
	}
	return outcome
}

// throughProxy is the variable of a process whose clients reach the services through the proxy of its
// environment.
const throughProxy = "LENDING_TEST_THROUGH_PROXY"

// TestConformance tries every call with every fault of testdata/conformance.json.
func TestConformance(t *testing.T) {
	t.Parallel()
	tryAll(t, conformanceTrials(t, false), 64) // most trials wait for a back-off or a socket
}

// TestConformanceWithOwnTLSAndHeaders tries each call with a ninth of the faults, and all faults, with
// client certificates, a private CA, and the header of a gateway. In a long run it tries all with each call.
func TestConformanceWithOwnTLSAndHeaders(t *testing.T) {
	t.Parallel()
	tryAll(t, conformanceTrials(t, true), 16) // each connection costs a handshake with two certificates
}

// TestConformanceThroughProxy has the same in a process of its own, because net/http reads the
// variables of a proxy once. The proxy wants a password.
func TestConformanceThroughProxy(t *testing.T) {
	t.Parallel()
	var connected atomic.Int32
	proxy := wire.ListenRaw(t, func(conn net.Conn) {
		reader := bufio.NewReader(conn)
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		request.Header["Authorization"] = request.Header["Proxy-Authorization"]
		name, password, _ := request.BasicAuth()
		if !assert.Equal(t, "CONNECT u p", strings.Join([]string{request.Method, name, password}, " ")) {
			return
		}
		_, port, _ := net.SplitHostPort(request.Host)
		service, err := net.Dial("tcp", "127.0.0.1:"+port)
		if !assert.NoError(t, err) {
			return
		}
		defer service.Close()
		connected.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(service, reader)
			_ = service.Close()
		}()
		_, _ = io.Copy(conn, service)
	})
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConformanceWithOwnTLSAndHeaders$", "-test.v")
	child.Env = append(os.Environ(), throughProxy+"=1", "HTTPS_PROXY=http://u:p@"+proxy, "NO_PROXY=")
	said, err := child.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Greater(t, int(connected.Load()), 100)
}

// tryAll makes the trials, so many at once for each processor: a handshake that waits for a processor
// for 10 seconds fails. Trials that only wait for seconds begin at once, beside the others.
func tryAll(t *testing.T, trials []*trial, atOnce int) {
	t.Helper()
	require.Greater(t, len(trials), 200)
	var visits atomic.Int32
	t.Cleanup(func() { assert.Zero(t, visits.Load(), "connections to a host that a redirect named") })
	foreign := wire.ListenRaw(t, func(net.Conn) { visits.Add(1) })
	queue := make(chan *trial)
	var workers sync.WaitGroup
	work := func(trials <-chan *trial) {
		listener := listenTCP(t) // another for each trial would cost as much as the trial
		defer listener.Close()
		for tr := range trials {
			tr.run(t, listener, foreign)
		}
	}
	for range atOnce * runtime.GOMAXPROCS(0) {
		workers.Go(func() { work(queue) })
	}
	start := time.Now()
	for _, tr := range trials {
		if tr.expected().AtLeast == "" {
			queue <- tr
			continue
		}
		alone := make(chan *trial, 1)
		alone <- tr
		close(alone)
		workers.Go(func() { work(alone) })
	}
	close(queue)
	workers.Wait()
	t.Logf("%d trials in %s", len(trials), time.Since(start).Round(time.Millisecond))
}

func conformanceTrials(t *testing.T, doored bool) []*trial {
	t.Helper()
	text, err := os.ReadFile("../testdata/conformance.json")
	require.NoError(t, err)
	var table struct {
		About  string  `json:"about"`
		Faults []fault `json:"faults"`
	}
	require.NoError(t, json.Unmarshal(text, &table))
	rows := catalog.Routes(t)
	// Faults with a wait come first, so that the end of the test does not wait for them.
	slices.SortStableFunc(table.Faults, func(a, b fault) int { return cmp.Compare(b.Read.AtLeast, a.Read.AtLeast) })
	var trials []*trial
	all := maps.Clone(catalog.Calls)
	maps.Copy(all, catalog.Variants)
	every := 1
	switch {
	case os.Getenv(throughProxy) != "":
		every = 23
	case doored && !longrun.Wanted():
		every = 9
	case race.Enabled:
		every = 3
	}
	t.Logf("one in %d of %d faults for each of %d calls", every, len(table.Faults), len(all))
	for i, f := range table.Faults {
		for j, name := range slices.Sorted(maps.Keys(all)) {
			if (i+j)%every != 0 { // each call has a part of the faults, and each fault a part of the calls
				continue
			}
			method, _, _ := strings.Cut(name, " ")
			row, ok := rows[method]
			require.True(t, ok, "no route of %s", name)
			if name == "Applications.Offer with force" {
				row.Reads = false
			}
			trials = append(trials, &trial{
				fault: f, name: name, call: all[name], route: row, answer: row.Success(), doored: doored,
			})
		}
	}
	return trials
}

// run makes the trial, and makes it again if a busy machine has spoiled it: net/http throws away a
// connection whose writing goroutine has not run for 50 ms, and its server one whose client says
// nothing for two seconds.
func (tr *trial) run(t *testing.T, listener *net.TCPListener, foreign string) {
	t.Helper()
	var failures []string
	for range 3 {
		var spoiled bool
		if failures, spoiled = tr.try(t, listener, foreign); !spoiled {
			break
		}
	}
	for _, failure := range failures {
		t.Errorf("%s × %s: %s", tr.name, tr.fault.Name, failure)
	}
}

// try makes the call, and then another one. The trial is spoiled if the pool is another than it was,
// or if a connection did not come about, but never if a mutation arrived too often.
func (tr *trial) try(
	t *testing.T, listener *net.TCPListener, foreign string,
) (failures []string, spoiled bool) {
	t.Helper()
	failed := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	if strings.Contains(tr.fault.Name, "two hours") || strings.Contains(tr.fault.Name, "overflows") {
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Hour)
	}
	defer cancel()
	service := &faultServer{t: t, fault: tr.fault, answer: tr.answer, isDoored: tr.doored}
	service.start(listener)
	defer service.Close()
	service.foreign, service.onHang = foreign, cancel
	client, closeIdle := tr.client(t, service, cancel)
	defer closeIdle()
	start := time.Now()
	if err := service.warm(t.Context(), client); err != nil || service.arrivals.Load() > 0 {
		failed("warming: %v, and %d requests too many", err, service.arrivals.Load())
		return failures, true
	}
	if tr.fault.Client == "canceled" {
		cancel()
	}

	service.forget()
	called := time.Now()
	_, err := tr.call(ctx, client)
	took := time.Since(called)

	want := tr.expected()
	if tr.fault.Client == "renewing" && tr.route.Anonymous {
		want.Arrivals = 1 // there is no token to renew
	}
	least := want.Arrivals
	if tr.route.Reads && tr.fault.On == "warm" {
		least = 1 // net/http repeats a read once for each stale connection that it still has
	}
	got := int(service.arrivals.Load())
	if got < least || got > want.Arrivals {
		failed("arrived %d times, want %d to %d", got, least, want.Arrivals)
	}
	if !tr.route.Reads && got > want.Arrivals {
		return failures, false
	}
	switch name := tr.wants(); {
	case name == "" && err != nil:
		failed("error %v, want none", err)
		return failures, service.starved.Load()
	case name != "" && (err == nil || !errorNames[name](err)):
		failed("error %v, want %q", err, name)
		return failures, service.starved.Load()
	}
	failures = append(failures, tr.holds(err, <-service.ended, got)...)
	if atLeast, _ := time.ParseDuration(want.AtLeast); took < atLeast {
		failed("took %s, want at least %s", took, atLeast)
	}
	if took > 2*time.Minute { // hours were due, and a busy machine takes its time
		failed("took %s", took)
	}
	if tr.fault.Warm > 1 && tr.fault.On != "warm" && time.Since(start) < 3*time.Second { // idle ones live for four
		service.healed.Store(true)
		if _, err := client.Applications.Status(t.Context(), catalog.Application); err != nil {
			failed("the next call: %v", err)
		}
		if time.Since(start) < 3*time.Second { // still: a busy machine takes its time
			connections := int(service.used.Load())
			if !tr.route.Reads && slices.Contains([]string{"", "renewing"}, tr.fault.Client) {
				connections -= int(service.arrivals.Load()) // a mutation has its own
			}
			if connections != tr.fault.Warm {
				failed("%d connections, want the %d that were idle before", connections, tr.fault.Warm)
				return failures, true
			}
		}
	}
	return failures, service.starved.Load()
}

// holds returns the rules that the end of a call breaks: the outcome of the table, the sentinels, NextOf and the
// Call of the observers agree, and none shows the answer.
func (tr *trial) holds(err error, ended lending.Call, arrivals int) (broken []string) {
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	outcome, next := lending.OutcomeOf(err), lending.NextOf(err)
	isMutation := !tr.route.Reads && err != nil
	unknown := isMutation && outcome == lending.OutcomeUnknown
	may := unknown || isMutation && outcome == lending.OutcomeDone
	rule(!isMutation || outcome.String() == tr.outcome(), "outcome %s, want %s, of %v", outcome, tr.outcome(), err)
	rule(errors.Is(err, lending.ErrOutcomeUnknown) == unknown, "ErrOutcomeUnknown is %t, want %t", !unknown, unknown)
	rule(errors.Is(err, lending.ErrMayHaveHappened) == may, "ErrMayHaveHappened is %t, want %t", !may, may)

	rule(lending.NextOf(fmt.Errorf("step: %w", err)) == next || err == nil, "wrapped, NextOf is not %v", next)
	rule(err != nil || next == lending.Next{}, "NextOf of nothing is %v", next)
	rule(!may || strings.HasPrefix(tr.name, "Auth.") || next == lending.Next{Person: true},
		"NextOf is %v, and no log knows the mutation", next)
	rule(isMutation || !next.Person, "NextOf is %v of a read", next)
	rule(outcome != lending.OutcomeNotSent || next.Retry, "NextOf is %v, and nothing was sent", next)

	rule(ended.Method == tr.route.Method && ended.Route == tr.route.Path, "observed %s %s", ended.Method, ended.Route)
	rule(ended.Effect == lending.Read == tr.route.Reads, "observed a %s", ended.Effect)
	rule(ended.Err == err, "observed %v instead of %v", ended.Err, err) //nolint:errorlint // the caller's own
	rule(ended.Outcome == outcome || tr.route.Reads, "observed %s, and the error says %s", ended.Outcome, outcome)
	rule(arrivals == 0 || ended.Attempts > 0, "observed no attempt")
	rule(ended.Duration > 0 && !ended.Start.IsZero(), "observed no duration")
	rule(ended.StatusCode == 0 || strings.HasPrefix(ended.Protocol, "HTTP/"), "observed protocol %q", ended.Protocol)
	if failed, ok := errors.AsType[*lending.Error](err); ok {
		rule(ended.StatusCode == failed.StatusCode, "observed %d instead of %d", ended.StatusCode, failed.StatusCode)
		rule(ended.Attempts == failed.Attempts, "observed %d attempts instead of %d", ended.Attempts, failed.Attempts)
	} else {
		rule(err != nil || ended.StatusCode/100 == 2, "observed status %d of a success", ended.StatusCode)
	}
	shown := fmt.Sprintf("%v %+v %#v %+v", err, err, err, ended)
	rule(!strings.Contains(shown, "123-45-6789"), "the error quotes the answer")
	return broken
}

// warm makes as many connections as the fault asks for.
func (s *faultServer) warm(ctx context.Context, client *lending.Client) error {
	s.warming.Store(int32(s.fault.Warm))
	if s.fault.Client == "own h2" { // a mutation asks for HTTP/2, and reads follow
		return client.Applications.Cancel(ctx, catalog.Application)
	}
	errs := make(chan error, s.fault.Warm)
	for range s.fault.Warm {
		go func() {
			_, err := client.Applications.Status(ctx, catalog.Application)
			errs <- err
		}()
	}
	var all error
	for range s.fault.Warm {
		all = errors.Join(all, <-errs)
	}
	return all
}

// Write takes the log of an HTTP/2 server.
func (s *faultServer) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("timeout waiting for SETTINGS frames")) {
		s.starved.Store(true)
	}
	return len(line), nil
}
