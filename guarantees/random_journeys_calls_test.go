package guarantees_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// actor makes calls on records of its own.
type actor struct {
	random  *rand.Rand
	service *lendingtest.Service
	client  *lending.Client
	domain  string // of its customers' e-mail addresses
	made    int    // names so far
	own     lendingtest.Snapshot
	begun   map[string]*lending.InvoiceWithdrawal // by loan
}

// name returns a text that no other record has.
func (a *actor) name(kind string) string {
	a.made++
	return fmt.Sprintf("%s-%d", kind, a.made)
}

// observe reads the actor's records from the service, and returns them as text.
func (a *actor) observe() string {
	all, own := a.service.Snapshot(), lendingtest.Snapshot{}
	mine := map[string]bool{}
	for _, c := range all.Customers {
		if strings.HasSuffix(c.Email, "@"+a.domain) {
			mine[c.ID] = true
			own.Customers = append(own.Customers, c)
		}
	}
	own.Applications = keep(all.Applications, func(x lendingtest.Application) bool { return mine[x.CustomerID] })
	own.Loans = keep(all.Loans, func(x lendingtest.Loan) bool { return mine[x.CustomerID] })
	own.Subscriptions = keep(all.Subscriptions, func(x lendingtest.Subscription) bool { return mine[x.CustomerID] })
	own.Sent = keep(all.Sent, func(x lendingtest.Sent) bool { return strings.HasSuffix(x.To, "@"+a.domain) })
	a.own = own
	text, err := json.Marshal(own)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func keep[T any](all []T, mine func(T) bool) []T {
	return slices.DeleteFunc(all, func(x T) bool { return !mine(x) })
}

// command is a mutation that an actor can make.
type command struct {
	method string
	call   func() error
	// check makes the read that tells after an unknown outcome. It is nil if the error names no
	// read, or a read whose response the interface does not describe.
	check func() (happened bool, err error)
	// invisible: the records can be the same afterwards.
	invisible bool
}

// next chooses a command: often the next step of an application, or any other.
func (a *actor) next(ctx context.Context) command {
	if len(a.own.Customers) == 0 || a.random.IntN(20) == 0 {
		return pick(a, a.customerCommands(ctx))
	}
	customer := pick(a, a.own.Customers)
	applications := a.applicationsOf(customer)
	if len(applications) == 0 || a.random.IntN(25) == 0 {
		return pick(a, a.newApplication(ctx, customer, len(applications)))
	}
	if a.random.IntN(20) == 0 {
		return pick(a, a.webhook(ctx, customer))
	}
	application := pick(a, applications)
	commands := a.applicationCommands(ctx, application)
	if loan := a.loanOf(application); loan != nil {
		amount := json.Number("100")
		if application.Calculation != nil {
			amount = json.Number(application.Calculation.Amount.String())
		}
		commands = append(commands, a.loanCommands(ctx, *loan, lending.CalculationRequest{Amount: amount, Terms: 6})...)
	}
	if a.random.IntN(3) > 0 {
		step := a.step(application)
		commands = slices.DeleteFunc(commands, func(c command) bool { return c.method != step && step != "" })
	}
	return pick(a, commands)
}

func pick[T any](a *actor, all []T) T { return all[a.random.IntN(len(all))] }

func (a *actor) applicationsOf(customer lendingtest.Customer) (all []lendingtest.Application) {
	for _, application := range a.own.Applications {
		if application.CustomerID == customer.ID {
			all = append(all, application)
		}
	}
	return all
}

func (a *actor) loanOf(application lendingtest.Application) *lendingtest.Loan {
	for i, loan := range a.own.Loans {
		if loan.ApplicationID == application.ID {
			return &a.own.Loans[i]
		}
	}
	return nil
}

// step names the mutation that brings an application closer to a withdrawal.
func (a *actor) step(application lendingtest.Application) (method string) {
	loan := a.loanOf(application)
	switch {
	case len(application.Accounts) == 0:
		return "Applications.AddOrUpdateBankingData"
	case application.ProcessRuns == 0:
		return "Applications.Process"
	case len(application.Company) == 0:
		return "Approval.AddCompanyDetails"
	case len(application.Applicants) == 0:
		return "Approval.AddPrimaryApplicantDetails"
	case application.PrimaryAccountID == "":
		return "Approval.SetPrimaryBankAccount"
	case loan == nil:
		return "Approval.SignContract"
	case application.Calculation == nil:
		return "Calculation.Invoice"
	case a.begun[loan.ID] == nil:
		return "Loans.WithdrawInvoice"
	}
	return "Loans.ConfirmInvoiceWithdrawal"
}

// found is the result of a read that fails if there is no record.
func found(err error) (bool, error) {
	if lending.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (a *actor) customerCommands(ctx context.Context) []command {
	user := func() lending.UserRequest {
		first := a.name("first")
		return lending.UserRequest{
			FirstName: first, LastName: "Lovelace", Email: first + "@" + a.domain,
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "415-555-0100",
		}
	}
	c, one, other, invalid := a.client, user(), user(), user()
	invalid.MobileNumber = "refused before it is sent"
	create := func(user lending.UserRequest) command {
		return command{
			method: "Applications.CreateCustomer",
			call:   func() error { return second(c.Applications.CreateCustomer(ctx, user)) },
			check: func() (bool, error) {
				_, err := c.Customers.GetByEmail(context.Background(), user.Email)
				return found(err)
			},
		}
	}
	all := lending.ApplicationAndCustomerAndApplicantRequest{Extra: catalog.Unpublished{
		"firstName": one.FirstName, "lastName": "L", "email": one.Email, "password": "Analytical-Engine-1",
		"mobileNumber": "4155550100", "businessName": a.name("business"), "businessZip": "94105",
		"applicant": catalog.Unpublished{"firstName": "Grace"},
	}}
	return []command{
		create(one), create(other), create(invalid),
		{method: "Bulk.CreateCustomers", call: func() error {
			return second(c.Bulk.CreateCustomers(ctx, []lending.UserRequest{one, other}))
		}},
		{method: "Applications.CreateWithCustomerAndApplicant", call: func() error {
			return second(c.Applications.CreateWithCustomerAndApplicant(ctx, all, nil))
		}},
	}
}

func (a *actor) newApplication(ctx context.Context, customer lendingtest.Customer, before int) []command {
	request := func() lending.ApplicationRequest {
		return lending.ApplicationRequest{
			CustomerID:   lending.CustomerID(uuid.MustParse(customer.ID)),
			BusinessName: a.name("business"), BusinessZip: "94105",
		}
	}
	c, one, other := a.client, request(), request()
	withApplicant := lending.ApplicationAndApplicantRequest{Extra: catalog.Unpublished{
		"customerId": customer.ID, "businessName": one.BusinessName, "businessZip": "94105",
		"applicant": catalog.Unpublished{"firstName": "Grace"},
	}}
	return []command{
		{
			method: "Applications.Create",
			call:   func() error { return second(c.Applications.Create(ctx, one, nil)) },
			check: func() (bool, error) {
				list, err := c.Applications.ListByCustomer(context.Background(), one.CustomerID)
				return len(list) > before, err
			},
		},
		{method: "Applications.CreateWithApplicant", call: func() error {
			return second(c.Applications.CreateWithApplicant(ctx, withApplicant, nil))
		}},
		{method: "Bulk.CreateApplications", call: func() error {
			return second(c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{one, other}))
		}},
	}
}

// webhook subscribes the customer, who has at most a single receiver.
func (a *actor) webhook(ctx context.Context, customer lendingtest.Customer) []command {
	c, target := a.client, lending.ForCustomer(lending.CustomerID(uuid.MustParse(customer.ID)))
	subscription := lending.WebhookSubscription{WebhookURI: "https://" + a.name("receiver") + ".example"}
	return []command{
		{method: "Webhooks.UpdateURI", invisible: true, call: func() error {
			return c.Webhooks.UpdateURI(ctx, target, subscription.WebhookURI)
		}},
		{method: "Webhooks.Unregister", invisible: true, call: func() error {
			return c.Webhooks.Unregister(ctx, target, subscription)
		}},
		{
			method: "Webhooks.Register",
			call:   func() error { return c.Webhooks.Register(ctx, target, subscription) },
			check: func() (bool, error) {
				saved, err := c.Webhooks.Subscription(context.Background(), target)
				happened, err := found(err)
				return happened && saved.WebhookURI == subscription.WebhookURI, err
			},
		},
	}
}

func (a *actor) applicationCommands(ctx context.Context, s lendingtest.Application) []command {
	c, id, name := a.client, lending.ApplicationID(uuid.MustParse(s.ID)), a.name("name")
	data := fake.AccountsWith(fake.Booked("2026-08-03", "Invoice", "12500.00"))
	data.Extra.(fake.BankData).Accounts[0].AccountNumber = name
	account := fmt.Sprintf("account-%d", 1+a.random.IntN(len(s.Accounts)+1)) // the last does not exist
	calculation := &lending.CalculationRequest{Amount: json.Number(fmt.Sprint(100 + a.random.IntN(2000))), Terms: 6}
	content := strings.Repeat("%PDF", 1+a.random.IntN(20_000))
	file := lending.Document{Name: name + ".pdf", Content: strings.NewReader(content)}
	process := command{method: "Applications.Process"}
	process.call = func() error { return second(c.Applications.Process(ctx, id)) }
	if s.ProcessRuns == 0 {
		process.check = func() (bool, error) {
			_, err := c.Applications.Offer(context.Background(), id, nil)
			return found(err)
		}
	}
	commands := []command{
		process,
		{method: "Applications.AddOrUpdateBankingData", call: func() error {
			return second(c.Applications.AddOrUpdateBankingData(ctx, id, data, nil))
		}},
		{method: "Approval.AddCompanyDetails", call: func() error {
			return c.Approval.AddCompanyDetails(ctx, id, lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": name}})
		}},
		{method: "Approval.AddPrimaryApplicantDetails", call: func() error {
			request := lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": name}}
			return c.Approval.AddPrimaryApplicantDetails(ctx, id, request)
		}},
		{
			method: "Approval.AddSecondaryApplicantDetails",
			call: func() error {
				request := lending.SecondaryApplicantRequest{Extra: catalog.Unpublished{"firstName": name}}
				return c.Approval.AddSecondaryApplicantDetails(ctx, id, request)
			},
			check: func() (bool, error) {
				list, err := c.Approval.Applicants(context.Background(), id)
				return len(list) > len(s.Applicants), err
			},
		},
		{method: "Approval.SetPrimaryBankAccount", invisible: true, call: func() error {
			return c.Approval.SetPrimaryBankAccount(ctx, id, account)
		}},
		{method: "Calculation.Invoice", invisible: true, call: func() error {
			return second(c.Calculation.Invoice(ctx, id, calculation))
		}},
		{method: "Calculation.LineOfCredit", invisible: true, call: func() error {
			return second(c.Calculation.LineOfCredit(ctx, id, calculation))
		}},
		{method: "Applications.QuickTest", invisible: true, call: func() error {
			return second(c.Applications.QuickTest(ctx, id, nil))
		}},
		{method: "Applications.Offer", invisible: true, call: func() error {
			return second(c.Applications.Offer(ctx, id, &lending.OfferOptions{Force: true}))
		}},
		{method: "Applications.UpdateName", call: func() error {
			return second(c.Applications.UpdateName(ctx, id, name+" & Söhne"))
		}},
		{method: "Applications.UpdateNameAndZipCode", call: func() error {
			return second(c.Applications.UpdateNameAndZipCode(ctx, id, name, "94105"))
		}},
		{method: "Applications.UpdateData", call: func() error {
			return second(c.Applications.UpdateData(ctx, id,
				lending.ApplicationData{Name: name, ZipCode: "94105", StartDate: catalog.Start}))
		}},
		{method: "Applications.UpdateCustomerData", call: func() error {
			return second(c.Applications.UpdateCustomerData(ctx, id, lending.CustomerData{
				FirstName: name, LastName: "L", Address: "1 Main St.", State: "CA", City: "Here",
				SSN: lending.NewSecret("123-45-6789"), Mobile: "415-555-0100", DateOfBirth: catalog.Born,
			}))
		}},
		{method: "Applications.SubmitBankStatement", call: func() error {
			return c.Applications.SubmitBankStatement(ctx, id, file)
		}},
		{method: "Approval.SubmitDocument", call: func() error { return c.Approval.SubmitDocument(ctx, id, "Other", file) }},
		{
			method: "Communication.Post",
			call: func() error {
				return c.Communication.Post(ctx, id, &lending.CommunicationRequest{Extra: catalog.Unpublished{"message": name}})
			},
			check: func() (bool, error) {
				list, err := c.Communication.Messages(context.Background(), id, nil)
				return len(list) > len(s.Messages), err
			},
		},
		{method: "Applications.SendLink", call: func() error { return c.Applications.SendLink(ctx, id) }},
	}
	if a.random.IntN(4) == 0 { // few calls follow on a cancelled application
		commands = append(commands, command{
			method: "Applications.Cancel", invisible: true, call: func() error { return c.Applications.Cancel(ctx, id) },
		})
	}
	image := lending.SignatureImage([]byte("\x89PNG"))
	for _, applicant := range s.Applicants {
		sign := func() error {
			return c.Approval.SignContract(ctx, id, lending.ApplicantID(uuid.MustParse(applicant.ID)),
				&lending.SignaturesRequest{MIMEType: "image/png", Signature: image, Signature2: image})
		}
		commands = append(commands, command{method: "Approval.SignContract", invisible: applicant.HasSigned, call: sign})
	}
	for _, wanted := range s.Requirements {
		commands = append(commands, command{method: "Approval.SubmitRequiredDocument", call: func() error {
			requirement := lending.RequirementID(uuid.MustParse(wanted.ID))
			return c.Approval.SubmitRequiredDocument(ctx, id, requirement, wanted.FileType, file)
		}})
	}
	return commands
}

func (a *actor) loanCommands(ctx context.Context, loan lendingtest.Loan, amount lending.CalculationRequest) []command {
	c, id := a.client, lending.LoanID(uuid.MustParse(loan.ID))
	commands := []command{
		{method: "Loans.WithdrawInvoice", call: func() error {
			begun, err := c.Loans.WithdrawInvoice(ctx, id, lending.InvoiceWithdrawalRequest{Calculation: amount})
			if err == nil {
				a.begun[loan.ID] = begun
			}
			return err
		}},
		{method: "Loans.ResendWithdrawalOTP", call: func() error { return second(c.Loans.ResendWithdrawalOTP(ctx, id)) }},
		{method: "Loans.WithdrawLineOfCredit", call: func() error {
			return second(c.Loans.WithdrawLineOfCredit(ctx, id,
				lending.LineOfCreditWithdrawalRequest{Extra: catalog.Unpublished{"amount": 100}}))
		}},
	}
	begun, otp := a.begun[loan.ID], a.service.OTP(loan.ID)
	if begun == nil {
		return commands
	}
	if a.random.IntN(4) == 0 {
		otp = "000000"
	}
	// The confirmation moves money. Without a success the withdrawal stays begun, and the next
	// confirmation tries to move the money again.
	return append(commands, command{
		method: "Loans.ConfirmInvoiceWithdrawal",
		call: func() error {
			_, err := c.Loans.ConfirmInvoiceWithdrawal(ctx, *begun, lending.WithdrawInvoiceRequestData{
				DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), OTP: lending.NewSecret(otp),
			})
			if err == nil {
				delete(a.begun, loan.ID)
			}
			return err
		},
		check: func() (bool, error) {
			page, err := c.Loans.Withdrawals(context.Background(), id, nil)
			return err == nil && page.TotalCount > len(loan.Withdrawals), err
		},
	})
}
