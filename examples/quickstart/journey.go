package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/lendingapi/lending-go"
)

// journey takes a customer from nothing to a withdrawal. The service publishes few names of
// fields: the names in the maps and structs here are those of the embedded service. Use the names
// of the real service instead.
type journey struct {
	out    io.Writer
	client *lending.Client
	email  string                      // of the customer
	asked  time.Time                   // when the customer asked for the money
	otp    func(lending.LoanID) string // the one-time password that the customer reads from a phone

	customer    lending.CustomerID
	application lending.ApplicationID
}

// key returns a context with the idempotency key of a command. A backend makes the key from its
// order, such as "order-42/customer".
func (j *journey) key(ctx context.Context, command string) context.Context {
	return lending.WithIdempotencyKey(ctx, "quickstart/"+command)
}

// retrying does a part of the journey, and does it again from its first call as long as that is the
// next step after an error. A backend also alerts a person.
func (j *journey) retrying(ctx context.Context, part func(context.Context) error) error {
	for {
		err := part(ctx)
		next := lending.NextOf(err)
		if err == nil || next.Person || !next.Retry || ctx.Err() != nil {
			return err
		}
		say(j.out, "An error: %v", err)
		say(j.out, "The next step is: %s. With the same keys, nothing happens twice.", next)
		<-time.After(max(next.After, time.Second))
	}
}

// apply goes from a customer to an offer.
func (j *journey) apply(ctx context.Context) error {
	say(j.out, "\nFrom customer to offer")
	customer, err := j.client.Applications.CreateCustomer(j.key(ctx, "customer"), lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        j.email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return err
	}
	j.customer = customer.ID
	say(j.out, "Created customer %s.", customer.ID)

	j.application, err = j.client.Applications.Create(j.key(ctx, "application"), lending.ApplicationRequest{
		CustomerID:       customer.ID,
		BusinessName:     "Lovelace Analytics",
		BusinessZip:      "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	if err != nil {
		return err
	}
	say(j.out, "Created application %s for Lovelace Analytics.", j.application)

	accepted, err := j.client.Applications.AddOrUpdateBankingData(j.key(ctx, "bank-data"), j.application, bankData(), nil)
	if err != nil {
		return err
	}
	say(j.out, "Sent the bank data of an account with three transactions. Accepted: %t.", accepted)

	if _, err := j.client.Applications.Process(j.key(ctx, "process"), j.application); err != nil {
		return err
	}
	offer, err := j.client.Applications.Offer(ctx, j.application, nil) // a read needs no key
	if err != nil {
		return err
	}
	var terms struct {
		Amount json.Number // exact, not a float
		Terms  int
	}
	if offer.Decode(&terms) == nil && terms.Amount != "" {
		say(j.out, "Processed the application. The service offers %s, repaid over %d months.", terms.Amount, terms.Terms)
	} else {
		say(j.out, "Processed the application. The offer of this service as JSON: %s", offer.Raw())
	}
	return nil
}

// approve goes from the offer to the signed contract.
func (j *journey) approve(ctx context.Context) error {
	say(j.out, "\nApproval")
	approval := j.client.Approval
	if err := approval.AddCompanyDetails(j.key(ctx, "company"), j.application, lending.CompanyDataRequest{
		Extra: map[string]string{"legalName": "Lovelace Analytics, LLC", "taxId": "12-3456789"},
	}); err != nil {
		return err
	}
	if err := approval.AddPrimaryApplicantDetails(j.key(ctx, "applicant"), j.application, lending.PrimaryApplicantRequest{
		Extra: map[string]string{"firstName": "Ada", "lastName": "Lovelace", "email": j.email},
	}); err != nil {
		return err
	}
	say(j.out, "Added the details of the company and the applicant.")

	type account struct{ ID, AccountName string }
	accounts, err := lending.ListAs[account](approval.BankAccounts(ctx, j.application))
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return errors.New("the application has no bank account")
	}
	if err := approval.SetPrimaryBankAccount(j.key(ctx, "account"), j.application, accounts[0].ID); err != nil {
		return err
	}
	say(j.out, "Chose the account %q for payments.", accounts[0].AccountName)
	if err := j.submitDocuments(ctx); err != nil {
		return err
	}
	return j.sign(ctx)
}

