package lending_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The service that the tests talk to, if it is not the embedded one: CONTRIBUTING.md.
const (
	baseURLVariable  = "LENDING_TEST_BASE_URL"
	usernameVariable = "LENDING_TEST_USERNAME"
	passwordVariable = "LENDING_TEST_PASSWORD"             // the name of the variable, not a password
	deviceVariable   = "LENDING_TEST_TRUSTED_DEVICE_TOKEN" // for an account with a second factor: nobody can be asked for a code
	partnerVariable  = "LENDING_TEST_PARTNER_ID"
)

// target returns a client of the service under test. Without LENDING_TEST_BASE_URL that
// is the embedded service, which the test may look into; with it, service is nil.
func target(t *testing.T) (service *lendingtest.Server, client *lending.Client) {
	t.Helper()
	address := os.Getenv(baseURLVariable)
	if address == "" {
		return start(t)
	}
	credentials := lending.Credentials{
		Username: os.Getenv(usernameVariable), Password: lending.NewSecret(os.Getenv(passwordVariable)),
	}
	if device := os.Getenv(deviceVariable); device != "" {
		credentials.TrustedDeviceToken = lending.NewSecret(device)
	}
	require.NotEmpty(t, credentials.Username, "%s is set, and %s is not", baseURLVariable, usernameVariable)
	return nil, newClient(t, address, lending.WithCredentials(credentials))
}

// needsControl skips a test that makes its service fail, sets its clock or looks into
// it, where another service than the embedded one is to be tested.
func needsControl(t *testing.T) {
	t.Helper()
	if os.Getenv(baseURLVariable) != "" {
		t.Skipf("%s is set, and this test controls the service that it talks to: it can only run against the embedded one", baseURLVariable)
	}
}

// newcomer is a customer that no service has yet.
func newcomer() lending.UserRequest {
	customer := goodCustomer()
	customer.Email = "ada-" + strings.ReplaceAll(uuid.NewString(), "-", "") + "@example.com"
	return customer
}

// tour calls every method at the service under test, in an order that makes sense.
// Records whose fields are not published are sent as the embedded service wants them.
type tour struct {
	service *lendingtest.Server // nil if it is not the embedded one
	client  *lending.Client

	customer              lending.UserResponse
	application, finished lending.ApplicationID
	loan                  lending.LoanID
	withdrawal            *lending.InvoiceWithdrawal
}

// TestEveryMethodAtTheService makes each call that the client can make, at the embedded
// service or at the one of LENDING_TEST_BASE_URL, and holds what the interface promises.
func TestEveryMethodAtTheService(t *testing.T) {
	s := &tour{}
	s.service, s.client = target(t)
	if s.service != nil {
		s.service.SetDeliveryMode(lendingtest.DeliveryMode{Off: true})
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"signing in", s.signIn}, {"signing in with a code", s.signInWithCode}, {"customers", s.customers}, {"bulk", s.bulk}, {"combined", s.combined},
		{"application", s.apply}, {"changes", s.change}, {"partner", s.partner}, {"messages", s.messages}, {"calculations", s.calculate},
		{"documents", s.documents}, {"approval", s.approve}, {"loan", s.readLoan}, {"withdrawal", s.withdraw},
		{"confirmation", s.confirm}, {"webhooks", s.webhooks}, {"administration", s.administer}, {"cancellation", s.cancel},
	} {
		if !t.Run(part.name, s.take(part.run)) {
			t.FailNow() // what follows builds on it
		}
	}
	if s.service == nil {
		return
	}
	for _, route := range s.service.Routes() {
		assert.Positive(t, s.service.Executed(route), "%s was not executed", route)
	}
}

// must returns the value of a call that has to succeed. [tour.take] ends the part if it
// does not.
func must[T any](value T, err error) T {
	if err != nil {
		panic(callFailed{err})
	}
	return value
}

type callFailed struct{ error }

// take runs a part of the tour.
func (s *tour) take(part func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		defer func() {
			switch v := recover().(type) {
			case nil:
			case callFailed:
				t.Fatal(v.error)
			default:
				panic(v)
			}
		}()
		part(t)
	}
}

