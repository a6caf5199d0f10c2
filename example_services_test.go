package lending_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// From nothing to an offer.
func ExampleApplicationsService() {
	_, client := demo()
	ctx := context.Background()
	customer, err := client.Applications.CreateCustomer(ctx, ada())
	if err != nil {
		fmt.Println(err)
		return
	}
	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: customer.ID, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Applications.AddOrUpdateBankingData(ctx, application, bankStatement(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	offer, err := client.Applications.Process(ctx, application)
	fmt.Println("offer", offer, err)
	// Output: offer 00000001-0003-4000-8000-000000000001 <nil>
}

// bankStatement is bank data as the embedded service wants it: the interface does not show
// the names of its fields, and amounts are strings.
func bankStatement() *lending.BankingDataRequest {
	type fields map[string]any
	return &lending.BankingDataRequest{Extra: fields{"accounts": []fields{{
		"accountName": "Checking", "accountNumber": "000123456789", "balance": "48210.55",
		"transactions": []fields{{"date": "2026-08-03", "description": "Invoice 1001", "amount": "12500.00"}},
	}}}}
}

// The id is what everything that follows needs: keep it. The error of a field that breaks
// a rule is there before anything is sent.
func ExampleApplicationsService_CreateCustomer() {
	_, client := demo()
	customer, err := client.Applications.CreateCustomer(context.Background(), lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        "ada@example.com",
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		fmt.Println(err) // without a value that was sent: it may be logged
		return
	}
	fmt.Println("customer", customer.ID)
	// Output: customer 00000001-0001-4000-8000-000000000001
}

// The answer is lost. It may have happened, so the program looks before it creates again.
func ExampleApplicationsService_Create() {
	service, client := demo()
	service.Fail("POST /api/Application/create-application", lendingtest.Fault{ResetAfter: true})
	customer := lending.CustomerID(uuid.MustParse(service.AddCustomer(lendingtest.Customer{}).ID))

	ctx := context.Background()
	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID:       customer,
		BusinessName:     "Lovelace Analytics",
		BusinessZip:      "94105", // or ExtraInformation["zipcode"], never both
		ExtraInformation: map[string]string{"years": "7"},
	}, &lending.CreateOptions{SendLink: true})
	if errors.Is(err, lending.ErrMayHaveHappened) {
		fmt.Println(err)
		existing, look := client.Applications.ListByCustomer(ctx, customer)
		if look != nil || len(existing) == 0 {
			fmt.Println("not known yet, look again later:", look)
			return
		}
		var found struct{ ID lending.ApplicationID } // the embedded service's name: the interface shows none
		err = existing[0].Decode(&found)             // the customer had none before
		application = found.ID
	}
	fmt.Println("application", application, err)
	// Output:
	// lending: POST /api/Application/create-application: connection reset: outcome unknown, check with Applications.ListByCustomer
	// application 00000001-0002-4000-8000-000000000001 <nil>
}

// Balances and amounts are strings. Without transactions there will be no offer.
func ExampleApplicationsService_AddOrUpdateBankingData() {
	service, client := demo()
	application := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID))

	type ( // the embedded service's names: the interface shows none
		transaction struct {
			Date        string `json:"date"`
			Description string `json:"description"`
			Amount      string `json:"amount"`
		}
		account struct {
			AccountName   string        `json:"accountName"`
			AccountNumber string        `json:"accountNumber"`
			Balance       string        `json:"balance"`
			Transactions  []transaction `json:"transactions"`
		}
	)
	data := lending.BankingDataRequest{Extra: map[string][]account{"accounts": {{
		"Checking", "000123456789", "48210.55", []transaction{{"2026-08-03", "Invoice 1001", "12500.00"}},
	}}}}
	taken, err := client.Applications.AddOrUpdateBankingData(context.Background(), application, &data,
		&lending.BankingDataOptions{BankName: "First Bank"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken:", taken)
	// Output: taken: true
}

// Process is a GET that changes state. It is sent once, and when its answer is lost
// the reads that the error names tell what happened.
func ExampleApplicationsService_Process() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	ctx := context.Background()
	_, err := client.Applications.AddOrUpdateBankingData(ctx, application, bankStatement(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	const process = "GET /api/Application/process-application/{applicationId}"
	service.Fail(process, lendingtest.Fault{ResetAfter: true})
	_, err = client.Applications.Process(ctx, application)
	if errors.Is(err, lending.ErrMayHaveHappened) {
		offer, err := client.Applications.Offer(ctx, application, nil)
		fmt.Println("there is an offer:", offer != nil, err)
	}
	fmt.Println("executed:", service.Executed(process))
	// Output:
	// there is an offer: true <nil>
	// executed: 1
}

// What an offer says is not published: decode it as you have seen it. It can expire.
func ExampleApplicationsService_Offer() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{Amount: 12_500_00, Terms: 12}})
	application := must(lending.ParseApplicationID(row.ID))

	offer, err := client.Applications.Offer(context.Background(), application, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var terms struct { // the embedded service's names: the interface shows none
		Amount json.Number
		Terms  int
	}
	if err := offer.Decode(&terms); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(terms.Amount, "over", terms.Terms)
	// Output: 12500.00 over 12
}

