package guarantees_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
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
		return strings.Contains(text, "connection closed") || strings.Contains(text, "or the connection") || sentAgain(err)
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
	applies := map[string]bool{"bulk": catalog.IsBatch(tr.route), "proof": catalog.NeedsProof(tr.route)}
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
	foreign := newStranger(t)
	queue := make(chan *trial)
	var workers sync.WaitGroup
	work := func(trials <-chan *trial) {
		listener := listenTCP(t) // another for each trial would cost as much as the trial
		defer listener.Close()
		for tr := range trials {
			tr.run(t, listener, foreign.Addr())
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
	assert.Zero(t, foreign.Close(), "connections to a host that a redirect named")
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
			trials = append(trials, &trial{f, name, all[name], row, row.Success(), doored})
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
	if err != nil && !tr.route.Reads && lending.OutcomeOf(err).String() != tr.outcome() {
		failed("outcome %s, want %s, of %v", lending.OutcomeOf(err), tr.outcome(), err)
	}
	unknown := !tr.route.Reads && err != nil && tr.outcome() == "unknown"
	if errors.Is(err, lending.ErrOutcomeUnknown) != unknown {
		failed("ErrOutcomeUnknown is %t, want %t", !unknown, unknown)
	}
	if may := unknown || !tr.route.Reads && err != nil && tr.outcome() == "done"; errors.Is(err,
		lending.ErrMayHaveHappened) != may {
		failed("ErrMayHaveHappened is %t, want %t", !may, may)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "123-45-6789") {
		failed("the error quotes the answer")
	}
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

// client returns the client of the trial, and what closes its connections.
func (tr *trial) client(t *testing.T, service *faultServer, cancel func()) (*lending.Client, func()) {
	t.Helper()
	url := service.URL()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	hc := &http.Client{Transport: transport}
	source := lending.StaticToken("test-token")
	switch tr.fault.Client {
	case "", "canceled":
		hc = nil
	case "renewing":
		hc, source = nil, &wire.Renewing{}
	case "unreachable":
		hc, url = nil, "http://127.0.0.1:1"
	case "own h2":
		hc, url = nil, strings.Replace(url, "http:", "https:", 1)
	case "https":
		hc, url = nil, strings.Replace(url, "http:", "https:", 1)
	case "no-such-host":
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Err: "no such host", Name: "x",
				IsNotFound: true,
			}}
		}
	case "signalling": // the caller gives up when the head has come
		hc.Transport = wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := transport.RoundTrip(r)
			if service.arrivals.Load() > 0 && !service.healed.Load() {
				cancel()
			}
			return resp, err
		})
		service.onHang = func() {}
	case "busy":
		hc.Jar, _ = cookiejar.New(nil)
		hc.Timeout = 35 * time.Second
		hc.Transport = rewriting(transport, "Idempotency-Key")
	case "signing": // as an oauth2 transport or a gateway does
		hc.Transport = rewriting(transport, "Idempotency-Key", "Authorization")
	case "disguised":
		hc.Transport = rewriting(transport, "Idempotency-Key", "Authorization", "User-Agent")
	case "renamed": // for a gateway that goes by the Host
		hc.Transport = rewriting(transport, "Idempotency-Key", "Authorization", "Host")
	case "replaying":
		repeater := retryablehttp.NewClient()
		repeater.Logger, repeater.RetryWaitMin, repeater.HTTPClient = nil, time.Millisecond,
			&http.Client{Transport: transport}
		hc.Transport = &retryablehttp.RoundTripper{Client: repeater}
	case "h2c":
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	case "h2":
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("%s instead of HTTP/2", r.Proto)
			}
			w.Header().Set("Content-Type", "application/json")
			switch {
			case service.arrivals.Add(1) > 1:
				_, _ = w.Write([]byte(service.answer))
			case tr.fault.Then == "abort":
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(tr.fault.Status)
			}
		}))
		server.EnableHTTP2, server.Config.ErrorLog = true, log.New(service, "", 0)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate()}}
		server.StartTLS()
		hc, url = server.Client(), server.URL+wire.BasePath
		service.also = server.Close
	default:
		t.Errorf("unknown client %q", tr.fault.Client)
	}
	opts := []lending.Option{lending.WithTokenSource(source)}
	if tr.doored {
		opts = append(opts, lending.WithHeader(func(_ context.Context, header http.Header) {
			assert.Empty(t, header)
			header.Set("X-Tenant", "north")
		}))
	}
	if service.hasTLS() {
		opts, url = append(opts, lending.WithTLS(mutualTLS())), strings.Replace(url, "http:", "https:", 1)
		if os.Getenv(throughProxy) != "" {
			url = strings.Replace(url, "127.0.0.1", "lending.example", 1)
		}
	}
	if hc != nil {
		opts = append(opts, lending.WithHTTPClient(hc))
	}
	client, err := lending.New(url, opts...)
	require.NoError(t, err)
	return client, func() {
		client.Close()
		transport.CloseIdleConnections()
	}
}

