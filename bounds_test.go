package lending_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// bomb returns 200 MiB in about 200 KB.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
	_ = w.Close()
	return bytes.Repeat(b.Bytes(), 200) // gzip allows one after the other
})

func TestDecompressedAnswersAreBounded(t *testing.T) {
	for _, test := range []struct {
		status  int
		outcome lending.Outcome
		most    int
	}{{200, lending.OutcomeDone, 64 << 20}, {400, lending.OutcomeRejected, 1 << 20}, {500, lending.OutcomeUnknown, 1 << 20}} {
		t.Run(http.StatusText(test.status), func(t *testing.T) {
			var arrivals atomic.Int32
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				arrivals.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(test.status)
				_, _ = w.Write(bomb())
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := client.Applications.Cancel(t.Context(), theApplication)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, lending.ErrTooLarge)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, test.status, failed.StatusCode)
			assert.Equal(t, test.outcome, failed.Outcome)
			assert.Len(t, failed.Response().Body, test.most)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*test.most+(8<<20)))
			assert.EqualValues(t, 1, arrivals.Load())
		})
	}
	t.Run("a read is not repeated", func(t *testing.T) {
		var arrivals atomic.Int32
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			arrivals.Add(1)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb())
		})
		_, err := client.Applications.Status(t.Context(), theApplication)
		require.ErrorIs(t, err, lending.ErrTooLarge)
		assert.EqualValues(t, 1, arrivals.Load())
	})
}

// TestClaimedLengthIsNotAllocated holds that a Content-Length alone costs no memory.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n{")
		_ = conn.Close()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		assert.Error(t, client.Applications.Cancel(t.Context(), theApplication))
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestDribblingBodyEndsWithTheContext(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprintf("foreign=%t", foreign), func(t *testing.T) {
			t.Parallel()
			var opts []lending.Option
			if foreign {
				opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
			}
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				ticks := time.NewTicker(5 * time.Millisecond)
				defer ticks.Stop()
				for {
					if _, err := w.Write([]byte(" ")); err != nil {
						return
					}
					_ = http.NewResponseController(w).Flush()
					select {
					case <-ticks.C:
					case <-r.Context().Done():
						return
					}
				}
			}, opts...)
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := client.Applications.Cancel(ctx, theApplication)
			assert.Less(t, time.Since(start), 5*time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err), err)
			assert.ErrorContains(t, err, "it happened")
		})
	}
}

// TestCallsEndWithoutADeadline holds that a call whose context never ends does.
func TestCallsEndWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, attempts := inOrder(t, stalls)
		start := time.Now()
		err := client.Applications.Cancel(t.Context(), theApplication)
		assert.Equal(t, 2*time.Minute, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		assert.Equal(t, 1, *attempts)
	})
}

// TestTransportIsBounded holds that no stage of a connection can last for ever, in a
// bubble: the service is the other end of a pipe.
func TestTransportIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		url    string
		answer string
		want   time.Duration // until the connection is closed
	}{
		"silent in the handshake":  {"https://service.example", "", 10 * time.Second},
		"silent after the request": {"http://service.example", "", 100 * time.Second},
		"idle":                     {"http://service.example", reply(200, nil, `"x"`), 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := lending.NewTransport()
				transport.Proxy = nil
				closed := make(chan time.Duration, 1)
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					start := time.Now()
					go func() {
						in := bufio.NewReader(theirs)
						if test.answer != "" {
							_, err := http.ReadRequest(in)
							assert.NoError(t, err)
							_, _ = io.WriteString(theirs, test.answer)
						}
						_, _ = io.Copy(io.Discard, in)
						closed <- time.Since(start)
					}()
					return ours, nil
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
				require.NoError(t, err)
				resp, err := transport.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				assert.Equal(t, test.answer == "", err != nil, err)
				assert.Equal(t, test.want, <-closed)
			})
		})
	}
	transport := lending.NewTransport()
	assert.NotZero(t, transport.ExpectContinueTimeout)
	assert.NotZero(t, transport.MaxResponseHeaderBytes)
	assert.False(t, transport.DisableKeepAlives)
}

// TestTransportSpeaksNoHTTP2 holds that even a service that offers HTTP/2 gets HTTP/1.1:
// HTTP/2 repeats requests by itself.
func TestTransportSpeaksNoHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(plain("application/json", "{}"))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := lending.NewTransport()
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport.TLSClientConfig.NextProtos = nil
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "HTTP/1.1", resp.Proto)
	assert.False(t, transport.Protocols.HTTP2() || transport.Protocols.UnencryptedHTTP2())
}

