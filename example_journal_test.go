package lending_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The answer is lost. The same call again finds the customer, and does not make another.
func ExampleWithKey() {
	journal := lending.NewJournal(lending.NewMemoryJournalStore(), nil)
	service, client := demo(lending.WithJournal(journal))
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true})

	ctx, request := context.Background(), ada()
	ctx = lending.WithKey(ctx, "order-42/create-customer")
	customer, err := client.Applications.CreateCustomer(ctx, request)
	fmt.Println(customer == nil, err)
	customer, err = client.Applications.CreateCustomer(ctx, request)
	fmt.Println(customer.ID, err)
	fmt.Println("customers made:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// true lending: POST /api/Application/create-customer: connection reset: outcome unknown, settle it with Customers.GetByEmail
	// 00000001-0001-4000-8000-000000000001 <nil>
	// customers made: 1
}

// A partner sends his order number along, which the service keeps in a field that it does not
// publish. With it he tells his application from any other.
func ExampleSettleWith() {
	service, client := demo(lending.WithJournal(lending.NewJournal(lending.NewMemoryJournalStore(), nil)))
	ctx := context.Background()
	customer := must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"}).ID))
	look := func(ctx context.Context) (lending.Verdict, error) {
		list, err := client.Applications.ListByCustomer(ctx, customer)
		if err != nil {
			return lending.Verdict{}, err
		}
		for _, application := range list {
			var known struct {
				ID               lending.ApplicationID
				ExtraInformation map[string]string
			}
			if err := application.Decode(&known); err != nil {
				return lending.Verdict{}, err
			}
			if known.ExtraInformation["order"] == "42" {
				return lending.Happened(known.ID), nil
			}
		}
		return lending.NotHappened(), nil
	}

	service.Fail("POST /api/Application/create-application", lendingtest.Fault{ResetAfter: true})
	for range 2 {
		id, err := client.Applications.Create(lending.WithKey(ctx, "order-42/application", lending.SettleWith(look)), lending.ApplicationRequest{
			CustomerID: customer, BusinessName: "Lovelace Analytics", BusinessZip: "94105", ExtraInformation: map[string]string{"order": "42"},
		}, nil)
		fmt.Println(id, errors.Is(err, lending.ErrOutcomeUnknown))
	}
	// Output:
	// 00000000-0000-0000-0000-000000000000 true
	// 00000001-0002-4000-8000-000000000001 false
}

// Nothing that is published shows whether a link was sent. A person asks the customer.
func ExampleJournal_Resolve() {
	journal := lending.NewJournal(lending.NewMemoryJournalStore(), nil)
	service, client := demo(lending.WithJournal(journal))
	loan := service.AddLoan(lendingtest.Loan{})
	application := must(lending.ParseApplicationID(loan.ApplicationID))
	service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{ResetAfter: true})

	ctx := context.Background()
	keyed := lending.WithKey(ctx, "order-42/link")
	for range 2 {
		err := client.Applications.SendLink(keyed, application)
		fmt.Println("undecided:", errors.Is(err, lending.ErrUndecided))
	}
	unsettled, err := journal.Unsettled(ctx, 10)
	fmt.Println(len(unsettled), unsettled[0].Key, unsettled[0].State, unsettled[0].Age < time.Minute, err)
	err = journal.Resolve(ctx, "order-42/link", lending.Resolution{By: "ada", Why: "the customer has it", Verdict: lending.Happened(nil)})
	fmt.Println(err, client.Applications.SendLink(keyed, application))
	// Output:
	// undecided: false
	// undecided: true
	// 1 order-42/link undecided true <nil>
	// <nil> <nil>
}
