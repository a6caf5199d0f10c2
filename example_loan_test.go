package lending_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

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

// No money moves yet: a one-time password is sent. Until somebody has entered it, keep
// the withdrawal as JSON; another process may confirm it.
func ExampleLoansService_WithdrawInvoice() {
	service, client := demo()
	row := service.AddLoan(lendingtest.Loan{})
	loan, application := lending.LoanID(uuid.MustParse(row.ID)), lending.ApplicationID(uuid.MustParse(row.ApplicationID))

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
