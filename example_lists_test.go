package lending_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

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

	page, err := client.Loans.TransactionsPaged(context.Background(), must(lending.ParseLoanID(row.ID)), &lending.PagedOptions{
		Skip: 400, Take: lending.MaxTake, Descending: true,
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
	for withdrawal, err := range client.Loans.AllWithdrawals(context.Background(), must(lending.ParseLoanID(row.ID)), newest) {
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
