package probe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/probe"
)

func ExampleWatch() {
	service := lendingtest.NewServer()
	defer service.Close()
	address, loan := service.URL, service.AddLoan(lendingtest.Loan{}).ID
	credentials := lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username)))
	id, err := lending.ParseLoanID(loan)
	if err != nil {
		panic(err)
	}

	watcher := probe.Watch(nil, func(change string) { slog.Warn("lending", "change", change) })
	client, err := lending.New(address, credentials, lending.WithObserver(watcher.Observe, nil))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if _, err := client.Loans.IsClosed(context.Background(), id); err != nil {
		panic(err)
	}

	learned, err := json.Marshal(watcher.Service().Shapes)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(learned))
	// Output: {"GET /api/Loan/is-loan-closed/{loanId}":{"kinds":{"boolean":1}}}
}
