package guarantees_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// withNothing has one call of each method that requires anything, with every argument
// empty, and what is refused of it.
var withNothing = map[string]struct {
	refused string
	call    func(context.Context, *lending.Client) error
}{
	"Applications.SendLink": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return c.Applications.SendLink(ctx, lending.ApplicationID{})
	}},
	"Applications.CreateCustomer": {
		"email format, mobileNumber format",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.CreateCustomer(ctx, lending.UserRequest{}))
		},
	},
	"Applications.Create": {"customerId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Create(ctx, lending.ApplicationRequest{}, nil))
	}},
	"Applications.QuickTest": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.QuickTest(ctx, lending.ApplicationID{}, nil))
	}},
	"Applications.AddOrUpdateBankingData": {
		"applicationId required",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.AddOrUpdateBankingData(ctx, lending.ApplicationID{}, nil, nil))
		},
	},
	"Applications.Process": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Process(ctx, lending.ApplicationID{}))
	}},
	"Applications.Status": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Status(ctx, lending.ApplicationID{}))
	}},
	"Applications.Offer": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Offer(ctx, lending.ApplicationID{}, nil))
	}},
	"Applications.ListByCustomer": {"customerId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.ListByCustomer(ctx, lending.CustomerID{}))
	}},
	"Applications.ListByPartner": {"partnerId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.ListByPartner(ctx, lending.PartnerID{}, nil))
	}},
	"Applications.Get": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Get(ctx, lending.ApplicationID{}))
	}},
	"Applications.UpdateName": {
		"applicationId required, name required",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateName(ctx, lending.ApplicationID{}, ""))
		},
	},
	"Applications.UpdateNameAndZipCode": {
		"applicationId required, name required, zipCode required", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateNameAndZipCode(ctx, lending.ApplicationID{}, "", ""))
		},
	},
	"Applications.UpdateCustomerData": {
		"applicationId required, firstname required, lastname required, address required, state required, city " +
			"required, " +
			"ssn required, mobile required, dateOfBirth required", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateCustomerData(ctx, lending.ApplicationID{}, lending.CustomerData{}))
		},
	},
	"Applications.UpdateData": {
		"applicationId required, name required, zipcode required, startDate required",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateData(ctx, lending.ApplicationID{}, lending.ApplicationData{}))
		},
	},
	"Applications.SubmitBankStatement": {
		"applicationId required, fileName required, content required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Applications.SubmitBankStatement(ctx, lending.ApplicationID{}, lending.Document{})
		},
	},
	"Applications.Cancel": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return c.Applications.Cancel(ctx, lending.ApplicationID{})
	}},

	"Approval.AddCompanyDetails": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return c.Approval.AddCompanyDetails(ctx, lending.ApplicationID{}, lending.CompanyDataRequest{})
	}},
	"Approval.AddPrimaryApplicantDetails": {
		"applicationId required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.AddPrimaryApplicantDetails(ctx, lending.ApplicationID{},
				lending.PrimaryApplicantRequest{})
		},
	},
	"Approval.AddSecondaryApplicantDetails": {
		"applicationId required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.AddSecondaryApplicantDetails(ctx, lending.ApplicationID{},
				lending.SecondaryApplicantRequest{})
		},
	},
	"Approval.Contracts": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.Contracts(ctx, lending.ApplicationID{}))
	}},
	"Approval.ContractDetails": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.ContractDetails(ctx, lending.ApplicationID{}))
	}},
	"Approval.Applicants": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.Applicants(ctx, lending.ApplicationID{}))
	}},
	"Approval.BankAccounts": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.BankAccounts(ctx, lending.ApplicationID{}))
	}},
	"Approval.PrimaryBankAccount": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.PrimaryBankAccount(ctx, lending.ApplicationID{}))
	}},
	"Approval.SetPrimaryBankAccount": {
		"applicationId required, id required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SetPrimaryBankAccount(ctx, lending.ApplicationID{}, "")
		},
	},
	"Approval.SignContract": {
		"applicationId required, applicantId required, signature required, signature2 required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SignContract(ctx, lending.ApplicationID{}, lending.ApplicantID{},
				&lending.SignaturesRequest{})
		},
	},
	"Approval.RequiredDocuments": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Approval.RequiredDocuments(ctx, lending.ApplicationID{}))
	}},
	"Approval.SubmitRequiredDocument": {
		"applicationId required, supportingDocumentId required, fileType required, fileName required, content required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SubmitRequiredDocument(ctx, lending.ApplicationID{}, lending.RequirementID{}, "",
				lending.Document{})
		},
	},
	"Approval.SubmitDocument": {
		"applicationId required, fileType required, fileName required, content required",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SubmitDocument(ctx, lending.ApplicationID{}, "", lending.Document{})
		},
	},

	"Bulk.CreateCustomers": {"records required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Bulk.CreateCustomers(ctx, nil))
	}},
	"Bulk.CreateApplications": {"records required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{}))
	}},

	"Auth.Login": {"username required, password required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Auth.Login(ctx, lending.LoginRequest{}))
	}},
	"Auth.ValidateTwoFactor": {"username required, code required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{}))
	}},

	"Calculation.LineOfCreditSlider": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.LineOfCreditSlider(ctx, lending.ApplicationID{}, nil))
	}},
	"Calculation.LineOfCredit": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.LineOfCredit(ctx, lending.ApplicationID{}, nil))
	}},
	"Calculation.Invoice": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.Invoice(ctx, lending.ApplicationID{}, nil))
	}},

	"Communication.Messages": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Communication.Messages(ctx, lending.ApplicationID{}, nil))
	}},
	"Communication.Post": {"applicationId required", func(ctx context.Context, c *lending.Client) error {
		return c.Communication.Post(ctx, lending.ApplicationID{}, nil)
	}},

	"Customers.GetByEmail": {"email required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Customers.GetByEmail(ctx, ""))
	}},
	"Customers.GetByID": {"customerId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Customers.GetByID(ctx, lending.CustomerID{}))
	}},

	"Loans.Get": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.Get(ctx, lending.LoanID{}))
	}},
	"Loans.ListByCustomer": {"customerId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.ListByCustomer(ctx, lending.CustomerID{}))
	}},
	"Loans.Transactions": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.Transactions(ctx, lending.LoanID{}, nil))
	}},
	"Loans.TransactionsPaged": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.TransactionsPaged(ctx, lending.LoanID{}, nil))
	}},
	"Loans.Withdrawals": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.Withdrawals(ctx, lending.LoanID{}, nil))
	}},
	"Loans.ContractDocuments": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.ContractDocuments(ctx, lending.LoanID{}))
	}},
	"Loans.TotalBalance": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.TotalBalance(ctx, lending.LoanID{}))
	}},
	"Loans.RepaymentBalances": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.RepaymentBalances(ctx, lending.LoanID{}))
	}},
	"Loans.WithdrawLineOfCredit": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.WithdrawLineOfCredit(ctx, lending.LoanID{}, lending.LineOfCreditWithdrawalRequest{}))
	}},
	"Loans.WithdrawInvoice": {
		"loanId required, calculation.amount required",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Loans.WithdrawInvoice(ctx, lending.LoanID{}, lending.InvoiceWithdrawalRequest{}))
		},
	},
	"Loans.ResendWithdrawalOTP": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.ResendWithdrawalOTP(ctx, lending.LoanID{}))
	}},
	"Loans.ConfirmInvoiceWithdrawal": {
		"loanId required, amount required, advanceRate required, dateUTC required, otp required",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Loans.ConfirmInvoiceWithdrawal(ctx, lending.InvoiceWithdrawal{},
				lending.WithdrawInvoiceRequestData{}))
		},
	},
	"Loans.IsEnabled": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.IsEnabled(ctx, lending.LoanID{}))
	}},
	"Loans.IsClosed": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.IsClosed(ctx, lending.LoanID{}))
	}},
	"Loans.EarlyRepayment": {"loanId required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.EarlyRepayment(ctx, lending.LoanID{}))
	}},

	"Webhooks.Register": {"target required, webhookUri insecure", func(ctx context.Context, c *lending.Client) error {
		return c.Webhooks.Register(ctx, lending.WebhookTarget{}, lending.WebhookSubscription{})
	}},
	"Webhooks.Unregister": {"target required", func(ctx context.Context, c *lending.Client) error {
		return c.Webhooks.Unregister(ctx, lending.WebhookTarget{}, lending.WebhookSubscription{})
	}},
	"Webhooks.UpdateAll": {"target required", func(ctx context.Context, c *lending.Client) error {
		return c.Webhooks.UpdateAll(ctx, lending.WebhookTarget{})
	}},
	"Webhooks.Simulate": {"eventName required, target required", func(ctx context.Context, c *lending.Client) error {
		return c.Webhooks.Simulate(ctx, lending.WebhookTarget{}, "")
	}},
	"Webhooks.RegisteredEvents": {"target required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Webhooks.RegisteredEvents(ctx, lending.WebhookTarget{}))
	}},
	"Webhooks.Subscription": {"target required", func(ctx context.Context, c *lending.Client) error {
		return second(c.Webhooks.Subscription(ctx, lending.WebhookTarget{}))
	}},
	"Webhooks.UpdateURI": {
		"webhookUri required, target required, webhookUri insecure",
		func(ctx context.Context, c *lending.Client) error {
			return c.Webhooks.UpdateURI(ctx, lending.WebhookTarget{}, "")
		},
	},
}

