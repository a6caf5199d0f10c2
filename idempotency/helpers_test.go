package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

const maxLateness = 5 * time.Minute // the default of Options

// doubtful selects the entries in doubt.
var doubtful = idempotency.Filter{States: idempotency.InDoubtStates(), Limit: 1000}

// newClient starts another process: a client of its own, which shares the log.
type newClient = func(...lending.Option) *lending.Client

// keyed runs f in a bubble with a service and a function that starts another process: a
// client of its own, which shares the log.
func keyed(t *testing.T, f func(*testing.T, *lendingtest.Service, newClient)) {
	t.Helper()
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		f(t, service, process)
	})
}

// withLog is keyed, and the log. The options are those of the service.
func withLog(t *testing.T, f func(*testing.T, *lendingtest.Service, newClient, *idempotency.Log),
	opts ...lendingtest.Option,
) {
	t.Helper()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		f(t, service, func(opts ...lending.Option) *lending.Client { return processWith(t, service, log, opts...) }, log)
	}, append(opts, withoutReceivers)...)
}

// withoutReceivers delivers webhooks to nobody.
var withoutReceivers = lendingtest.WithDeliveryClient(&http.Client{Transport: wire.Reply(http.StatusOK, "")})

// keyOption is an option of package idempotency for the key in a context.
type keyOption = func(context.Context) context.Context

func withKey(ctx context.Context, key string, opts ...keyOption) context.Context {
	ctx = lending.WithIdempotencyKey(ctx, key)
	for _, opt := range opts {
		ctx = opt(ctx) //nolint:fatcontext // a few options
	}
	return ctx
}

func withCheck(check func(context.Context) (idempotency.Verdict, error)) keyOption {
	return func(ctx context.Context) context.Context { return idempotency.WithCheck(ctx, check) }
}

// processWith is another process, with a log of its own.
func processWith(t *testing.T, service *lendingtest.Service, log *idempotency.Log,
	opts ...lending.Option,
) *lending.Client {
	t.Helper()
	return wire.NewClient(t, "https://lending.example", append([]lending.Option{
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})),
		lending.WithIdempotency(log),
	}, opts...)...)
}

// order is the order of a partner. The service has its customer, application and loan.
type order struct {
	service     *lendingtest.Service
	customer    lending.CustomerID
	application lending.ApplicationID // with bank data
	offered     lending.ApplicationID // with an offer
	loan        lending.LoanID
	withdrawal  *lending.InvoiceWithdrawal // waits for its password; nil for none
}

func newOrder(service *lendingtest.Service) order {
	customer := service.AddCustomer(lendingtest.Customer{Email: "order@example.com"})
	loan := service.AddLoan(lendingtest.Loan{CustomerID: customer.ID})
	application := func() lending.ApplicationID {
		added := service.AddApplication(lendingtest.Application{CustomerID: customer.ID})
		return fake.Must(lending.ParseApplicationID(added.ID))
	}
	return order{
		service: service, customer: fake.Must(lending.ParseCustomerID(customer.ID)),
		application: application(), offered: application(), loan: fake.Must(lending.ParseLoanID(loan.ID)),
	}
}

func (o order) request() lending.ApplicationRequest {
	return lending.ApplicationRequest{CustomerID: o.customer, BusinessName: "B", BusinessZip: "94105"}
}

// createsID returns a function that creates an application with a key.
func (o order) createsID(
	t *testing.T, client *lending.Client,
) func(key string, opts ...keyOption) (lending.ApplicationID, error) {
	t.Helper()
	return func(key string, opts ...keyOption) (lending.ApplicationID, error) {
		return client.Applications.Create(withKey(t.Context(), key, opts...), o.request(), nil)
	}
}

// creates is createsID without the id.
func (o order) creates(t *testing.T, client *lending.Client) func(key string, opts ...keyOption) error {
	t.Helper()
	create := o.createsID(t, client)
	return func(key string, opts ...keyOption) error {
		_, err := create(key, opts...)
		return err
	}
}

// renames returns a function that sets the name of an application to key.
func (o order) renames(t *testing.T, client *lending.Client) func(key string) error {
	t.Helper()
	return func(key string) error { return o.rename(t, client, key, key) }
}

// rename sets the name of an application. The call ends after 10 seconds.
func (o order) rename(t *testing.T, client *lending.Client, key, name string) error {
	t.Helper()
	ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), key), 10*time.Second)
	defer stop()
	_, err := client.Applications.UpdateName(ctx, o.application, name)
	return err
}

