package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fips"
	"github.com/lendingapi/lending-go/webhook"
)

func newReceiver(
	t *testing.T, secrets webhook.SecretsFunc, handle webhook.EventFunc, opts *webhook.ReceiverOptions,
) http.Handler {
	t.Helper()
	receiver, err := webhook.NewReceiver(secrets, handle, opts)
	require.NoError(t, err)
	return receiver
}

// receiveAt serves a receiver on a real socket and returns its address and what it observed.
func receiveAt(
	t *testing.T, secrets webhook.SecretsFunc, handle webhook.EventFunc, opts webhook.ReceiverOptions,
) (string, <-chan webhook.Delivery) {
	t.Helper()
	observed := make(chan webhook.Delivery, 100)
	opts.Observe = func(d webhook.Delivery) { observed <- d }
	mux := http.NewServeMux()
	mux.Handle("/hooks/{partner}", newReceiver(t, secrets, handle, &opts))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/hooks/ours", observed
}

// sender is not [http.DefaultClient]: each httptest.Server that ends closes its connections.
var sender = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// deliver posts body as the service does, and returns the status of the answer. Further
// headers come in pairs.
func deliver(t *testing.T, url, body, signature string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if !assert.NoError(t, err) {
		return 0
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set(webhook.SignatureHeader, signature)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := sender.Do(r)
	if !assert.NoError(t, err) {
		return 0
	}
	answered, err := io.ReadAll(response.Body)
	assert.NoError(t, errors.Join(err, response.Body.Close()))
	assert.Empty(t, answered, "the service stores what it is answered")
	return response.StatusCode
}

// deliverRaw opens a connection to url and writes a request with these header lines, the
// Content-Length of length, and what there is of the body.
func deliverRaw(t *testing.T, url, header string, length int, body string) net.Conn {
	t.Helper()
	address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	require.NoError(t, connection.SetDeadline(time.Now().Add(10*time.Second)))
	t.Cleanup(func() { _ = connection.Close() })
	_, err = fmt.Fprintf(connection, "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, header, length, body)
	require.NoError(t, err)
	return connection
}

const signedHeader = webhook.SignatureHeader + ": " + delivery.Signature

func TestReceiverAnswers(t *testing.T) {
	t.Parallel()
	const unknown = `{"webhookEvent":"WB_Moon_Landed","extra":1,"data":null}`
	const noEvent = `{"id":"` + delivery.EventID + `"}`
	large := strings.Repeat("x", 4096)
	type test struct {
		name, body string
		status     int
		signature  string // that of body if empty
		headers    []string
	}
	header := func(name, value string) []string { return []string{name, value} }
	tests := []test{
		{name: "an event", body: delivery.Body, status: 204, signature: delivery.Signature},
		{name: "an unknown event", body: unknown, status: 204},
		{name: "a byte order mark", body: "\ufeff" + unknown, status: 204},
		{name: "no signature", body: delivery.Body, status: 401, headers: header(webhook.SignatureHeader, "")},
		{name: "another signature", body: delivery.Body, status: 401, signature: delivery.Sign(unknown)},
		{name: "lower case", body: delivery.Body, status: 401, signature: strings.ToLower(delivery.Signature)},
		{
			name: "another secret", body: delivery.Body, status: 401,
			signature: lending.Sign("whs_other", []byte(delivery.Body)),
		},
		{
			name: "a changed body", body: strings.Replace(delivery.Body, "7", "8", 1), status: 401,
			signature: delivery.Signature,
		},
		{name: "the body encoded again", body: delivery.Body + " ", status: 401, signature: delivery.Signature},
		{name: "unsigned nonsense", body: `{{{`, status: 401, signature: delivery.Signature},
		{name: "signed nonsense", body: `{{{`, status: 400},
		{name: "nothing, signed", status: 400},
		{name: "no event, signed", body: noEvent, status: 400},
		{name: "too large", body: large + "x", status: 413},
		{name: "as large as it may be", body: large, status: 400},
	}
	for _, h := range []struct {
		name, value string
		status      int
	}{
		{"Content-Type", "application/cloudevents+json", 204},
		{"Content-Type", "APPLICATION/JSON", 204},
		{"Content-Encoding", "identity", 204},
		{"Content-Encoding", "gzip", 415},
		{"Content-Type", "", 415},
		{"Content-Type", "application/x-www-form-urlencoded", 415},
		{"Content-Type", "application/json; charset=utf-16", 415},
	} {
		tests = append(tests, test{
			name: h.name + " " + h.value, body: delivery.Body, status: h.status, headers: header(h.name, h.value),
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.signature == "" {
				tt.signature = delivery.Sign(tt.body)
			}
			var calls atomic.Int32
			url, observed := receiveAt(t, signedWithTest, func(_ context.Context, event *webhook.Event) error {
				calls.Add(1)
				assert.Equal(t, tt.body, string(event.Body()))
				return nil
			}, webhook.ReceiverOptions{MaxBytes: 4096})
			require.Equal(t, tt.status, deliver(t, url, tt.body, tt.signature, tt.headers...))
			require.Equal(t, tt.status == 204, calls.Load() == 1)
			d := <-observed
			require.Equal(t, tt.status, d.Status)
			require.Equal(t, tt.status == 204, d.Err == nil)
			if tt.status != 204 && tt.status != 400 {
				require.Empty(t, d.Key+string(d.Event), "something unverified was shown")
			}
		})
	}
}

func TestReceiverTakesPOSTOnly(t *testing.T) {
	url, _ := receiveAt(t, signedWithTest, acceptAll, webhook.ReceiverOptions{})
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		t.Run(method, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			require.NoError(t, err)
			response, err := sender.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
			require.Equal(t, http.MethodPost, response.Header.Get("Allow"))
		})
	}
}

