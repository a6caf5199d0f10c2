// Fields learns which fields the service's records have, from its answers, and prints Go
// structs for them: names and types, what is optional, null or of several types, what is
// money and what a time. A value it never prints, nor keeps.
//
// It needs nothing but Go: the service runs inside it. It learns as well from captures of
// your own traffic, which are HTTP archives (HAR) of a browser or a proxy, or lines of
// {"route": "GET /api/Loan/get-loan/{loanId}", "body": …}, and from what it reads of one
// of your customers at a real service:
//
//	go run ./examples/fields > records.go
//	go run ./examples/fields -state fields.json capture.har > records.go
//	LENDING_USERNAME=… LENDING_PASSWORD=… go run ./examples/fields -base-url https://… -customer … -partner … > records.go
//
// With -state it keeps what it has learnt in a file, adds to it when it runs again, and
// says what has changed. LENDING_TRUSTED_DEVICE_TOKEN is for an account with a second
// factor. A program of yours can learn from its own calls as observe does, in walk.go.
//
// Read what it prints before others see it: "ada" looks like the name of a field.
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
	baseURL := flags.String("base-url", "", "address of a real service to read from")
	flags.TextVar(&from.customer, "customer", lending.CustomerID{}, "whose records to read there")
	flags.TextVar(&from.partner, "partner", lending.PartnerID{}, "whose lists to read there")
	state := flags.String("state", "", "file that keeps what was learnt")
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
	fmt.Fprintf(stderr, "Learnt from %d answers of %d routes, and left out %d: refused, without JSON, or of no known route.\n", l.answers, len(l.seen), l.left)
	return l.report(*state, *pkg, stdout)
}

// report prints the structs of all that is known, says what of it has changed, and keeps it.
func (l *learner) report(state, pkg string, stdout io.Writer) error {
	was, err := load(state)
	if err != nil {
		return err
	}
	both := was.Merge(l.seen)
	if was != nil {
		lines := shapes.Changes(was, l.seen)
		fmt.Fprintf(l.out, "Changes since the last time: %d.\n", len(lines))
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

// load reads what was learnt before: nil if nothing was.
func load(path string) (known shapes.Seen, err error) {
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && json.Unmarshal(text, &known) != nil {
		err = fmt.Errorf("%s is not what -state has written", path)
	}
	return known, err
}
