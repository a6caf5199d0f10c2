package guarantees_test

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
	"github.com/lendingapi/lending-go/webhook"
)

var signedWithTest = webhook.SignedWith(lending.NewSecret(signingSecret))

func newReceiver(t *testing.T, secrets webhook.SecretsFunc, handle webhook.EventFunc, opts *webhook.ReceiverOptions) http.Handler {
	t.Helper()
	receiver, err := webhook.NewReceiver(secrets, handle, opts)
	require.NoError(t, err)
	return receiver
}

// receiveAt serves a receiver on a real socket and returns its address and what it observed.
func receiveAt(t *testing.T, secrets webhook.SecretsFunc, handle webhook.EventFunc, opts webhook.ReceiverOptions) (string, <-chan webhook.Delivery) {
	t.Helper()
	observed := make(chan webhook.Delivery, 100)
	opts.Observe = func(d webhook.Delivery) { observed <- d }
	mux := http.NewServeMux()
	mux.Handle("/hooks/{partner}", newReceiver(t, secrets, handle, &opts))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/hooks/ours", observed
}

// sender is not [http.DefaultClient], whose connections every httptest.Server closes that
// ends meanwhile.
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
	r.Header.Set(lending.SignatureHeader, signature)
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

func signed(body string) string { return lending.Sign(signingSecret, []byte(body)) }

