package catalog

import (
	"context"
	"reflect"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
)

// Call makes a call with the arguments of this package.
type Call = func(context.Context, *lending.Client) (any, error)

var (
	// Calls has a call of every method of every service, with all its parameters.
	Calls = callsOf(arguments())

	// Variants are further calls: without optional parameters, or with another form of a parameter.
	Variants = callsOf(variants())
)

func callsOf(names map[string][]any) map[string]Call {
	calls := map[string]Call{}
	for name := range names {
		calls[name] = func(ctx context.Context, client *lending.Client) (any, error) {
			method, _, _ := strings.Cut(name, " ")
			service, method, _ := strings.Cut(method, ".")
			f := reflect.ValueOf(client).Elem().FieldByName(service).MethodByName(method)
			in := []reflect.Value{reflect.ValueOf(ctx)}
			for i, argument := range append(arguments()[name], variants()[name]...) { // a document can be read once
				if argument == nil {
					in = append(in, reflect.Zero(f.Type().In(i+1)))
				} else {
					in = append(in, reflect.ValueOf(argument).Convert(f.Type().In(i+1)))
				}
			}
			out := f.Call(in)
			err, _ := reflect.TypeAssert[error](out[len(out)-1])
			if len(out) == 1 {
				return nil, err
			}
			return out[0].Interface(), err
		}
	}
	return calls
}