// The first step of the approval.
func ExampleApprovalService_AddCompanyDetails() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{Amount: 12_500_00}})
	application := must(lending.ParseApplicationID(row.ID))

	type company struct { // made up: the interface does not show the fields
		LegalName string `json:"legalName"`
		TaxID     string `json:"taxId"`
	}
	err := client.Approval.AddCompanyDetails(context.Background(), application, lending.CompanyDataRequest{
		Extra: company{"Lovelace Analytics, LLC", "12-3456789"},
	})
	if err != nil {
		fmt.Println(err) // names the fields that the service refuses
		return
	}
	fmt.Println("the company is known")
	// Output: the company is known
}

// What must not show in logs is a Secret in a map: it is revealed on the wire only.
func ExampleApprovalService_AddPrimaryApplicantDetails() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{
		Offer: &lendingtest.Offer{Amount: 12_500_00}, Company: []byte(`{"legalName":"Lovelace Analytics, LLC"}`),
	})
	application := must(lending.ParseApplicationID(row.ID))

	ctx := context.Background()
	err := client.Approval.AddPrimaryApplicantDetails(ctx, application, lending.PrimaryApplicantRequest{
		Extra: map[string]any{ // made up: the interface does not show the fields
			"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com",
			"ssn": lending.NewSecret("123-45-6789"),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	applicants, err := client.Approval.Applicants(ctx, application)
	fmt.Println("applicants:", len(applicants), err)
	// Output: applicants: 1 <nil>
}

// The bank accounts of an application, and which one the money goes to.
func ExampleApprovalService_SetPrimaryBankAccount() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{
		Offer:    &lendingtest.Offer{Amount: 12_500_00},
		Accounts: []lendingtest.BankAccount{{ID: "account-1", AccountName: "Checking"}},
	}).ID))

	ctx := context.Background()
	accounts, err := client.Approval.BankAccounts(ctx, application)
	if err != nil || len(accounts) == 0 {
		fmt.Println("no account to choose:", err)
		return
	}
	var first struct{ ID, AccountName string } // the embedded service's names: the interface shows none
	if err := accounts[0].Decode(&first); err != nil {
		fmt.Println(err)
		return
	}
	err = client.Approval.SetPrimaryBankAccount(ctx, application, first.ID)
	fmt.Println(first.AccountName, err)
	// Output: Checking <nil>
}

// A document that the service asks for, read while it is being sent.
func ExampleApprovalService_SubmitRequiredDocument() {
	service, client := demo()
	row := readyToSign()
	row.Requirements = []lendingtest.Requirement{{ID: uuid.NewString(), FileType: "VoidedCheck"}}
	application := lending.ApplicationID(uuid.MustParse(service.AddApplication(row).ID))

	ctx := context.Background()
	required, err := client.Approval.RequiredDocuments(ctx, application)
	if err != nil || len(required) == 0 {
		fmt.Println("no document to send:", err)
		return
	}
	var wanted struct { // the embedded service's names: the interface shows none
		SupportingDocumentID lending.RequirementID
		FileType             string
	}
	if err := required[0].Decode(&wanted); err != nil {
		fmt.Println(err)
		return
	}
	var last string
	file := strings.NewReader(strings.Repeat("%PDF", 100_000)) // an *os.File knows its name and size as well
	err = client.Approval.SubmitRequiredDocument(ctx, application, wanted.SupportingDocumentID, wanted.FileType,
		lending.Document{
			Name: "check.pdf", Content: file,
			Progress: func(sent, total int64) { last = fmt.Sprint(sent, " of ", total) },
		})
	if err != nil {
		fmt.Println(err) // if it may have happened, RequiredDocuments tells
		return
	}
	fmt.Println("sent", last)
	// Output: sent 400000 of 400000
}