// ids reads identifiers out of records, under the embedded service's names.
func ids(t *testing.T, record interface{ Decode(any) error }) (fields struct {
	ID, SupportingDocumentID, FileType, CustomerID, ApplicationID string
},
) {
	t.Helper()
	require.NoError(t, record.Decode(&fields))
	return fields
}

func (s *tour) signIn(t *testing.T) {
	require.NoError(t, s.client.Session().SignIn(t.Context()))
	refreshed := must(s.client.Auth.RefreshToken(t.Context()))
	assert.False(t, refreshed.IsZero())
}

func (s *tour) signInWithCode(t *testing.T) {
	if s.service == nil {
		t.Skip("the code of the second factor goes to a person")
	}
	user := must(s.client.Auth.Login(t.Context(), lending.LoginRequest{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
	}))
	assert.True(t, user.RequiresTwoFactor)
	assert.True(t, user.Token.IsZero())
	user = must(s.client.Auth.ValidateTwoFactor(t.Context(), lending.TwoFactorLoginRequest{
		Username: lendingtest.Username, Code: lending.NewSecret(s.service.TwoFactorCode(lendingtest.Username)),
	}))
	assert.False(t, user.Token.IsZero())
	assert.False(t, user.ExpiresUTC.IsZero())
}

func (s *tour) customers(t *testing.T) {
	request := newcomer()
	s.customer = *must(s.client.Applications.CreateCustomer(t.Context(), request))
	byEmail := must(s.client.Customers.GetByEmail(t.Context(), request.Email))
	assert.Equal(t, s.customer.ID.String(), ids(t, byEmail).ID)
	byID := must(s.client.Customers.GetByID(t.Context(), s.customer.ID))
	assert.Equal(t, s.customer.ID.String(), ids(t, byID).ID)
}

func (s *tour) bulk(t *testing.T) {
	created := must(s.client.Bulk.CreateCustomers(t.Context(), []lending.UserRequest{newcomer(), newcomer()}))
	require.Len(t, created, 2)
	applications := must(s.client.Bulk.CreateApplications(t.Context(), []lending.ApplicationRequest{
		{CustomerID: created[0].ID, BusinessName: "First", BusinessZip: "94105"},
		{CustomerID: created[1].ID, BusinessName: "Second", ExtraInformation: map[string]string{"zipcode": "10115", "years": "99"}},
	}))
	assert.Len(t, applications, 2)
	for _, customer := range created {
		assert.Len(t, must(s.client.Applications.ListByCustomer(t.Context(), customer.ID)), 1)
	}
}

func (s *tour) combined(t *testing.T) {
	both := func() unpublished {
		u := newcomer()
		return unpublished{
			"firstName": u.FirstName, "lastName": u.LastName, "email": u.Email, "password": "Analytical-Engine-1", "mobileNumber": "4155550100",
			"businessName": "Combined", "businessZip": "94105", "applicant": unpublished{"firstName": "Grace"},
		}
	}
	first := must(
		s.client.Applications.CreateWithCustomer(t.Context(), lending.ApplicationAndCustomerRequest{Extra: both()}, nil)) //nolint:staticcheck // deprecated, and a method like the others
	second := must(
		s.client.Applications.CreateWithCustomerAndApplicant(t.Context(), lending.ApplicationAndCustomerAndApplicantRequest{Extra: both()}, nil))
	assert.NotEqual(t, ids(t, first).CustomerID, ids(t, second).CustomerID)
	third := must(s.client.Applications.CreateWithApplicant(t.Context(), lending.ApplicationAndApplicantRequest{Extra: unpublished{
		"customerId": s.customer.ID, "businessName": "Combined", "businessZip": "94105", "applicant": unpublished{"firstName": "Grace"},
	}}, &lending.CreateOptions{SendLink: true}))
	assert.Len(t, must(s.client.Approval.Applicants(t.Context(), third)), 1)
	s.finished = third
}