// submitDocuments uploads the required documents.
func (j *journey) submitDocuments(ctx context.Context) error {
	type requirement struct {
		SupportingDocumentID  lending.RequirementID
		FileType, Description string
	}
	required, err := lending.ListAs[requirement](j.client.Approval.RequiredDocuments(ctx, j.application))
	if err != nil {
		return err
	}
	scan := bytes.Repeat([]byte("%PDF "), 100_000) // a real program opens a file
	for _, wanted := range required {
		if err := j.client.Approval.SubmitRequiredDocument(j.key(ctx, "document/"+wanted.FileType), j.application,
			wanted.SupportingDocumentID, wanted.FileType,
			lending.Document{Name: "scan.pdf", Content: bytes.NewReader(scan)}); err != nil {
			return err
		}
		say(j.out, "The service asked for %q: uploaded %d bytes.", wanted.Description, len(scan))
	}
	return nil
}

// sign has every applicant sign the contract.
func (j *journey) sign(ctx context.Context) error {
	type applicant struct {
		ID                  lending.ApplicantID
		FirstName, LastName string
	}
	applicants, err := lending.ListAs[applicant](j.client.Approval.Applicants(ctx, j.application))
	if err != nil {
		return err
	}
	if len(applicants) == 0 {
		return errors.New("the reads do not show the applicant yet")
	}
	image := lending.SignatureImage([]byte("the picture of a signature"))
	for _, person := range applicants {
		if err := j.client.Approval.SignContract(j.key(ctx, "sign/"+person.ID.String()), j.application, person.ID,
			&lending.SignaturesRequest{
				IPAddress: "192.0.2.1", MIMEType: "image/png", Signature: image, Signature2: image,
			}); err != nil {
			return err
		}
		say(j.out, "%s %s signed the contract.", person.FirstName, person.LastName)
	}
	return nil
}

// withdraw finds the loan of the application and withdraws money.
func (j *journey) withdraw(ctx context.Context) error {
	say(j.out, "\nThe loan")
	loans, err := j.client.Loans.ListByCustomer(ctx, j.customer)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(loans, func(l lending.LoanResponse) bool { return l.ApplicationID == j.application })
	if at < 0 {
		return errors.New("the application has not led to a loan yet")
	}
	loan := loans[at].ID
	say(j.out, "Found loan %s among the customer's loans.", loan)

	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := j.client.Calculation.Invoice(j.key(ctx, "calculation"), j.application, &calculation); err != nil {
		return err
	}
	withdrawal, err := j.client.Loans.WithdrawInvoice(j.key(ctx, "withdraw"), loan,
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	say(j.out, "Started a withdrawal of %s. The service sends a one-time password.", withdrawal.Amount)

	confirmation := lending.WithdrawInvoiceRequestData{
		DateUTC: j.asked, // not time.Now(): each try has to send the same
		OTP:     lending.NewSecret(j.otp(loan)),
	}
	if _, err := j.client.Loans.ConfirmInvoiceWithdrawal(j.key(ctx, "confirm"), *withdrawal, confirmation); err != nil {
		return err
	}
	say(j.out, "Confirmed the withdrawal with the password. The service pays out the money.")

	type account struct{ TotalBalance, AvailableBalance json.Number }
	balance, err := lending.As[account](j.client.Loans.TotalBalance(ctx, loan))
	if err != nil {
		return err
	}
	say(j.out, "The balance is %s, and %s is still available.", balance.TotalBalance, balance.AvailableBalance)
	return nil
}

func bankData() *lending.BankingDataRequest {
	type fields map[string]any
	return &lending.BankingDataRequest{Extra: fields{"accounts": []fields{{
		"accountName": "Business checking", "accountNumber": "000123456789", "routingNumber": "110000000",
		"accountType": "checking", "balance": "48210.55",
		"transactions": []fields{
			{"date": "2026-08-03", "description": "Invoice 1041", "amount": "12500.00"},
			{"date": "2026-09-02", "description": "Invoice 1057", "amount": "14200.00"},
			{"date": "2026-10-05", "description": "Invoice 1072", "amount": "13900.00"},
		},
	}}}}
}
