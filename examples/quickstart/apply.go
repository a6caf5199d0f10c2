package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/lendingapi/lending-go"
)

// apply goes from a customer to an offer.
func apply(ctx context.Context, out io.Writer, client *lending.Client, email string) (lending.CustomerID, lending.ApplicationID, error) {
	customer, err := client.Applications.CreateCustomer(ctx, lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return lending.CustomerID{}, lending.ApplicationID{}, err
	}
	say(out, "Created customer %s.", customer.ID)

	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID:       customer.ID,
		BusinessName:     "Lovelace Analytics",
		BusinessZip:      "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	if err != nil {
		return customer.ID, application, err
	}
	say(out, "Created application %s for Lovelace Analytics.", application)

	accepted, err := client.Applications.AddOrUpdateBankingData(ctx, application, bankData(), nil)
	if err != nil {
		return customer.ID, application, err
	}
	say(out, "Sent the bank data of an account with three transactions. Accepted: %t.", accepted)

	return customer.ID, application, process(ctx, out, client, application)
}

// process runs the application through underwriting, once, and prints the outcome.
func process(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID) error {
	offerID, err := client.Applications.Process(ctx, application)
	switch {
	case errors.Is(err, lending.ErrMayHaveHappened):
		say(out, "The outcome is unknown: the service may have processed the application. The program does not send the command again and reads the status.")
	case err != nil:
		return err
	default:
		say(out, "Processed the application. The result is offer %s.", offerID)
	}

	status, err := client.Applications.Status(ctx, application)
	if err != nil {
		return err
	}
	say(out, "The application's status is %q.", status)

	offer, err := client.Applications.Offer(ctx, application, nil)
	if err != nil {
		return err
	}
	return describe(out, offer)
}

// describe prints the offer. Its fields are not published: these two are the fields of the
// embedded service. An offer with other fields is printed as JSON.
func describe(out io.Writer, offer *lending.OfferResponse) error {
	var terms struct {
		Amount json.Number
		Terms  int
	}
	if err := offer.Decode(&terms); err != nil {
		return err
	}
	if terms.Amount == "" {
		say(out, "The offer as JSON: %s", offer.Raw())
		return nil
	}
	say(out, "The service offers %s, repaid over %d months.", terms.Amount, terms.Terms)
	return nil
}

// The names in the bank data are the names of the embedded service, because the real names are
// not published. Use a struct of your own here.
type (
	bankAccounts struct {
		Accounts []bankAccount `json:"accounts"`
	}
	bankAccount struct {
		AccountName   string            `json:"accountName"`
		AccountNumber string            `json:"accountNumber"`
		RoutingNumber string            `json:"routingNumber"`
		AccountType   string            `json:"accountType"`
		Balance       string            `json:"balance"`
		Transactions  []bankTransaction `json:"transactions"`
	}
	bankTransaction struct {
		Date        string `json:"date"`
		Description string `json:"description"`
		Amount      string `json:"amount"`
	}
)

func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: bankAccounts{[]bankAccount{{
		AccountName:   "Business checking",
		AccountNumber: "000123456789",
		RoutingNumber: "110000000",
		AccountType:   "checking",
		Balance:       "48210.55",
		Transactions: []bankTransaction{
			{"2026-08-03", "Invoice 1041", "12500.00"},
			{"2026-09-02", "Invoice 1057", "14200.00"},
			{"2026-10-05", "Invoice 1072", "13900.00"},
		},
	}}}}
}
