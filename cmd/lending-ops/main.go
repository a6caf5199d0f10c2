// Command lending-ops shows and decides, from a terminal, what package ops serves: mutations
// that need a person, webhooks set aside, and the sessions.
//
//	lending-ops -url https://backend.example/ops/ review
//
// The environment variable LENDING_OPS_URL replaces -url. LENDING_OPS_TOKEN holds a bearer token, if the
// backend needs it. The token goes to https addresses and to this machine only. Times are in UTC. The exit status is 0
// for success, 1 for a failure or an audit with differences, 2 for wrong usage, and 3 if the key or the dead letter is missing
// or has changed, if the log is paused already, or if erase has left something.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

const usage = `usage: lending-ops [-url URL] [-json] command

  review [-prefix P]                          mutations that need a person
  doubt [-prefix P]                           mutations in doubt that a check will decide
  keys [-prefix P] [-state S]                 all keys, oldest first
  show KEY                                    a key, its history, and what to look at
  resolve -why TEXT [-sends N] [-correct] [-answer FILE] KEY happened|not_happened
                                              decide, or correct a verdict; N is "sent" of show (1 if
                                              not given), FILE "-" is the input
  dead [-event NAME] INBOX                    webhooks set aside, newest first
  redrive INBOX ID... | -all [-event NAME] INBOX
                                              make them due again
  drop -why TEXT INBOX ID... | -all [-event NAME] INBOX
  removed INBOX                               who dropped or erased an event, and why
  erase -why TEXT ID...                       remove a person from the log and all inboxes: the ids of the
                                              customer, the applications and the loans
  pause -why TEXT                             all replicas stop sending mutations with a key
  resume                                      they go on
  restored -since TIME [-for DURATION] [-claim]
                                              the store is a copy of that time, such as 14:05 (UTC): pause the
                                              log, and look up all keys that it does not know before they are
                                              sent; -claim if nothing but its keys makes records
  status                                      the instructions: paused or restored, by whom, since when, why
  audit [-from TIME [-to TIME]]               compare the keys of a period with the service, such as
                                              -from 2026-11-01 -to 2026-11-02 for two days; without
                                              -from, the last result
  sessions                                    signed in, paused, needs a person
  signin [-code CODE] ACCOUNT                 sign in now, or with the code that the service has sent
  health                                      whether each part can work
`

// The exit statuses.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitChanged = 3
)

var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Getenv("LENDING_OPS_TOKEN"), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, token string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := client{token: token, in: stdin, out: stdout, doer: doer}
	flags := flag.NewFlagSet("lending-ops", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	flags.StringVar(&c.url, "url", cmp.Or(os.Getenv("LENDING_OPS_URL"), "http://127.0.0.1:8080/ops/"), "address of the handler of package ops")
	flags.BoolVar(&c.json, "json", false, "print the JSON of the handler")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	c.url = strings.TrimSuffix(c.url, "/") + "/"
	err = c.command(ctx, flags.Args())
	var refused *refusal
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "%slending-ops: %v\n", usage, err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "lending-ops:", err)
	if errors.As(err, &refused) && refused.changed() {
		return exitChanged
	}
	return exitFailed
}
