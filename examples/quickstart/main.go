// Quickstart does everything for a loan: sign-in with a two-factor code, customer, application,
// bank data, offer, approval, documents, signature, loan and withdrawal with an OTP. Meanwhile
// it receives webhooks.
//
// The program needs only Go, because it contains the service. With -base-url it calls a real
// service and ends with the offer:
//
//	LENDING_USERNAME=… LENDING_PASSWORD=… go run ./examples/quickstart -base-url https://… -email customer@…
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// settings has the address of the service and the account.
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
	username, password := getenv("LENDING_USERNAME"), getenv("LENDING_PASSWORD")
	given := []struct{ name, value string }{
		{"-base-url", *baseURL}, {"-email", *email}, {"LENDING_USERNAME", username}, {"LENDING_PASSWORD", password},
	}
	missing := slices.IndexFunc(given, func(setting struct{ name, value string }) bool { return setting.value == "" })
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q; the only settings are -base-url and -email", flags.Arg(0))
	case *baseURL+*email+username+password == "":
		return runEmbedded(ctx, out)
	case missing >= 0:
		return fmt.Errorf("%s is not set: a real service needs -base-url, -email, LENDING_USERNAME and LENDING_PASSWORD", given[missing].name)
	}
	codes := newPrompt(in, out)
	return runReal(ctx, out, settings{*baseURL, *email, lending.Credentials{
		Username:  username,
		Password:  lending.NewSecret(password),
		TwoFactor: codes.ask,
	}})
}

// runEmbedded does the whole journey with a service in this program.
func runEmbedded(ctx context.Context, out io.Writer) error {
	inbox, err := newReceiver()
	if err != nil {
		return err
	}
	defer inbox.Close()
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(inbox.server.Client()))
	defer service.Close()
	say(out, "The service runs inside this program. Nothing leaves this machine.")
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			say(out, "The username and password are correct. The service sends a two-factor code, which the program reads in place of a person with a phone.")
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}))
	if err != nil {
		return err
	}
	defer client.Close()

	say(out, "\nSign-in with the first call")
	if err := inbox.subscribe(ctx, out, client); err != nil {
		return err
	}
	say(out, "\nFrom customer to offer")
	customer, application, err := apply(ctx, out, client, "ada@example.com")
	if err != nil {
		return err
	}
	say(out, "\nApproval")
	if err := approve(ctx, out, client, application); err != nil {
		return err
	}
	say(out, "\nThe loan")
	sentCode := func(loan lending.LoanID) string { return service.OTP(loan.String()) }
	if err := draw(ctx, out, client, customer, application, sentCode); err != nil {
		return err
	}
	if err := service.Wait(ctx); err != nil { // for the deliveries in progress
		return err
	}
	say(out, "\nWebhooks received meanwhile, all with valid signatures: %s.", inbox)
	return nil
}

// runReal ends with the offer, because the fields of the approval are not published.
func runReal(ctx context.Context, out io.Writer, s settings) error {
	client, err := lending.New(s.baseURL, lending.WithCredentials(s.credentials))
	if err != nil {
		return err
	}
	defer client.Close()
	_, _, err = apply(ctx, out, client, s.email)
	return err
}

// prompt asks a person at the terminal for the codes that the service sends.
type prompt struct {
	out   io.Writer
	lines chan string // closed at the end of the input
}

// newPrompt reads in a goroutine, which ends with in or with the program. Go cannot cancel a
// read from a terminal.
func newPrompt(in io.Reader, out io.Writer) *prompt {
	p := &prompt{out, make(chan string)}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			p.lines <- strings.TrimSpace(scanner.Text())
		}
	}()
	return p
}

func (p *prompt) ask(ctx context.Context, _ lending.Challenge) (string, error) {
	say(p.out, "The service sent a two-factor code. Enter the code:")
	select {
	case line := <-p.lines:
		if line == "" {
			return "", errors.New("no code was entered")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func say(out io.Writer, format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
