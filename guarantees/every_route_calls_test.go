package guarantees_test

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// The arguments of calls, no two of which are alike.
var (
	theCustomer    = lending.CustomerID(uuid.MustParse("c0000000-0000-4000-8000-000000000001"))
	theApplication = lending.ApplicationID(uuid.MustParse("a0000000-0000-4000-8000-000000000002"))
	theLoan        = lending.LoanID(uuid.MustParse("10000000-0000-4000-8000-000000000003"))
	thePartner     = lending.PartnerID(uuid.MustParse("b0000000-0000-4000-8000-000000000004"))
	theAgent       = lending.AgentID(uuid.MustParse("a9000000-0000-4000-8000-000000000005"))
	theApplicant   = lending.ApplicantID(uuid.MustParse("ab000000-0000-4000-8000-000000000006"))
	theRequirement = lending.RequirementID(uuid.MustParse("d0000000-0000-4000-8000-000000000007"))

	theBorn  = time.Date(1990, 1, 2, 0, 0, 0, 0, time.UTC)
	theStart = time.Date(2015, 6, 7, 0, 0, 0, 0, time.UTC)
	theDate  = time.Date(2026, 3, 4, 6, 6, 7, 0, time.FixedZone("", 3600)) // 05:06:07 UTC
)

func theUser() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Zoë", LastName: "O'Hara", Email: "zoe+loans@example.com",
		Password: lending.NewSecret(`p"ss\wörd`), MobileNumber: "(415) 555-0100", Extra: unpublished{"title": "Dr."},
	}
}

func theRequest() lending.ApplicationRequest {
	return lending.ApplicationRequest{
		CustomerID: theCustomer, BusinessName: "Bäckerei & Söhne", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"}, PartnerID: thePartner, AgentID: theAgent,
		Extra: unpublished{"channel": "web"},
	}
}

func theCalculation() lending.CalculationRequest {
	return lending.CalculationRequest{
		Amount: "2500.10", PercentOfIncome: "0.125000000000000000001", Terms: 12, FixedRepaymentCalculation: true,
		Extra: unpublished{"currency": "USD"},
	}
}

func theWithdrawal() lending.InvoiceWithdrawal {
	return lending.InvoiceWithdrawal{LoanID: theLoan, Amount: "2500.10", AdvanceRate: "0.80"}
}

func theSubscription() lending.WebhookSubscription {
	return lending.WebhookSubscription{
		WebhookURI: "https://hooks.example.com/lending", IsActive: true,
		Webhooks: []lending.EventName{"WB_Loan_Created", "WB_Of_Tomorrow"}, Extra: unpublished{"headers": unpublished{}},
	}
}

func theFile() lending.Document {
	return lending.Document{Name: "März 1+2.pdf", Content: strings.NewReader("%PDF-1.7\x00\xff")}
}

// unpublished are fields that the interface does not show.
type unpublished map[string]any

