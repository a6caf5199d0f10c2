// Fields learns the fields of the service's records from its responses and prints Go structs for
// them. The structs have names and types, and comments for optional fields, null, several types,
// money and times. Fields never prints or saves a value.
//
// The program needs only Go, because it contains the service. There are two other sources:
//
//   - Captures of your own traffic: an HTTP archive (HAR) from a browser or a proxy, or lines
//     such as {"route": "GET /api/Loan/get-loan/{loanId}", "body": …}.
//   - The records of a customer at a real service.
//
// The commands:
//
//	go run ./examples/fields > records.go
//	go run ./examples/fields -state fields.json capture.har > records.go
//	LENDING_USERNAME=… LENDING_PASSWORD=… go run ./examples/fields -base-url https://… -customer … -partner … > records.go
//
// With -state the program saves its knowledge in a file, adds to this file at the next run and
// prints the changes. LENDING_TRUSTED_DEVICE_TOKEN is for an account with a second factor. The
// function observe in walk.go shows how a program can learn from its own calls.
//
// Check the output before you publish it: a name such as "ada" in an object with arbitrary keys
// looks like a field name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/shapes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var from whose
	flags := flag.NewFlagSet("fields", flag.ContinueOnError)
	flags.SetOutput(stderr)
	baseURL := flags.String("base-url", "", "address of a real service")
	flags.TextVar(&from.customer, "customer", lending.CustomerID{}, "customer whose records to read")
	flags.TextVar(&from.partner, "partner", lending.PartnerID{}, "partner whose lists to read")
	state := flags.String("state", "", "file for the learned fields")
	pkg := flags.String("package", "main", "package of the structs")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}

	l := newLearner(stderr)
	for _, path := range flags.Args() {
		if err := l.read(path); err != nil {
			return err
		}
	}
	var err error
	if *baseURL != "" {
		err = l.walk(ctx, *baseURL, from, lending.WithCredentials(lending.Credentials{
			Username: getenv("LENDING_USERNAME"), Password: lending.NewSecret(getenv("LENDING_PASSWORD")),
			TrustedDeviceToken: lending.NewSecret(getenv("LENDING_TRUSTED_DEVICE_TOKEN")),
		}))
	} else if flags.NArg() == 0 {
		err = l.embedded(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "Learned from %d responses of %d routes. Ignored %d responses: errors, no JSON, or an unknown route.\n", l.answers, len(l.seen), l.left)
	return l.report(*state, *pkg, stdout)
}

// report prints the structs and the changes, and saves the state.
func (l *learner) report(state, pkg string, stdout io.Writer) error {
	was, err := load(state)
	if err != nil {
		return err
	}
	both := was.Merge(l.seen)
	if was != nil {
		lines := shapes.Changes(was, l.seen)
		fmt.Fprintf(l.out, "Changes since the last run: %d.\n", len(lines))
		for _, line := range lines {
			fmt.Fprintln(l.out, " ", line)
		}
	}
	text, err := source(pkg, both)
	if err == nil {
		_, err = stdout.Write(text)
	}
	if err != nil || state == "" {
		return err
	}
	kept, err := json.MarshalIndent(both, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(state, kept, 0o600)
}

// load returns the saved state, or nil if there is none.
func load(path string) (known shapes.Seen, err error) {
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && json.Unmarshal(text, &known) != nil {
		err = fmt.Errorf("%s is not a file that -state has written; name another file or remove this file", path)
	}
	return known, err
}