// prepareOrder prepares an order for the mutations of lostAnswers.
func prepareOrder(t *testing.T, client *lending.Client, o *order) {
	t.Helper()
	ctx := t.Context()
	for _, id := range []lending.ApplicationID{o.application, o.offered} {
		fake.Must(client.Applications.AddOrUpdateBankingData(ctx, id, bankData(), nil))
	}
	fake.Must(client.Applications.Process(ctx, o.offered))
	require.NoError(t, client.Approval.AddCompanyDetails(ctx, o.offered,
		lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": "Lovelace Analytics"}}))
	require.NoError(t, client.Webhooks.Register(ctx, lending.ForCustomer(o.customer),
		lending.WebhookSubscription{WebhookURI: "https://receiver.invalid/"}))
	loan := fake.Must(client.Loans.Get(ctx, o.loan))
	fake.Must(client.Calculation.Invoice(ctx, loan.ApplicationID, fake.Invoice()))
	o.withdrawal = fake.Must(client.Loans.WithdrawInvoice(ctx, o.loan,
		lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()}))
}

// bankData returns banking data with an account and a transaction, with the field names of the
// embedded service.
func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: map[string]any{"accounts": []lendingtest.BankAccount{{
		AccountName: "Checking", AccountNumber: "000123456789", RoutingNumber: "110000000", AccountType: "checking",
		Balance:      "48210.55",
		Transactions: []lendingtest.BankTransaction{{Date: "2026-08-03", Description: "Invoice", Amount: "12500.00"}},
	}}}}
}

// tampered is a store with something in front of its methods.
type tampered struct {
	store.Store
	load    func(key string) error
	save    func(store.Entry) error // before
	saved   func(store.Entry) error // after
	list    func() error
	replace func(page []store.Entry) error

	isStrict bool // a save fails if its context has ended
}

func (s *tampered) Load(ctx context.Context, key string) (*store.Entry, error) {
	if s.load != nil {
		if err := s.load(key); err != nil {
			return nil, err
		}
	}
	return s.Store.Load(ctx, key)
}

// failOnce has the next save of an entry in this state fail, before or after its effect.
func (s *tampered) failOnce(isDone bool, state store.State) {
	fail := func(entry store.Entry) error {
		if entry.State != state {
			return nil
		}
		s.save, s.saved = nil, nil
		return errStore
	}
	if s.save = fail; isDone {
		s.save, s.saved = nil, fail
	}
}

func (s *tampered) Save(ctx context.Context, entry store.Entry) error {
	if err := ctx.Err(); s.isStrict && err != nil {
		return err
	}
	if s.save != nil {
		if err := s.save(entry); err != nil {
			return err
		}
	}
	err := s.Store.Save(ctx, entry)
	if err == nil && s.saved != nil {
		err = s.saved(entry)
	}
	return err
}

func (s *tampered) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	if s.list != nil {
		if err := s.list(); err != nil {
			return nil, err
		}
	}
	return s.Store.List(ctx, filter)
}

func (s *tampered) Replace(ctx context.Context, page []store.Entry) (int, error) {
	if s.replace != nil {
		if err := s.replace(page); err != nil {
			return 0, err
		}
	}
	return s.Store.Replace(ctx, page)
}

var errStore = errors.New("the store is gone")

// withStore runs f in a bubble with a service, a store and a client.
func withStore(t *testing.T, opts *idempotency.Options,
	f func(*testing.T, *lendingtest.Service, *tampered, *lending.Client),
) {
	t.Helper()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		entries := &tampered{Store: store.NewMemory()}
		f(t, service, entries, processWith(t, service, fake.Must(idempotency.NewLog(entries, opts))))
	}, withoutReceivers)
}

func loaded(entries store.Store, key string) (store.Entry, error) {
	entry, err := entries.Load(context.Background(), key)
	return *entry, err
}

// patiently calls until call succeeds, and waits in between for as long as its error says: it fails
// the test where the error does not say it, or has it call too often.
func patiently(t *testing.T, call func() error) {
	t.Helper()
	for calls := 1; ; calls++ {
		err := call()
		if err == nil {
			return
		}
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		require.Positive(t, failed.RetryAfter, "%v", err)
		require.Less(t, calls, 20, "%v", err)
		bubble.Elapse(failed.RetryAfter)
	}
}

// creation returns a function that creates a customer with a key.
func creation(t *testing.T, client *lending.Client, user lending.UserRequest) func(key string) error {
	t.Helper()
	return func(key string) error {
		_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), user)
		return err
	}
}

const renameRoute = "GET /api/Application/update-application-name/{applicationId}"

const createApplicationRoute = "POST /api/Application/create-application"

const offerRoute = "GET /api/Application/application-offer/{applicationId}"

// tracedOffer answers with an offer whose trace is another UUID in each read, as well as id if
// there is one.
func tracedOffer(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wire.Answer(http.StatusOK, `{"trace":"`+uuid.NewString()+`","offer":"`+id+`"}`)(w, r)
	}
}

// restored tells the log of a restore, and lets it send again.
func restored(t *testing.T, log *idempotency.Log, r idempotency.Restoration) {
	t.Helper()
	require.NoError(t, log.Restored(t.Context(), r))
	require.NoError(t, log.Resume(t.Context()))
}