// A delivery with two signatures may be forged: a proxy may have verified only the first.
func TestReceiverRefusesTwoSignatures(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(delivery.Body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Add(webhook.SignatureHeader, delivery.Signature)
	r.Header.Add(webhook.SignatureHeader, delivery.Signature)
	newReceiver(t, signedWithTest, acceptAll, nil).ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
}

// The receiver measures a body of unknown length while it reads, and unpacks no compressed body.
func TestReceiverLimitsWhatItReads(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, err := zip.Write(make([]byte, 1<<20))
	require.NoError(t, errors.Join(err, zip.Close()))
	for _, tt := range []struct {
		name, encoding string
		body           io.Reader
		status         int
		read           int64
	}{{"endless", "", endless{}, 413, 5000}, {"compressed", "gzip", &bomb, 415, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			body := &countingReader{Reader: tt.body}
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body)
			r.ContentLength = -1
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Content-Encoding", tt.encoding)
			r.Header.Set(webhook.SignatureHeader, delivery.Signature)
			receiver := newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{MaxBytes: 4096})
			receiver.ServeHTTP(w, r)
			require.Equal(t, tt.status, w.Code)
			require.LessOrEqual(t, body.n, tt.read)
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type countingReader struct {
	io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// The server reads the rest of a refused body before it goes on, so that a deadline holds for
// that too.
func TestReceiverEndsSlowBodies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		header string
		status int
	}{{signedHeader, 408}, {"X-Other: x", 401}} {
		t.Run(tt.header[:7], func(t *testing.T) {
			t.Parallel()
			opts := webhook.ReceiverOptions{ReadTimeout: 50 * time.Millisecond}
			url, observed := receiveAt(t, signedWithTest, acceptAll, opts)
			answered, err := io.ReadAll(deliverRaw(t, url, tt.header, len(delivery.Body), "{"))
			require.NoError(t, err, "the connection was not closed")
			require.True(t, strings.HasPrefix(string(answered), fmt.Sprintf("HTTP/1.1 %d ", tt.status)), "%s", answered)
			require.Equal(t, tt.status, (<-observed).Status)
		})
	}
}

// A middleware with an Unwrap, as [http.ResponseController] wants it, does no harm. Without an Unwrap,
// the server's own ReadTimeout ends the read, as the documentation says.
func TestReceiverReadTimeoutBehindMiddleware(t *testing.T) {
	t.Parallel()
	const readTimeout = 50 * time.Millisecond
	receiver := newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{ReadTimeout: readTimeout})
	for _, tt := range []struct {
		name string
		wrap func(http.ResponseWriter) http.ResponseWriter
		own  time.Duration // ReadTimeout of the server
	}{
		{"with Unwrap", func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{w} }, 0},
		{"without Unwrap", func(w http.ResponseWriter) http.ResponseWriter {
			return struct{ http.ResponseWriter }{w}
		}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				receiver.ServeHTTP(tt.wrap(w), r)
			}))
			server.Config.ReadTimeout = tt.own
			server.Start()
			t.Cleanup(server.Close)
			start := time.Now()
			answered, err := io.ReadAll(deliverRaw(t, server.URL+"/", signedHeader, 9, "{"))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(answered), "HTTP/1.1 408 "), "%s", answered)
			require.GreaterOrEqual(t, time.Since(start), max(tt.own, readTimeout)-10*time.Millisecond)
		})
	}
}

type unwrapping struct{ http.ResponseWriter }

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// The deadline is for the body. It must not end the context of a function that takes longer.
func TestReceiverDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	url, _ := receiveAt(t, signedWithTest, func(ctx context.Context, _ *webhook.Event) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
			return nil
		}
	}, webhook.ReceiverOptions{ReadTimeout: 50 * time.Millisecond})
	require.Equal(t, 204, deliver(t, url, delivery.Body, delivery.Signature))
	require.Equal(t, 204, deliver(t, url, delivery.Body, delivery.Signature), "on the same connection")
}