func TestReceiverAnswers(t *testing.T) {
	t.Parallel()
	unknown := `{"webhookEvent":"WB_Moon_Landed","extra":1,"data":null}`
	for name, test := range map[string]struct {
		body, signature string
		headers         []string
		status          int
		called          bool
	}{
		"an event":                   {body: deliveryBody, signature: deliverySigned, status: 204, called: true},
		"an unknown event":           {body: unknown, signature: signed(unknown), status: 204, called: true},
		"a byte order mark":          {body: "\ufeff" + unknown, signature: signed("\ufeff" + unknown), status: 204, called: true},
		"another JSON type":          {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Type", "application/cloudevents+json"}, status: 204, called: true},
		"no signature":               {body: deliveryBody, signature: deliverySigned, headers: []string{lending.SignatureHeader, ""}, status: 401},
		"another signature":          {body: deliveryBody, signature: signed(unknown), status: 401},
		"a signature in lower case":  {body: deliveryBody, signature: strings.ToLower(deliverySigned), status: 401},
		"another secret":             {body: deliveryBody, signature: lending.Sign("whs_other", []byte(deliveryBody)), status: 401},
		"a changed body":             {body: strings.Replace(deliveryBody, "7", "8", 1), signature: deliverySigned, status: 401},
		"the body encoded again":     {body: deliveryBody + " ", signature: deliverySigned, status: 401},
		"unsigned nonsense":          {body: `{{{`, signature: deliverySigned, status: 401},
		"signed nonsense":            {body: `{{{`, signature: signed(`{{{`), status: 400},
		"nothing, signed":            {body: ``, signature: signed(``), status: 400},
		"no event, signed":           {body: `{"id":"` + eventID + `"}`, signature: signed(`{"id":"` + eventID + `"}`), status: 400},
		"a form":                     {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415},
		"no type":                    {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Type", ""}, status: 415},
		"UTF-16":                     {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Type", "application/json; charset=utf-16"}, status: 415},
		"compressed":                 {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Encoding", "gzip"}, status: 415},
		"too large":                  {body: strings.Repeat("x", 4097), signature: signed(strings.Repeat("x", 4097)), status: 413},
		"as large as it may be":      {body: strings.Repeat("x", 4096), signature: signed(strings.Repeat("x", 4096)), status: 400},
		"explicitly not compressed":  {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Encoding", "identity"}, status: 204, called: true},
		"upper-case type, no utf-8?": {body: deliveryBody, signature: deliverySigned, headers: []string{"Content-Type", "APPLICATION/JSON"}, status: 204, called: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			url, observed := receiveAt(t, signedWithTest, func(_ context.Context, event *webhook.Event) error {
				calls.Add(1)
				assert.Equal(t, test.body, string(event.Body()))
				return nil
			}, webhook.ReceiverOptions{MaxBytes: 4096})
			require.Equal(t, test.status, deliver(t, url, test.body, test.signature, test.headers...))
			require.Equal(t, test.called, calls.Load() == 1)
			d := <-observed
			require.Equal(t, test.status, d.Status)
			require.Equal(t, test.called, d.Err == nil)
			if test.status == 401 || test.status == 415 || test.status == 413 {
				require.Empty(t, d.Key+string(d.Event), "something unverified was shown")
			}
		})
	}
}

func TestReceiverTakesPOSTOnly(t *testing.T) {
	url, _ := receiveAt(t, signedWithTest, acceptAll, webhook.ReceiverOptions{})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		require.NoError(t, err)
		response, err := sender.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
		require.Equal(t, http.MethodPost, response.Header.Get("Allow"))
	}
}

func acceptAll(context.Context, *webhook.Event) error { return nil }

// One of two signatures may be forged: which of them a proxy has looked at is unknown.
func TestReceiverRefusesTwoSignatures(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(deliveryBody))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Abp-Webhook-Signature": {deliverySigned, deliverySigned}}
	newReceiver(t, signedWithTest, acceptAll, nil).ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
}

// A body whose length is not announced is measured while it is read; a compressed one
// is not unpacked to find that out.
func TestReceiverLimitsWhatItReads(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, err := zip.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	for name, test := range map[string]struct {
		encoding string
		body     io.Reader
		status   int
		read     int64
	}{
		"endless":    {"", endless{}, 413, 5000},
		"compressed": {"gzip", &bomb, 415, 0},
	} {
		t.Run(name, func(t *testing.T) {
			body := &countingReader{Reader: test.body}
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
			r.ContentLength = -1
			r.Header = http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {test.encoding}, "Abp-Webhook-Signature": {deliverySigned}}
			newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{MaxBytes: 4096}).ServeHTTP(w, r)
			require.Equal(t, test.status, w.Code)
			require.LessOrEqual(t, body.n, test.read)
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

// Also of what is refused at once: the server reads the rest of it before it goes on.
func TestReceiverEndsSlowBodies(t *testing.T) {
	t.Parallel()
	for header, status := range map[string]int{lending.SignatureHeader: 408, "X-Other": 401} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			url, observed := receiveAt(t, signedWithTest, acceptAll, webhook.ReceiverOptions{ReadTimeout: 50 * time.Millisecond})
			address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			require.NoError(t, err)
			require.NoError(t, connection.SetDeadline(time.Now().Add(10*time.Second)))
			_, err = fmt.Fprintf(connection, "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\n\r\n{",
				path, header, deliverySigned, len(deliveryBody))
			require.NoError(t, err)
			answered, err := io.ReadAll(connection)
			require.NoError(t, err, "the connection was not closed")
			require.True(t, strings.HasPrefix(string(answered), fmt.Sprintf("HTTP/1.1 %d ", status)), "%s", answered)
			require.Equal(t, status, (<-observed).Status)
			require.NoError(t, connection.Close())
		})
	}
}

// A middleware with an Unwrap, as [http.ResponseController] wants it, does no harm. One
// without leaves the time to the server, as the documentation of ReadTimeout says.
func TestReceiverReadTimeoutBehindMiddleware(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{ReadTimeout: 50 * time.Millisecond})
	for name, test := range map[string]struct {
		wrap func(http.ResponseWriter) http.ResponseWriter
		own  time.Duration // of the server
	}{
		"with Unwrap":    {func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{w} }, 0},
		"without Unwrap": {func(w http.ResponseWriter) http.ResponseWriter { return struct{ http.ResponseWriter }{w} }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				receiver.ServeHTTP(test.wrap(w), r)
			}))
			server.Config.ReadTimeout = test.own
			server.Start()
			t.Cleanup(server.Close)
			start := time.Now()
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			require.NoError(t, connection.SetDeadline(start.Add(10*time.Second)))
			_, err = fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: 9\r\n\r\n{", lending.SignatureHeader, deliverySigned)
			require.NoError(t, err)
			answered, err := io.ReadAll(connection)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(answered), "HTTP/1.1 408 "), "%s", answered)
			require.GreaterOrEqual(t, time.Since(start), max(test.own, 50*time.Millisecond)-10*time.Millisecond)
			require.NoError(t, connection.Close())
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
	require.Equal(t, 204, deliver(t, url, deliveryBody, deliverySigned))
	require.Equal(t, 204, deliver(t, url, deliveryBody, deliverySigned), "on the same connection")
}

type requestKey struct{}

