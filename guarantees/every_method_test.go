package guarantees_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// tour calls every method at the service under test, in a meaningful order. It sends records
// without published fields as the embedded service wants them.
type tour struct {
	*testing.T
	service *lendingtest.Server
	client  *lending.Client

	customer              lending.UserResponse
	application, finished lending.ApplicationID
	loan                  lending.LoanID
	withdrawal            *lending.InvoiceWithdrawal
}

// TestEveryMethodAtTheService calls every method and compares the results with the interface.
func TestEveryMethodAtTheService(t *testing.T) {
	s := &tour{}
	s.service, s.client = fake.Start(t)
	s.service.SetDeliveryMode(lendingtest.DeliveryMode{Off: true})
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"signing in", s.signIn},
		{"signing in with a code", s.signInWithCode},
		{"customers", s.customers},
		{"bulk", s.bulk},
		{"combined", s.combined},
		{"application", s.apply},
		{"changes", s.change},
		{"partner", s.partner},
		{"messages", s.messages},
		{"calculations", s.calculate},
		{"documents", s.documents},
		{"approval", s.approve},
		{"loan", s.readLoan},
		{"withdrawal", s.withdraw},
		{"confirmation", s.confirm},
		{"webhooks", s.webhooks},
		{"administration", s.administer},
		{"cancellation", s.cancel},
	} {
		if !t.Run(part.name, func(t *testing.T) { s.take(t, part.run) }) {
			t.FailNow() // the next steps need this step
		}
	}
	for _, route := range s.service.Routes() {
		assert.Positive(t, s.service.Executed(route), "%s was not executed", route)
	}
}

// take runs a part of the tour as the test t.
func (s *tour) take(t *testing.T, part func()) {
	t.Helper()
	s.T = t
	defer func() {
		switch v := recover().(type) {
		case nil:
		case fake.CallFailed:
			t.Fatal(v.Err)
		default:
			panic(v)
		}
	}()
	part()
}

// ids reads identifiers from records, under the embedded service's names.
func ids(s *tour, record interface{ Decode(any) error }) (fields recordIDs) {
	s.Helper()
	require.NoError(s, record.Decode(&fields))
	return fields
}

type recordIDs struct {
	ID, FileType, CustomerID string
	SupportingDocumentID     lending.RequirementID
}

func (s *tour) signIn() {
	require.NoError(s, s.client.Session().SignIn(s.Context()))
	refreshed := fake.Must(s.client.Auth.RefreshToken(s.Context()))
	assert.False(s, refreshed.IsZero())
}

func (s *tour) signInWithCode() {
	user := fake.Must(s.client.Auth.Login(s.Context(), lending.LoginRequest{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
	}))
	assert.True(s, user.RequiresTwoFactor)
	assert.True(s, user.Token.IsZero())
	user = fake.Must(s.client.Auth.ValidateTwoFactor(s.Context(), lending.TwoFactorLoginRequest{
		Username: lendingtest.Username, Code: lending.NewSecret(s.service.TwoFactorCode(lendingtest.Username)),
	}))
	assert.False(s, user.Token.IsZero())
	assert.False(s, user.ExpiresUTC.IsZero())
}

func (s *tour) customers() {
	request := fake.Newcomer()
	s.customer = *fake.Must(s.client.Applications.CreateCustomer(s.Context(), request))
	byEmail := fake.Must(s.client.Customers.GetByEmail(s.Context(), request.Email))
	assert.Equal(s, s.customer.ID.String(), ids(s, byEmail).ID)
	byID := fake.Must(s.client.Customers.GetByID(s.Context(), s.customer.ID))
	assert.Equal(s, s.customer.ID.String(), ids(s, byID).ID)
}

func (s *tour) bulk() {
	created := fake.Must(s.client.Bulk.CreateCustomers(s.Context(),
		[]lending.UserRequest{fake.Newcomer(), fake.Newcomer()}))
	require.Len(s, created, 2)
	applications := fake.Must(s.client.Bulk.CreateApplications(s.Context(), []lending.ApplicationRequest{
		{CustomerID: created[0].ID, BusinessName: "First", BusinessZip: "94105"},
		{CustomerID: created[1].ID, BusinessName: "Second", ExtraInformation: map[string]string{
			"zipcode": "10115",
			"years":   "99",
		}},
	}))
	assert.Len(s, applications, 2)
	for _, customer := range created {
		assert.Len(s, fake.Must(s.client.Applications.ListByCustomer(s.Context(), customer.ID)), 1)
	}
}