func (s *tour) apply(t *testing.T) {
	ctx := t.Context()
	s.application = must(s.client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: s.customer.ID, BusinessName: "Lovelace Analytics", BusinessZip: "94105", ExtraInformation: map[string]string{"years": "7"},
	}, nil))
	var kept lending.ApplicationRequest
	require.NoError(t, must(s.client.Applications.Get(ctx, s.application)).Decode(&kept))
	assert.Equal(t, [4]string{s.customer.ID.String(), "Lovelace Analytics", "94105", "7"},
		[4]string{kept.CustomerID.String(), kept.BusinessName, kept.BusinessZip, kept.ExtraInformation["years"]})
	data := accountsWith(bankTransaction{"2026-08-03", "Invoice", "12500.00"})
	assert.True(t, must(s.client.Applications.QuickTest(ctx, s.application, data)))
	assert.True(t, must(s.client.Applications.AddOrUpdateBankingData(ctx, s.application, data, &lending.BankingDataOptions{BankName: "First & Last"})))
	before := must(s.client.Applications.Status(ctx, s.application))
	offer := must(s.client.Applications.Process(ctx, s.application))
	assert.NotEqual(t, before, must(s.client.Applications.Status(ctx, s.application)))
	for _, opts := range []*lending.OfferOptions{nil, {Force: true}} {
		assert.Equal(t, offer.String(), ids(t, must(s.client.Applications.Offer(ctx, s.application, opts))).ID)
	}
}

func (s *tour) change(t *testing.T) {
	ctx := t.Context()
	name := func() (fields struct{ BusinessName, BusinessZip string }) {
		require.NoError(t, must(s.client.Applications.Get(ctx, s.application)).Decode(&fields))
		return fields
	}
	assert.True(t, must(s.client.Applications.UpdateName(ctx, s.application, "A+B & C/D? #1 100% é")))
	assert.Equal(t, "A+B & C/D? #1 100% é", name().BusinessName)
	assert.True(t, must(s.client.Applications.UpdateNameAndZipCode(ctx, s.application, "Bäckerei", "10115")))
	assert.Equal(t, "10115", name().BusinessZip)
	assert.True(t, must(s.client.Applications.UpdateData(ctx, s.application, lending.ApplicationData{Name: "Söhne", ZipCode: "94105", StartDate: theStart})))
	assert.Equal(t, "Söhne", name().BusinessName)
	assert.True(t, must(s.client.Applications.UpdateCustomerData(ctx, s.application, lending.CustomerData{
		FirstName: "Zoë", LastName: "O'Hara", Address: "1 Main St. #2", State: "CA", City: "San José",
		SSN: lending.NewSecret("123-45-6789"), Mobile: "415-555-0100", DateOfBirth: theBorn,
	})))
	require.NoError(t, s.client.Applications.SendLink(ctx, s.application))
}

func (s *tour) partner(t *testing.T) {
	text := os.Getenv(partnerVariable)
	if s.service == nil && text == "" {
		t.Skipf("%s is not set: no partner to list the applications of", partnerVariable)
	}
	partner := must(lending.ParsePartnerID(cmp.Or(text, lendingtest.PartnerID)))
	assert.Len(t, must(s.client.Applications.ListByPartner(t.Context(), partner, &lending.ListOptions{Take: 1})), 1)
	count := 0
	for _, err := range s.client.Applications.AllByPartner(t.Context(), partner, &lending.ListOptions{Take: 2}) {
		require.NoError(t, err)
		count++
	}
	assert.GreaterOrEqual(t, count, 2)
}

func (s *tour) messages(t *testing.T) {
	for range 3 {
		require.NoError(t, s.client.Communication.Post(t.Context(), s.application, &lending.CommunicationRequest{Extra: unpublished{"message": "Hello"}}))
	}
	count := 0
	for _, err := range s.client.Communication.AllMessages(t.Context(), s.application, &lending.ListOptions{Take: 2}) {
		require.NoError(t, err)
		count++
	}
	assert.Equal(t, 3, count)
}

func (s *tour) calculate(t *testing.T) {
	slider := &lending.SliderRequest{Extra: unpublished{"amount": 2500, "terms": 6}}
	assert.NotEmpty(t, must(s.client.Calculation.LineOfCreditSlider(t.Context(), s.application, slider)))
	for _, result := range []*lending.CalculationResponse{
		must(s.client.Calculation.LineOfCredit(t.Context(), s.application, theInvoice())),
		must(s.client.Calculation.Invoice(t.Context(), s.application, theInvoice())),
	} {
		var repeated struct {
			Amount, PercentOfIncome   json.Number
			Terms                     int
			FixedRepaymentCalculation bool
		}
		require.NoError(t, result.Decode(&repeated))
		assert.Equal(t, "2500.00 12.5 6 true", fmt.Sprintf("%s %s %d %t", repeated.Amount, repeated.PercentOfIncome, repeated.Terms, repeated.FixedRepaymentCalculation))
	}
}

