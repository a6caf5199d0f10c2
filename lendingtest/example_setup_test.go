package lendingtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// clientOf returns a client of a service that listens at address.
func clientOf(service *lendingtest.Service, address string) *lending.Client {
	token := lending.StaticToken(service.Token(lendingtest.Username))
	return must(lending.New(address, lending.WithTokenSource(token)))
}

// In a server of the program's own, here below a path, beside something else.
func ExampleService() {
	service := lendingtest.New(lendingtest.WithBasePath("/lending"))
	mux := http.NewServeMux()
	mux.Handle("/lending/", service)
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "1") })
	server := httptest.NewServer(mux)
	defer server.Close()
	client := clientOf(service, server.URL+"/lending")
	defer client.Close()

	application := service.AddApplication(lendingtest.Application{})
	status, err := client.Applications.Status(context.Background(), must(lending.ParseApplicationID(application.ID)))
	fmt.Println(status, err)
	// Output: Application Created <nil>
}

// What the model does not know can be answered by hand, here a status of another kind.
func ExampleService_Answer() {
	service := lendingtest.NewServer()
	defer service.Close()
	client := clientOf(service.Service, service.URL)
	defer client.Close()
	service.Answer("GET /api/Application/application-status/{applicationId}",
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `"On Hold"`)
		})

	status, err := client.Applications.Status(context.Background(), lending.ApplicationID(uuid.New()))
	fmt.Println(status, err)
	// Output: On Hold <nil>
}

// A token lives an hour. After two the service refuses it, and the client signs in anew.
func ExampleService_Advance() {
	service := lendingtest.NewServer()
	defer service.Close()
	client := must(lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	})))
	defer client.Close()

	loan := must(lending.ParseLoanID(service.AddLoan(lendingtest.Loan{}).ID))
	for range 2 {
		_, err := client.Loans.Get(context.Background(), loan)
		fmt.Println(err, "sign-ins:", service.Executed("POST /api/Authenication/login"))
		service.Advance(2 * time.Hour)
	}
	// Output:
	// <nil> sign-ins: 1
	// <nil> sign-ins: 2
}
