package lendingtest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
)

// In a test nothing is late unless a fault says so: with a short MaxLateness the doubt about a lost request ends in
// milliseconds instead of minutes.
func Example_keyedMutation() {
	service := lendingtest.NewServer()
	defer service.Close()
	log, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lending.New(service.URL, lending.WithIdempotency(log),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	customer, err := lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID)
	if err != nil {
		fmt.Println(err)
		return
	}

	const route = "POST /api/Application/create-application"
	service.Fail(route, lendingtest.Fault{ResetBefore: true}) // the request is lost
	start := time.Now()
	ctx := lending.WithIdempotencyKey(context.Background(), "order-42/create-application")
	for {
		_, err = client.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: customer}, nil)
		if err == nil || !lending.NextOf(err).Retry {
			break
		}
	}
	fmt.Println(err, service.Arrived(route), service.Executed(route), time.Since(start) < time.Minute)
	// Output: <nil> 2 1 true
}
