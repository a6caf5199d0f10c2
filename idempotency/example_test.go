package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
)

// demo returns the embedded service, and a client of it.
func demo(opts ...lending.Option) (*lendingtest.Service, *lending.Client) {
	service := lendingtest.New()
	client := must(lending.New("https://lending.example", append(opts,
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))...))
	return service, client
}

func ada() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The answer is lost. The same call again finds the customer, and does not make another.
func Example() {
	service := lendingtest.NewServer()
	defer service.Close()
	address, credentials := service.URL, lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true})

	keys, err := idempotency.NewLog(store.NewMemory(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(keys))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, request := context.Background(), ada()
	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
	customer, err := client.Applications.CreateCustomer(ctx, request)
	fmt.Println(customer == nil, "outcome", lending.OutcomeOf(err))
	customer, err = client.Applications.CreateCustomer(ctx, request)
	fmt.Println(customer.ID, err)
	fmt.Println("customers made:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// true outcome unknown
	// 00000001-0001-4000-8000-000000000001 <nil>
	// customers made: 1
}

// A partner sends an order number along, in a field that is not published. With this number the
// program finds the application of its order.
func ExampleWithCheck() {
	service, client := demo(lending.WithIdempotency(must(idempotency.NewLog(store.NewMemory(), nil))))
	ctx := context.Background()
	customer := must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"}).ID))
	check := func(ctx context.Context) (idempotency.Verdict, error) {
		list, err := client.Applications.ListByCustomer(ctx, customer)
		if err != nil {
			return idempotency.Verdict{}, err
		}
		for _, application := range list {
			var known struct {
				ID               lending.ApplicationID
				ExtraInformation map[string]string
			}
			if err := application.Decode(&known); err != nil {
				return idempotency.Verdict{}, err
			}
			if known.ExtraInformation["order"] == "42" {
				return idempotency.Happened(known.ID), nil
			}
		}
		return idempotency.NotHappened(), nil
	}

	service.Fail("POST /api/Application/create-application", lendingtest.Fault{ResetAfter: true})
	keyed := idempotency.WithCheck(lending.WithIdempotencyKey(ctx, "order-42/application"), check)
	for range 2 {
		id, err := client.Applications.Create(keyed, lending.ApplicationRequest{
			CustomerID: customer, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
			ExtraInformation: map[string]string{"order": "42"},
		}, nil)
		fmt.Println(id, errors.Is(err, lending.ErrOutcomeUnknown))
	}
	// Output:
	// 00000000-0000-0000-0000-000000000000 true
	// 00000001-0002-4000-8000-000000000001 false
}

// No published field shows whether a link was sent. A person asks the customer.
func ExampleLog_Resolve() {
	keys := must(idempotency.NewLog(store.NewMemory(), nil))
	service, client := demo(lending.WithIdempotency(keys))
	loan := service.AddLoan(lendingtest.Loan{})
	application := must(lending.ParseApplicationID(loan.ApplicationID))
	service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{ResetAfter: true})

	ctx := context.Background()
	keyed := lending.WithIdempotencyKey(ctx, "order-42/link")
	for range 2 {
		err := client.Applications.SendLink(keyed, application)
		fmt.Println("needs review:", errors.Is(err, idempotency.ErrNeedsReview))
	}
	inDoubt, err := keys.Keys(ctx, idempotency.Filter{States: idempotency.InDoubtStates()})
	fmt.Println(len(inDoubt), inDoubt[0].Key, inDoubt[0].State, inDoubt[0].Age < time.Minute, err)
	said := idempotency.Resolution{By: "ada", Why: "the customer has it", Verdict: idempotency.Happened(nil)}
	err = keys.Resolve(ctx, "order-42/link", said)
	fmt.Println(err, client.Applications.SendLink(keyed, application))
	// Output:
	// needs review: false
	// needs review: true
	// 1 order-42/link needs_review true <nil>
	// <nil> <nil>
}
