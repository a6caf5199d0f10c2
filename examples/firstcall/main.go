// Firstcall creates a customer. This is the program of the README.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

func main() {
	service := lendingtest.NewServer() // the service runs in this process; the real service has an https address
	defer service.Close()
	if err := createCustomer(context.Background(), service.URL); err != nil {
		log.Print(err)
	}
}

func createCustomer(ctx context.Context, baseURL string) error {
	client, err := lending.New(baseURL, lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken), // no two-factor code is needed
	}))
	if err != nil {
		return err
	}
	defer client.Close()

	customer, err := client.Applications.CreateCustomer(ctx, lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        "ada@example.com",
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return err
	}
	fmt.Println("created customer", customer.ID)
	return nil
}
