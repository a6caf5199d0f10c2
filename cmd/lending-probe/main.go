// Command lending-probe measures at a service the assumptions of package lending about the
// service. It prints the result for each assumption and the settings to change, and writes
// service.json, which has names, types, statuses and durations, and no value of a record.
//
//	LENDING_USERNAME=… LENDING_PASSWORD=… lending-probe -url https://staging.example
//
// Without further flags the probe only reads. The exit status is 0 if every measured assumption
// held, 1 if some differ, and 2 if the run could not end.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/probe"
)

const usage = `usage: lending-probe -url URL [flags]

The variables LENDING_USERNAME and LENDING_PASSWORD name the account. A code is asked for on
the terminal, unless LENDING_TRUSTED_DEVICE_TOKEN is set.

Levels
  look     reads only: the default
  walk     with -create: a marked customer with an application up to the offer

Flags
`

// The exit statuses.
const (
	exitDiffers = 1
	exitFailed  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// settings are the values of the flags.
type settings struct {
	probe.Options

	bankData, listen, out, against string
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = s.complete(getenv, bufio.NewReader(stdin), stdout)
	}
	stop := func() {}
	if err == nil && s.WebhookURL != "" {
		s.Listen, stop, err = listener(ctx, s.listen)
	}
	if err != nil {
		fmt.Fprintln(stderr, "lending-probe:", err)
		return exitFailed
	}
	defer stop()
	result := probe.Run(&terminal{ctx, stdout}, s.Options)
	if result.Service != nil {
		fmt.Fprintln(stdout)
		result.Print(stdout)
	}
	err = result.Err
	if err == nil && s.out != "" {
		if err = result.Service.Save(s.out); err == nil {
			fmt.Fprintln(stdout, "\nWrote", s.out)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	for _, f := range result.Findings {
		if f.State == probe.Differs {
			return exitDiffers
		}
	}
	return 0
}

// terminal is the reporter of a command line. The table shows the differences.
type terminal struct {
	ctx context.Context //nolint:containedctx // as in a *testing.T
	out io.Writer
}

func (t *terminal) Context() context.Context          { return t.ctx }
func (t *terminal) Helper()                           {}
func (t *terminal) Logf(format string, args ...any)   { fmt.Fprintf(t.out, format+"\n", args...) }
func (t *terminal) Errorf(format string, args ...any) {}

func parse(args []string, stderr io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("lending-probe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&s.BaseURL, "url", "", "address of the service")
	flags.TextVar(&s.Partner, "partner", lending.PartnerID{}, "partner whose lists to read")
	flags.TextVar(&s.Customer, "customer", lending.CustomerID{}, "customer to read, besides those of the partner's first applications")
	flags.TextVar(&s.Loan, "loan", lending.LoanID{}, "loan to read, besides the first of the customers")
	flags.BoolVar(&s.Create, "create", false, "create a marked customer and an application, and cancel the application in the end")
	flags.StringVar(&s.Email, "email", "", "an e-mail address of yours, of which -create makes a variant")
	flags.StringVar(&s.bankData, "bank-data", "", "file with the bank data of the application, a JSON object")
	flags.StringVar(&s.WebhookURL, "webhooks", "", "https address that reaches -listen, for the webhooks of the new customer")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8090", "address to receive webhooks on")
	flags.StringVar(&s.File, "created", "lending-probe.created.jsonl", "file to which -create appends a line for each record")
	flags.StringVar(&s.out, "out", "service.json", "file to write; with -against only if it is set")
	flags.StringVar(&s.against, "against", "", "service.json of an earlier run, to report its changes")
	flags.DurationVar(&s.LagLimit, "lag-limit", time.Minute, "longest wait for an effect")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%q is not a flag; flags begin with a hyphen", flags.Arg(0))
	}
	named := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { named[f.Name] = true })
	if named["against"] && !named["out"] {
		s.out = ""
	}
	if s.BaseURL == "" {
		return s, errors.New("-url is missing")
	}
	return s, nil
}

// complete adds to the options the account, the questions to a person and the files.
func (s *settings) complete(getenv func(string) string, in *bufio.Reader, out io.Writer) (err error) {
	s.Credentials = lending.Credentials{
		Username: getenv("LENDING_USERNAME"), Password: lending.NewSecret(getenv("LENDING_PASSWORD")),
		TrustedDeviceToken: lending.NewSecret(getenv("LENDING_TRUSTED_DEVICE_TOKEN")),
		TwoFactor: func(ctx context.Context, _ lending.Challenge) (string, error) {
			fmt.Fprint(out, "The service has sent a two-factor code. Enter the code: ")
			line, err := in.ReadString('\n')
			if text := strings.TrimSpace(line); text != "" {
				return text, nil
			}
			return "", errors.Join(errors.New("nothing was entered"), err, ctx.Err())
		},
	}
	if s.Credentials.Username == "" || s.Credentials.Password.IsZero() {
		return errors.New("set LENDING_USERNAME and LENDING_PASSWORD")
	}
	if s.out != "" {
		err = writable(s.out)
	}
	if err == nil && s.against != "" {
		s.Against, err = probe.Load(s.against)
	}
	if err != nil {
		return err
	}
	if s.bankData != "" {
		text, err := os.ReadFile(s.bankData) //nolint:gosec // the file of a flag
		if err != nil {
			return err
		}
		if !json.Valid(text) {
			return fmt.Errorf("%s is not JSON", s.bankData)
		}
		s.BankData = &lending.BankingDataRequest{Extra: json.RawMessage(text)}
	}
	return nil
}

// writable returns an error if Save cannot write a file.
func writable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() { //nolint:gosec // the file of a flag
		return fmt.Errorf("%s is a folder; name a file", path)
	}
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	return errors.Join(next.Close(), os.Remove(next.Name())) //nolint:gosec // the file of a flag
}

func listener(ctx context.Context, addr string) (listen func(http.Handler), stop func(), err error) {
	var config net.ListenConfig
	port, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	return func(h http.Handler) {
		server.Handler = h
		go func() { _ = server.Serve(port) }() // ends with Close
	}, func() { _ = errors.Join(server.Close(), port.Close()) }, nil
}