func (s *tour) combined() {
	both := func() catalog.Unpublished {
		u := fake.Newcomer()
		return catalog.Unpublished{
			"firstName": u.FirstName, "lastName": u.LastName, "email": u.Email, "password": "Analytical-Engine-1",
			"mobileNumber": "4155550100",
			"businessName": "Combined", "businessZip": "94105", "applicant": catalog.Unpublished{"firstName": "Grace"},
		}
	}
	first := fake.Must(
		//nolint:staticcheck // deprecated, still a route of the service
		s.client.Applications.CreateWithCustomer(s.Context(), lending.ApplicationAndCustomerRequest{Extra: both()},
			nil))
	second := fake.Must(
		s.client.Applications.CreateWithCustomerAndApplicant(s.Context(),
			lending.ApplicationAndCustomerAndApplicantRequest{Extra: both()}, nil))
	assert.NotEqual(s, ids(s, first).CustomerID, ids(s, second).CustomerID)
	third := fake.Must(s.client.Applications.CreateWithApplicant(s.Context(),
		lending.ApplicationAndApplicantRequest{Extra: catalog.Unpublished{
			"customerId": s.customer.ID, "businessName": "Combined", "businessZip": "94105",
			"applicant": catalog.Unpublished{"firstName": "Grace"},
		}}, &lending.CreateOptions{SendLink: true}))
	assert.Len(s, fake.Must(s.client.Approval.Applicants(s.Context(), third)), 1)
	s.finished = third
}

func (s *tour) apply() {
	ctx := s.Context()
	s.application = fake.Must(s.client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: s.customer.ID, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil))
	var kept lending.ApplicationRequest
	require.NoError(s, fake.Must(s.client.Applications.Get(ctx, s.application)).Decode(&kept))
	assert.Equal(s, [4]string{s.customer.ID.String(), "Lovelace Analytics", "94105", "7"},
		[4]string{kept.CustomerID.String(), kept.BusinessName, kept.BusinessZip, kept.ExtraInformation["years"]})
	data := fake.AccountsWith(fake.Booked("2026-08-03", "Invoice", "12500.00"))
	assert.True(s, fake.Must(s.client.Applications.QuickTest(ctx, s.application, data)))
	assert.True(s, fake.Must(s.client.Applications.AddOrUpdateBankingData(ctx, s.application, data,
		&lending.BankingDataOptions{BankName: "First & Last"})))
	before := fake.Must(s.client.Applications.Status(ctx, s.application))
	offer := fake.Must(s.client.Applications.Process(ctx, s.application))
	assert.NotEqual(s, before, fake.Must(s.client.Applications.Status(ctx, s.application)))
	for _, opts := range []*lending.OfferOptions{nil, {Force: true}} {
		assert.Equal(s, offer.String(), ids(s, fake.Must(s.client.Applications.Offer(ctx, s.application, opts))).ID)
	}
}

func (s *tour) change() {
	ctx := s.Context()
	name := func() (fields struct{ BusinessName, BusinessZip string }) {
		require.NoError(s, fake.Must(s.client.Applications.Get(ctx, s.application)).Decode(&fields))
		return fields
	}
	assert.True(s, fake.Must(s.client.Applications.UpdateName(ctx, s.application, "A+B & C/D? #1 100% é")))
	assert.Equal(s, "A+B & C/D? #1 100% é", name().BusinessName)
	assert.True(s, fake.Must(s.client.Applications.UpdateNameAndZipCode(ctx, s.application, "Bäckerei", "10115")))
	assert.Equal(s, "10115", name().BusinessZip)
	assert.True(s, fake.Must(s.client.Applications.UpdateData(ctx, s.application,
		lending.ApplicationData{Name: "Söhne", ZipCode: "94105", StartDate: catalog.Start})))
	assert.Equal(s, "Söhne", name().BusinessName)
	assert.True(s, fake.Must(s.client.Applications.UpdateCustomerData(ctx, s.application, lending.CustomerData{
		FirstName: "Zoë", LastName: "O'Hara", Address: "1 Main St. #2", State: "CA", City: "San José",
		SSN: lending.NewSecret("123-45-6789"), Mobile: "415-555-0100", DateOfBirth: catalog.Born,
	})))
	require.NoError(s, s.client.Applications.SendLink(ctx, s.application))
}

func (s *tour) partner() {
	partner := fake.Must(lending.ParsePartnerID(lendingtest.PartnerID))
	assert.Len(s, fake.Must(s.client.Applications.ListByPartner(s.Context(), partner, &lending.ListOptions{Take: 1})),
		1)
	count := 0
	for _, err := range s.client.Applications.AllByPartner(s.Context(), partner, &lending.ListOptions{Take: 2}) {
		require.NoError(s, err)
		count++
	}
	assert.GreaterOrEqual(s, count, 2)
}

