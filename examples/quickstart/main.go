// Quickstart signs in with a two-factor code, creates a customer and an application,
// sends bank data, has the application processed, and reads the offer.
//
// It needs nothing but Go: the service runs inside it. With -base-url it goes through
// the same steps at a real service:
//
//	LENDING_USERNAME=… LENDING_PASSWORD=… go run ./examples/quickstart -base-url https://… -email customer@…
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		stop()
		os.Exit(1)
	}
}

// settings is where the journey goes, and as whom.
type settings struct {
	baseURL     string
	email       string
	credentials lending.Credentials
}

func run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(out)
	baseURL := flags.String("base-url", "", "address of a real service; without it the embedded one is used")
	email := flags.String("email", "", "e-mail address of the customer to create at a real service")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *baseURL == "" {
		return runEmbedded(ctx, out)
	}
	password := getenv("LENDING_PASSWORD")
	for _, setting := range []struct{ name, value string }{
		{"-email", *email}, {"LENDING_USERNAME", getenv("LENDING_USERNAME")}, {"LENDING_PASSWORD", password},
	} {
		if setting.value == "" {
			return fmt.Errorf("%s is not set: a real service needs -base-url, -email, LENDING_USERNAME and LENDING_PASSWORD", setting.name)
		}
	}
	return journey(ctx, out, settings{*baseURL, *email, lending.Credentials{
		Username:  getenv("LENDING_USERNAME"),
		Password:  lending.NewSecret(password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) { return askForCode(in, out) },
	}})
}

// runEmbedded goes through the journey at a service that runs in this program.
func runEmbedded(ctx context.Context, out io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	say(out, "The embedded service is running: nothing leaves this machine.")
	return journey(ctx, out, settings{service.URL, "ada@example.com", lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			say(out, "The service sent a two-factor code; the program reads it where a person would look at a phone.")
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}})
}

// journey leads from the sign-in to the offer.
func journey(ctx context.Context, out io.Writer, s settings) error {
	client, err := lending.New(s.baseURL, lending.WithCredentials(s.credentials))
	if err != nil {
		return err
	}
	defer client.Close()

	say(out, "Creating a customer. The first call signs in.")
	customer, err := client.Applications.CreateCustomer(ctx, lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        s.email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return err
	}
	say(out, "Signed in and created customer %s.", customer.ID)

	application, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID:       customer.ID,
		BusinessName:     "Lovelace Analytics",
		BusinessZip:      "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	if err != nil {
		return err
	}
	say(out, "Created application %s: a line of credit for Lovelace Analytics.", application)

	accepted, err := client.Applications.AddOrUpdateBankingData(ctx, application, bankData(), nil)
	if err != nil {
		return err
	}
	say(out, "Sent bank data, one account with three transactions: accepted is %t.", accepted)

	offerID, err := client.Applications.Process(ctx, application)
	if errors.Is(err, lending.ErrOutcomeUnknown) {
		say(out, "Whether the application was processed is unknown. It is not sent again: the status tells.")
	} else if err != nil {
		return err
	} else {
		say(out, "Processed the application, once. It led to offer %s.", offerID)
	}

	status, err := client.Applications.Status(ctx, application)
	if err != nil {
		return err
	}
	say(out, "The application's status is %q.", status)

	offer, err := client.Applications.Offer(ctx, application, nil)
	if err != nil {
		return err
	}
	return describe(out, offer)
}

// describe tells what the offer says. Its fields are not published: these two are the
// embedded service's, and a record of other fields is shown as it came.
func describe(out io.Writer, offer *lending.OfferResponse) error {
	var terms struct {
		Amount json.Number
		Terms  int
	}
	if err := offer.Decode(&terms); err != nil {
		return err
	}
	if terms.Amount == "" {
		say(out, "The offer, as the service wrote it: %s", offer.Raw())
		return nil
	}
	say(out, "The service offers %s, to be paid back in %d months.", terms.Amount, terms.Terms)
	return nil
}

// The names in the bank data are those of the embedded service: the interface does
// not publish them. A partner's own struct goes here.
type (
	bankAccounts struct {
		Accounts []bankAccount `json:"accounts"`
	}
	bankAccount struct {
		AccountName   string            `json:"accountName"`
		AccountNumber string            `json:"accountNumber"`
		RoutingNumber string            `json:"routingNumber"`
		AccountType   string            `json:"accountType"`
		Balance       string            `json:"balance"`
		Transactions  []bankTransaction `json:"transactions"`
	}
	bankTransaction struct {
		Date        string `json:"date"`
		Description string `json:"description"`
		Amount      string `json:"amount"`
	}
)

func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: bankAccounts{[]bankAccount{{
		AccountName:   "Business checking",
		AccountNumber: "000123456789",
		RoutingNumber: "110000000",
		AccountType:   "checking",
		Balance:       "48210.55",
		Transactions: []bankTransaction{
			{"2026-08-03", "Invoice 1041", "12500.00"},
			{"2026-09-02", "Invoice 1057", "14200.00"},
			{"2026-10-05", "Invoice 1072", "13900.00"},
		},
	}}}}
}

// askForCode asks the person at the terminal for the code that the service sent.
func askForCode(in io.Reader, out io.Writer) (string, error) {
	fmt.Fprint(out, "The service sent a two-factor code. Enter it: ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if code := strings.TrimSpace(line); code != "" {
		return code, nil
	}
	return "", errors.Join(errors.New("no code was entered"), err)
}

func say(out io.Writer, format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
