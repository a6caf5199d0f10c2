// Paging reads the thousand transactions of a loan and never holds more than two pages in
// memory. It reads all transactions, then only the latest, and then continues after an error.
//
// The program needs only Go, because it contains the service:
//
//	go run ./examples/paging
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const pagedRoute = "GET /api/Loan/get-transactions-paged/{loanId}"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "paging:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		return err
	}
	defer client.Close()
	loan, err := seed(service)
	if err != nil {
		return err
	}

	// ReadAhead fetches the next page while the loop works on the current page.
	n, sum, err := total(client.Loans.AllTransactionsPaged(ctx, loan, &lending.PagedOptions{ReadAhead: true}))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The sum of all %d transactions, read in %d calls, is %s.\n", n, service.Arrived(pagedRoute), sum.FloatString(2))

	if err := latest(ctx, stdout, client, loan); err != nil {
		return err
	}
	return resume(ctx, stdout, service, client, loan)
}

// seed gives a loan a thousand transactions and returns its id.
func seed(service *lendingtest.Server) (lending.LoanID, error) {
	id := service.AddLoan(lendingtest.Loan{}).ID
	rows := make([]lendingtest.Transaction, 1000)
	for i := range rows {
		rows[i] = lendingtest.Transaction{
			Type: "repayment", Amount: lendingtest.Cents(100_00 + i), Description: fmt.Sprintf("Repayment %d", i+1),
			DateUTC: lendingtest.Timestamp{Time: time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC)},
		}
	}
	service.AddTransactions(id, rows...)
	return lending.ParseLoanID(id)
}

// total returns the exact sum of the amounts.
func total(transactions iter.Seq2[lending.Transaction, error]) (n int, sum *big.Rat, err error) {
	sum = new(big.Rat)
	for transaction, err := range transactions {
		if err != nil {
			return n, sum, err
		}
		var moved struct{ Amount json.Number }
		if err := transaction.Decode(&moved); err != nil {
			return n, sum, err
		}
		amount, ok := new(big.Rat).SetString(moved.Amount.String())
		if !ok {
			return n, sum, errors.New("an amount is not a number")
		}
		sum.Add(sum, amount)
		n++
	}
	return n, sum, nil
}

// latest prints the last three transactions. The break fetches no further page.
func latest(ctx context.Context, out io.Writer, client *lending.Client, loan lending.LoanID) error {
	n := 0
	for transaction, err := range client.Loans.AllTransactionsPaged(ctx, loan, &lending.PagedOptions{Take: 3, Descending: true}) {
		if err != nil {
			return err
		}
		var moved struct {
			Amount      json.Number
			Description string
		}
		if err := transaction.Decode(&moved); err != nil {
			return err
		}
		fmt.Fprintf(out, "Latest: %s, %s.\n", moved.Description, moved.Amount)
		if n++; n == 3 {
			break
		}
	}
	return nil
}

// resume reads until the service rejects a page, and continues with this page.
func resume(ctx context.Context, out io.Writer, service *lendingtest.Server, client *lending.Client, loan lending.LoanID) error {
	before := service.Arrived(pagedRoute)
	refuseThird := func() {
		if service.Arrived(pagedRoute) == before+2 {
			service.Fail(pagedRoute, lendingtest.Fault{Status: http.StatusForbidden})
		}
	}
	n := 0
	var failed *lending.PageError
	for _, err := range client.Loans.AllTransactionsPaged(ctx, loan, nil) {
		if errors.As(err, &failed) {
			break
		}
		if err != nil {
			return err
		}
		n++
		if n%200 == 0 {
			refuseThird()
		}
	}
	if failed == nil {
		return errors.New("no page was rejected")
	}
	fmt.Fprintf(out, "After %d transactions a page fails: %v\n", n, failed)

	rest, _, err := total(client.Loans.AllTransactionsPaged(ctx, loan, &lending.PagedOptions{Skip: failed.Skip}))
	fmt.Fprintf(out, "The loop continues at %d and reads the other %d.\n", failed.Skip, rest)
	return err
}