func theInvoice() *lending.CalculationRequest {
	return &lending.CalculationRequest{Amount: "2500.00", PercentOfIncome: "12.5", Terms: 6, FixedRepaymentCalculation: true}
}

func (s *tour) documents(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, s.client.Applications.SubmitBankStatement(ctx, s.application, theFile()))
	require.NoError(t, s.client.Approval.SubmitDocument(ctx, s.application, "Other", theFile()))
	required := must(s.client.Approval.RequiredDocuments(ctx, s.application))
	require.NotEmpty(t, required)
	wanted := ids(t, required[0])
	id := must(lending.ParseRequirementID(wanted.SupportingDocumentID))
	require.NoError(t, s.client.Approval.SubmitRequiredDocument(ctx, s.application, id, wanted.FileType, theFile()))
	err := s.client.Applications.SubmitBankStatement(ctx, s.application, lending.Document{Name: "empty.pdf", Content: strings.NewReader("")})
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
}

func (s *tour) approve(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, s.client.Approval.AddCompanyDetails(ctx, s.application, lending.CompanyDataRequest{Extra: unpublished{"name": "Lovelace Analytics"}}))
	require.NoError(t, s.client.Approval.AddPrimaryApplicantDetails(ctx, s.application, lending.PrimaryApplicantRequest{Extra: unpublished{"firstName": "Ada"}}))
	require.NoError(t, s.client.Approval.AddSecondaryApplicantDetails(ctx, s.application, lending.SecondaryApplicantRequest{Extra: unpublished{"firstName": "Grace"}}))
	accounts := must(s.client.Approval.BankAccounts(ctx, s.application))
	require.NotEmpty(t, accounts)
	account := ids(t, accounts[0]).ID
	require.NoError(t, s.client.Approval.SetPrimaryBankAccount(ctx, s.application, account))
	assert.Equal(t, account, ids(t, must(s.client.Approval.PrimaryBankAccount(ctx, s.application))).ID)
	assert.NotEmpty(t, must(s.client.Approval.Contracts(ctx, s.application)))
	assert.NotEmpty(t, must(s.client.Approval.ContractDetails(ctx, s.application)))
	applicants := must(s.client.Approval.Applicants(ctx, s.application))
	require.Len(t, applicants, 2)
	image := lending.SignatureImage([]byte("\x89PNG"))
	for _, person := range applicants {
		id := must(lending.ParseApplicantID(ids(t, person).ID))
		require.NoError(t, s.client.Approval.SignContract(ctx, s.application, id, &lending.SignaturesRequest{MIMEType: "image/png", Signature: image, Signature2: image}))
	}
	for _, loan := range must(s.client.Loans.ListByCustomer(ctx, s.customer.ID)) {
		if loan.ApplicationID == s.application {
			s.loan = loan.ID
		}
	}
	require.False(t, s.loan.IsZero(), "no loan names the application")
}

func (s *tour) readLoan(t *testing.T) {
	ctx := t.Context()
	loan := must(s.client.Loans.Get(ctx, s.loan))
	assert.Equal(t, s.application, loan.ApplicationID)
	must(s.client.Loans.TotalBalance(ctx, s.loan))
	must(s.client.Loans.RepaymentBalances(ctx, s.loan))
	must(s.client.Loans.EarlyRepayment(ctx, s.loan))
	assert.NotEmpty(t, must(s.client.Loans.ContractDocuments(ctx, s.loan)))
	assert.True(t, must(s.client.Loans.IsEnabled(ctx, s.loan)))
	assert.False(t, must(s.client.Loans.IsClosed(ctx, s.loan)))
}