// calls has one call of each method of each service, with every argument that it takes.
var calls = map[string]func(context.Context, *lending.Client) (any, error){
	"Applications.CreateWithCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		//lint:ignore SA1019 the service has it still
		return c.Applications.CreateWithCustomer(ctx, lending.ApplicationAndCustomerRequest{Extra: unpublished{"a": 1}}, &lending.CreateOptions{SendLink: true}) //nolint:staticcheck // see above
	},
	"Applications.SendLink": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.SendLink(ctx, theApplication)
	},
	"Applications.CreateWithCustomerAndApplicant": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateWithCustomerAndApplicant(ctx, lending.ApplicationAndCustomerAndApplicantRequest{Extra: unpublished{"a": 2}}, &lending.CreateOptions{SendLink: true})
	},
	"Applications.CreateCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateCustomer(ctx, theUser())
	},
	"Applications.Create": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Create(ctx, theRequest(), &lending.CreateOptions{SendLink: true})
	},
	"Applications.CreateWithApplicant": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.CreateWithApplicant(ctx, lending.ApplicationAndApplicantRequest{Extra: unpublished{"a": 3}}, &lending.CreateOptions{SendLink: true})
	},
	"Applications.QuickTest": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.QuickTest(ctx, theApplication, &lending.BankingDataRequest{Extra: unpublished{"a": 4}})
	},
	"Applications.AddOrUpdateBankingData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.AddOrUpdateBankingData(ctx, theApplication, &lending.BankingDataRequest{Extra: unpublished{"a": 5}}, &lending.BankingDataOptions{BankName: "First & Last Bank"})
	},
	"Applications.Process": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Process(ctx, theApplication)
	},
	"Applications.Status": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Status(ctx, theApplication)
	},
	"Applications.Offer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Offer(ctx, theApplication, nil)
	},
	"Applications.ListByCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByCustomer(ctx, theCustomer)
	},
	"Applications.ListByPartner": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByPartner(ctx, thePartner, &lending.ListOptions{Skip: 400, Take: 1000})
	},
	"Applications.Get": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Get(ctx, theApplication)
	},
	"Applications.UpdateName": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateName(ctx, theApplication, "A+B & C/D? #1 100% é 😀")
	},
	"Applications.UpdateNameAndZipCode": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateNameAndZipCode(ctx, theApplication, "Bäckerei", "94105-1234")
	},
	"Applications.UpdateCustomerData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateCustomerData(ctx, theApplication, lending.CustomerData{
			FirstName: "Zoë", LastName: "O'Hara", Address: "1 Main St. #2", State: "CA", City: "San José",
			SSN: lending.NewSecret("123-45-6789"), Mobile: "+1 (415) 555-0100", DateOfBirth: theBorn,
		})
	},
	"Applications.UpdateData": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.UpdateData(ctx, theApplication, lending.ApplicationData{Name: "Bäckerei", ZipCode: "94105", StartDate: theStart})
	},
	"Applications.SubmitBankStatement": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.SubmitBankStatement(ctx, theApplication, theFile())
	},
	"Applications.Cancel": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Applications.Cancel(ctx, theApplication)
	},

	"Approval.AddCompanyDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddCompanyDetails(ctx, theApplication, lending.CompanyDataRequest{Extra: unpublished{"a": 6}})
	},
	"Approval.AddPrimaryApplicantDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddPrimaryApplicantDetails(ctx, theApplication, lending.PrimaryApplicantRequest{Extra: unpublished{"a": 7}})
	},
	"Approval.AddSecondaryApplicantDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.AddSecondaryApplicantDetails(ctx, theApplication, lending.SecondaryApplicantRequest{Extra: unpublished{"a": 8}})
	},
	"Approval.Contracts": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.Contracts(ctx, theApplication)
	},
	"Approval.ContractDetails": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.ContractDetails(ctx, theApplication)
	},
	"Approval.Applicants": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.Applicants(ctx, theApplication)
	},
	"Approval.BankAccounts": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.BankAccounts(ctx, theApplication)
	},
	"Approval.PrimaryBankAccount": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.PrimaryBankAccount(ctx, theApplication)
	},
	"Approval.SetPrimaryBankAccount": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SetPrimaryBankAccount(ctx, theApplication, "acct 1+2%2F?#é")
	},
	"Approval.SignContract": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SignContract(ctx, theApplication, theApplicant, &lending.SignaturesRequest{
			IPAddress: "203.0.113.7", MIMEType: "image/png",
			Signature: lending.SignatureImage([]byte("\x89PNG\xff\xfe")), Signature2: lending.SignatureImage([]byte("\x89PNG?>")),
			SecondaryApplicant: true, Extra: unpublished{"a": 9},
		})
	},
	"Approval.RequiredDocuments": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Approval.RequiredDocuments(ctx, theApplication)
	},
	"Approval.SubmitRequiredDocument": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SubmitRequiredDocument(ctx, theApplication, theRequirement, "Driver's License", theFile())
	},
	"Approval.SubmitDocument": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SubmitDocument(ctx, theApplication, "Other", theFile())
	},

	"Bulk.CreateCustomers": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Bulk.CreateCustomers(ctx, []lending.UserRequest{theUser(), goodCustomer()})
	},
	"Bulk.CreateApplications": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{theRequest(), {CustomerID: theCustomer, BusinessName: "Second"}})
	},

	"Auth.Login": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.Login(ctx, lending.LoginRequest{
			Username: "zoe", Password: lending.NewSecret(`p"ss\wörd`), TrustedDeviceToken: lending.NewSecret("device"), IPAddress: "203.0.113.7",
			Extra: unpublished{"a": 10},
		})
	},
	"Auth.ValidateTwoFactor": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{
			Username: "zoe", Code: lending.NewSecret("012345"), IPAddress: "203.0.113.7", Extra: unpublished{"a": 11},
		})
	},
	"Auth.RefreshToken": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Auth.RefreshToken(ctx)
	},

	"Calculation.LineOfCreditSlider": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCreditSlider(ctx, theApplication, &lending.SliderRequest{Extra: unpublished{"a": 12}})
	},
	"Calculation.LineOfCredit": func(ctx context.Context, c *lending.Client) (any, error) {
		calculation := theCalculation()
		return c.Calculation.LineOfCredit(ctx, theApplication, &calculation)
	},
	"Calculation.Invoice": func(ctx context.Context, c *lending.Client) (any, error) {
		calculation := theCalculation()
		return c.Calculation.Invoice(ctx, theApplication, &calculation)
	},

	"Communication.Messages": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Communication.Messages(ctx, theApplication, &lending.ListOptions{Skip: 200, Take: 150})
	},
	"Communication.Post": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Communication.Post(ctx, theApplication, &lending.CommunicationRequest{Extra: unpublished{"a": 13}})
	},

	"Customers.GetByEmail": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Customers.GetByEmail(ctx, "zoe+loans@example.com")
	},
	"Customers.GetByID": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Customers.GetByID(ctx, theCustomer)
	},

	"Loans.Get": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Get(ctx, theLoan)
	},
	"Loans.ListByCustomer": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ListByCustomer(ctx, theCustomer)
	},
	"Loans.Transactions": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Transactions(ctx, theLoan, &lending.ListOptions{Skip: 5, Take: 200})
	},
	"Loans.TransactionsPaged": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.TransactionsPaged(ctx, theLoan, &lending.PagedOptions{Skip: 6, Take: 7, Descending: true})
	},
	"Loans.Withdrawals": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Withdrawals(ctx, theLoan, &lending.PagedOptions{Skip: 8, Take: 9, Descending: true})
	},
	"Loans.ContractDocuments": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ContractDocuments(ctx, theLoan)
	},
	"Loans.TotalBalance": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.TotalBalance(ctx, theLoan)
	},
	"Loans.RepaymentBalances": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.RepaymentBalances(ctx, theLoan)
	},
	"Loans.WithdrawLineOfCredit": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.WithdrawLineOfCredit(ctx, theLoan, lending.LineOfCreditWithdrawalRequest{Extra: unpublished{"a": 14}})
	},
	"Loans.WithdrawInvoice": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.WithdrawInvoice(ctx, theLoan, lending.InvoiceWithdrawalRequest{Calculation: theCalculation()})
	},
	"Loans.ResendWithdrawalOTP": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ResendWithdrawalOTP(ctx, theLoan)
	},
	"Loans.ConfirmInvoiceWithdrawal": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.ConfirmInvoiceWithdrawal(ctx, theWithdrawal(), lending.WithdrawInvoiceRequestData{
			DateUTC: theDate, OTP: lending.NewSecret("012345"), Extra: unpublished{"a": 16},
		})
	},
	"Loans.IsEnabled": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.IsEnabled(ctx, theLoan)
	},
	"Loans.IsClosed": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.IsClosed(ctx, theLoan)
	},
	"Loans.EarlyRepayment": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.EarlyRepayment(ctx, theLoan)
	},

	"Webhooks.Register": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Register(ctx, lending.ForPartner(thePartner), theSubscription())
	},
	"Webhooks.Unregister": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Unregister(ctx, lending.ForCustomer(theCustomer), theSubscription())
	},
	"Webhooks.UpdateAll": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.UpdateAll(ctx, lending.ForPartner(thePartner))
	},
	"Webhooks.PostToHandler": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.PostToHandler(ctx, lending.WebhookPayload{Extra: unpublished{"a": 17}})
	},
	"Webhooks.Simulate": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Simulate(ctx, lending.ForCustomer(theCustomer), "WB_Loan_Created")
	},
	"Webhooks.RegisteredEvents": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.RegisteredEvents(ctx, lending.ForPartner(thePartner))
	},
	"Webhooks.Subscription": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.Subscription(ctx, lending.ForCustomer(theCustomer))
	},
	"Webhooks.AllSubscriptions": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Webhooks.AllSubscriptions(ctx)
	},
	"Webhooks.UpdateURI": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.UpdateURI(ctx, lending.ForPartner(thePartner), "https://hooks.example.com/v2?a=b&c=d")
	},
}

