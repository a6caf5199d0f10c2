// Command lending-ops shows and decides, from a terminal, what package ops serves: mutations
// that need a person, webhooks set aside, and the sessions.
//
//	go run github.com/lendingapi/lending-go/cmd/lending-ops -url https://backend.example/ops/ review
//
// The environment variable LENDING_OPS_TOKEN holds a bearer token, if the backend needs it. The
// token goes to https addresses and to this machine only. Times are in UTC. The exit status is 0
// for success, 1 for a failure, 2 for wrong usage, and 3 if the key or the dead letter is missing
// or has changed, or if erase has left something.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
)

const usage = `usage: lending-ops [-url URL] [-json] command

  review [-prefix P]                          mutations that need a person
  doubt [-prefix P]                           mutations in doubt that a check will decide
  keys [-prefix P] [-state S]                 all keys, oldest first
  show KEY                                    a key, its history, and the reads to check it with
  resolve -why TEXT [-sends N] [-correct] [-answer FILE] KEY happened|not_happened
                                              decide, or correct a verdict; N is "sent" of show (1 if
                                              not given), FILE "-" is the input
  dead [FILTER] INBOX                         webhooks set aside
  redrive INBOX ID... | -all [FILTER] INBOX   make them due again
  drop -why TEXT INBOX ID... | -all [FILTER] INBOX
  removed INBOX                               who dropped or erased an event, and why
  erase -why TEXT ID...                       remove a person from the log and all inboxes: the ids of the
                                              customer, the applications and the loans
  pause -why TEXT                             all replicas stop sending mutations with a key
  resume                                      they go on
  restored -since TIME [-for DURATION]        the store is a copy of that time, such as 14:05 (UTC): look up
                                              all keys that it does not know before they are sent
  status                                      the standing orders: paused or restored, by whom, since when, why
  sessions                                    signed in, paused, needs a person
  health                                      whether each part can work

FILTER is -event NAME, -from TIME or -before TIME, with a time such as "2026-11-22 15:04:05" in UTC.
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
	c := client{token: token, stdin: stdin, out: stdout}
	flags := flag.NewFlagSet("lending-ops", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	flags.StringVar(&c.url, "url", "http://127.0.0.1:8080/ops/", "address of the handler of package ops")
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

// options are the flags of a command.
type options struct {
	prefix, state, event, from, before, why, answer, since, lasts string

	all, correct bool
	sends        int
}

// parse returns the flags and the other words of a command. The flags stand before or behind the words.
func parse(args []string) (o options, words []string, err error) {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, text := range map[string]*string{
		"prefix": &o.prefix, "state": &o.state, "event": &o.event, "from": &o.from, "before": &o.before, "why": &o.why,
		"answer": &o.answer, "since": &o.since, "for": &o.lasts,
	} {
		flags.StringVar(text, name, "", "")
	}
	flags.BoolVar(&o.all, "all", false, "")
	flags.BoolVar(&o.correct, "correct", false, "")
	flags.IntVar(&o.sends, "sends", 1, "")
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return o, nil, fmt.Errorf("%w: %s: %w", errUsage, args[0], err)
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	return o, words, nil
}

// command runs a command.
func (c *client) command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	o, words, err := parse(args)
	if err != nil {
		return err
	}
	switch name := args[0]; {
	case o.why == "" && slices.Contains([]string{"resolve", "drop", "erase", "pause"}, name):
		return fmt.Errorf("%w: %s needs -why", errUsage, name)
	case name == "review" && len(words) == 0, name == "doubt" && len(words) == 0:
		return c.keys(ctx, name, o.prefix)
	case name == "keys" && len(words) == 0:
		return c.keys(ctx, o.state, o.prefix)
	case name == "show" && len(words) == 1:
		return c.show(ctx, words[0])
	case name == "resolve" && len(words) == 2:
		return c.resolve(ctx, words[0], words[1], o)
	case name == "dead" && len(words) == 1:
		return c.dead(ctx, words[0], o)
	case name == "redrive" && len(words) > 0, name == "drop" && len(words) > 0:
		return c.act(ctx, name, words[0], words[1:], o)
	case name == "removed" && len(words) == 1:
		return c.removed(ctx, words[0])
	case name == "erase" && len(words) > 0:
		return c.erase(ctx, words, o)
	case name == "pause" && len(words) == 0, name == "resume" && len(words) == 0,
		name == "restored" && len(words) == 0 && o.since != "":
		return c.order(ctx, name, o)
	case name == "status" && len(words) == 0:
		return c.status(ctx)
	case name == "sessions" && len(words) == 0:
		return c.sessions(ctx)
	case name == "health" && len(words) == 0:
		return c.health(ctx)
	}
	return fmt.Errorf("%w of %q", errUsage, args[0])
}