func (s *tour) withdraw(t *testing.T) {
	ctx := t.Context()
	must(s.client.Loans.WithdrawLineOfCredit(ctx, s.loan, lending.LineOfCreditWithdrawalRequest{Extra: unpublished{"amount": 100}}))
	s.withdrawal = must(
		s.client.Loans.WithdrawInvoice(ctx, s.loan, lending.InvoiceWithdrawalRequest{Calculation: *theInvoice()}))
	must(s.client.Loans.ResendWithdrawalOTP(ctx, s.loan))
	page := must(s.client.Loans.Withdrawals(ctx, s.loan, &lending.PagedOptions{Take: 1, Descending: true}))
	assert.Zero(t, page.TotalCount, "no money moves before the confirmation")
}

func (s *tour) confirm(t *testing.T) {
	ctx := t.Context()
	data, moved := lending.WithdrawInvoiceRequestData{DateUTC: theDate, OTP: lending.NewSecret("not the password")}, 0
	_, err := s.client.Loans.ConfirmInvoiceWithdrawal(ctx, *s.withdrawal, data)
	assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err), "%v", err)
	if s.service != nil { // elsewhere the one-time password goes to a person
		data.OTP = lending.NewSecret(s.service.OTP(s.loan.String()))
		must(s.client.Loans.ConfirmInvoiceWithdrawal(ctx, *s.withdrawal, data))
		moved = 1
	}
	assert.Equal(t, moved, must(s.client.Loans.Withdrawals(ctx, s.loan, nil)).TotalCount)
	assert.Len(t, must(s.client.Loans.Transactions(ctx, s.loan, nil)), moved)
	assert.Equal(t, moved, must(s.client.Loans.TransactionsPaged(ctx, s.loan, nil)).TotalCount)
}

func (s *tour) webhooks(t *testing.T) {
	ctx, target := t.Context(), lending.ForCustomer(s.customer.ID)
	want := lending.WebhookSubscription{WebhookURI: "https://receiver.invalid/webhooks", Webhooks: []lending.EventName{lending.EventLoanCreated}}
	require.NoError(t, s.client.Webhooks.Register(ctx, target, want))
	saved := must(s.client.Webhooks.Subscription(ctx, target))
	assert.Equal(t, want.WebhookURI, saved.WebhookURI)
	assert.False(t, saved.Secret.IsZero())
	must(s.client.Webhooks.RegisteredEvents(ctx, target))
	require.NoError(t, s.client.Webhooks.Simulate(ctx, target, lending.EventLoanCreated))
	require.NoError(t, s.client.Webhooks.UpdateURI(ctx, target, want.WebhookURI+"/2"))
	require.NoError(t, s.client.Webhooks.UpdateAll(ctx, target))
	again := must(s.client.Webhooks.Subscription(ctx, target))
	assert.Equal(t, want.WebhookURI+"/2", again.WebhookURI)
	assert.Equal(t, saved.ID, again.ID)
	same := saved.Secret.Reveal() == again.Secret.Reveal()
	assert.True(t, same, "the secret has changed")
	require.NoError(t, s.client.Webhooks.Unregister(ctx, target, *again))
	_, err := s.client.Webhooks.Subscription(ctx, target)
	require.Error(t, err)
	require.NoError(t, s.client.Webhooks.PostToHandler(ctx, lending.WebhookPayload{Extra: unpublished{"webhookEvent": "WB_Loan_Created"}}))
}

// administer reads what only an administrator may. Whoever is not one is told.
func (s *tour) administer(t *testing.T) {
	_, err := s.client.Webhooks.AllSubscriptions(t.Context())
	if s.service == nil {
		if err != nil {
			require.ErrorIs(t, err, lending.ErrForbidden)
		}
		return
	}
	require.ErrorIs(t, err, lending.ErrForbidden)
	administrator := newClient(t, s.service.URL, lending.WithTokenSource(lending.StaticToken(s.service.Token(lendingtest.AdministratorUsername))))
	must(administrator.Webhooks.AllSubscriptions(t.Context()))
}

func (s *tour) cancel(t *testing.T) {
	before := must(s.client.Applications.Status(t.Context(), s.finished))
	require.NoError(t, s.client.Applications.Cancel(t.Context(), s.finished))
	assert.NotEqual(t, before, must(s.client.Applications.Status(t.Context(), s.finished)))
	_, err := s.client.Applications.Status(t.Context(), lending.ApplicationID(uuid.New()))
	require.Error(t, err, "there is no such application")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.client.Applications.Cancel(ctx, s.application), context.Canceled)
}
