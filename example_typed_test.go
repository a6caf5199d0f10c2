package lending_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

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

// A command whose answer does not decode has happened. The record tells what came of it.
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
