package lendingtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// offerFor is code under test. It has an application processed, and where that may have
// happened although it failed finds out, instead of calling again.
func offerFor(ctx context.Context, client *lending.Client, application lending.ApplicationID) error {
	_, err := client.Applications.Process(ctx, application)
	if !errors.Is(err, lending.ErrMayHaveHappened) {
		return err
	}
	if _, look := client.Applications.Offer(ctx, application, nil); look != nil {
		return errors.Join(err, look) // there is none, or not yet: look again before calling again
	}
	return nil // it had happened
}

// A test runs the code against the service, at its worst, and asks the service what
// it did.
func Example_consumer() {
	const process = "GET /api/Application/process-application/{applicationId}"
	for _, fault := range []lendingtest.Fault{
		{}, {ResetBefore: true}, {ResetAfter: true}, {Status: 502, Executes: true}, {CutBody: -1},
	} {
		service := lendingtest.NewServer() // one for each test: they share nothing
		row := service.AddApplication(lendingtest.Application{Accounts: []lendingtest.BankAccount{{
			AccountNumber: "000123456789", Balance: "48210.55",
			Transactions: []lendingtest.BankTransaction{{Description: "Invoice 1001", Amount: "12500.00"}},
		}}})
		client, err := lending.New(service.URL,
			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
		if err != nil {
			fmt.Println(err)
			return
		}
		service.Fail(process, fault)
		application, err := lending.ParseApplicationID(row.ID)
		if err != nil {
			fmt.Println(err)
			return
		}

		err = offerFor(context.Background(), client, application)
		fmt.Println("offer:", err == nil, "arrived:", service.Arrived(process), "executed:", service.Executed(process))
		client.Close()
		service.Close()
	}
	// Output:
	// offer: true arrived: 1 executed: 1
	// offer: false arrived: 1 executed: 0
	// offer: true arrived: 1 executed: 1
	// offer: true arrived: 1 executed: 1
	// offer: true arrived: 1 executed: 1
}