// A function that has begun goes on to its own deadline.
func TestReceiverActsOnThoughTheSenderHangsUp(t *testing.T) {
	t.Parallel()
	type key struct{}
	entered, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	receiver := newReceiver(t, signedWithTest, func(ctx context.Context, _ *webhook.Event) error {
		close(entered)
		<-gone
		ended <- ctx.Err()
		assert.Equal(t, "ours", ctx.Value(key{}), "the values of the request")
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	}, &webhook.ReceiverOptions{Timeout: 500 * time.Millisecond})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		receiver.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "ours")))
	}))
	t.Cleanup(server.Close)
	connection := deliverRaw(t, server.URL+"/", signedHeader, len(delivery.Body), delivery.Body)
	<-entered
	require.NoError(t, connection.Close())
	require.NotErrorIs(t, <-ended, context.Canceled, "the context ended with the connection")
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}

// After a panic or Goexit in a function of the caller, net/http would close the connection without
// a response, even to an accepted delivery.
func TestReceiverOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func()
	}{{"panic", func() { panic("x") }}, {"Goexit", runtime.Goexit}} {
		for _, status := range []int{204, 500} {
			t.Run(fmt.Sprint(tt.name, status), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(newReceiver(t, signedWithTest,
					func(context.Context, *webhook.Event) error {
						if status == 500 {
							tt.end()
						}
						return nil
					}, &webhook.ReceiverOptions{Observe: func(d webhook.Delivery) {
						assert.Equal(t, status == 204, d.Err == nil)
						tt.end()
					}}))
				t.Cleanup(server.Close)
				require.Equal(t, status, deliver(t, server.URL, delivery.Body, delivery.Signature))
			})
		}
	}
}

func TestReceiverReportsFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	returns := func(err error) webhook.EventFunc {
		return func(context.Context, *webhook.Event) error { return err }
	}
	panicked := new(lending.PanicError)
	for _, tt := range []struct {
		name   string
		handle webhook.EventFunc
		status int
		want   error
	}{
		{"error", returns(broken), 500, broken},
		{"duplicate", returns(fmt.Errorf("x: %w", webhook.ErrDuplicate)), 204, webhook.ErrDuplicate},
		{"too slow", func(ctx context.Context, _ *webhook.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, 500, context.DeadlineExceeded},
		{"an error that panics when it is asked", returnsNilPointer, 500, panicked},
		{"panic", func(_ context.Context, event *webhook.Event) error {
			panic("data: " + string(event.Data.Raw()))
		}, 500, panicked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := webhook.ReceiverOptions{Timeout: 20 * time.Millisecond}
			url, observed := receiveAt(t, signedWithTest, tt.handle, opts)
			require.Equal(t, tt.status, deliver(t, url, delivery.Body, delivery.Signature))
			err := (<-observed).Err
			if !errors.Is(tt.want, panicked) {
				require.ErrorIs(t, err, tt.want)
				return
			}
			got, ok := errors.AsType[*lending.PanicError](err)
			require.True(t, ok)
			require.NotNil(t, got.Value)
			require.Contains(t, string(got.Stack), "_test.go")
			require.NotContains(t, got.Error(), "years", "the data was shown")
		})
	}
}

func TestReceiverSecrets(t *testing.T) {
	t.Parallel()
	const previous, current = "whs_old_0123456789", "whs_new_0123456789"
	both := webhook.SignedWith(lending.NewSecret(current), lending.NewSecret(previous))
	rotating, _ := receiveAt(t, both, acceptAll, webhook.ReceiverOptions{})
	byPartner, observed := receiveAt(t, func(r *http.Request) ([]lending.Secret, error) {
		switch r.PathValue("partner") {
		case "ours":
			return []lending.Secret{lending.NewSecret(previous)}, nil
		case "empty":
			return []lending.Secret{{}}, nil
		case "broken":
			return nil, errors.New("database gone")
		case "panic":
			panic("no database")
		}
		return nil, nil
	}, acceptAll, webhook.ReceiverOptions{})
	of := func(partner string) string { return strings.Replace(byPartner, "ours", partner, 1) }
	for _, tt := range []struct {
		name, url, secret string
		status            int
	}{
		{"previous", rotating, previous, 204},
		{"current", rotating, current, 204},
		{"neither", rotating, "whs_other", 401},
		{"of the partner", byPartner, previous, 204},
		{"of another", byPartner, current, 401},
		{"unknown partner", of("theirs"), previous, 401},
		{"empty", of("empty"), "", 401},
		{"no database", of("broken"), previous, 500},
		{"panic", of("panic"), previous, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			signature := lending.Sign(tt.secret, []byte(delivery.Body))
			require.Equal(t, tt.status, deliver(t, tt.url, delivery.Body, signature))
			if strings.Contains(tt.url, "/ours") && tt.url == rotating {
				return
			}
			require.Equal(t, tt.name == "panic", errors.As((<-observed).Err, new(*lending.PanicError)))
		})
	}
}