// TestNothingIsRefused holds that a call without what it requires is never sent, by the
// ledger: no parameter that is required there is missing in the table.
func TestNothingIsRefused(t *testing.T) {
	client := wire.Silent(t)
	for name, r := range catalog.Routes(t) {
		t.Run(name, func(t *testing.T) {
			test := withNothing[name]
			for _, p := range append(r.PathParams, r.Query...) {
				if len(r.PathParams) > 0 && p == r.PathParams[0] || p.Required {
					assert.Contains(t, test.refused, p.Name+" required")
				}
			}
			if r.Target {
				assert.Contains(t, test.refused, "target required")
			}
			if test.call != nil {
				assert.Equal(t, test.refused, catalog.Refused(t, test.call(t.Context(), client)))
			}
		})
	}
}

// TestEachFieldIsRequired leaves out one thing after the other.
func TestEachFieldIsRequired(t *testing.T) {
	ctx, client := t.Context(), wire.Silent(t)
	full := lending.CustomerData{
		FirstName: "Ada", LastName: "L", Address: "1 A St", State: "CA", City: "SF",
		SSN: lending.NewSecret("123-45-6789"), Mobile: "4155550100", DateOfBirth: catalog.Born,
	}
	for _, test := range []struct {
		want     string
		leaveOut func(*lending.CustomerData)
	}{
		{"firstname", func(d *lending.CustomerData) { d.FirstName = "" }},
		{"lastname", func(d *lending.CustomerData) { d.LastName = "" }},
		{"address", func(d *lending.CustomerData) { d.Address = "" }},
		{"state", func(d *lending.CustomerData) { d.State = "" }},
		{"city", func(d *lending.CustomerData) { d.City = "" }},
		{"ssn", func(d *lending.CustomerData) { d.SSN = lending.Secret{} }},
		{"mobile", func(d *lending.CustomerData) { d.Mobile = "" }},
		{"dateOfBirth", func(d *lending.CustomerData) { d.DateOfBirth = time.Time{} }},
	} {
		t.Run(test.want, func(t *testing.T) {
			data := full
			test.leaveOut(&data)
			assert.Equal(t, test.want+" required",
				catalog.Refused(t, second(client.Applications.UpdateCustomerData(ctx, catalog.Application, data))))
		})
	}
	password, code := lending.NewSecret("p"), lending.NewSecret("012345")
	for _, test := range []struct {
		want string
		err  error
	}{
		{"name required", second(client.Applications.UpdateNameAndZipCode(ctx, catalog.Application, "", "94105"))},
		{"zipCode required", second(client.Applications.UpdateNameAndZipCode(ctx, catalog.Application, "B", ""))},
		{"zipcode required", second(client.Applications.UpdateData(ctx, catalog.Application,
			lending.ApplicationData{Name: "B", StartDate: catalog.Start}))},
		{"startDate required", second(client.Applications.UpdateData(ctx, catalog.Application,
			lending.ApplicationData{Name: "B", ZipCode: "94105"}))},
		{"password required", second(client.Auth.Login(ctx, lending.LoginRequest{Username: "ada"}))},
		{"code required", second(client.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{Username: "ada"}))},
		{"applicantId required", client.Approval.SignContract(ctx, catalog.Application, lending.ApplicantID{}, nil)},
		{"fileType required", client.Approval.SubmitDocument(ctx, catalog.Application, "", catalog.File())},
		{"fileName required", client.Approval.SubmitDocument(ctx, catalog.Application, "Other",
			lending.Document{Content: catalog.File().Content})},
		{"content required", client.Approval.SubmitDocument(ctx, catalog.Application, "Other",
			lending.Document{Name: "a.pdf"})},
		{"id required", client.Approval.SetPrimaryBankAccount(ctx, catalog.Application, "")},
		{"email format", second(client.Applications.CreateCustomer(ctx, lending.UserRequest{
			MobileNumber: "4155550100",
			Password:     password,
		}))},
		{"otp required", second(client.Loans.ConfirmInvoiceWithdrawal(ctx, catalog.Withdrawal(),
			lending.WithdrawInvoiceRequestData{
				DateUTC: catalog.Date,
			}))},
		{"dateUTC required", second(client.Loans.ConfirmInvoiceWithdrawal(ctx, catalog.Withdrawal(),
			lending.WithdrawInvoiceRequestData{OTP: code}))},
	} {
		assert.Equal(t, test.want, catalog.Refused(t, test.err))
	}
	for _, username := range []error{
		second(client.Auth.Login(ctx, lending.LoginRequest{Password: password})),
		second(client.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{Code: code})),
	} {
		assert.Equal(t, "username required", catalog.Refused(t, username))
	}
}