func (s *tour) messages() {
	for range 3 {
		require.NoError(s, s.client.Communication.Post(s.Context(), s.application,
			&lending.CommunicationRequest{Extra: catalog.Unpublished{"message": "Hello"}}))
	}
	count := 0
	for _, err := range s.client.Communication.AllMessages(s.Context(), s.application, &lending.ListOptions{Take: 2}) {
		require.NoError(s, err)
		count++
	}
	assert.Equal(s, 3, count)
}

func (s *tour) calculate() {
	slider := &lending.SliderRequest{Extra: catalog.Unpublished{"amount": 2500, "terms": 6}}
	assert.NotEmpty(s, fake.Must(s.client.Calculation.LineOfCreditSlider(s.Context(), s.application, slider)))
	for _, result := range []*lending.CalculationResponse{
		fake.Must(s.client.Calculation.LineOfCredit(s.Context(), s.application, fake.Invoice())),
		fake.Must(s.client.Calculation.Invoice(s.Context(), s.application, fake.Invoice())),
	} {
		var repeated struct {
			Amount, PercentOfIncome   json.Number
			Terms                     int
			FixedRepaymentCalculation bool
		}
		require.NoError(s, result.Decode(&repeated))
		assert.Equal(s, "2500.00 12.5 6 true", fmt.Sprintf("%s %s %d %t", repeated.Amount, repeated.PercentOfIncome,
			repeated.Terms, repeated.FixedRepaymentCalculation))
	}
}

func (s *tour) documents() {
	ctx := s.Context()
	require.NoError(s, s.client.Applications.SubmitBankStatement(ctx, s.application, catalog.File()))
	require.NoError(s, s.client.Approval.SubmitDocument(ctx, s.application, "Other", catalog.File()))
	required := fake.Must(s.client.Approval.RequiredDocuments(ctx, s.application))
	require.NotEmpty(s, required)
	wanted := ids(s, required[0])
	require.NoError(s,
		s.client.Approval.SubmitRequiredDocument(ctx, s.application, wanted.SupportingDocumentID, wanted.FileType,
			catalog.File()))
	err := s.client.Applications.SubmitBankStatement(ctx, s.application,
		lending.Document{Name: "empty.pdf", Content: strings.NewReader("")})
	assert.Equal(s, lending.OutcomeNotSent, lending.OutcomeOf(err))
}