func TestNewReceiverRefuses(t *testing.T) {
	empty := webhook.SignedWith(lending.NewSecret("whs_x"), lending.NewSecret(""))
	for _, tt := range []struct {
		want    string
		secrets webhook.SecretsFunc
		handle  webhook.EventFunc
	}{{"no secrets", nil, acceptAll}, {"empty secret", empty, acceptAll}, {"EventFunc is nil", signedWithTest, nil}} {
		t.Run(tt.want, func(t *testing.T) {
			receiver, err := webhook.NewReceiver(tt.secrets, tt.handle, nil)
			require.Nil(t, receiver)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// GODEBUG=fips140=only makes crypto/hmac panic for keys below 14 bytes.
func TestReceiverRefusesAShortSecretUnderFIPSOnly(t *testing.T) {
	if !fips.Only(t) {
		return
	}
	secrets := webhook.SignedWith(lending.NewSecret("13 characters"))
	var last webhook.Delivery
	receiver := newReceiver(t, secrets, acceptAll, &webhook.ReceiverOptions{
		Observe: func(d webhook.Delivery) { last = d },
	})
	require.Equal(t, http.StatusUnauthorized, delivery.Post(receiver, delivery.Body))
	require.ErrorContains(t, last.Err, "use a longer secret")

	secrets = webhook.SignedWith(lending.NewSecret("13 characters"), lending.NewSecret(delivery.Secret))
	require.Equal(t, http.StatusNoContent, delivery.Post(newReceiver(t, secrets, acceptAll, nil), delivery.Body))
}

func TestReceiverMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver := newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{MaxAge: 10 * time.Minute})
		for _, tt := range []struct {
			offset time.Duration
			status int
		}{
			{0, 204},
			{-9 * time.Minute, 204},
			{9 * time.Minute, 204},
			{-11 * time.Minute, 401},
			{11 * time.Minute, 401},
			{-876000 * time.Hour, 401},
		} {
			created := time.Now().Add(tt.offset).UTC().Format("2006-01-02T15:04:05.0000000")
			body := `{"webhookEvent":"a","creationTimeUtc":"` + created + `"}`
			require.Equal(t, tt.status, delivery.Post(receiver, body), "%s", tt.offset)
		}
		require.Equal(t, 401, delivery.Post(receiver, `{"webhookEvent":"a"}`), "no time of creation")
	})
}

func TestDeliveryShowsNoPayload(t *testing.T) {
	body := `{"webhookEvent":"WB_Send_Otp` + "\\n" + `forged line","data":{"otp":"c0de-123"}}`
	url, observed := receiveAt(t, signedWithTest, acceptAll, webhook.ReceiverOptions{})
	require.Equal(t, 204, deliver(t, url, body, delivery.Sign(body)))
	require.Equal(t, 401, deliver(t, url, body, delivery.Signature))
	require.Equal(t, 400, deliver(t, url, body[1:], delivery.Sign(body[1:])))
	var log bytes.Buffer
	for range 3 {
		d := <-observed
		slog.New(slog.NewTextHandler(&log, nil)).Info("delivery", "d", d)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("delivery", "d", d)
		_, _ = fmt.Fprintf(&log, "%v %+v %#v", d, d, d)
	}
	for _, secret := range []string{"c0de-123", delivery.Secret, delivery.Signature[7:20], delivery.Sign(body)[7:20]} {
		require.NotContains(t, log.String(), secret)
	}
	require.Equal(t, 6, strings.Count(log.String(), "delivery"))
	require.Equal(t, 2, strings.Count(log.String(), `"error":`), "a refusal has a reason")
}

func TestEventFuncsCallByName(t *testing.T) {
	var named, others []lending.EventName
	note := func(names *[]lending.EventName) webhook.EventFunc {
		return func(_ context.Context, event *webhook.Event) error {
			*names = append(*names, event.Name)
			return nil
		}
	}
	const opened, closed, other = lending.EventLoanOpened, lending.EventLoanClosed, lending.EventUnderReview
	handle := webhook.EventFuncs{opened: note(&named), closed: note(&named), other: nil}.Or(note(&others))
	for _, name := range []lending.EventName{opened, other, "", closed} {
		require.NoError(t, handle(t.Context(), &webhook.Event{Name: name}))
	}
	require.Equal(t, []lending.EventName{opened, closed}, named)
	require.Equal(t, []lending.EventName{other, ""}, others)
	require.Nil(t, webhook.EventFuncs{}.Or(nil), "refused by NewReceiver and NewConsumer")
}
