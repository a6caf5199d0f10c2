//go:build unix

package lendingredis_test

import (
	"context"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

// The replicas of a program share a token, so a person enters one code.
func ExampleNewTokenStore() {
	rdb, stop := exampleRedis() // use redis.NewClient or NewClusterClient instead
	defer stop()
	service := lendingtest.NewServer()
	defer service.Close()
	partner := must(lending.ParsePartnerID(lendingtest.PartnerID))
	replica := func() error {
		tokens, err := lendingredis.NewTokenStore(rdb, "lending:token")
		if err != nil {
			return err
		}
		client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(context.Context, lending.Challenge) (string, error) {
				return service.TwoFactorCode(lendingtest.Username), nil // a person reads the code from a phone
			},
		}), lending.WithTokenStore(tokens))
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Applications.ListByPartner(context.Background(), partner, nil)
		return err
	}
	for range 3 {
		fmt.Println("failed:", replica())
	}
	fmt.Println("codes sent:", len(service.Sent()))
	// Output:
	// failed: <nil>
	// failed: <nil>
	// failed: <nil>
	// codes sent: 1
}