func (s *tour) approve() {
	ctx := s.Context()
	require.NoError(s, s.client.Approval.AddCompanyDetails(ctx, s.application,
		lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": "Lovelace Analytics"}}))
	require.NoError(s, s.client.Approval.AddPrimaryApplicantDetails(ctx, s.application,
		lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada"}}))
	require.NoError(s, s.client.Approval.AddSecondaryApplicantDetails(ctx, s.application,
		lending.SecondaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Grace"}}))
	accounts := fake.Must(s.client.Approval.BankAccounts(ctx, s.application))
	require.NotEmpty(s, accounts)
	account := ids(s, accounts[0]).ID
	require.NoError(s, s.client.Approval.SetPrimaryBankAccount(ctx, s.application, account))
	assert.Equal(s, account, ids(s, fake.Must(s.client.Approval.PrimaryBankAccount(ctx, s.application))).ID)
	assert.NotEmpty(s, fake.Must(s.client.Approval.Contracts(ctx, s.application)))
	assert.NotEmpty(s, fake.Must(s.client.Approval.ContractDetails(ctx, s.application)))
	applicants := fake.Must(s.client.Approval.Applicants(ctx, s.application))
	require.Len(s, applicants, 2)
	image := lending.SignatureImage([]byte("\x89PNG"))
	for _, person := range applicants {
		var applicant struct{ ID lending.ApplicantID }
		require.NoError(s, person.Decode(&applicant))
		require.NoError(s, s.client.Approval.SignContract(ctx, s.application, applicant.ID,
			&lending.SignaturesRequest{MIMEType: "image/png", Signature: image, Signature2: image}))
	}
	for _, loan := range fake.Must(s.client.Loans.ListByCustomer(ctx, s.customer.ID)) {
		if loan.ApplicationID == s.application {
			s.loan = loan.ID
		}
	}
	require.False(s, s.loan.IsZero(), "no loan names the application")
}

func (s *tour) readLoan() {
	ctx := s.Context()
	loan := fake.Must(s.client.Loans.Get(ctx, s.loan))
	assert.Equal(s, s.application, loan.ApplicationID)
	fake.Must(s.client.Loans.TotalBalance(ctx, s.loan))
	fake.Must(s.client.Loans.RepaymentBalances(ctx, s.loan))
	fake.Must(s.client.Loans.EarlyRepayment(ctx, s.loan))
	assert.NotEmpty(s, fake.Must(s.client.Loans.ContractDocuments(ctx, s.loan)))
	assert.True(s, fake.Must(s.client.Loans.IsEnabled(ctx, s.loan)))
	assert.False(s, fake.Must(s.client.Loans.IsClosed(ctx, s.loan)))
}

func (s *tour) withdraw() {
	ctx := s.Context()
	fake.Must(s.client.Loans.WithdrawLineOfCredit(ctx, s.loan,
		lending.LineOfCreditWithdrawalRequest{Extra: catalog.Unpublished{"amount": 100}}))
	s.withdrawal = fake.Must(
		s.client.Loans.WithdrawInvoice(ctx, s.loan, lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()}))
	fake.Must(s.client.Loans.ResendWithdrawalOTP(ctx, s.loan))
	page := fake.Must(s.client.Loans.Withdrawals(ctx, s.loan, &lending.PagedOptions{Take: 1, Descending: true}))
	assert.Zero(s, page.TotalCount, "no money moves before the confirmation")
}

func (s *tour) confirm() {
	ctx := s.Context()
	data := lending.WithdrawInvoiceRequestData{
		DateUTC: catalog.Date,
		OTP:     lending.NewSecret("not the password"),
	}
	_, err := s.client.Loans.ConfirmInvoiceWithdrawal(ctx, *s.withdrawal, data)
	assert.Equal(s, lending.OutcomeRejected, lending.OutcomeOf(err), "%v", err)
	data.OTP = lending.NewSecret(s.service.OTP(s.loan.String()))
	fake.Must(s.client.Loans.ConfirmInvoiceWithdrawal(ctx, *s.withdrawal, data))
	assert.Equal(s, 1, fake.Must(s.client.Loans.Withdrawals(ctx, s.loan, nil)).TotalCount)
	assert.Len(s, fake.Must(s.client.Loans.Transactions(ctx, s.loan, nil)), 1)
	assert.Equal(s, 1, fake.Must(s.client.Loans.TransactionsPaged(ctx, s.loan, nil)).TotalCount)
}

func (s *tour) webhooks() {
	ctx, target := s.Context(), lending.ForCustomer(s.customer.ID)
	want := lending.WebhookSubscription{
		WebhookURI: "https://receiver.invalid/webhooks",
		Webhooks:   []lending.EventName{lending.EventLoanCreated},
	}
	require.NoError(s, s.client.Webhooks.Register(ctx, target, want))
	saved := fake.Must(s.client.Webhooks.Subscription(ctx, target))
	assert.Equal(s, want.WebhookURI, saved.WebhookURI)
	assert.False(s, saved.Secret.IsZero())
	fake.Must(s.client.Webhooks.RegisteredEvents(ctx, target))
	require.NoError(s, s.client.Webhooks.Simulate(ctx, target, lending.EventLoanCreated))
	require.NoError(s, s.client.Webhooks.UpdateURI(ctx, target, want.WebhookURI+"/2"))
	require.NoError(s, s.client.Webhooks.UpdateAll(ctx, target))
	again := fake.Must(s.client.Webhooks.Subscription(ctx, target))
	assert.Equal(s, want.WebhookURI+"/2", again.WebhookURI)
	assert.Equal(s, saved.ID, again.ID)
	same := saved.Secret.Reveal() == again.Secret.Reveal()
	assert.True(s, same, "the secret has changed")
	require.NoError(s, s.client.Webhooks.Unregister(ctx, target, *again))
	_, err := s.client.Webhooks.Subscription(ctx, target)
	require.Error(s, err)
	require.NoError(s, s.client.Webhooks.PostToHandler(ctx,
		lending.WebhookPayload{Extra: catalog.Unpublished{"webhookEvent": "WB_Loan_Created"}}))
}

// administer makes the reads of an administrator.
func (s *tour) administer() {
	_, err := s.client.Webhooks.AllSubscriptions(s.Context())
	require.ErrorIs(s, err, lending.ErrForbidden)
	administrator := wire.NewClient(s.T, s.service.URL,
		lending.WithTokenSource(lending.StaticToken(s.service.Token(lendingtest.AdministratorUsername))))
	fake.Must(administrator.Webhooks.AllSubscriptions(s.Context()))
}

func (s *tour) cancel() {
	before := fake.Must(s.client.Applications.Status(s.Context(), s.finished))
	require.NoError(s, s.client.Applications.Cancel(s.Context(), s.finished))
	assert.NotEqual(s, before, fake.Must(s.client.Applications.Status(s.Context(), s.finished)))
	_, err := s.client.Applications.Status(s.Context(), lending.ApplicationID(uuid.New()))
	require.Error(s, err, "there is no such application")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	require.ErrorIs(s, s.client.Applications.Cancel(ctx, s.application), context.Canceled)
}
