package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// order has the flags and words of a command, and is the body of an action.
type order struct {
	Key     string          `json:"key,omitempty"`
	Verdict string          `json:"verdict,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Why     string          `json:"why,omitempty"`
	Sends   int             `json:"sends,omitempty"`
	Correct bool            `json:"correct,omitempty"`
	Since   string          `json:"since,omitempty"`
	For     string          `json:"for,omitempty"`
	IDs     []string        `json:"ids,omitempty"`
	All     bool            `json:"all,omitempty"`
	Event   string          `json:"event,omitempty"`

	prefix, state, answer string // of no action
}

// parse returns the flags and the other words of a command. The flags stand before or behind the words.
func parse(args []string) (o order, words []string, err error) {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, text := range map[string]*string{
		"prefix": &o.prefix, "state": &o.state, "event": &o.Event, "why": &o.Why,
		"answer": &o.answer, "since": &o.Since, "for": &o.For,
	} {
		flags.StringVar(text, name, "", "")
	}
	flags.BoolVar(&o.All, "all", false, "")
	flags.BoolVar(&o.Correct, "correct", false, "")
	flags.IntVar(&o.Sends, "sends", 1, "")
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return o, nil, fmt.Errorf("%w: %s: %w", errUsage, args[0], err)
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if o.Why == "" && slices.Contains([]string{"resolve", "drop", "erase", "pause"}, args[0]) {
		err = fmt.Errorf("%w: %s needs -why", errUsage, args[0])
	}
	return o, words, err
}

// command runs a command.
func (c *client) command(ctx context.Context, args []string, stdin io.Reader) error {
	if len(args) == 0 {
		return errUsage
	}
	o, words, err := parse(args)
	if err != nil {
		return err
	}
	name, inbox := args[0], ""
	if len(words) > 0 {
		inbox = "api/inboxes/" + url.PathEscape(words[0])
	}
	switch n := len(words); {
	case n == 0 && slices.Contains([]string{"review", "doubt", "keys"}, name):
		state := cmp.Or(o.state, strings.TrimPrefix(name, "keys"))
		query := url.Values{"state": {state}, "prefix": {o.prefix}, "limit": {"1000"}}
		return c.list(ctx, "api/keys", query, "none",
			"KEY=key", "STATE=says", "SINCE (UTC)=since", "ROUTE=route", "CHECK WITH=checkWith")
	case n == 1 && name == "show":
		return c.show(ctx, words[0])
	case n == 2 && name == "resolve":
		return c.resolve(ctx, words, o, stdin)
	case n == 1 && name == "dead":
		query := url.Values{"event": {o.Event}, "limit": {"1000"}}
		return c.list(ctx, inbox, query, "none",
			"ID=id", "EVENT=event", "SET ASIDE (UTC)=setAside", "TRIES=tries", "CAUSE=cause")
	case n == 1 && name == "removed":
		return c.list(ctx, inbox+"/removed", nil, "none", "REMOVED (UTC)=at", "BY=by", "WHY=why", "ID=id", "EVENT=event")
	case n > 0 && (name == "redrive" || name == "drop"):
		o.IDs = words[1:]
		return c.change(ctx, name, inbox+"/"+name, o)
	case n > 0 && name == "erase":
		o.IDs = words
		return c.change(ctx, "erased", "api/erase", o)
	case n == 0 && (name == "pause" || name == "resume" || name == "restored" && o.Since != ""):
		o.Since = lastTime(o.Since, time.Now())
		if err := c.call(ctx, http.MethodPost, "api/"+name, nil, o, &record{}); err != nil {
			return err
		}
		return c.status(ctx)
	case n == 0 && name == "status":
		return c.status(ctx)
	case n == 0 && name == "sessions":
		return c.list(ctx, "api/sessions", nil, "none",
			"ACCOUNT=name", "SIGNED IN=signedIn", "UNTIL (UTC)=until", "LEASE=lease",
			"PAUSED UNTIL (UTC)=paused", "PAUSE=pause", "NEEDS A PERSON=person", "CAUSE=cause", "STORE=error")
	case n == 0 && name == "health":
		return c.health(ctx)
	}
	return fmt.Errorf("%w of %q", errUsage, name)
}

// status prints the instructions in force.
func (c *client) status(ctx context.Context) error {
	return c.list(ctx, "api/standing", nil, "no instruction: the log sends",
		"INSTRUCTION=instruction", "SINCE (UTC)=since", "UNTIL (UTC)=until", "BY=by", "WHY=why")
}

func (c *client) show(ctx context.Context, name string) error {
	var k record
	if err := c.call(ctx, http.MethodGet, "api/key", url.Values{"key": {name}}, nil, &k); err != nil {
		return err
	}
	var rows [][]string
	for _, line := range []string{
		"key=key", "state=says", "since (UTC)=since", "route=route", "records=ids", "sent=sends", "check with=checkWith",
		"why=why", "decided by=resolvedBy", "correctable with -correct=correctable", "happened from (UTC)=happenedFrom",
		"not happened from (UTC)=notHappenedFrom",
	} {
		heading, name, _ := strings.Cut(line, "=")
		if text := k.text(name); text != "" {
			rows = append(rows, []string{heading, text})
		}
	}
	history, _ := k["history"].([]any)
	for _, change := range history {
		fields, _ := change.(map[string]any)
		h := record(fields)
		text := h.text("says") + h.after(", by ", "by") + h.after(": ", "why")
		rows = append(rows, []string{h.text("at"), text + h.after(", later changes not kept: ", "dropped")})
	}
	return c.rows(rows)
}

func (c *client) resolve(ctx context.Context, words []string, o order, stdin io.Reader) error {
	o.Key, o.Verdict = words[0], words[1]
	var err error
	switch o.answer {
	case "":
	case "-":
		o.Answer, err = io.ReadAll(stdin)
	default:
		o.Answer, err = os.ReadFile(o.answer) // the person's own file
	}
	if err != nil {
		return err
	}
	if len(o.Answer) > 0 && !json.Valid(o.Answer) {
		return errors.New("the answer must be JSON: the body of the service's response")
	}
	if err := c.call(ctx, http.MethodPost, "api/resolve", nil, o, &record{}); err != nil {
		return err
	}
	return c.rows([][]string{{"resolved", o.Key}, {"verdict", o.Verdict}})
}

// change sends an order and prints the number of changed records.
func (c *client) change(ctx context.Context, done, path string, o order) error {
	var result struct{ Done int }
	if err := c.call(ctx, http.MethodPost, path, nil, o, &result); err != nil {
		return err
	}
	return c.rows([][]string{{done, fmt.Sprint(result.Done)}})
}

func (c *client) health(ctx context.Context) error {
	all, err := c.records(ctx, "api/health", nil)
	if err != nil {
		return err
	}
	failed := 0
	for _, part := range all {
		if part.text("error") != "" {
			failed++
		} else {
			part["error"] = "ready"
		}
	}
	err = c.table(all, "none", "PART=name", "STATE=error")
	if err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d parts cannot work", failed, len(all))
}

// lastTime returns a time of the day, such as 14:05 in UTC, as the last such time before now. It leaves
// other texts to the handler.
func lastTime(text string, now time.Time) string {
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return text
	}
	now = now.UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	if at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	return at.Format(time.DateTime)
}