// TestReadsShareAConnection counts connections at the service: a burst of reads shares one,
// and each command has its own, see TestCommandTakesNoLeftoverAnswer.
func TestReadsShareAConnection(t *testing.T) {
	var connections, arrivals atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		answer(200, "true")(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := benchmarkClient(t, server.URL, nil)
	before := runtime.NumGoroutine()
	for range 20 {
		for range 10 {
			_, err := client.Loans.IsEnabled(t.Context(), theLoan)
			require.NoError(t, err)
		}
		_, err := client.Applications.UpdateName(t.Context(), theApplication, "Zoë & Söhne")
		require.NoError(t, err)
		require.NoError(t, client.Applications.Cancel(t.Context(), theApplication))
		_, err = client.Applications.CreateCustomer(t.Context(), theUser())
		require.ErrorContains(t, err, "want an object")
	}
	assert.EqualValues(t, 200+60, arrivals.Load())
	assert.EqualValues(t, 1+60, connections.Load())
	require.NoError(t, client.Close())
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 5*time.Second, 5*time.Millisecond)
}

// TestCommandsResumeTLS holds that the connection of a command costs no whole handshake
// where there was one before.
func TestCommandsResumeTLS(t *testing.T) {
	server := httptest.NewTLSServer(plain("application/json", "true"))
	defer server.Close()
	pooled := lending.NewTransport()
	pooled.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	hc := &http.Client{Transport: lending.OnceEach(pooled)}
	for _, resumes := range []bool{false, true, true} {
		resp, err := hc.Post(server.URL, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		assert.Equal(t, resumes, resp.TLS.DidResume)
	}
}

// TestForeignClientKeepsItsHabits holds that a caller's http.Client neither follows
// redirects nor keeps cookies for us, and is itself left as it was.
func TestForeignClientKeepsItsHabits(t *testing.T) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	hc := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
		t.Error("asked about a redirect")
		return nil
	}}
	var arrivals atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		assert.Empty(t, r.Header.Values("Cookie"))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "x"})
		http.Redirect(w, r, "/base/path/api/again", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	jar.SetCookies(address, []*http.Cookie{{Name: "sign-in", Value: "c"}})
	client := benchmarkClient(t, server.URL, hc)
	assert.ErrorIs(t, client.Applications.Cancel(t.Context(), theApplication), lending.ErrOutcomeUnknown)
	_, err = client.Applications.Status(t.Context(), theApplication)
	require.Error(t, err)
	assert.EqualValues(t, 2, arrivals.Load())
	assert.Nil(t, hc.Transport)
	assert.Len(t, jar.Cookies(address), 1)
}

// TestTransportMayCallOthers holds that what a caller's transport sends on its own
// account, with our context, does not count as ours.
func TestTransportMayCallOthers(t *testing.T) {
	var arrivals, asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer other.Close()
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		for range 2 {
			before, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other.URL, strings.NewReader("grant"))
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
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		answer(http.StatusBadRequest, "{}")(w, r)
	}, lending.WithHTTPClient(&http.Client{Transport: transport}))
	for range 3 {
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(client.Applications.Cancel(t.Context(), theApplication)))
	}
	assert.EqualValues(t, 3, arrivals.Load())
	assert.EqualValues(t, 6, asked.Load())
}

// TestTransportMayReplaceHeaders holds that a mutation is sent once however a caller's
// transport dresses it, as long as one of its marks stays, also without a token.
func TestTransportMayReplaceHeaders(t *testing.T) {
	for mark, replaced := range map[string][]string{
		"Host":          {"Authorization", "User-Agent"},
		"User-Agent":    {"Authorization", "Host"},
		"Authorization": {"User-Agent", "Host"},
	} {
		t.Run(mark, func(t *testing.T) {
			var arrivals atomic.Int32
			var breaks atomic.Bool
			var warming sync.WaitGroup // until each has a connection
			transport := &http.Transport{MaxIdleConnsPerHost: 8}
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if !breaks.Load() {
					warming.Done()
					warming.Wait()
					answer(200, `"Open"`)(w, r)
					return
				}
				arrivals.Add(1)
				panic(http.ErrAbortHandler)
			}, lending.WithHTTPClient(&http.Client{Transport: rewriting(transport, append(replaced, "Idempotency-Key")...)}))
			t.Cleanup(transport.CloseIdleConnections)
			warm := func() {
				breaks.Store(false)
				arrivals.Store(0)
				warming.Add(4)
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						_, err := client.Applications.Status(t.Context(), theApplication)
						assert.NoError(t, err)
					})
				}
				all.Wait()
				breaks.Store(true)
			}
			warm()
			err := client.Applications.Cancel(t.Context(), theApplication)
			assert.EqualValues(t, 1, arrivals.Load())
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			if mark == "Authorization" {
				return // a sign-in has none
			}
			warm()
			_, err = client.Auth.Login(t.Context(), lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
			assert.EqualValues(t, 1, arrivals.Load())
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		})
	}
}

