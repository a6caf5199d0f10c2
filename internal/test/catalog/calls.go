package catalog

import (
	"context"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
)

// Calls has a call of every method of every service, with all its parameters.
var Calls = map[string]func(context.Context, *lending.Client) (any, error){
	"Applications.CreateWithCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		//nolint:staticcheck // the service has it still
		return c.Applications.CreateWithCustomer(ctx, lending.ApplicationAndCustomerRequest{Extra: Unpublished{"a": 1}},
			&lending.CreateOptions{SendLink: true})
	},
	"Applications.SendLink": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.SendLink(ctx, Application)
	},
	"Applications.CreateWithCustomerAndApplicant": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateWithCustomerAndApplicant(ctx,
			lending.ApplicationAndCustomerAndApplicantRequest{Extra: Unpublished{"a": 2}},
			&lending.CreateOptions{SendLink: true})
	},
	"Applications.CreateCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateCustomer(ctx, User())
	},
	"Applications.Create": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Create(ctx, ApplicationRequest(), &lending.CreateOptions{SendLink: true})
	},
	"Applications.CreateWithApplicant": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateWithApplicant(ctx,
			lending.ApplicationAndApplicantRequest{Extra: Unpublished{"a": 3}}, &lending.CreateOptions{SendLink: true})
	},
	"Applications.QuickTest": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.QuickTest(ctx, Application, &lending.BankingDataRequest{Extra: Unpublished{"a": 4}})
	},
	"Applications.AddOrUpdateBankingData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.AddOrUpdateBankingData(ctx, Application,
			&lending.BankingDataRequest{Extra: Unpublished{"a": 5}},
			&lending.BankingDataOptions{BankName: "First & Last Bank"})
	},
	"Applications.Process": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Process(ctx, Application)
	},
	"Applications.Status": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Status(ctx, Application)
	},
	"Applications.Offer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Offer(ctx, Application, nil)
	},
	"Applications.ListByCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByCustomer(ctx, Customer)
	},
	"Applications.ListByPartner": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByPartner(ctx, Partner, &lending.ListOptions{Skip: 400, Take: 1000})
	},
	"Applications.Get": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Get(ctx, Application)
	},
	"Applications.UpdateName": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateName(ctx, Application, "A+B & C/D? #1 100% é 😀")
	},
	"Applications.UpdateNameAndZipCode": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateNameAndZipCode(ctx, Application, "Bäckerei", "94105-1234")
	},
	"Applications.UpdateCustomerData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateCustomerData(ctx, Application, lending.CustomerData{
			FirstName: "Zoë", LastName: "O'Hara", Address: "1 Main St. #2", State: "CA", City: "San José",
			SSN: lending.NewSecret("123-45-6789"), Mobile: "+1 (415) 555-0100", DateOfBirth: Born,
		})
	},
	"Applications.UpdateData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateData(ctx, Application, lending.ApplicationData{
			Name: "Bäckerei", ZipCode: "94105",
			StartDate: Start,
		})
	},
	"Applications.SubmitBankStatement": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.SubmitBankStatement(ctx, Application, File())
	},
	"Applications.Cancel": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.Cancel(ctx, Application)
	},

	"Approval.AddCompanyDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddCompanyDetails(ctx, Application,
			lending.CompanyDataRequest{Extra: Unpublished{"a": 6}})
	},
	"Approval.AddPrimaryApplicantDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddPrimaryApplicantDetails(ctx, Application,
			lending.PrimaryApplicantRequest{Extra: Unpublished{"a": 7}})
	},
	"Approval.AddSecondaryApplicantDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddSecondaryApplicantDetails(ctx, Application,
			lending.SecondaryApplicantRequest{Extra: Unpublished{"a": 8}})
	},
	"Approval.Contracts": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.Contracts(ctx, Application)
	},
	"Approval.ContractDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.ContractDetails(ctx, Application)
	},
	"Approval.Applicants": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.Applicants(ctx, Application)
	},
	"Approval.BankAccounts": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.BankAccounts(ctx, Application)
	},
	"Approval.PrimaryBankAccount": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.PrimaryBankAccount(ctx, Application)
	},
	"Approval.SetPrimaryBankAccount": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SetPrimaryBankAccount(ctx, Application, "acct 1+2%2F?#é")
	},
	"Approval.SignContract": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SignContract(ctx, Application, Applicant, &lending.SignaturesRequest{
			IPAddress: "203.0.113.7", MIMEType: "image/png",
			Signature:          lending.SignatureImage([]byte("\x89PNG\xff\xfe")),
			Signature2:         lending.SignatureImage([]byte("\x89PNG?>")),
			SecondaryApplicant: true, Extra: Unpublished{"a": 9},
		})
	},
	"Approval.RequiredDocuments": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.RequiredDocuments(ctx, Application)
	},
	"Approval.SubmitRequiredDocument": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SubmitRequiredDocument(ctx, Application, Requirement, "Driver's License", File())
	},
	"Approval.SubmitDocument": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SubmitDocument(ctx, Application, "Other", File())
	},

	"Bulk.CreateCustomers": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Bulk.CreateCustomers(ctx, []lending.UserRequest{User(), fake.Ada()})
	},
	"Bulk.CreateApplications": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{
			ApplicationRequest(),
			{CustomerID: Customer, BusinessName: "Second"},
		})
	},

	"Auth.Login": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.Login(ctx, lending.LoginRequest{
			Username: "zoe", Password: lending.NewSecret(`p"ss\wörd`), TrustedDeviceToken: lending.NewSecret("device"),
			IPAddress: "203.0.113.7",
			Extra:     Unpublished{"a": 10},
		})
	},
	"Auth.ValidateTwoFactor": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{
			Username: "zoe", Code: lending.NewSecret("012345"), IPAddress: "203.0.113.7", Extra: Unpublished{"a": 11},
		})
	},
	"Auth.RefreshToken": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.RefreshToken(ctx)
	},

	"Calculation.LineOfCreditSlider": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCreditSlider(ctx, Application, &lending.SliderRequest{Extra: Unpublished{"a": 12}})
	},
	"Calculation.LineOfCredit": func(ctx context.Context, c *lending.Client) (any, error) {
		calculation := Calculation()
		return c.Calculation.LineOfCredit(ctx, Application, &calculation)
	},
	"Calculation.Invoice": func(ctx context.Context, c *lending.Client) (any, error) {
		calculation := Calculation()
		return c.Calculation.Invoice(ctx, Application, &calculation)
	},

	"Communication.Messages": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Communication.Messages(ctx, Application, &lending.ListOptions{Skip: 200, Take: 150})
	},
	"Communication.Post": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Communication.Post(ctx, Application, &lending.CommunicationRequest{Extra: Unpublished{"a": 13}})
	},

	"Customers.GetByEmail": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Customers.GetByEmail(ctx, "zoe+loans@example.com")
	},
	"Customers.GetByID": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Customers.GetByID(ctx, Customer)
	},

	"Loans.Get": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Get(ctx, Loan)
	},
	"Loans.ListByCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ListByCustomer(ctx, Customer)
	},
	"Loans.Transactions": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Transactions(ctx, Loan, &lending.ListOptions{Skip: 5, Take: 200})
	},
	"Loans.TransactionsPaged": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.TransactionsPaged(ctx, Loan, &lending.PagedOptions{Skip: 6, Take: 7, Descending: true})
	},
	"Loans.Withdrawals": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Withdrawals(ctx, Loan, &lending.PagedOptions{Skip: 8, Take: 9, Descending: true})
	},
	"Loans.ContractDocuments": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ContractDocuments(ctx, Loan)
	},
	"Loans.TotalBalance": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.TotalBalance(ctx, Loan)
	},
	"Loans.RepaymentBalances": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.RepaymentBalances(ctx, Loan)
	},
	"Loans.WithdrawLineOfCredit": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.WithdrawLineOfCredit(ctx, Loan,
			lending.LineOfCreditWithdrawalRequest{Extra: Unpublished{"a": 14}})
	},
	"Loans.WithdrawInvoice": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.WithdrawInvoice(ctx, Loan, lending.InvoiceWithdrawalRequest{Calculation: Calculation()})
	},
	"Loans.ResendWithdrawalOTP": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ResendWithdrawalOTP(ctx, Loan)
	},
	"Loans.ConfirmInvoiceWithdrawal": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ConfirmInvoiceWithdrawal(ctx, Withdrawal(), lending.WithdrawInvoiceRequestData{
			DateUTC: Date, OTP: lending.NewSecret("012345"), Extra: Unpublished{"a": 16},
		})
	},
	"Loans.IsEnabled": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.IsEnabled(ctx, Loan)
	},
	"Loans.IsClosed": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.IsClosed(ctx, Loan)
	},
	"Loans.EarlyRepayment": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.EarlyRepayment(ctx, Loan)
	},

	"Webhooks.Register": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Register(ctx, lending.ForPartner(Partner), Subscription())
	},
	"Webhooks.Unregister": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Unregister(ctx, lending.ForCustomer(Customer), Subscription())
	},
	"Webhooks.UpdateAll": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.UpdateAll(ctx, lending.ForPartner(Partner))
	},
	"Webhooks.PostToHandler": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.PostToHandler(ctx, lending.WebhookPayload{Extra: Unpublished{"a": 17}})
	},
	"Webhooks.Simulate": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Simulate(ctx, lending.ForCustomer(Customer), "WB_Loan_Created")
	},
	"Webhooks.RegisteredEvents": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.RegisteredEvents(ctx, lending.ForPartner(Partner))
	},
	"Webhooks.Subscription": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.Subscription(ctx, lending.ForCustomer(Customer))
	},
	"Webhooks.AllSubscriptions": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.AllSubscriptions(ctx)
	},
	"Webhooks.UpdateURI": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.UpdateURI(ctx, lending.ForPartner(Partner), "https://hooks.example.com/v2?a=b&c=d")
	},
}

