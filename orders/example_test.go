package orders_test

import (
	"context"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
)

func Example() {
	service := lendingtest.NewServer()
	defer service.Close()
	keys, err := idempotency.NewLog(store.NewMemory(), nil) // a program has a store that survives
	if err != nil {
		panic(err)
	}
	client, err := lending.New(service.URL,
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))),
		lending.WithIdempotency(keys))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // the response is lost

	ctx, stop := context.WithCancel(context.Background())
	table := map[string]string{"order-42": "ada@example.com"} // a program has a table
	list := func(context.Context) (open []string, _ error) {
		for order := range table {
			open = append(open, order)
		}
		return open, nil
	}
	step := func(ctx context.Context, order string) error {
		email, open := table[order]
		if !open { // another replica has ended the order
			return nil
		}
		ctx = lending.WithIdempotencyKey(ctx, order+"/create-customer")
		_, err := client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: email,
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "(415) 555-0100",
		})
		if err == nil {
			stop() // a program records that the order is done
		} else if !lending.NextOf(err).Retry {
			delete(table, order) // a program records that the order is over, and the reason
		}
		return err
	}
	worker, err := orders.New(list, step, &orders.Options{Report: func(r orders.Result) {
		if r.Err != nil {
			fmt.Println(r.Order+":", r.Next)
		}
	}})
	if err != nil {
		panic(err)
	}
	_ = worker.Run(ctx)
	fmt.Println("customers created:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// order-42: retry
	// customers created: 1
}