// TestControlBytesAreRefused holds that no byte that a log or a proxy may take for
// something else travels in a path or a query.
func TestControlBytesAreRefused(t *testing.T) {
	client := wire.Silent(t)
	for b := range byte(0x80) {
		if ' ' <= b && b < 0x7f {
			continue
		}
		value := "a" + string(rune(b)) + "b"
		assert.Equal(t, "id unsafe", catalog.Refused(t, client.Approval.SetPrimaryBankAccount(t.Context(),
			catalog.Application, value)), "%q", value)
		assert.Equal(t, "email unsafe", catalog.Refused(t, second(client.Customers.GetByEmail(t.Context(), value))),
			"%q", value)
	}
}

// TestEmptyMapIsNotSent holds that a map that was made and not filled is left out as
// one that was not made.
func TestEmptyMapIsNotSent(t *testing.T) {
	for _, information := range []map[string]string{nil, {}} {
		got := record(t, func(ctx context.Context, c *lending.Client) (any, error) {
			return c.Applications.Create(ctx, lending.ApplicationRequest{
				CustomerID:       catalog.Customer,
				ExtraInformation: information,
			}, nil)
		})
		var sent map[string]json.RawMessage
		assert.NoError(t, json.Unmarshal(got.body, &sent))
		assert.Contains(t, sent, "customerId")
		assert.NotContains(t, sent, "extraInformation")
	}
}