// The sender hangs up: what has begun goes on to its own deadline.
func TestReceiverActsOnThoughTheSenderHangsUp(t *testing.T) {
	t.Parallel()
	entered, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	receiver := newReceiver(t, signedWithTest, func(ctx context.Context, _ *webhook.Event) error {
		close(entered)
		<-gone
		ended <- ctx.Err()
		assert.Equal(t, "ours", ctx.Value(requestKey{}), "the values of the request")
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	}, &webhook.ReceiverOptions{Timeout: 500 * time.Millisecond})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		receiver.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, "ours")))
	}))
	t.Cleanup(server.Close)
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
		lending.SignatureHeader, deliverySigned, len(deliveryBody), deliveryBody)
	require.NoError(t, err)
	<-entered
	require.NoError(t, connection.Close())
	require.NoError(t, <-ended, "it was cut in the middle")
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}

// net/http would close the connection without an answer, also to what was accepted.
func TestReceiverOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		for status, handle := range map[int]webhook.EventFunc{204: acceptAll, 500: func(context.Context, *webhook.Event) error {
			end()
			return nil
		}} {
			t.Run(fmt.Sprint(name, status), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(newReceiver(t, signedWithTest, handle, &webhook.ReceiverOptions{Observe: func(d webhook.Delivery) {
					assert.Equal(t, status == 204, d.Err == nil)
					end()
				}}))
				t.Cleanup(server.Close)
				require.Equal(t, status, deliver(t, server.URL, deliveryBody, deliverySigned))
			})
		}
	}
}

func TestReceiverReportsFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		handle webhook.EventFunc
		status int
		err    error
	}{
		"error":          {func(context.Context, *webhook.Event) error { return broken }, 500, broken},
		"being acted on": {func(context.Context, *webhook.Event) error { return fmt.Errorf("x: %w", webhook.ErrClaimed) }, 503, webhook.ErrClaimed},
		"duplicate":      {func(context.Context, *webhook.Event) error { return webhook.ErrDuplicate }, 204, webhook.ErrDuplicate},
		"not recorded":   {func(context.Context, *webhook.Event) error { return webhook.ErrNotRecorded }, 204, webhook.ErrNotRecorded},
		"too slow": {func(ctx context.Context, _ *webhook.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, 500, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, observed := receiveAt(t, signedWithTest, test.handle, webhook.ReceiverOptions{Timeout: 20 * time.Millisecond})
			require.Equal(t, test.status, deliver(t, url, deliveryBody, deliverySigned))
			require.ErrorIs(t, (<-observed).Err, test.err)
		})
	}
	url, observed := receiveAt(t, signedWithTest, func(_ context.Context, event *webhook.Event) error {
		panic("data: " + string(event.Data.Raw()))
	}, webhook.ReceiverOptions{})
	require.Equal(t, 500, deliver(t, url, deliveryBody, deliverySigned))
	var panicked *lending.PanicError
	require.ErrorAs(t, (<-observed).Err, &panicked)
	require.Contains(t, panicked.Value, "data: ")
	require.Contains(t, string(panicked.Stack), "webhooks_received_test.go")
	require.NotContains(t, panicked.Error(), "years")
}

// The server closes the connection without an answer, as the function wishes.
func TestReceiverAborts(t *testing.T) {
	receiver := newReceiver(t, signedWithTest, func(context.Context, *webhook.Event) error { panic(http.ErrAbortHandler) }, nil)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { deliverInMemory(t, receiver, deliveryBody) })
}