// rewriting is a transport that sets headers of its own.
func rewriting(next http.RoundTripper, names ...string) wire.RoundTripper {
	return func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		for _, name := range names {
			r.Header.Set(name, "k")
			if name == "Host" {
				r.Host = "gateway.example"
			}
		}
		return next.RoundTrip(r)
	}
}

// stranger is a host that no call may reach.
type stranger struct {
	listener net.Listener
	visits   atomic.Int32
	done     chan struct{}
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &stranger{listener: listener, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.visits.Add(1)
			_ = conn.Close()
		}
	}()
	return s
}

func (s *stranger) Addr() string { return s.listener.Addr().String() }

// Close returns how many visits there were.
func (s *stranger) Close() int {
	_ = s.listener.Close()
	<-s.done
	return int(s.visits.Load())
}

// TestTransportThatRepeatsIsStoppedEveryTime repeats what TestConformance tries once per
// route: the end of the context alone stops most requests on a reused connection, but
// not all.
func TestTransportThatRepeatsIsStoppedEveryTime(t *testing.T) {
	var arrivals atomic.Int32
	twice := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return resp, err
		}
		_ = resp.Body.Close()
		again := r.Clone(r.Context())
		again.Body = http.NoBody
		return http.DefaultTransport.RoundTrip(again)
	})
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		wire.Answer(http.StatusServiceUnavailable, "{}")(w, r)
	}, lending.WithHTTPClient(&http.Client{Transport: twice}))
	for range 2000 {
		assert.ErrorContains(t, client.Applications.Cancel(t.Context(), catalog.Application), "the request twice")
	}
	assert.EqualValues(t, 2000, arrivals.Load())
}

// A request that a caller's transport sends with the call's context does not count as the call's.
func TestTransportMayCallOthers(t *testing.T) {
	var arrivals, asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer other.Close()
	transport := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
		for range 2 {
			before, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other.URL,
				strings.NewReader("grant"))
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultTransport.RoundTrip(before)
			if err != nil {
				return nil, err
			}
			_ = resp.Body.Close()
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		wire.Answer(http.StatusBadRequest, "{}")(w, r)
	}, lending.WithHTTPClient(&http.Client{Transport: transport}))
	for range 3 {
		assert.Equal(t, lending.OutcomeRejected,
			lending.OutcomeOf(client.Applications.Cancel(t.Context(), catalog.Application)))
	}
	assert.EqualValues(t, 3, arrivals.Load())
	assert.EqualValues(t, 6, asked.Load())
}

// A mutation is sent once if a caller's transport replaces every mark except the token. TestConformance
// replaces the others.
func TestTransportMayReplaceHeaders(t *testing.T) {
	service := newFaultServer(t, fault{On: "always", Then: "fin", Warm: 4}, "")
	defer service.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	client := benchmarkClient(t, service.URL(),
		&http.Client{Transport: rewriting(transport, "Idempotency-Key", "User-Agent", "Host")})
	require.NoError(t, service.warm(t.Context(), client))
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), catalog.Application), lending.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, service.arrivals.Load())
}

// The answer to one of two copies does not speak for the other, unless it is a success.
func TestTwoCopiesLeaveDoubt(t *testing.T) {
	for _, test := range []struct {
		status int
		want   lending.Outcome
	}{{400, lending.OutcomeUnknown}, {401, lending.OutcomeUnknown}, {200, lending.OutcomeDone}} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			transport := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				for range 2 {
					httptrace.ContextClientTrace(r.Context()).WroteHeaderField("Host", []string{r.Host})
				}
				return wire.Reply(test.status, "{")(r)
			})
			_, err := benchmarkClient(t, "https://lending.example",
				&http.Client{Transport: transport}).Applications.CreateCustomer(t.Context(), fake.Ada())
			require.Error(t, err)
			assert.Equal(t, test.want, lending.OutcomeOf(err), err)
		})
	}
}
