// Command lending-ops shows and decides, from a terminal, what package ops serves: mutations
// that need a person, webhooks set aside, and the sessions.
//
//	go run github.com/lendingapi/lending-go/cmd/lending-ops -url https://backend.example/ops/ review
//
// The environment variable LENDING_OPS_TOKEN holds a bearer token, if the backend needs it. The
// token goes to https addresses and to this machine only. Times are in UTC. The exit status is 0 for success, 1 for a failure, 2 for wrong usage, and 3 if the key or the dead
// letter is missing or has changed.
package main

import (
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
  show KEY                                    a key, with the reads to check it with
  resolve -why TEXT [-sends N] [-correct] [-answer FILE] KEY happened|not_happened
                                              decide, or correct a verdict; N is "sent" of show (1 if
                                              not given), FILE "-" is the input
  dead [FILTER] INBOX                         webhooks set aside
  redrive INBOX ID... | -all [FILTER] INBOX   make them due again
  drop -why TEXT INBOX ID... | -all [FILTER] INBOX
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
	prefix, state, event, from, before, why, answer string
	all, correct                                    bool
	sends                                           int
}

// command runs a command with its own flags, which stand before or behind its arguments.
func (c *client) command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, text := range map[string]*string{
		"prefix": &o.prefix, "state": &o.state, "event": &o.event, "from": &o.from, "before": &o.before, "why": &o.why,
		"answer": &o.answer,
	} {
		flags.StringVar(text, name, "", "")
	}
	flags.BoolVar(&o.all, "all", false, "")
	flags.BoolVar(&o.correct, "correct", false, "")
	flags.IntVar(&o.sends, "sends", 1, "")
	var words []string
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return fmt.Errorf("%w: %s: %w", errUsage, args[0], err)
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	switch name := args[0]; {
	case name == "review" && len(words) == 0, name == "doubt" && len(words) == 0:
		return c.keys(ctx, name, o.prefix)
	case name == "keys" && len(words) == 0:
		return c.keys(ctx, o.state, o.prefix)
	case name == "show" && len(words) == 1:
		return c.show(ctx, words[0])
	case name == "resolve" && len(words) == 2 && o.why != "":
		return c.resolve(ctx, words[0], words[1], o)
	case name == "dead" && len(words) == 1:
		return c.dead(ctx, words[0], o)
	case name == "redrive" && len(words) > 0, name == "drop" && len(words) > 0 && o.why != "":
		return c.act(ctx, name, words[0], words[1:], o)
	case name == "sessions" && len(words) == 0:
		return c.sessions(ctx)
	case name == "health" && len(words) == 0:
		return c.health(ctx)
	case o.why == "" && (name == "resolve" || name == "drop"):
		return fmt.Errorf("%w: %s needs -why", errUsage, name)
	}
	return fmt.Errorf("%w of %q", errUsage, args[0])
}