// TestTwoCopiesLeaveDoubt holds that the answer to one of two copies does not speak for
// the other, unless it is a success.
func TestTwoCopiesLeaveDoubt(t *testing.T) {
	for status, want := range map[int]lending.Outcome{400: lending.OutcomeUnknown, 401: lending.OutcomeUnknown, 200: lending.OutcomeDone} {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			for range 2 {
				httptrace.ContextClientTrace(r.Context()).WroteHeaderField("Host", []string{r.Host})
			}
			return says(status, "{")(r)
		})
		_, err := benchmarkClient(t, "https://lending.example", &http.Client{Transport: transport}).Applications.CreateCustomer(t.Context(), goodCustomer())
		require.Error(t, err)
		assert.Equal(t, want, lending.OutcomeOf(err), err)
	}
}

// TestOutcomeWithTwoWaysOut holds that what fails where the trace sees it can have been
// sent where it does not.
func TestOutcomeWithTwoWaysOut(t *testing.T) {
	var delivered atomic.Int32
	traced := &http.Transport{}
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		if resp, err := traced.RoundTrip(r.Clone(r.Context())); err == nil {
			return resp, nil
		}
		delivered.Add(1)
		return nil, io.EOF
	})
	client := benchmarkClient(t, "http://127.0.0.1:1", &http.Client{Transport: transport})
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), theApplication), lending.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, delivered.Load())
}

// TestOutcomeOfAStalledHandshake holds that the package's own transport is trusted when
// it says that it never had a connection, and a caller's is not.
func TestOutcomeOfAStalledHandshake(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	require.NoError(t, err)
	defer listener.Close()
	transport := &http.Transport{}
	for want, hc := range map[lending.Outcome]*http.Client{lending.OutcomeNotSent: nil, lending.OutcomeUnknown: {Transport: transport}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := benchmarkClient(t, "https://"+listener.Addr().String(), hc).Applications.Cancel(ctx, theApplication)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, want, lending.OutcomeOf(err))
	}
}

// TestOutcomeOfReads holds that a read which was tried is never called not sent, where
// net/http has repeated it by itself: the last error is of a dial that was refused.
func TestOutcomeOfReads(t *testing.T) {
	t.Parallel() // five attempts
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	arrivals, address := 0, listener.Addr().String()
	var service sync.WaitGroup
	service.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for reader := bufio.NewReader(conn); arrivals < 2; arrivals++ {
			if _, err := http.ReadRequest(reader); err != nil {
				return
			}
			if arrivals == 1 {
				_ = listener.Close()
				continue
			}
			_, _ = io.WriteString(conn, reply(200, nil, `"Open"`))
		}
	})
	client := newClient(t, "http://"+address, lending.WithTokenSource(lending.StaticToken("t")))
	_, err = client.Applications.Status(t.Context(), theApplication)
	require.NoError(t, err)
	_, err = client.Applications.Status(t.Context(), theApplication)
	service.Wait()
	assert.Equal(t, 2, arrivals)
	require.ErrorContains(t, err, "cannot connect")
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	require.NotErrorIs(t, err, lending.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, lending.ErrMayHaveHappened)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Applications.Status(ctx, theApplication)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
}

// TestOutcomeWithoutTrace holds that a transport which does not say what it does proves
// nothing, unless it could not dial.
func TestOutcomeWithoutTrace(t *testing.T) {
	registered := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	registered.RegisterProtocol("https", roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF }))
	fails := func(err error) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	for name, test := range map[string]struct {
		transport http.RoundTripper
		want      lending.Outcome
	}{
		"any error":           {fails(io.EOF), lending.OutcomeUnknown},
		"read":                {fails(&net.OpError{Op: "read", Err: io.EOF}), lending.OutcomeUnknown},
		"dial":                {fails(&net.OpError{Op: "dial", Err: io.EOF}), lending.OutcomeNotSent},
		"DNS":                 {fails(&net.DNSError{Err: "no such host"}), lending.OutcomeNotSent},
		"handshake":           {fails(tls.RecordHeaderError{Conn: &net.TCPConn{}}), lending.OutcomeNotSent},
		"TLS after it":        {fails(tls.RecordHeaderError{}), lending.OutcomeUnknown},
		"nothing":             {fails(nil), lending.OutcomeUnknown},
		"registered protocol": {registered, lending.OutcomeUnknown},
		"answer without body": {roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadRequest}, nil
		}), lending.OutcomeRejected},
	} {
		err := benchmarkClient(t, "https://lending.example", &http.Client{Transport: test.transport}).Applications.Cancel(t.Context(), theApplication)
		assert.Equal(t, test.want, lending.OutcomeOf(err), "%s: %v", name, err)
	}
}

