package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

const (
	confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	person       = "dora"
)

// backend is a program of a partner with the handler mounted at /ops/.
type backend struct {
	*testing.T
	service *lendingtest.Server
	client  *lending.Client
	entries store.Store // of the log
	log     *idempotency.Log
	inbox   *webhook.MemoryInbox
	address string // of the handler
	actions *buffer
}

// open starts a backend. The header X-Person names the person of a request, who may act.
func open(t *testing.T, change func(*ops.Options)) *backend {
	t.Helper()
	b := &backend{T: t, inbox: webhook.NewMemoryInbox(), entries: store.NewMemory(), actions: &buffer{}}
	b.log = fake.Must(idempotency.NewLog(b.entries, &idempotency.Options{MaxLateness: time.Hour}))
	b.service = lendingtest.NewServer()
	t.Cleanup(b.service.Close)
	var err error
	b.client, err = lending.New(b.service.URL,
		lending.WithCredentials(fake.Credentials(b.service)), lending.WithIdempotency(b.log))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	options := ops.Options{
		Log: b.log, Inboxes: map[string]webhook.DeadLetters{"web hooks": b.inbox},
		Sessions: map[string]*lending.Session{"acme": b.client.Session()},
		Who:      func(r *http.Request) (string, bool) { name := r.Header.Get("X-Person"); return name, name != "" },
		Show:     func(r *http.Request) bool { return r.Header.Get("X-Person") == person },
		Logger:   slog.New(slog.NewTextHandler(b.actions, nil)),
	}
	if change != nil {
		change(&options)
	}
	b.address = b.serve(options)
	return b
}

// serve starts a replica and returns the address of its handler.
func (b *backend) serve(options ops.Options) (address string) {
	mux := http.NewServeMux()
	mux.Handle("/ops/", ops.Handler(options))
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	return server.URL + "/ops/"
}

// get returns the status and the body of a GET.
func (b *backend) get(path string) (int, string) {
	b.Helper()
	return b.send(http.MethodGet, path, nil, nil)
}

// read returns the body of a successful GET of a person who may see everything.
func (b *backend) read(path string) string {
	b.Helper()
	status, text := b.send(http.MethodGet, path, nil, http.Header{"X-Person": {person}})
	require.Equal(b, http.StatusOK, status, text)
	return text
}

// act sends an order that succeeds, and returns the body of the response.
func (b *backend) act(path string, order any) string {
	b.Helper()
	status, text := b.post(path, order)
	require.Equal(b, http.StatusOK, status, text)
	return text
}

// refused sends an order that fails, and returns the body of the response.
func (b *backend) refused(want int, path string, order any) string {
	b.Helper()
	status, text := b.post(path, order)
	require.Equal(b, want, status, text)
	return text
}

// post sends an order of a person who may act.
func (b *backend) post(path string, order any) (int, string) {
	b.Helper()
	return b.send(http.MethodPost, path, order, http.Header{"X-Person": {person}, "Content-Type": {"application/json"}})
}

func (b *backend) send(method, path string, body any, header http.Header) (int, string) {
	b.Helper()
	text, err := json.Marshal(body)
	require.NoError(b, err)
	request, err := http.NewRequestWithContext(b.Context(), method, b.address+path, bytes.NewReader(text))
	require.NoError(b, err)
	if header != nil {
		request.Header = header
	}
	response, err := steer.Unkept.Do(request)
	require.NoError(b, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	return response.StatusCode, string(answer)
}

// withdraw begins a withdrawal and returns its confirmation under the key.
func (b *backend) withdraw(key string) func() error {
	b.Helper()
	row := b.service.AddLoan(lendingtest.Loan{})
	application, loan := fake.Must(lending.ParseApplicationID(row.ApplicationID)), fake.Must(lending.ParseLoanID(row.ID))
	calculation := fake.Invoice()
	_, err := b.client.Calculation.Invoice(b.Context(), application, calculation)
	require.NoError(b, err)
	begun, err := b.client.Loans.WithdrawInvoice(b.Context(), loan,
		lending.InvoiceWithdrawalRequest{Calculation: *calculation})
	require.NoError(b, err)
	otp := lending.NewSecret(b.service.OTP(row.ID))
	return func() error {
		_, err := b.client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(b.Context(), key), *begun,
			lending.WithdrawInvoiceRequestData{DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), OTP: otp})
		return err
	}
}

// create creates a customer under the key.
func (b *backend) create(key string) {
	b.Helper()
	ctx := lending.WithIdempotencyKey(b.Context(), key)
	_, err := b.client.Applications.CreateCustomer(ctx, fake.Newcomer())
	require.NoError(b, err)
}

// loseDocument uploads a document whose response is lost. No read shows the upload.
func (b *backend) loseDocument(key string) {
	b.Helper()
	const route = "POST /api/ApplicationApproval/submit-document/{applicationId}"
	application := b.service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{
		Amount: 100_000, ExpiresUTC: lendingtest.Timestamp{Time: time.Now().Add(time.Hour)},
	}})
	b.service.Fail(route, lendingtest.Fault{ResetAfter: true})
	err := b.client.Approval.SubmitDocument(lending.WithIdempotencyKey(b.Context(), key),
		fake.Must(lending.ParseApplicationID(application.ID)), "Other",
		lending.Document{Name: "a.pdf", Content: strings.NewReader("content")})
	require.Error(b, err)
	require.Equal(b, lending.OutcomeUnknown, lending.OutcomeOf(err), err)
}

// setAside makes dead letters of events.
func (b *backend) setAside(cause error, bodies ...string) {
	b.Helper()
	for _, body := range bodies {
		event, err := webhook.Parse([]byte(body))
		require.NoError(b, err)
		require.NoError(b, b.inbox.Put(b.Context(), event))
		entry, err := b.inbox.Take(b.Context())
		require.NoError(b, err)
		require.NoError(b, b.inbox.DeadLetter(b.Context(), entry, cause))
	}
}

func event(name string, n int) string {
	return fmt.Sprintf(`{"webhookEvent":%q,"data":{"n":%d}}`, name, n)
}

// buffer is a bytes.Buffer for many goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// failing is a store that fails while it is told to.
type failing struct {
	store.Store
	mu     sync.Mutex
	failed bool
}

func (f *failing) fail(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = failed
}

func (f *failing) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed {
		return errors.New("dial c4n4ry-store: refused")
	}
	return nil
}

func (f *failing) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, filter)
}

func (f *failing) Load(ctx context.Context, key string) (*store.Entry, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, key)
}