// arguments are the arguments of the calls, by method. A nil is the zero value of its parameter.
func arguments() map[string][]any {
	return map[string][]any{
		"Applications.CreateWithCustomer": {
			lending.ApplicationAndCustomerRequest{Extra: Unpublished{"a": 1}},
			&lending.CreateOptions{SendLink: true},
		},
		"Applications.SendLink": {Application},
		"Applications.CreateWithCustomerAndApplicant": {
			lending.ApplicationAndCustomerAndApplicantRequest{Extra: Unpublished{"a": 2}},
			&lending.CreateOptions{SendLink: true},
		},
		"Applications.CreateCustomer": {User()},
		"Applications.Create":         {ApplicationRequest(), &lending.CreateOptions{SendLink: true}},
		"Applications.CreateWithApplicant": {
			lending.ApplicationAndApplicantRequest{Extra: Unpublished{"a": 3}}, &lending.CreateOptions{SendLink: true},
		},
		"Applications.QuickTest": {Application, &lending.BankingDataRequest{Extra: Unpublished{"a": 4}}},
		"Applications.AddOrUpdateBankingData": {
			Application,
			&lending.BankingDataRequest{Extra: Unpublished{"a": 5}},
			&lending.BankingDataOptions{BankName: "First & Last Bank"},
		},
		"Applications.Process":              {Application},
		"Applications.Status":               {Application},
		"Applications.Offer":                {Application, nil},
		"Applications.ListByCustomer":       {Customer},
		"Applications.ListByPartner":        {Partner, &lending.ListOptions{Skip: 400, Take: 1000}},
		"Applications.Get":                  {Application},
		"Applications.UpdateName":           {Application, "A+B & C/D? #1 100% é 😀"},
		"Applications.UpdateNameAndZipCode": {Application, "Bäckerei", "94105-1234"},
		"Applications.UpdateCustomerData": {Application, lending.CustomerData{
			FirstName: "Zoë", LastName: "O'Hara", Address: "1 Main St. #2", State: "CA", City: "San José",
			SSN: lending.NewSecret("123-45-6789"), Mobile: "+1 (415) 555-0100", DateOfBirth: Born,
		}},
		"Applications.UpdateData": {Application, lending.ApplicationData{
			Name: "Bäckerei", ZipCode: "94105",
			StartDate: Start,
		}},
		"Applications.SubmitBankStatement": {Application, File()},
		"Applications.Cancel":              {Application},

		"Approval.AddCompanyDetails": {Application, lending.CompanyDataRequest{Extra: Unpublished{"a": 6}}},
		"Approval.AddPrimaryApplicantDetails": {
			Application,
			lending.PrimaryApplicantRequest{Extra: Unpublished{"a": 7}},
		},
		"Approval.AddSecondaryApplicantDetails": {
			Application,
			lending.SecondaryApplicantRequest{Extra: Unpublished{"a": 8}},
		},
		"Approval.Contracts":             {Application},
		"Approval.ContractDetails":       {Application},
		"Approval.Applicants":            {Application},
		"Approval.BankAccounts":          {Application},
		"Approval.PrimaryBankAccount":    {Application},
		"Approval.SetPrimaryBankAccount": {Application, "acct 1+2%2F?#é"},
		"Approval.SignContract": {Application, Applicant, &lending.SignaturesRequest{
			IPAddress: "203.0.113.7", MIMEType: "image/png",
			Signature:          lending.SignatureImage([]byte("\x89PNG\xff\xfe")),
			Signature2:         lending.SignatureImage([]byte("\x89PNG?>")),
			SecondaryApplicant: true, Extra: Unpublished{"a": 9},
		}},
		"Approval.RequiredDocuments":      {Application},
		"Approval.SubmitRequiredDocument": {Application, Requirement, "Driver's License", File()},
		"Approval.SubmitDocument":         {Application, "Other", File()},

		"Bulk.CreateCustomers": {[]lending.UserRequest{User(), fake.Ada()}},
		"Bulk.CreateApplications": {[]lending.ApplicationRequest{
			ApplicationRequest(),
			{CustomerID: Customer, BusinessName: "Second"},
		}},

		"Auth.Login": {lending.LoginRequest{
			Username: "zoe", Password: lending.NewSecret(`p"ss\wörd`), TrustedDeviceToken: lending.NewSecret("device"),
			IPAddress: "203.0.113.7",
			Extra:     Unpublished{"a": 10},
		}},
		"Auth.ValidateTwoFactor": {lending.TwoFactorLoginRequest{
			Username: "zoe", Code: lending.NewSecret("012345"), IPAddress: "203.0.113.7", Extra: Unpublished{"a": 11},
		}},
		"Auth.RefreshToken": {},

		"Calculation.LineOfCreditSlider": {Application, &lending.SliderRequest{Extra: Unpublished{"a": 12}}},
		"Calculation.LineOfCredit":       {Application, new(Calculation())},
		"Calculation.Invoice":            {Application, new(Calculation())},

		"Communication.Messages": {Application, &lending.ListOptions{Skip: 200, Take: 150}},
		"Communication.Post":     {Application, &lending.CommunicationRequest{Extra: Unpublished{"a": 13}}},

		"Customers.GetByEmail": {"zoe+loans@example.com"},
		"Customers.GetByID":    {Customer},

		"Loans.Get":                  {Loan},
		"Loans.ListByCustomer":       {Customer},
		"Loans.Transactions":         {Loan, &lending.ListOptions{Skip: 5, Take: 200}},
		"Loans.TransactionsPaged":    {Loan, &lending.PagedOptions{Skip: 6, Take: 7, Descending: true}},
		"Loans.Withdrawals":          {Loan, &lending.PagedOptions{Skip: 8, Take: 9, Descending: true}},
		"Loans.ContractDocuments":    {Loan},
		"Loans.TotalBalance":         {Loan},
		"Loans.RepaymentBalances":    {Loan},
		"Loans.WithdrawLineOfCredit": {Loan, lending.LineOfCreditWithdrawalRequest{Extra: Unpublished{"a": 14}}},
		"Loans.WithdrawInvoice":      {Loan, lending.InvoiceWithdrawalRequest{Calculation: Calculation()}},
		"Loans.ResendWithdrawalOTP":  {Loan},
		"Loans.ConfirmInvoiceWithdrawal": {Withdrawal(), lending.WithdrawInvoiceRequestData{
			DateUTC: Date, OTP: lending.NewSecret("012345"), Extra: Unpublished{"a": 16},
		}},
		"Loans.IsEnabled":      {Loan},
		"Loans.IsClosed":       {Loan},
		"Loans.EarlyRepayment": {Loan},

		"Webhooks.Register":         {lending.ForPartner(Partner), Subscription()},
		"Webhooks.Unregister":       {lending.ForCustomer(Customer), Subscription()},
		"Webhooks.UpdateAll":        {lending.ForPartner(Partner)},
		"Webhooks.PostToHandler":    {lending.WebhookPayload{Extra: Unpublished{"a": 17}}},
		"Webhooks.Simulate":         {lending.ForCustomer(Customer), "WB_Loan_Created"},
		"Webhooks.RegisteredEvents": {lending.ForPartner(Partner)},
		"Webhooks.Subscription":     {lending.ForCustomer(Customer)},
		"Webhooks.AllSubscriptions": {},
		"Webhooks.UpdateURI":        {lending.ForPartner(Partner), "https://hooks.example.com/v2?a=b&c=d"},
	}
}

func variants() map[string][]any {
	return map[string][]any{
		"Applications.Create without options": {
			lending.ApplicationRequest{CustomerID: Customer, BusinessName: "Plain"}, nil,
		},
		"Applications.QuickTest without body":                  {Application, nil},
		"Applications.AddOrUpdateBankingData without anything": {Application, nil, nil},
		"Applications.Offer with force":                        {Application, &lending.OfferOptions{Force: true}},
		"Applications.ListByPartner without options":           {Partner, nil},
		"Approval.SignContract without body":                   {Application, Applicant, nil},
		"Calculation.LineOfCreditSlider without body":          {Application, nil},
		"Calculation.LineOfCredit without body":                {Application, nil},
		"Calculation.Invoice with an amount only":              {Application, &lending.CalculationRequest{Amount: "1e3"}},
		"Communication.Messages without options":               {Application, nil},
		"Communication.Post without body":                      {Application, nil},
		"Loans.Withdrawals without options":                    {Loan, nil},
		"Webhooks.Register for a customer": {
			lending.ForCustomer(Customer),
			lending.WebhookSubscription{WebhookURI: "https://hooks.example.com"},
		},
	}
}
