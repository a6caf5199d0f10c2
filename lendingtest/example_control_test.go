package lendingtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// The answer is lost, and the message is posted a moment later: who looks at once and
// sees nothing must not conclude that it did not happen.
func ExampleFault() {
	service := lendingtest.NewServer()
	defer service.Close()
	client := clientOf(service.Service, service.URL)
	defer client.Close()
	application := must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))

	const route = "POST /api/Communication/post-messages/{applicationId}"
	service.Fail(route, lendingtest.Fault{Late: 10 * time.Millisecond})
	err := client.Communication.Post(context.Background(), application,
		&lending.CommunicationRequest{Extra: map[string]string{"message": "hello"}})
	fmt.Println("unknown:", errors.Is(err, lending.ErrOutcomeUnknown))
	err = service.Wait(context.Background())
	fmt.Println("executed:", service.Executed(route), err)
	// Output:
	// unknown: true
	// executed: 1 <nil>
}

// Was any application made twice? The count is by customer, by his e-mail, and by
// application.
func ExampleService_ExecutedFor() {
	service := lendingtest.NewServer()
	defer service.Close()
	client := clientOf(service.Service, service.URL)
	defer client.Close()

	customer := service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"})
	for range 2 { // somebody has tried again
		_, _ = client.Applications.Create(context.Background(), lending.ApplicationRequest{
			CustomerID: must(lending.ParseCustomerID(customer.ID)), BusinessName: "Lovelace & Sons", BusinessZip: "10001",
		}, nil)
	}
	made := service.ExecutedFor("POST /api/Application/create-application")
	fmt.Println(made[customer.ID], made["ada@example.com"], made["grace@example.com"])
	// Output: 2 2 0
}

// A read that comes too early finds nothing.
func ExampleWithReadLag() {
	service := lendingtest.NewServer(lendingtest.WithReadLag(5 * time.Second))
	defer service.Close()
	client := clientOf(service.Service, service.URL)
	defer client.Close()

	made := must(client.Applications.CreateCustomer(context.Background(), lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
	}))
	_, err := client.Customers.GetByID(context.Background(), made.ID)
	fmt.Println(lending.IsNotFound(err))
	service.Advance(5 * time.Second)
	_, err = client.Customers.GetByID(context.Background(), made.ID)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Another process steers the service. Here both are one.
func ExampleNewServer_control() {
	service := lendingtest.New()
	mux := http.NewServeMux()
	mux.Handle("/api/", service)
	mux.Handle("/_control/", control.New(service, nil))
	server := httptest.NewServer(mux)
	defer server.Close()

	const route = "POST /api/Authenication/login"
	order := `{"route":"` + route + `","fault":{"status":502,"executes":true}}`
	planned, err := http.Post(server.URL+"/_control/fail", "application/json", strings.NewReader(order))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer planned.Body.Close()
	fmt.Println(planned.Status)
	fmt.Println(login(server.Client(), server.URL))
	executed, err := http.Get(server.URL + "/_control/executed?route=" + url.QueryEscape(route))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer executed.Body.Close()
	fmt.Printf("%s", must(io.ReadAll(executed.Body)))
	// Output:
	// 204 No Content
	// 502 Bad Gateway
	// 1
}
