package lending_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

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
	// lending: POST /api/Application/create-application: connection reset: outcome unknown, settle it with Applications.ListByCustomer
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

// What an offer says is not published: decode it as you have seen it. It can expire.
func ExampleApplicationsService_Offer() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{Amount: 12_500_00, Terms: 12}})
	application := lending.ApplicationID(uuid.MustParse(row.ID))

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