// Every applicant signs the contract of an offer that has not expired.
func ExampleApprovalService_SignContract() {
	service, client := demo()
	row := service.AddApplication(readyToSign())
	application := must(lending.ParseApplicationID(row.ID))

	ctx := context.Background()
	applicants, err := client.Approval.Applicants(ctx, application)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, person := range applicants {
		var who struct{ ID lending.ApplicantID } // the embedded service's name: the interface shows none
		if err := person.Decode(&who); err != nil {
			fmt.Println(err)
			return
		}
		err := client.Approval.SignContract(ctx, application, who.ID, &lending.SignaturesRequest{
			IPAddress: "203.0.113.7", MIMEType: "image/png",
			Signature: lending.SignatureImage([]byte("\x89PNG")), Signature2: lending.SignatureImage([]byte("\x89PNG")),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	_, opened := service.LoanOf(row.ID)
	fmt.Println("loan opened:", opened)
	// Output: loan opened: true
}

func readyToSign() lendingtest.Application {
	return lendingtest.Application{
		Offer: &lendingtest.Offer{
			Amount:     12_500_00,
			ExpiresUTC: lendingtest.Timestamp{Time: time.Now().AddDate(0, 1, 0)},
		},
		Company:          json.RawMessage(`{"name":"Lovelace Analytics"}`),
		Applicants:       []lendingtest.Applicant{{ID: uuid.NewString(), FirstName: "Ada", IsPrimary: true}},
		Accounts:         []lendingtest.BankAccount{{ID: "account-1"}},
		PrimaryAccountID: "account-1",
	}
}

// Most programs give [WithCredentials] to [New] and never call this service.
func ExampleAuthService_Login() {
	service, client := demo()
	ctx := context.Background()
	user, err := client.Auth.Login(ctx, lending.LoginRequest{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if user.RequiresTwoFactor {
		user, err = client.Auth.ValidateTwoFactor(ctx, lending.TwoFactorLoginRequest{
			Username: lendingtest.Username,
			Code:     lending.NewSecret(service.TwoFactorCode(lendingtest.Username)),
		})
	}
	fmt.Println(user.Token, err)
	// Output: [redacted] <nil>
}

// All records are checked before anything is sent.
func ExampleBulkService_CreateCustomers() {
	_, client := demo()
	grace := ada()
	grace.FirstName, grace.Email, grace.MobileNumber = "Grace", "grace@example.com", "555"

	ctx := context.Background()
	_, err := client.Bulk.CreateCustomers(ctx, []lending.UserRequest{ada(), grace})
	fmt.Println(err)

	grace.MobileNumber = "415-555-0101"
	created, err := client.Bulk.CreateCustomers(ctx, []lending.UserRequest{ada(), grace})
	fmt.Println(len(created), err)
	// Output:
	// lending: POST /api/ApplicationBulk/create-customers: not sent: [1].mobileNumber must hold exactly ten digits beside punctuation
	// 2 <nil>
}

// Amounts are exact in both directions.
func ExampleCalculationService_LineOfCredit() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	result, err := client.Calculation.LineOfCredit(context.Background(), application, &lending.CalculationRequest{
		Amount: "2500.10", Terms: 6,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var cost struct{ Fee, TotalRepayment json.Number } // the embedded service's names: the interface shows none
	if err := result.Decode(&cost); err != nil {
		fmt.Println(err)
	}
	fmt.Println(cost.Fee, cost.TotalRepayment)
	// Output: 300.01 2800.11
}

// What a withdrawal from an invoice costs. The service stores the calculation, and takes
// a withdrawal only with the same one.
func ExampleCalculationService_Invoice() {
	service, client := demo()
	application := lending.ApplicationID(uuid.MustParse(service.AddLoan(lendingtest.Loan{}).ApplicationID))

	result, err := client.Calculation.Invoice(context.Background(), application, &lending.CalculationRequest{
		Amount: "2500.00", // exact, not a float
		Terms:  6,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var cost struct{ Fee, TotalRepayment json.Number } // the embedded service's names: the interface shows none
	if err := result.Decode(&cost); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cost.Fee, cost.TotalRepayment)
	// Output: 300.00 2800.00
}

// Messages of an application, written and read.
func ExampleCommunicationService() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))

	ctx := context.Background()
	err := client.Communication.Post(ctx, application, &lending.CommunicationRequest{
		Extra: map[string]string{"message": "When will the offer be ready?"},
	})
	fmt.Println(err)
	for message, err := range client.Communication.AllMessages(ctx, application, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		var text struct{ Message string } // the embedded service's name: the interface shows none
		fmt.Println(message.Decode(&text), text.Message)
	}
	// Output:
	// <nil>
	// <nil> When will the offer be ready?
}

// The way back to a customer whose creation was lost. The service may also say 204, 400
// or 404 where there is none.
func ExampleCustomersService_GetByEmail() {
	service, client := demo()
	service.AddCustomer(lendingtest.Customer{FirstName: "Ada", Email: "ada@example.com"})

	ctx := context.Background()
	record, err := client.Customers.GetByEmail(ctx, "ada@example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	var customer struct{ FirstName string } // the embedded service's name: the interface shows none
	fmt.Println(record.Decode(&customer), customer.FirstName)

	_, err = client.Customers.GetByEmail(ctx, "grace@example.com")
	fmt.Println(errors.Is(err, lending.ErrNoContent))
	// Output:
	// <nil> Ada
	// true
}

// The way to a loan: the loans of the customer name their applications.
func ExampleLoansService_ListByCustomer() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	customer := must(lending.ParseCustomerID(row.CustomerID))
	application := must(lending.ParseApplicationID(row.ApplicationID))

	loans, err := client.Loans.ListByCustomer(context.Background(), customer)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, loan := range loans {
		if loan.ApplicationID == application { // a LoanID here would not compile
			fmt.Println("loan", loan.ID)
		}
	}
	// Output: loan 00000001-0004-4000-8000-000000000001
}

// No money moves yet: a one-time password is sent. Until somebody has entered it, keep
// the withdrawal as JSON; another process may confirm it.
func ExampleLoansService_WithdrawInvoice() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	loan, application := must(lending.ParseLoanID(row.ID)), must(lending.ParseApplicationID(row.ApplicationID))

	ctx := context.Background()
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		fmt.Println(err)
		return
	}
	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, err := json.Marshal(withdrawal)
	if err != nil {
		fmt.Println(err)
		return
	}
	var later lending.InvoiceWithdrawal
	err = json.Unmarshal(kept, &later)
	fmt.Println(later.Amount, "at", later.AdvanceRate, err)
	// Output: 2500.00 at 0.8 <nil>
}

// Calculation, withdrawal, one-time password, confirmation. Only the last moves money.
func ExampleLoansService_ConfirmInvoiceWithdrawal() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	loan, application := must(lending.ParseLoanID(row.ID)), must(lending.ParseApplicationID(row.ApplicationID))

	ctx := context.Background()
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		fmt.Println(err)
		return
	}
	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Loans.ConfirmInvoiceWithdrawal(ctx, *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
		OTP:     lending.NewSecret(service.OTP(row.ID)), // a person reads it from a phone
	})
	if err != nil {
		fmt.Println(err) // if it may have happened: see the example Backend of package idempotency
		return
	}
	fmt.Println("withdrawn", withdrawal.Amount, "at", withdrawal.AdvanceRate)
	// Output: withdrawn 2500.00 at 0.8
}

