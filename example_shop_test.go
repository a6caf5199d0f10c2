package lending_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jarcoal/httpmock"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// shop calls the five routes of README.
func shop(ctx context.Context, client *lending.Client, request lending.UserRequest, loan lending.LoanID) error {
	customer, err := client.Applications.CreateCustomer(ctx, request)
	if err != nil {
		return err
	}
	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: customer.ID}, nil)
	if err != nil {
		return err
	}
	statement := lending.Document{Name: "statement.pdf", Content: strings.NewReader("%PDF")} // or an *os.File
	if err := client.Applications.SubmitBankStatement(ctx, application, statement); err != nil {
		return err
	}
	status, err := client.Applications.Status(ctx, application)
	if err != nil {
		return err
	}
	fmt.Println("the application is", status)
	for payment, err := range lending.AllAs[Payment](client.Loans.AllTransactions(ctx, loan, nil)) {
		if err != nil {
			return err
		}
		fmt.Println(payment.ID, payment.Amount)
	}
	return nil
}

// answer returns the status for the shop's own customer.
func answer(err error) int {
	var argument *lending.ArgumentError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &argument): // nothing was sent; argument.Fields has the fields of the request
		return http.StatusBadRequest
	case lending.IsNotFound(err):
		return http.StatusNotFound
	}
	return http.StatusBadGateway
}

// Example_shop calls five routes for a web shop: two records, an upload, a status and a list.
func Example_shop() {
	service, client := demo()
	loan := service.AddLoan(lendingtest.Loan{})
	service.AddTransactions(loan.ID, lendingtest.Transaction{Amount: 10})
	err := shop(context.Background(), client, ada(), must(lending.ParseLoanID(loan.ID)))
	fmt.Println(answer(err))
	_, err = client.Applications.CreateCustomer(context.Background(), lending.UserRequest{Email: "ada"})
	fmt.Println(answer(err))
	// Output:
	// the application is Application Created
	// 00000001-0009-4000-8000-000000000001 0.10
	// 200
	// 400
}

// httpmock intercepts in three ways. Each needs WithHTTPClient, and httpmock before New: the client's own
// transport ignores a plain httpmock.Activate, so the test would call the network.
func ExampleWithReadRetries() {
	httpmock.Activate()
	defer httpmock.DeactivateAndReset()
	single := &http.Client{}
	httpmock.ActivateNonDefault(single)
	for _, hc := range []*http.Client{
		{Transport: httpmock.NewMockTransport()}, // for parallel tests
		single,                                   // after ActivateNonDefault(single)
		{},                                       // without a Transport, after Activate
	} {
		client, err := lending.New("https://lending.example", lending.WithHTTPClient(hc), lending.WithReadRetries(0),
			lending.WithTokenSource(lending.StaticToken("any-token")))
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = client.Applications.Status(context.Background(), lending.ApplicationID(uuid.New()))
		fmt.Println(err)
	}
	// Output:
	// lending: GET /api/Application/application-status/{applicationId}: the http.Client failed: no responder found
	// lending: GET /api/Application/application-status/{applicationId}: the http.Client failed: no responder found
	// lending: GET /api/Application/application-status/{applicationId}: the http.Client failed: no responder found
}