// TestSignInDoesNotSpeakForTheCall holds that the error of a sign-in, inside that of a
// call that was never sent, does not show as the call's own, but for the time to wait.
func TestSignInDoesNotSpeakForTheCall(t *testing.T) {
	for status, want := range map[int]error{
		401: lending.ErrUnauthorized, 403: lending.ErrForbidden, 404: lending.ErrNotFound,
		413: lending.ErrTooLarge, 429: lending.ErrRateLimited, 500: lending.ErrOutcomeUnknown,
	} {
		signIn := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			answer(status, "{}")(w, r)
		})
		_, inner := signIn.Auth.Login(t.Context(), lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
		require.ErrorIs(t, inner, want)
		client, err := lending.New("https://lending.example", lending.WithTokenSource(failing{inner}))
		require.NoError(t, err)
		_, err = client.Customers.GetByEmail(t.Context(), "a@example.com")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		assert.NotErrorIs(t, err, want)
		var failed, nested *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, 7*time.Second, failed.RetryAfter)
		assert.Zero(t, failed.StatusCode)
		require.ErrorAs(t, failed.Unwrap(), &nested)
		assert.Equal(t, status, nested.StatusCode)
	}
}

// TestPausedSignInSaysHowLong holds that a call whose sign-in is not tried again yet
// tells when it will be.
func TestPausedSignInSaysHowLong(t *testing.T) {
	inBubble(t, func(t *testing.T, service *lendingtest.Service) {
		service.Fail(loginRoute, lendingtest.Fault{Status: 429, RetryAfter: time.Minute, Times: -1})
		client := signInTo(t, service, nil)
		for _, passed := range []time.Duration{0, 20 * time.Second} {
			elapse(passed)
			_, err := client.Applications.CreateCustomer(t.Context(), goodCustomer())
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, time.Minute-passed, failed.RetryAfter)
			require.NotErrorIs(t, err, lending.ErrRateLimited)
			assert.Equal(t, lending.OutcomeNotSent, failed.Outcome)
		}
		assert.Equal(t, 1, service.Arrived(loginRoute))
	})
}

// TestAnonymousRefusalCostsNoToken holds that a 401 of a route that takes no token does not
// make the source renew one.
func TestAnonymousRefusalCostsNoToken(t *testing.T) {
	source := &renewing{}
	client := newClient(t, listen(t, answer(401, "{}")), lending.WithTokenSource(source))
	_, err := client.Auth.Login(t.Context(), lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
	require.ErrorIs(t, err, lending.ErrUnauthorized)
	assert.Zero(t, source.refused.Load())
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), theApplication), lending.ErrUnauthorized)
	assert.EqualValues(t, 1, source.refused.Load())
}

type failing struct{ err error }

func (f failing) Token(context.Context) (lending.Token, error) { return lending.Token{}, f.err }

// BenchmarkCommands sends commands one after the other. The floor is a pooled POST of
// net/http, with a deadline as ours has.
func BenchmarkCommands(b *testing.B) {
	server := httptest.NewServer(answer(http.StatusOK, `{"id":"11111111-2222-3333-4444-555555555555"}`))
	defer server.Close()
	client := benchmarkClient(b, server.URL, nil)
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	post := func(path string, body, into any) error {
		var content io.Reader
		if body != nil {
			text, err := json.Marshal(body)
			if err != nil {
				return err
			}
			content = bytes.NewReader(text)
		}
		ctx, cancel := context.WithTimeout(background, 2*time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, content)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Authorization", "Bearer test-token")
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(resp.Body)
		if into != nil && err == nil {
			err = json.Unmarshal(got, into)
		}
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
	type user struct {
		FirstName    string `json:"firstName"`
		LastName     string `json:"lastName"`
		Email        string `json:"email"`
		Password     string `json:"password"`
		MobileNumber string `json:"mobileNumber"`
	}
	ada := lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("correct horse"), MobileNumber: "4155550100",
	}
	for name, command := range map[string]struct {
		floor, call func() error
	}{
		"without body": {
			func() error { return post("/api/Application/cancel-application/"+theApplication.String(), nil, nil) },
			func() error { return client.Applications.Cancel(background, theApplication) },
		},
		"with body": {
			func() error {
				var created struct{ ID uuid.UUID }
				return post("/api/Application/create-customer", user{"Ada", "Lovelace", "ada@example.com", "correct horse", "4155550100"}, &created)
			},
			func() error {
				_, err := client.Applications.CreateCustomer(background, ada)
				return err
			},
		},
	} {
		b.Run(name, func(b *testing.B) { versus(b, command.floor, command.call) })
	}
}
