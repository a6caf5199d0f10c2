package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// order is what a partner wants, at a service that has its customer, application and loan.
type order struct {
	service     *lendingtest.Service
	customer    lending.CustomerID
	application lending.ApplicationID // with bank data
	offered     lending.ApplicationID // with an offer
	loan        lending.LoanID
	withdrawal  *lending.InvoiceWithdrawal // that waits for its password; nil for none
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

type lostAnswer struct {
	route string
	call  func(context.Context, *lending.Client, order) (string, error)
	id    func(lendingtest.Snapshot) string // the answer; nil if it is lost
}

// lostAnswers are mutations with a lost response, and the result of the next call with the key.
var lostAnswers = map[string]lostAnswer{
	"Applications.CreateCustomer": {
		fake.CreateRoute,
		func(ctx context.Context, c *lending.Client, _ order) (string, error) {
			customer, err := c.Applications.CreateCustomer(ctx, fake.Ada())
			if err != nil {
				return "", err
			}
			return customer.ID.String(), nil
		},
		func(s lendingtest.Snapshot) string { return s.Customers[len(s.Customers)-1].ID },
	},
	"Applications.Create": {
		"POST /api/Application/create-application",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			id, err := c.Applications.Create(ctx, o.request(), nil)
			return id.String(), err
		},
		func(s lendingtest.Snapshot) string { return s.Applications[len(s.Applications)-1].ID },
	},
	"Applications.Process": {
		fake.ProcessRoute,
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			id, err := c.Applications.Process(ctx, o.application)
			return id.String(), err
		},
		func(s lendingtest.Snapshot) string { return s.Applications[1].Offer.ID },
	},
	"Bulk.CreateCustomers": {
		"POST /api/ApplicationBulk/create-customers",
		func(ctx context.Context, c *lending.Client, _ order) (string, error) {
			other := fake.Ada()
			other.Email = "grace@example.com"
			created, err := c.Bulk.CreateCustomers(ctx, []lending.UserRequest{fake.Ada(), other})
			if err != nil {
				return "", err
			}
			return created[0].ID.String() + created[1].ID.String(), nil
		},
		func(s lendingtest.Snapshot) string {
			return s.Customers[len(s.Customers)-2].ID + s.Customers[len(s.Customers)-1].ID
		},
	},
	"Bulk.CreateApplications": {
		"POST /api/ApplicationBulk/create-applications",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			_, err := c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{o.request(), o.request()})
			return "", err
		},
		nil,
	},
	"Approval.AddPrimaryApplicantDetails": {
		"POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			return "", c.Approval.AddPrimaryApplicantDetails(ctx, o.offered,
				lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada"}})
		},
		func(lendingtest.Snapshot) string { return "" },
	},
	"Webhooks.Unregister": {
		"POST /api/Webhook/unregister",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			return "", c.Webhooks.Unregister(ctx, lending.ForCustomer(o.customer),
				lending.WebhookSubscription{WebhookURI: "https://receiver.invalid/"})
		},
		func(lendingtest.Snapshot) string { return "" },
	},
	"Loans.ConfirmInvoiceWithdrawal": {
		"POST /api/Loan/confirm-withdrawal-invoice/{loanId}",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			_, err := c.Loans.ConfirmInvoiceWithdrawal(ctx, *o.withdrawal,
				lending.WithdrawInvoiceRequestData{
					DateUTC: catalog.Date,
					OTP:     lending.NewSecret(o.service.OTP(o.loan.String())),
				})
			return "", err
		},
		func(lendingtest.Snapshot) string { return "" }, // no read shows the id, and the record is empty
	},
}

func TestCheckFindsALostResponse(t *testing.T) {
	for name, test := range lostAnswers {
		for _, fault := range []lendingtest.Fault{{ResetAfter: true}, {CutBody: -1}, {CutBody: 1}} {
			t.Run(fmt.Sprintf("%s/cut %d", name, fault.CutBody), func(t *testing.T) {
				keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
					o, client := newOrder(service), process()
					prepareOrder(t, client, &o)
					before := service.Executed(test.route)
					service.Fail(test.route, fault)
					ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
					_, err := test.call(ctx, client, o)
					require.ErrorIs(t, err, lending.ErrMayHaveHappened)
					for range 2 {
						answer, err := test.call(ctx, process(), o)
						if test.id == nil {
							require.ErrorIs(t, err, idempotency.ErrAnswerLost)
							assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
							continue
						}
						require.NoError(t, err)
						assert.Equal(t, test.id(service.Snapshot()), answer)
					}
					assert.Equal(t, before+1, service.Executed(test.route))
				})
			})
		}
	}
}

// prepareOrder does what the mutations of lostAnswers need.
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

