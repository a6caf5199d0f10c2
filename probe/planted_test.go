package probe

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// reply is a response, for a planted difference to change.
type reply struct {
	status int
	kind   string
	body   []byte
}

func (a *reply) be(status int, kind, body string) { *a = reply{status, kind, []byte(body)} }

// replace changes the text of a success.
func replace(pattern, with string) func(*http.Request, *reply) {
	return func(_ *http.Request, a *reply) {
		if a.status != 200 {
			return
		}
		a.body = regexp.MustCompile(pattern).ReplaceAll(a.body, []byte(with))
	}
}

// variant is a service of our own: lendingtest with planted differences.
type variant struct {
	*lendingtest.Service
	handler http.Handler
	change  map[string]func(*http.Request, *reply) // by the action of a route, or "" for all
	proto   string
	hooks   http.Handler
	loan    string
	seeded  canaries
	client  *http.Client
}

// pipes are connections in memory, which work in a bubble.
type pipes struct {
	conns chan net.Conn
	done  context.Context
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// closing has a variant speak HTTP/1.1, and close idle connections without a word. No wait of the probe ends
// at the instant of a close.
func (v *variant) closing(t *testing.T) {
	t.Helper()
	v.over(t, (*http.Protocols).SetHTTP1, 900*time.Millisecond)
}

// over has a variant speak a protocol over pipes.
func (v *variant) over(t *testing.T, protocol func(*http.Protocols, bool), idle time.Duration) {
	t.Helper()
	p, protocols := &pipes{make(chan net.Conn), t.Context()}, &http.Protocols{}
	protocol(protocols, true)
	transport := &http.Transport{DialContext: p.dial, Protocols: protocols}
	server := &http.Server{Handler: v, IdleTimeout: idle, ReadHeaderTimeout: time.Minute, Protocols: protocols}
	v.client, v.proto = &http.Client{Transport: transport}, ""
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { _ = server.Close(); transport.CloseIdleConnections() })
}