// One loop over a list of any length: pages come as they are needed.
func ExampleLoansService_AllTransactions() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	service.AddTransactions(row.ID, make([]lendingtest.Transaction, 450)...)

	count := 0
	for _, err := range client.Loans.AllTransactions(context.Background(), must(lending.ParseLoanID(row.ID)), nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		count++
	}
	fmt.Println(count, "transactions in", service.Arrived("GET /api/Loan/get-transactions/{loanId}"), "calls")
	// Output: 450 transactions in 4 calls
}

// One page of a list that can be turned round, and how long the whole list is.
func ExamplePage() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	service.AddTransactions(row.ID, make([]lendingtest.Transaction, 450)...)

	page, err := client.Loans.TransactionsPaged(context.Background(), must(lending.ParseLoanID(row.ID)),
		&lending.PagedOptions{
			Skip: 400, Take: 200, Descending: true,
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Data), "of", page.TotalCount)
	// Output: 50 of 450
}

// The newest three, without reading the rest.
func ExampleLoansService_AllWithdrawals() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	service.AddWithdrawals(row.ID, make([]lendingtest.Withdrawal, 100)...)

	count := 0
	newest := &lending.PagedOptions{Descending: true, Take: 3}
	for withdrawal, err := range client.Loans.AllWithdrawals(context.Background(), must(lending.ParseLoanID(row.ID)),
		newest) {
		if err != nil {
			fmt.Println(err)
			return
		}
		var id struct{ ID string } // the embedded service's name: the interface shows none
		fmt.Println(withdrawal.Decode(&id), id.ID[len(id.ID)-3:])
		if count++; count == 3 {
			break
		}
	}
	fmt.Println("calls:", service.Arrived("GET /api/Loan/get-withdrawals/{loanId}"))
	// Output:
	// <nil> 064
	// <nil> 063
	// <nil> 062
	// calls: 1
}

