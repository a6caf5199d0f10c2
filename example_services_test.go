package lending_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// From nothing to an offer. The ids are needed in all later calls: save them.
func ExampleApplicationsService() {
	_, client := demo()
	ctx := context.Background()
	customer, err := client.Applications.CreateCustomer(ctx, ada())
	if err != nil {
		fmt.Println(err) // the text contains no value of the request: it may be logged
		return
	}
	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID:       customer.ID,
		BusinessName:     "Lovelace Analytics",
		BusinessZip:      "94105", // or ExtraInformation["zipcode"], never both
		ExtraInformation: map[string]string{"years": "7"},
	}, &lending.CreateOptions{SendLink: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	accepted, err := client.Applications.AddOrUpdateBankingData(ctx, application, bankStatement(),
		&lending.BankingDataOptions{BankName: "First Bank"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("bank data accepted:", accepted)
	if _, err := client.Applications.Process(ctx, application); err != nil {
		fmt.Println(err)
		return
	}
	offer, err := client.Applications.Offer(ctx, application, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var terms struct { // the embedded service's names: the interface shows none
		Amount json.Number
		Terms  int
	}
	err = offer.Decode(&terms)
	fmt.Println(terms.Amount, "over", terms.Terms, "months", err)
	// Output:
	// bank data accepted: true
	// 12500.00 over 12 months <nil>
}

// bankStatement is bank data for the embedded service: the interface does not show the names of the
// fields. Balances and amounts are strings. Without transactions there is no offer.
func bankStatement() *lending.BankingDataRequest {
	type fields map[string]any
	return &lending.BankingDataRequest{Extra: fields{"accounts": []fields{{
		"accountName": "Checking", "accountNumber": "000123456789", "balance": "48210.55",
		"transactions": []fields{{"date": "2026-08-03", "description": "Invoice 1001", "amount": "12500.00"}},
	}}}}
}

// From an offer to a signed contract. The names of the fields are those of the embedded service,
// because the interface shows none.
func ExampleApprovalService() {
	service, client := demo()
	application := offered(client)
	ctx := context.Background()
	fmt.Println(client.Approval.AddCompanyDetails(ctx, application, lending.CompanyDataRequest{
		Extra: map[string]string{"legalName": "Lovelace Analytics, LLC", "taxId": "12-3456789"},
	}))
	fmt.Println(client.Approval.AddPrimaryApplicantDetails(ctx, application, lending.PrimaryApplicantRequest{
		Extra: map[string]any{
			"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com",
			"ssn": lending.NewSecret("123-45-6789"), // a Secret in a map is revealed on the wire only
		},
	}))
	type account struct{ ID, AccountName string }
	for _, a := range must(lending.ListAs[account](client.Approval.BankAccounts(ctx, application))) {
		fmt.Println(a.AccountName, client.Approval.SetPrimaryBankAccount(ctx, application, a.ID))
	}
	type requirement struct {
		SupportingDocumentID lending.RequirementID
		FileType             string
	}
	for _, r := range must(lending.ListAs[requirement](client.Approval.RequiredDocuments(ctx, application))) {
		scan := lending.Document{Name: "scan.pdf", Content: strings.NewReader("%PDF")} // an *os.File knows its name
		fmt.Println(r.FileType,
			client.Approval.SubmitRequiredDocument(ctx, application, r.SupportingDocumentID, r.FileType, scan))
	}
	type applicant struct{ ID lending.ApplicantID }
	for _, a := range must(lending.ListAs[applicant](client.Approval.Applicants(ctx, application))) {
		image := lending.SignatureImage([]byte("\x89PNG"))
		fmt.Println(client.Approval.SignContract(ctx, application, a.ID, &lending.SignaturesRequest{
			IPAddress: "203.0.113.7", MIMEType: "image/png", Signature: image, Signature2: image,
		}))
	}
	fmt.Println("loan opened:", len(service.Snapshot().Loans) > 0)
	// Output:
	// <nil>
	// <nil>
	// Checking <nil>
	// VoidedCheck <nil>
	// DriversLicense <nil>
	// <nil>
	// loan opened: true
}

// offered returns an application that has an offer.
func offered(client *lending.Client) lending.ApplicationID {
	ctx := context.Background()
	application := must(client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID:   must(client.Applications.CreateCustomer(ctx, ada())).ID,
		BusinessName: "Lovelace Analytics", BusinessZip: "94105",
	}, nil))
	must(client.Applications.AddOrUpdateBankingData(ctx, application, bankStatement(), nil))
	must(client.Applications.Process(ctx, application))
	return application
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

// Writes and reads the messages of an application.
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

// The read after a lost response to CreateCustomer. The service responds with 204, 400 or 404 if it has
// no such customer.
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

// A withdrawal, from the loan to the confirmation, which alone moves money. The service saves the
// calculation and accepts a withdrawal only with the same calculation. Between the one-time password
// and the confirmation, keep the withdrawal as JSON: another process may confirm it.
func ExampleLoansService_ConfirmInvoiceWithdrawal() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	customer := must(lending.ParseCustomerID(row.CustomerID))
	application := must(lending.ParseApplicationID(row.ApplicationID))

	ctx := context.Background()
	var loan lending.LoanID
	for _, l := range must(client.Loans.ListByCustomer(ctx, customer)) {
		if l.ApplicationID == application { // a LoanID here would not compile
			loan = l.ID
		}
	}
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
	kept := must(json.Marshal(withdrawal))

	var later lending.InvoiceWithdrawal
	if err := json.Unmarshal(kept, &later); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Loans.ConfirmInvoiceWithdrawal(ctx, later, lending.WithdrawInvoiceRequestData{
		DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
		OTP:     lending.NewSecret(service.OTP(row.ID)), // a person reads it from a phone
	})
	if err != nil {
		fmt.Println(err) // if it may have happened: see the example Backend of package idempotency
		return
	}
	fmt.Println("withdrawn", later.Amount, "at", later.AdvanceRate)
	// Output: withdrawn 2500.00 at 0.8
}

// A file that is too large is not sent.
func ExampleDocument() {
	service, client := demo()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	scan := strings.Repeat("%PDF ", 100_000)
	for _, doc := range []lending.Document{
		{Name: "statement.pdf", Content: strings.NewReader(scan)},            // or an *os.File
		{Name: "pipe.pdf", Content: io.MultiReader(strings.NewReader(scan))}, // its size is unknown
		{Name: "large.pdf", Content: bytes.NewReader(make([]byte, 15<<20+1))},
	} {
		err := client.Applications.SubmitBankStatement(context.Background(), application, doc)
		fmt.Println(doc.Name, lending.OutcomeOf(err))
	}
	// Output:
	// statement.pdf done
	// pipe.pdf done
	// large.pdf not sent
}

// A page of a list in descending order, and the length of the list.
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
	service.UpdateLoan(row.ID, func(l *lendingtest.Loan) { l.Withdrawals = make([]lendingtest.Withdrawal, 100) })

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

// After a failed page, the next loop starts at the position in the error.
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

// Call Ensure on every deploy. It registers a missing or different subscription, and reads it back.
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
		fmt.Println("created:", ensured.Changed, "secret:", ensured.Subscription.Secret)
	}
	fmt.Println("registered:", service.Executed("POST /api/Webhook/register"))
	// Output:
	// created: true secret: [redacted]
	// created: false secret: [redacted]
	// registered: 1
}