func (v *variant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorder := httptest.NewRecorder()
	v.handler.ServeHTTP(recorder, r)
	a := reply{recorder.Code, recorder.Header().Get("Content-Type"), recorder.Body.Bytes()}
	_, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/"), "/")
	action, _, _ = strings.Cut(action, "/")
	for _, name := range []string{action, ""} {
		if change := v.change[name]; change != nil {
			change(r, &a)
		}
	}
	w.Header().Set("Date", recorder.Header().Get("Date"))
	w.Header().Set("Content-Type", a.kind)
	if a.status == http.StatusFound {
		w.Header().Set("Location", "/sign-in")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// RoundTrip serves the service and the receiver of webhooks without sockets.
func (v *variant) RoundTrip(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if p, ok := recover().(error); ok && errors.Is(p, http.ErrAbortHandler) {
			response, err = nil, syscall.ECONNRESET
		}
	}()
	handler := http.Handler(v)
	if strings.HasPrefix(r.URL.Path, "/webhooks") {
		handler = v.hooks
	}
	recorder, request := httptest.NewRecorder(), r.Clone(r.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	handler.ServeHTTP(recorder, request)
	response = recorder.Result()
	if v.proto != "" {
		response.Proto = v.proto
	}
	response.Request = r
	return response, nil
}

func newVariant(t *testing.T, opts ...lendingtest.Option) *variant {
	t.Helper()
	v := &variant{change: map[string]func(*http.Request, *reply){}, proto: "HTTP/2.0"}
	v.Service = lendingtest.New(append(opts, lendingtest.WithLoopbackReceivers(),
		lendingtest.WithDeliveryClient(&http.Client{Transport: v}))...)
	v.handler = v.Service
	t.Cleanup(v.Close)
	v.client = &http.Client{Transport: v}
	v.loan = seeded(v.Service, &v.seeded)
	return v
}

func (v *variant) options(t *testing.T) Options {
	t.Helper()
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	require.NoError(t, err)
	loan, err := lending.ParseLoanID(v.loan)
	require.NoError(t, err)
	return Options{
		BaseURL: "http://127.0.0.1", Credentials: fake.Credentials(v.Service), HTTPClient: v.client,
		Partner: partner, Loan: loan, Create: true, Email: "tests@example.com",
		WebhookURL: "http://127.0.0.1/webhooks", Listen: func(h http.Handler) { v.hooks = h },
		File: filepath.Join(t.TempDir(), "created.jsonl"), LagLimit: 2 * time.Minute,
	}
}

// withdraw is a program of a partner, whom a watcher follows: first the customer enters a wrong one-time password. The
// changes go to the log.
func (v *variant) withdraw(t *testing.T, known, against *Service, l *log) *Service {
	t.Helper()
	compared, learned := Watch(against, func(change string) { l.Errorf("%s", change) }), Watch(known, func(string) {})
	client, err := lending.New("http://127.0.0.1", lending.WithCredentials(fake.Credentials(v.Service)),
		lending.WithHTTPClient(v.client), lending.WithObserver(compared.Observe, nil),
		lending.WithObserver(learned.Observe, nil))
	require.NoError(t, err)
	defer client.Close()
	id, err := lending.ParseLoanID(v.loan)
	require.NoError(t, err)
	list := func() int {
		page, err := client.Loans.Withdrawals(t.Context(), id, nil)
		require.NoError(t, err)
		return page.TotalCount
	}
	before := list()
	loan, err := client.Loans.Get(t.Context(), id)
	require.NoError(t, err)
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	_, err = client.Calculation.Invoice(t.Context(), loan.ApplicationID, &calculation)
	require.NoError(t, err)
	withdrawal, err := client.Loans.WithdrawInvoice(t.Context(), id,
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	require.NoError(t, err)
	for _, password := range []string{"wrong", v.OTP(v.loan)} {
		_, err = client.Loans.ConfirmInvoiceWithdrawal(t.Context(), *withdrawal, lending.WithdrawInvoiceRequestData{
			DateUTC: time.Now(), OTP: lending.NewSecret(password),
		})
		assert.Equal(t, password == "wrong", err != nil)
	}
	for list() == before {
		require.True(t, wait(t.Context(), time.Second))
	}
	return learned.Service()
}

// assume plants facts, and returns the lines of the probe about them.
func (v *variant) assume(facts map[string]string) (lines []string) {
	for fact, value := range facts {
		v.Assume(fact, value)
		name, subject, _ := strings.Cut(fact, ": ")
		lines = append(lines, "^"+name+": "+subject+".*was .*, is "+regexp.QuoteMeta(value)+"$")
	}
	return lines
}

// first is a service with planted differences.
func first(t *testing.T) (*variant, []string) {
	t.Helper()
	v := newVariant(t, lendingtest.WithService([]byte(`{"version":1,"facts":{"read lag: get-customer-by-id":"2s",`+
		`"read lag: get-customer-applications":"2s","read lag: get-withdrawals":"7s",`+
		`"clock":"10s","late execution":"9s"}}`)))
	v.closing(t)
	v.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1, Reverse: true, Delay: 4 * time.Second})
	v.change["get-loan"] = replace(`"balance"`, `"outstandingAmount"`)
	v.change["get-transactions"] = func(r *http.Request, a *reply) {
		replace(`"amount":([0-9.]+)`, `"amount":"$1"`)(r, a)
		replace(`("dateUTC":"[^"]+)"`, `$1+02:00"`)(r, a)
	}
	v.change["get-withdrawals"] = replace(`"Completed"`, `"COMPLETED"`)
	v.change["get-customer-by-id"] = replace(`^\{`, `{"tier":1,`)
	v.change["get-application"] = replace(`"businessZip":"[^"]*",`, ``)
	return v, append(v.assume(map[string]string{
		"absence: get-loan": "204 empty", "absence: get-application": "400 problem record",
		"absence: get-customer-by-email": "200 null", "absence: get-total-balance": "200 {}",
		"problem record: 400": "application/problem+json array", "problem record: 404": "application/problem+json array",
		"wrong password": "401", "wrong one-time password": "200 with a refusal", "refresh": "old token refused",
		"second processing": "400", "duplicate customer": "200 with a second customer",
		"pages: get-partner-applications": "another order", "take cap: get-transactions": "100",
	}),
		`^clock: was 0s, is (9|10|11)s`,
		`^late execution: was 0s, is ([789]|10)s`,
		`^read lag: (get-customer|application)[a-z-]+ was 0s, is [23]s`,
		`^read lag: get-withdrawals was 0s, is [78]s`,
		`^protocol: was HTTP/2\.0, is HTTP/1\.1`,
		`^keep-alive: after 2s was same connection, is new connection`,
		`^webhook copies: was none, is some`,
		`^webhook order: was as created, is another order`,
		`^webhook delay: was 0s, is [0-9m]+s`,
		`^fields: GET /api/Loan/get-loan/{loanId} \.balance: gone`,
		`^fields: GET /api/Loan/get-loan/{loanId} \.outstandingAmount: new`,
		`^fields: .*get-transactions/{loanId} \[\]\.amount: was number, is decimal string or number`,
		`^fields: .*get-transactions/{loanId} \[\]\.dateUTC: was time without a zone, is time or time without a zone`,
		`^words: .*get-withdrawals/.* was Completed, is COMPLETED`,
		`^fields: .*get-customer-by-id/{customerId} \.tier: new`,
		`^fields: .*get-application/{applicationId} \.businessZip: gone`)
}

// second is another service with planted differences.
func second(t *testing.T) (*variant, []string) {
	t.Helper()
	v := newVariant(t, lendingtest.WithReadLag(30*time.Second), lendingtest.WithTokenLifetime(30*time.Minute))
	v.SetDecision(lendingtest.Decision{After: 50 * time.Second})
	v.SetDeliveryMode(lendingtest.DeliveryMode{Secret: "guess", Retries: 1})
	v.change["get-application"] = replace(`1990-02-28T00`, `1990-02-27T16`)
	v.change["application-loc-calculation-slider"] = func(_ *http.Request, a *reply) { a.be(415, "", "") }
	v.change["confirm-withdrawal-invoice"] = replace(`^\{"data":("[^"]*")\}$`, "$1")
	v.change["get-withdrawals"] = replace(`"(status)"`, `"state_$1"`)
	v.change["is-loan-enabled"] = replace(`true`, `"true"`)
	v.change["get-contracts"] = replace(`^\[(.*)\]$`, `{"items":[$1]}`)
	return v, append(v.assume(map[string]string{
		"gateway": "404 text/html", "malformed identifier": "404 problem record", "token refused": "403",
		"empty list: get-customer-loans": "204 empty", "empty list: get-customer-applications": "200 null",
		"wrong password": "200 without a token", "second processing": "200 with the same id",
		"take cap: get-transactions": "none up to 201 records", "message order": "newest first",
		"descending: get-transactions-paged": "ignored", "totals: get-transactions-paged": "another number",
		"e-mail identifies": "another id", "process answers": "another id",
		"same value: add-or-update-banking-data": "1 accounts, then 2",
	}),
		`^problem record: 404 was application/json array, is application/json array, text/html other`,
		`^read lag: [a-z-]+ was 0s, is (29|3[01])s`,
		`^read lag: application-offer was 0s, is [3-9][0-9]s|^read lag: application-offer was 0s, is 1m`,
		`^token life: was 1h0m0s, is 30m0s`,
		`^webhook retry: was not delivered again, is delivered again`,
		`^webhook signature: was valid, is not valid`,
		`^webhook events: `,
		`^days: was the same day, is a day early`,
		`^optional bodies: was 200, is 415`,
		`^confirmation answers: was a UUID in an object, is a UUID|^fields: .*confirm-withdrawal.*, is UUID or object`,
		`^fields: .*get-contracts/{applicationId}: was list, is list or object|^fields: .*get-contracts.*items.*: new`,
		`^fields: .*get-withdrawals/.*status: gone`,
		`^fields: .*get-withdrawals/.*state_status: new`,
		`^fields: .*is-loan-enabled/{loanId}: was boolean, is boolean or string`)
}

// older has the forms of an older framework.
func older(t *testing.T) (*variant, []string) {
	t.Helper()
	return newVariant(t, lendingtest.WithFramework("2.3")), []string{
		`^absence: [a-z- ]+ was [2-4]0[0-4] .*, is 404 empty`,
		`^gateway: was 404 problem record, is 404 empty`,
		`^missing and unknown: was told apart, is .*Customers\.GetByEmail`,
		`^(malformed identifier|duplicate customer): was 400 problem record, is 400 other JSON`,
		`^problem record: 400 was application/json array, is application/json bare dictionary`,
		`^problem record: 404 was application/json array, is empty`,
		`^webhook copies: was none, is some`, // two events of an instant
	}
}

// plants are the services, each with the lines of its differences.
var plants = map[string]func(*testing.T) (*variant, []string){"first": first, "second": second, "older": older}

// TestEachPlantedDifferenceIsReported probes two services. Each difference has at least a line, each
// line has a difference, and no line has a value. The knowledge about each service is kept in testdata, also for
// other packages.
func TestEachPlantedDifferenceIsReported(t *testing.T) {
	t.Parallel()
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, want := plant(t)
				l := &log{TB: t}
				result := Run(l, v.options(t))
				require.NoError(t, result.Err)
				result.Service = v.withdraw(t, result.Service, Assumed(), l)
				found := map[string]bool{}
				for _, line := range l.reported {
					known := false
					for _, pattern := range want {
						if regexp.MustCompile(pattern).MatchString(line) {
							known, found[pattern] = true, true
						}
					}
					assert.True(t, known, "not planted: %s", line)
				}
				for _, pattern := range want {
					assert.True(t, found[pattern], "not reported: %s", pattern)
				}
				for _, canary := range v.seeded.made {
					assert.NotContains(t, l.all(result), canary)
				}
				if *update {
					require.NoError(t, result.Service.Save("testdata/"+name+".json"))
				}
				kept := learned(t, name)
				assert.Empty(t, differences(kept, result.Service), "to write it anew: go test ./probe -run Planted -update")
				assert.Equal(t, kept.maxLateness(), result.MaxLateness)
			})
		})
	}
}

// learned returns the knowledge about a planted service.
func learned(t *testing.T, name string) *Service {
	t.Helper()
	kept, err := Load("testdata/" + name + ".json")
	require.NoError(t, err)
	return kept
}

// TestTaughtFakeAnswersAsTheService gives lendingtest the service.json of each planted service: the
// probe finds no difference.
func TestTaughtFakeAnswersAsTheService(t *testing.T) {
	t.Parallel()
	for name := range plants {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := learned(t, name)
				v := teach(t, kept)
				options := v.options(t)
				options.Against = kept
				l := &log{TB: t}
				again := Run(l, options)
				require.NoError(t, again.Err)
				again.Service = v.withdraw(t, again.Service, kept, l)
				l.reported = slices.DeleteFunc(l.reported, func(line string) bool { // options of lendingtest choose both
					return strings.HasPrefix(line, "days: ") || strings.HasPrefix(line, "optional bodies: ")
				})
				assert.Empty(t, l.reported)
				delete(kept.Facts, "problem record: 415") // of the optional body
				assert.Subset(t, slices.Collect(maps.Keys(again.Service.Facts)), slices.Collect(maps.Keys(kept.Facts)))
			})
		})
	}
}
