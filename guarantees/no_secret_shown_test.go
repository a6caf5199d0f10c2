package guarantees_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"reflect"
	"regexp"
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

// planted is in every response of the service.
const planted = "CANARY-123-45-6789"

// canaryFaults are responses that repeat the values of the request in place of %s.
var canaryFaults = map[string]string{
	"problem": wire.RawReply(400, map[string]string{"Content-Type": "application/problem+json"},
		`{"status":400,"title":"%s","detail":"%s","instance":"%s","more":"%s","errors":[{"field":"ssn",`+
			`"message":"%s","code":"c"}]}`),
	"problem of 500": wire.RawReply(500, nil,
		`{"detail":"%s","errorCode":"The value '%s' is wrong","traceId":"%s %s","errors":[{"field":"the `+
			`'%s'","code":"a '%s'"}]}`),
	"dictionary": wire.RawReply(400, nil, `{"errors":{"ssn":["The value '%s' is not valid"],"The '%s'":["x"]}}`),
	"developer page": wire.RawReply(401, map[string]string{
		"Content-Type":     "text/html",
		"WWW-Authenticate": "Bearer error=%s",
	}, `<html>Authorization: %s</html>`),
	"text of 500":        wire.RawReply(500, map[string]string{"Content-Type": "text/plain"}, `System.Exception: %s`),
	"HTML of 200":        wire.RawReply(200, map[string]string{"Content-Type": "text/html; x=%s"}, `<html>%s</html>`),
	"redirect":           wire.RawReply(307, map[string]string{"Location": "http://127.0.0.1:1/?x=%s"}, `%s`),
	"broken redirect":    wire.RawReply(302, map[string]string{"Location": "http://[::1/%s"}, `%s`),
	"half a value":       wire.RawReply(200, nil, `{"id":"%s","x":`),
	"a value too many":   wire.RawReply(200, nil, `"x" "%s"`),
	"another type":       wire.RawReply(200, nil, `{"id":{"x":"%s"},"token":["%s"],"expiresUTC":"%s","data":"%s"}`),
	"a text for all":     wire.RawReply(200, nil, `"%s"`),
	"bare text":          wire.RawReply(200, map[string]string{"Content-Type": "text/plain"}, `%s`),
	"retry after":        wire.RawReply(429, map[string]string{"Retry-After": "%s"}, `%s`),
	"status line":        "HTTP/1.1 %s\r\n\r\n",
	"protocol":           "%s HTTP/1.1 200 OK\r\n\r\n",
	"header without end": "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
	"length":             "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
	"encoding":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
	"chunk":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
	"gzip":               wire.RawReply(200, map[string]string{"Content-Encoding": "gzip"}, `%s`),
	"cut":                "HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n{\"x\":\"%s",
	"fin":                "",
}

// echo is a service that responds with a template of canaryFaults and the values of the request.
type echo struct{ address, template string }