// variants are calls that leave out what is optional, or take another form.
var variants = map[string]func(context.Context, *lending.Client) (any, error){
	"Applications.Create without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: theCustomer, BusinessName: "Plain"}, nil)
	},
	"Applications.QuickTest without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.QuickTest(ctx, theApplication, nil)
	},
	"Applications.AddOrUpdateBankingData without anything": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.AddOrUpdateBankingData(ctx, theApplication, nil, nil)
	},
	"Applications.Offer with force": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.Offer(ctx, theApplication, &lending.OfferOptions{Force: true})
	},
	"Applications.ListByPartner without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Applications.ListByPartner(ctx, thePartner, nil)
	},
	"Approval.SignContract without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Approval.SignContract(ctx, theApplication, theApplicant, nil)
	},
	"Calculation.LineOfCreditSlider without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCreditSlider(ctx, theApplication, nil)
	},
	"Calculation.LineOfCredit without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.LineOfCredit(ctx, theApplication, nil)
	},
	"Calculation.Invoice with an amount only": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Calculation.Invoice(ctx, theApplication, &lending.CalculationRequest{Amount: "1e3"})
	},
	"Communication.Messages without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Communication.Messages(ctx, theApplication, nil)
	},
	"Communication.Post without body": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Communication.Post(ctx, theApplication, nil)
	},
	"Loans.Withdrawals without options": func(ctx context.Context, c *lending.Client) (any, error) {
		return c.Loans.Withdrawals(ctx, theLoan, nil)
	},
	"Webhooks.Register for a customer": func(ctx context.Context, c *lending.Client) (any, error) {
		return nil, c.Webhooks.Register(ctx, lending.ForCustomer(theCustomer), lending.WebhookSubscription{WebhookURI: "https://hooks.example.com"})
	},
}