// Variants are further calls: without optional parameters, or with another form of a parameter.
var Variants = map[string]func(context.Context, *lending.Client) (any, error){
	"Applications.Create without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: Customer, BusinessName: "Plain"}, nil)
	},
	"Applications.QuickTest without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.QuickTest(ctx, Application, nil)
	},
	"Applications.AddOrUpdateBankingData without anything": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.AddOrUpdateBankingData(ctx, Application, nil, nil)
	},
	"Applications.Offer with force": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Offer(ctx, Application, &lending.OfferOptions{Force: true})
	},
	"Applications.ListByPartner without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByPartner(ctx, Partner, nil)
	},
	"Approval.SignContract without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SignContract(ctx, Application, Applicant, nil)
	},
	"Calculation.LineOfCreditSlider without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCreditSlider(ctx, Application, nil)
	},
	"Calculation.LineOfCredit without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCredit(ctx, Application, nil)
	},
	"Calculation.Invoice with an amount only": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.Invoice(ctx, Application, &lending.CalculationRequest{Amount: "1e3"})
	},
	"Communication.Messages without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Communication.Messages(ctx, Application, nil)
	},
	"Communication.Post without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Communication.Post(ctx, Application, nil)
	},
	"Loans.Withdrawals without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Withdrawals(ctx, Loan, nil)
	},
	"Webhooks.Register for a customer": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Register(ctx, lending.ForCustomer(Customer),
			lending.WebhookSubscription{WebhookURI: "https://hooks.example.com"})
	},
}