func newEcho(t *testing.T, template string) *echo {
	t.Helper()
	e := &echo{template: template}
	e.address = wire.ListenRaw(t, e.serve)
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	said := strings.NewReplacer("\r", "", "\n", "", `"`, "'", `\`, "/").Replace(
		planted + " " + r.Header.Get("Authorization") + " " + r.URL.String() + " " + r.URL.Path + "?" +
			unescaped(r.URL.RawQuery) + " " + string(body))
	text := strings.ReplaceAll(e.template, "%s", said)
	if head, rest, ok := strings.Cut(text, "\r\n\r\n"); ok && strings.Contains(head, "Content-Type") {
		lines := strings.Split(head, "\r\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "Content-Length: ") {
				lines[i] = fmt.Sprintf("Content-Length: %d", len(rest))
			}
		}
		text = strings.Join(append(lines, "Connection: close"), "\r\n") + "\r\n\r\n" + rest
	}
	_, _ = io.WriteString(conn, text)
}

func unescaped(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// values returns the values in the request of a call: path arguments, query values, the strings and
// numbers of the body, and the token.
func values(t *testing.T, name string, r catalog.Route, call catalog.Call) []string {
	t.Helper()
	got := record(t, call)
	found := []string{planted, "test-token"}
	template := strings.Split(r.Path, "/")
	for i, segment := range strings.Split(got.URL.Path, "/") {
		if strings.HasPrefix(template[i], "{") {
			found = append(found, segment)
		}
	}
	for _, list := range got.URL.Query() {
		found = append(found, list...)
	}
	var body any
	if len(got.body) > 0 {
		require.NoError(t, json.Unmarshal(got.body, &body), name)
	}
	found = append(found, leaves(body)...)
	slices.Sort(found)
	return slices.Compact(found)
}

func leaves(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var found []string
		for _, element := range v {
			found = append(found, leaves(element)...)
		}
		return found
	case map[string]any:
		var found []string
		for _, member := range v {
			found = append(found, leaves(member)...)
		}
		return found
	}
	return nil
}

// form is a way to write a value.
type form struct {
	text    string
	bounded *regexp.Regexp // where text is hexadecimal: not in the middle of an address
}

// forms returns the ways to write a value.
func forms(value string) []form {
	if known, ok := knownForms.Load(value); ok {
		return known.([]form)
	}
	quoted := fmt.Sprintf("%q", value)
	asJSON, _ := json.Marshal(value) //nolint:errchkjson // a string has a form in JSON
	var found []form
	for _, text := range []string{
		value, quoted[1 : len(quoted)-1], string(asJSON)[1 : len(asJSON)-1], url.QueryEscape(value),
		url.PathEscape(value),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
		strings.Trim(fmt.Sprint([]byte(value)), "[]"), //nolint:staticcheck // the bytes as numbers
		base64.RawStdEncoding.EncodeToString([]byte(value))[:len(value)*4/3-1],
	} {
		f := form{text: text}
		if strings.Trim(text, "0123456789abcdefABCDEF") == "" {
			f.bounded = regexp.MustCompile(`(^|[^0-9a-fA-F])` + text + `($|[^0-9a-fA-F])`)
		}
		if !slices.ContainsFunc(found, func(other form) bool { return other.text == text }) {
			found = append(found, f)
		}
	}
	knownForms.Store(value, found)
	return found
}

var knownForms sync.Map

// in returns the place of f in text, or -1.
func (f form) in(text string) int {
	at := strings.Index(text, f.text)
	if at >= 0 && f.bounded != nil {
		if where := f.bounded.FindStringIndex(text); where != nil {
			return where[0]
		}
		return -1
	}
	return at
}

// holder has fields of every kind whose methods fmt does not call.
type holder struct {
	err    error
	list   []error
	byName map[string]any
	any    any
	public any
	Public any
}

// show prints vs in every way.
func show(b *bytes.Buffer, vs ...any) {
	for _, v := range vs {
		h := holder{any: v, public: []any{v}, Public: v, byName: map[string]any{"v": v, "l": []any{v}}}
		if err, ok := v.(error); ok {
			h.err, h.list = err, []error{err}
			fmt.Fprintln(b, fmt.Errorf("wrapped: %w", err), errors.Join(err, err))
		}
		showReachable(b, v)
		showAs(b, h) // without methods of its own
		showAs(b, &h)
	}
}

// showReachable prints vs where fmt, slog and json call their methods. They skip the methods of a
// public field inside an unexported field.
func showReachable(b *bytes.Buffer, vs ...any) {
	for _, v := range vs {
		for _, shown := range []any{v, []any{v}, map[string]any{"v": v}, struct{ V any }{v}} {
			showAs(b, shown)
		}
	}
}

// showAs prints v as it is.
func showAs(b *bytes.Buffer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
		fmt.Fprintf(b, verb+"\n", v)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(b, nil), slog.NewJSONHandler(b, nil)} {
		slog.New(handler).Info("m", "v", v, slog.Group("g", "v", v))
	}
	text, err := json.Marshal(v)
	fmt.Fprintln(b, string(text), err)
}

// chain returns err and the errors that it wraps, at every level.
func chain(err error) []any {
	if err == nil {
		return nil
	}
	found := []any{err}
	var more []error
	switch x := err.(type) { //nolint:errorlint // one level at a time
	case interface{ Unwrap() error }:
		more = []error{x.Unwrap()}
	case interface{ Unwrap() []error }:
		more = x.Unwrap()
	}
	for _, inner := range more {
		found = append(found, chain(inner)...)
	}
	for _, target := range targets {
		behind, ok := target(err)
		shown := func(v any) bool { return reflect.TypeOf(v).Comparable() && v == behind }
		if ok && !slices.ContainsFunc(found, shown) {
			found = append(found, behind)
		}
	}
	return found
}

// targets are interfaces, and types of errors that quote, for errors.As.
var targets = []func(error) (any, bool){
	as[error], as[net.Error], as[interface{ Unwrap() error }], as[interface{ Unwrap() []error }],
	as[interface{ Timeout() bool }], as[interface{ Temporary() bool }], as[interface{ Is(error) bool }],
	as[interface{ As(any) bool }], as[fmt.Formatter], as[fmt.GoStringer], as[slog.LogValuer], as[json.Marshaler],
	as[*url.Error], as[url.EscapeError], as[url.InvalidHostError],
	as[*net.OpError], as[*net.DNSError], as[*net.AddrError], as[*net.ParseError], as[*net.DNSConfigError],
	as[net.UnknownNetworkError], as[net.InvalidAddrError],
	//lint:ignore SA1019 this type quotes
	as[*http.ProtocolError], as[*http.MaxBytesError], //nolint:staticcheck // deprecated, and quotes
	as[*textproto.Error], as[textproto.ProtocolError],
	as[tls.RecordHeaderError], as[*tls.CertificateVerificationError], as[tls.AlertError], as[*tls.ECHRejectionError],
	as[*fs.PathError], as[streamError],
}

func as[T any](err error) (any, bool) {
	var target T
	if !errors.As(err, any(&target)) {
		return nil, false
	}
	if whole, ok := any(target).(error); ok && whole == err { //nolint:errorlint // itself
		return nil, false
	}
	return target, true
}

// streamError is like StreamError of golang.org/x/net/http2: net/http fills any struct of that
// form.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprint(e.Cause) }

// leaks returns the values that text holds.
func leaks(text string, values []string) []string {
	var found []string
	for _, value := range values {
		if len(value) < 5 {
			continue // "12" is everywhere
		}
		for _, form := range forms(value) {
			if at := form.in(text); at >= 0 {
				found = append(found, fmt.Sprintf("%q in …%s…", value,
					text[max(0, at-60):min(len(text), at+len(form.text)+40)]))
				break
			}
		}
	}
	return found
}

// TestNoValueIsShown makes every call at services that repeat the values of the request, and
// searches for the values in all output of a program afterwards.
func TestNoValueIsShown(t *testing.T) {
	t.Parallel()
	standard := &lockedBuffer{}
	log.SetOutput(standard)
	defer log.SetOutput(os.Stderr)
	rows, all := catalog.Routes(t), maps.Clone(catalog.Calls)
	maps.Copy(all, catalog.Variants)
	sent := map[string][]string{}
	var everything []string
	var trials []canary
	for name, call := range all {
		method, _, _ := strings.Cut(name, " ")
		sent[name] = values(t, name, rows[method], call)
		everything = append(everything, sent[name]...)
	}

	for i, fault := range slices.Sorted(maps.Keys(canaryFaults)) {
		service := newEcho(t, canaryFaults[fault])
		trials = append(trials, canaryTrials(all, i, fault, "http://"+service.address, nil)...)
	}
	failures := runCanaries(t, trials, sent)
	t.Logf("%d trials, of which %d failed", len(trials), failures)
	assert.Greater(t, failures, len(trials)/2)
	assert.Empty(t, leaks(standard.String(), everything), "standard logger")
}

type canary struct {
	fault, name, base string
	transport         http.RoundTripper
	call              catalog.Call
}

// canaryTrials returns the trials of the n-th fault with a third of the calls, in a long run with all: each
// call has a third of the faults.
func canaryTrials(
	all map[string]catalog.Call, n int, fault, base string, transport http.RoundTripper,
) (trials []canary) {
	every := 3
	switch {
	case race.Enabled: // printing is ten times as slow, and has no races
		every = 12
	case longrun.Wanted():
		every = 1
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if (n+i)%every == 0 {
			trials = append(trials, canary{fault, name, base, transport, all[name]})
		}
	}
	return trials
}

// runCanaries returns the number of failed calls.
func runCanaries(t *testing.T, trials []canary, sent map[string][]string) int {
	t.Helper()
	var begins sync.Map
	var failures atomic.Int32
	queue := make(chan canary)
	var workers sync.WaitGroup
	for range 96 {
		workers.Go(func() {
			var shown bytes.Buffer
			for c := range queue {
				shown.Reset()
				err := c.run(t, &shown, &begins)
				show(&shown, chain(err)...)
				if failed, ok := errors.AsType[*lending.Error](err); ok {
					failures.Add(1)
					if failed.Problem != nil {
						showReachable(&shown, *failed.Problem)
					}
					showReachable(&shown, failed.Response())
				}
				for _, leak := range leaks(shown.String(), sent[c.name]) {
					t.Errorf("%s × %s: %s", c.name, c.fault, leak)
				}
			}
		})
	}
	for _, c := range trials {
		queue <- c
	}
	close(queue)
	workers.Wait()
	return int(failures.Load())
}

// run makes a call while every observer writes to shown. Unless begins has the call's name, run also
// prints the beginning of the call.
func (c canary) run(t *testing.T, shown *bytes.Buffer, begins *sync.Map) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var told error
	opts := []lending.Option{
		withToken,
		lending.WithLogger(slog.New(slog.NewJSONHandler(shown, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		lending.WithLogger(slog.New(slog.NewTextHandler(shown, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		wire.Attempts(func(_ context.Context, a lending.Call) {
			show(shown, a)
			show(shown, chain(a.Err)...)
			if a.Attempts > 1 {
				cancel() // further attempts look the same
			}
		}),
		lending.WithObserver(func(ctx context.Context, begun lending.Call) (context.Context, func(lending.Call)) {
			if _, again := begins.LoadOrStore(c.name, true); !again { // the same before every response
				show(shown, begun)
			}
			return ctx, func(ended lending.Call) { show(shown, ended); told = ended.Err }
		}, nil),
	}
	if c.transport != nil {
		opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: c.transport}))
	}
	client, err := lending.New(c.base+wire.BasePath, opts...)
	require.NoError(t, err)
	defer client.Close()
	_, err = c.call(ctx, client)
	if told != err { //nolint:errorlint // the caller of run shows err
		show(shown, chain(told)...)
	}
	var holdsURL *url.Error
	assert.NotErrorAs(t, err, &holdsURL)
	return err
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// talkative is an error of a caller's transport with everything in its text.
type talkative struct{ r *http.Request }

func (e *talkative) Error() string   { return e.r.URL.String() + fmt.Sprint(e.r.Header) }
func (e *talkative) Timeout() bool   { return true }
func (e *talkative) Temporary() bool { return true }

// The errors of these transports quote the request.
func TestNoErrorOfAForeignTransportIsShown(t *testing.T) {
	t.Parallel()
	transports := map[string]wire.RoundTripper{
		"net.Error": func(r *http.Request) (*http.Response, error) { return nil, &talkative{r} },
		"url.Error": func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: &talkative{r}}
		},
		"wrapped, url.Error": func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("%s: %w", r.URL, &url.Error{Op: "Get", URL: r.URL.String(), Err: io.EOF})
		},
		"dial": func(r *http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &talkative{r}}
		},
		"joined": func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(&talkative{r}, context.DeadlineExceeded)
		},
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"every type": func(r *http.Request) (*http.Response, error) {
			said := planted + r.URL.String() + fmt.Sprint(r.Header)
			return nil, errors.Join(
				&url.Error{Op: said, URL: said, Err: &talkative{r}}, url.EscapeError(said), url.InvalidHostError(said),
				&net.OpError{Op: "read", Net: said, Err: &talkative{r}},
				&net.OpError{Op: "dial", Net: "tcp", Err: &talkative{r}},
				&net.DNSError{Err: said, Name: "lending.example", Server: said, UnwrapErr: &talkative{r}},
				&net.AddrError{Err: said, Addr: said}, &net.ParseError{Type: said, Text: said},
				&net.DNSConfigError{Err: &talkative{r}},
				//nolint:staticcheck // deprecated, and quotes
				net.UnknownNetworkError(said), net.InvalidAddrError(said), &http.ProtocolError{ErrorString: said},
				&textproto.Error{Code: 1, Msg: said}, textproto.ProtocolError(said), tls.RecordHeaderError{Msg: said},
				&fs.PathError{Op: "open", Path: said, Err: &talkative{r}}, streamError{Cause: &talkative{r}},
				fmt.Errorf("%s: %w", said, io.EOF),
			)
		},
	}
	sent, rows := map[string][]string{}, catalog.Routes(t)
	for name, call := range catalog.Calls {
		sent[name] = values(t, name, rows[name], call)
	}
	var trials []canary
	for i, kind := range slices.Sorted(maps.Keys(transports)) {
		trials = append(trials, canaryTrials(catalog.Calls, i, kind, "https://lending.example", transports[kind])...)
	}
	assert.Equal(t, len(trials), runCanaries(t, trials, sent))
}

// TestSecretsAreNotShown prints every type with a secret.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "c4n4ry-5ecret"
	hidden := lending.NewSecret(secret)
	credentials := lending.Credentials{Username: "u", Password: hidden, TrustedDeviceToken: hidden}
	session, err := lending.New("https://lending.example", lending.WithCredentials(credentials))
	require.NoError(t, err)
	static, err := lending.New("https://lending.example", lending.WithTokenSource(lending.StaticToken(secret)))
	require.NoError(t, err)
	var user lending.FullApplicationUser
	require.NoError(t, json.Unmarshal([]byte(`{"token":"`+secret+`","userId":"`+secret+`","requiresTwoFactor":false}`),
		&user))
	var subscription lending.WebhookSubscription
	require.NoError(t, json.Unmarshal([]byte(`{"secret":"`+secret+`"}`), &subscription))
	var captured lending.Response
	client := wire.Serve(t, wire.Answer(200, `{"token":"`+secret+`"}`))
	_, err = client.Auth.Login(lending.CaptureResponse(t.Context(), &captured),
		lending.LoginRequest{Username: "u", Password: hidden})
	require.NoError(t, err)
	require.Contains(t, string(captured.Body), secret)

	for _, v := range []any{
		hidden, &hidden, credentials, &credentials, session, *session, static, *static,
		lending.StaticToken(secret),
		lending.Token{Value: hidden},
		&lending.Token{Value: hidden},
		lending.LoginRequest{Username: "u", Password: hidden, TrustedDeviceToken: hidden},
		lending.TwoFactorLoginRequest{Username: "u", Code: hidden},
		lending.UserRequest{Password: hidden},
		[]lending.UserRequest{{Password: hidden}},
		lending.SignaturesRequest{Signature: hidden, Signature2: hidden},
		lending.WithdrawInvoiceRequestData{OTP: hidden},
		lending.CustomerData{SSN: hidden},
		user, &user, subscription, &subscription,
	} {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			var shown bytes.Buffer
			show(&shown, v)
			assert.Empty(t, leaks(shown.String(), []string{secret}), "%T", v)
		})
	}
	assert.Contains(t, fmt.Sprint(session), "https://lending.example")
	var shown bytes.Buffer
	showReachable(&shown, captured, &captured)
	assert.Empty(t, leaks(shown.String(), []string{secret}))
}

// A token cannot break out of its header, and the error does not show it.
func TestTokenWithControlBytesIsRefused(t *testing.T) {
	for _, token := range []string{
		"", " ", "c4n4ry\r\nX-Evil: 1", "c4n4ry\n", "c4n4ry\x00", "c4n4ry tail",
		"c4n4ry\x7f", "cánáry", "c4n4ry\t",
	} {
		t.Run(token, func(t *testing.T) {
			client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(lending.StaticToken(token)),
				withTransport(func(*http.Request) (*http.Response, error) {
					t.Errorf("sent a token %q", token)
					return nil, io.EOF
				}))
			err := client.Applications.Cancel(t.Context(), catalog.Application)
			require.Error(t, err)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			var shown bytes.Buffer
			show(&shown, chain(err)...)
			assert.Empty(t, leaks(shown.String(), []string{token, "c4n4ry"}))
		})
	}
}