// TestAnotherRecordInTheListNeedsReview leaves to a person what two can have done.
func TestAnotherRecordInTheListNeedsReview(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.Create(ctx, o.request(), nil)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		other := fake.Must(client.Applications.Create(t.Context(), o.request(), nil)) // without a key
		_, err = client.Applications.Create(ctx, o.request(), nil)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.Contains(t, err.Error(), "there are 5 records where there were 3")

		ours := idempotency.Happened(other) // says a person, who is wrong; it is believed
		require.NoError(t, log.Resolve(t.Context(), "the/key",
			idempotency.Resolution{By: "ada", Why: "seen on the page", Verdict: ours}))
		id, err := client.Applications.Create(ctx, o.request(), nil)
		require.NoError(t, err)
		assert.Equal(t, other, id)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestBatchForSeveralCustomersNeedsReview since no one lock holds it.
func TestBatchForSeveralCustomersNeedsReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		other := o.request()
		grace := service.AddCustomer(lendingtest.Customer{Email: "grace@example.com"})
		other.CustomerID = fake.Must(lending.ParseCustomerID(grace.ID))
		service.Fail("POST /api/ApplicationBulk/create-applications", lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		for _, want := range []error{lending.ErrOutcomeUnknown, idempotency.ErrNeedsReview} {
			_, err := client.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{o.request(), other})
			require.ErrorIs(t, err, want)
		}
	})
}

// TestResendOverwritesNoNewerValue is a value that was set, its answer lost, set again, and
// could be set a third time when the first command is executed late: a newer one waits.
func TestResendOverwritesNoNewerValue(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		service.Fail("GET /api/Application/update-application-name/{applicationId}",
			lendingtest.Fault{Late: maxLateness - time.Second})
		older, newer := lending.WithIdempotencyKey(t.Context(), "name-1"),
			lending.WithIdempotencyKey(t.Context(), "name-2")
		_, err := client.Applications.UpdateName(older, o.application, "Old")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		fake.Must(client.Applications.UpdateName(older, o.application, "Old"))
		for {
			_, err := client.Applications.UpdateName(newer, o.application, "New")
			if err == nil {
				break
			}
			require.ErrorIs(t, err, idempotency.ErrLocked)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			require.Positive(t, failed.RetryAfter)
			bubble.Elapse(failed.RetryAfter)
		}
		bubble.Elapse(2 * maxLateness)
		assert.Equal(t, "New", service.Snapshot().Applications[1].BusinessName)
	})
}

// TestFingerprintCoversTheUpload by name, size and, where the content can be read twice, by it.
func TestFingerprintCoversTheUpload(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		const submit = "POST /api/Application/submit-bankstatement-document/{applicationId}"
		upload := func(document lending.Document) error {
			return client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(t.Context(), "statement"),
				o.application, document)
		}
		file := strings.NewReader("xx%PDF-1.7")
		_, _ = file.Seek(2, 0)
		require.NoError(t, upload(lending.Document{Name: "a.pdf", Content: file}))
		require.NoError(t, upload(lending.Document{Name: "a.pdf", Content: bytes.NewBufferString("%PDF-1.7")}),
			"the same content, from elsewhere")
		assert.Equal(t, 1, service.Executed(submit))
		for _, other := range []lending.Document{
			{Name: "b.pdf", Content: strings.NewReader("%PDF-1.7")},
			{Name: "a.pdf", Content: strings.NewReader("%PDF-1.8")},
			{Name: "a.pdf", Content: strings.NewReader("%PDF-1.7 ")},
		} {
			require.ErrorIs(t, upload(other), idempotency.ErrKeyReused)
		}
		assert.Equal(t, 1, service.Executed(submit))
	})
}

// stuck is a document whose Read does not come back by itself.
type stuck struct {
	*strings.Reader
	read func()
}

func (s stuck) Read([]byte) (int, error) { s.read(); return 0, io.EOF }

// TestUnreadableDocumentIsNotSent since it cannot be told from another.
func TestUnreadableDocumentIsNotSent(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		o := newOrder(service)
		ctx, cancel := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		defer close(goOn)
		for _, content := range []stuck{
			{strings.NewReader("%PDF"), func() { cancel(); <-goOn }},
			{strings.NewReader("%PDF"), func() { panic("of a caller's reader") }},
		} {
			err := client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, "statement"), o.application,
				lending.Document{Name: "a.pdf", Content: content})
			require.ErrorContains(t, err, "the request cannot be read twice")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			ctx = t.Context()
		}
		require.ErrorAs(t, client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, "statement"),
			o.application,
			lending.Document{Name: "a.pdf", Content: stuck{strings.NewReader("%PDF"), func() { panic("again") }}}),
			new(*lending.PanicError))
		assert.Empty(t, service.Snapshot().Applications[1].Documents)
	})
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