func TestReceiverSecrets(t *testing.T) {
	t.Parallel()
	old, current := lending.NewSecret("whs_old"), lending.NewSecret("whs_new")
	rotating, _ := receiveAt(t, webhook.SignedWith(current, old), acceptAll, webhook.ReceiverOptions{})
	byPartner, observed := receiveAt(t, func(r *http.Request) ([]lending.Secret, error) {
		switch r.PathValue("partner") {
		case "ours":
			return []lending.Secret{old}, nil
		case "empty":
			return []lending.Secret{{}}, nil
		case "broken":
			return nil, errors.New("database gone")
		case "panic":
			panic("no database")
		}
		return nil, nil
	}, acceptAll, webhook.ReceiverOptions{})
	sign := func(secret string) string { return lending.Sign(secret, []byte(deliveryBody)) }
	for _, test := range []struct {
		url, signature string
		status         int
	}{
		{rotating, sign("whs_old"), 204},
		{rotating, sign("whs_new"), 204},
		{rotating, sign("whs_other"), 401},
		{byPartner, sign("whs_old"), 204},
		{byPartner, sign("whs_new"), 401},
		{strings.Replace(byPartner, "ours", "theirs", 1), sign("whs_old"), 401},
		{strings.Replace(byPartner, "ours", "empty", 1), sign(""), 401},
		{strings.Replace(byPartner, "ours", "broken", 1), sign("whs_old"), 500},
		{strings.Replace(byPartner, "ours", "panic", 1), sign("whs_old"), 500},
	} {
		require.Equal(t, test.status, deliver(t, test.url, deliveryBody, test.signature))
	}
	var last webhook.Delivery
	for range 6 {
		last = <-observed
	}
	var panicked *lending.PanicError
	require.ErrorAs(t, last.Err, &panicked)
	require.Nil(t, webhook.SignedWith(old, lending.NewSecret("")))
	for _, refused := range []struct {
		secrets webhook.SecretsFunc
		handle  webhook.EventFunc
		want    string
	}{{nil, acceptAll, "no secrets"}, {webhook.SignedWith(old, lending.NewSecret("")), acceptAll, "empty secret"}, {signedWithTest, nil, "EventFunc is nil"}} {
		receiver, err := webhook.NewReceiver(refused.secrets, refused.handle, nil)
		require.Nil(t, receiver)
		require.ErrorContains(t, err, refused.want)
	}
}

func TestReceiverMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver := newReceiver(t, signedWithTest, acceptAll, &webhook.ReceiverOptions{MaxAge: 10 * time.Minute})
		for offset, status := range map[time.Duration]int{
			0: 204, -9 * time.Minute: 204, 9 * time.Minute: 204, -11 * time.Minute: 401, 11 * time.Minute: 401, -876000 * time.Hour: 401,
		} {
			body := `{"webhookEvent":"a","creationTimeUtc":"` + time.Now().Add(offset).UTC().Format("2006-01-02T15:04:05.0000000") + `"}`
			require.Equal(t, status, deliverInMemory(t, receiver, body), "%s", offset)
		}
		require.Equal(t, 401, deliverInMemory(t, receiver, `{"webhookEvent":"a"}`), "no time of creation")
	})
}

func deliverInMemory(t *testing.T, receiver http.Handler, body string) int {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks", strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Abp-Webhook-Signature": {signed(body)}}
	receiver.ServeHTTP(w, r)
	return w.Code
}

func TestDeliveryShowsNoPayload(t *testing.T) {
	body := `{"webhookEvent":"WB_Send_Otp` + "\\n" + `forged line","data":{"otp":"c0de-123"}}`
	url, observed := receiveAt(t, signedWithTest, acceptAll, webhook.ReceiverOptions{})
	require.Equal(t, 204, deliver(t, url, body, signed(body)))
	require.Equal(t, 401, deliver(t, url, body, deliverySigned))
	require.Equal(t, 400, deliver(t, url, body[1:], signed(body[1:])))
	var log bytes.Buffer
	for range 3 {
		d := <-observed
		slog.New(slog.NewTextHandler(&log, nil)).Info("delivery", "d", d)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("delivery", "d", d)
		_, _ = fmt.Fprintf(&log, "%v %+v %#v", d, d, d)
	}
	for _, secret := range []string{"c0de-123", signingSecret, deliverySigned[7:20], signed(body)[7:20]} {
		require.NotContains(t, log.String(), secret)
	}
	require.Equal(t, 6, strings.Count(log.String(), "delivery"))
}

func TestEventFuncsCallByName(t *testing.T) {
	var called []lending.EventName
	note := func(_ context.Context, event *webhook.Event) error {
		called = append(called, event.Name)
		return nil
	}
	handlers := webhook.EventFuncs{lending.EventLoanOpened: note, lending.EventLoanClosed: note}
	for _, name := range []lending.EventName{lending.EventLoanOpened, lending.EventUnderReview, "", lending.EventLoanClosed} {
		require.NoError(t, handlers.Handle(t.Context(), &webhook.Event{Name: name}))
	}
	require.Equal(t, []lending.EventName{lending.EventLoanOpened, lending.EventLoanClosed}, called)
}