// Payment has the fields of a transaction that this caller needs. The names are those of the
// embedded service: the interface shows none.
type Payment struct {
	ID     string       `json:"id"`
	Amount json.Number  `json:"amount"`
	Date   lending.Time `json:"dateUTC"`
}

// ledger returns a client of a service with a loan that has n transactions of 0.10 each.
func ledger(n int) (*lending.Client, lending.LoanID) {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	date := lendingtest.Timestamp{Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	service.AddTransactions(row.ID, slices.Repeat([]lendingtest.Transaction{{Amount: 10, DateUTC: date}}, n)...)
	return client, must(lending.ParseLoanID(row.ID))
}

// One line decodes a response into a struct of the caller. The Record has the fields for which the
// struct has none.
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
	// {"availableBalance":10000.00,"limit":10000.00,"loanId":"00000001-0004-4000-8000-000000000001","totalBalance":0.00}
}

func ExampleListAs() {
	ctx := context.Background()
	client, id := ledger(3)
	payments, err := lending.ListAs[Payment](client.Loans.Transactions(ctx, id, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(payments), payments[0].Amount, payments[0].Date.Format(time.RFC3339))
	// Output: 3 0.10 2026-03-04T05:06:07Z
}

// 10,000 transactions, as rows of a CSV file, and their exact sum.
func ExampleAllAs() {
	ctx := context.Background()
	client, id := ledger(10_000)
	var file bytes.Buffer
	rows, sum := csv.NewWriter(&file), new(big.Rat)
	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactionsPaged(ctx, id, nil)) {
		if err != nil {
			fmt.Println(err) // a PageError says where to go on
			return
		}
		amount, _ := new(big.Rat).SetString(payment.Amount.String())
		sum.Add(sum, amount)
		_ = rows.Write([]string{payment.ID, payment.Date.Format(time.DateOnly), payment.Amount.String()})
	}
	rows.Flush()
	fmt.Println(sum.FloatString(2), strings.Count(file.String(), "\n"), rows.Error())
	// Output: 1000.00 10000 <nil>
}

// A wrong name decodes as an empty field: no error, and no amount. In a test, Missing names the field.
func ExampleMissing() {
	client, id := ledger(1)
	type Payment struct {
		ID    string      `json:"id"`
		Total json.Number `json:"total"`
	}
	transactions, err := client.Loans.Transactions(context.Background(), id, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lending.Missing[Payment](transactions...))
	// Output: [total]
}

// A mutation has happened although its response does not decode. The error has the response.
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

// Time decodes the service's times, and compares with ==.
func ExampleTime() {
	var t lending.Time
	err := t.UnmarshalJSON([]byte(`"2026-03-04T05:06:07.1234567"`)) // as in any struct
	fmt.Println(t, err)
	// Output: 2026-03-04 05:06:07.1234567 +0000 UTC <nil>
}