// A list that breaks off says where to go on.
func ExamplePageError() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	service.AddTransactions(row.ID, make([]lendingtest.Transaction, 450)...)

	options, count := &lending.ListOptions{}, 0
	for range 2 { // a program would come back later
		for _, err := range client.Loans.AllTransactions(context.Background(), must(lending.ParseLoanID(row.ID)), options) {
			if broken, ok := errors.AsType[*lending.PageError](err); ok {
				options.Skip = broken.Skip
				fmt.Println("broke off after", count)
				break
			}
			if count++; count == 200 {
				service.Fail("GET /api/Loan/get-transactions/{loanId}", lendingtest.Fault{Status: http.StatusForbidden})
			}
		}
	}
	fmt.Println("complete:", count)
	// Output:
	// broke off after 200
	// complete: 450
}

// Success alone proves no save: the subscription that is read back does, and it holds
// the secret that verifies deliveries.
func ExampleWebhooksService_Register() {
	_, client := demo()
	ctx := context.Background()
	target := lending.ForPartner(must(lending.ParsePartnerID(lendingtest.PartnerID)))
	err := client.Webhooks.Register(ctx, target, lending.WebhookSubscription{
		WebhookURI: "https://partner.example/webhooks",
		Webhooks:   []lending.EventName{lending.EventLoanCreated, lending.EventLoanWithdrawalCompleted},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := client.Webhooks.Subscription(ctx, target)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(saved.WebhookURI, saved.Webhooks, saved.Secret)
	// Output: https://partner.example/webhooks [WB_Loan_Created WB_Loan_Withdrawal_Completed] [redacted]
}

// On every deploy: it registers only what is missing or differs, and proves the save.
func ExampleWebhooksService_Ensure() {
	service, client := demo()
	target := lending.ForPartner(must(lending.ParsePartnerID(lendingtest.PartnerID)))
	for range 2 {
		ensured, err := client.Webhooks.Ensure(context.Background(), target, lending.WebhookSubscription{
			WebhookURI: "https://partner.example/webhooks",
			Webhooks:   []lending.EventName{lending.EventLoanCreated},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("created:", ensured.Created, "secret:", ensured.Subscription.Secret)
	}
	fmt.Println("registered:", service.Executed("POST /api/Webhook/register"))
	// Output:
	// created: true secret: [redacted]
	// created: false secret: [redacted]
	// registered: 1
}

// cents is an amount of money as an integer: sums of it are exact.
type cents int64

// UnmarshalJSON reads a number such as 2500.5, and refuses a fraction of a cent.
func (c *cents) UnmarshalJSON(data []byte) error {
	whole, fraction, _ := strings.Cut(string(data), ".")
	n, err := strconv.ParseInt(whole+(fraction + "00")[:2], 10, 64)
	if err != nil || strings.TrimRight(fraction, "0") != strings.TrimRight((fraction + "00")[:2], "0") {
		return errors.New("no amount in cents")
	}
	*c = cents(n)
	return nil
}

// String writes the amount with its two digits.
func (c cents) String() string {
	text := fmt.Sprintf("%03d", max(c, -c))
	if text = text[:len(text)-2] + "." + text[len(text)-2:]; c < 0 {
		text = "-" + text
	}
	return text
}

// Payment is what this caller wants of a transaction. The names are the embedded
// service's: the interface shows none.
type Payment struct {
	ID     string       `json:"id"`
	Amount cents        `json:"amount"`
	Date   lending.Time `json:"dateUTC"`
}

// ledger is a service with a loan that has n transactions of 0.10 each, which no float
// adds up.
func ledger(n int) (*lending.Client, lending.LoanID) {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	date := lendingtest.Timestamp{Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	for range n {
		service.AddTransactions(row.ID, lendingtest.Transaction{Amount: 10, DateUTC: date})
	}
	return client, must(lending.ParseLoanID(row.ID))
}

// One line from a route to a struct of the caller's. The record stays beside it, with
// all that the struct has no field for.
func ExampleAs() {
	client, id := ledger(0)
	type Balance struct {
		Available json.Number    `json:"availableBalance"`
		Record    lending.Record `json:"-"`
	}
	balance, err := lending.As[Balance](client.Loans.TotalBalance(context.Background(), id))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(balance.Available)
	fmt.Printf("%s\n", balance.Record.Raw())
	// Output:
	// 10000.00
	// {"loanId":"00000001-0004-4000-8000-000000000001","totalBalance":0.00,"availableBalance":10000.00,"limit":10000.00}
}

// A list, and its sum to the cent.
func ExampleListAs() {
	ctx := context.Background()
	client, id := ledger(3)
	payments, err := lending.ListAs[Payment](client.Loans.Transactions(ctx, id, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := cents(0)
	for _, payment := range payments {
		sum += payment.Amount
	}
	fmt.Println(sum, "of", payments[0].Date.Format(time.RFC3339))
	// Output: 0.30 of 2026-03-04T05:06:07Z
}

// 10,000 transactions, typed, summed exactly into a CSV.
func ExampleAllAs() {
	ctx := context.Background()
	client, id := ledger(10_000)
	var file bytes.Buffer
	rows, sum := csv.NewWriter(&file), cents(0)
	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactionsPaged(ctx, id, nil)) {
		if err != nil {
			fmt.Println(err) // a PageError says where to go on
			return
		}
		sum += payment.Amount
		_ = rows.Write([]string{payment.ID, payment.Date.Format(time.DateOnly), payment.Amount.String()})
	}
	rows.Flush()
	fmt.Println(sum, strings.Count(file.String(), "\n"), rows.Error())
	// Output: 1000.00 10000 <nil>
}

// A mutation whose answer does not decode has happened. The record tells what came of it.
func ExampleDecodeError() {
	_, client := demo()
	type Customer struct{ ID int } // which is a UUID
	_, err := lending.As[Customer](client.Applications.CreateCustomer(context.Background(), ada()))
	fmt.Println(err)
	fmt.Println(lending.OutcomeOf(err), errors.Is(err, lending.ErrMayHaveHappened))

	if undecoded, ok := errors.AsType[*lending.DecodeError](err); ok {
		created, err := lending.As[lending.UserResponse](undecoded.Record(), nil)
		fmt.Println(created.ID, err)
	}
	// Output:
	// lending: record: field "id": a string does not fit int: it happened
	// done true
	// 00000001-0001-4000-8000-000000000001 <nil>
}

// A decoder of the caller's own reads Raw, here one that refuses what it does not know.
func ExampleRecord_Raw() {
	client, id := ledger(0)
	balance, err := client.Loans.TotalBalance(context.Background(), id)
	if err != nil {
		fmt.Println(err)
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(balance.Raw()))
	decoder.DisallowUnknownFields()
	var mine struct{ TotalBalance, AvailableBalance json.Number }
	if err := decoder.Decode(&mine); err != nil { // which may quote
		fmt.Println("a field that nobody knew")
	}
	// Output: a field that nobody knew
}

// A type that decodes times as the service writes them, and compares with ==.
func ExampleTime() {
	var t lending.Time
	err := t.UnmarshalJSON([]byte(`"2026-03-04T05:06:07.1234567"`)) // as in any struct
	fmt.Println(t, err)
	// Output: 2026-03-04 05:06:07.1234567 +0000 UTC <nil>
}
