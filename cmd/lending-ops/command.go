package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
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
	Session string          `json:"session,omitempty"`
	Code    string          `json:"code,omitempty"`
	Since   string          `json:"since,omitempty"`
	For     string          `json:"for,omitempty"`
	Claim   bool            `json:"claim,omitempty"`
	From    string          `json:"from,omitempty"`
	To      string          `json:"to,omitempty"`
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
		"answer": &o.answer, "code": &o.Code, "since": &o.Since, "for": &o.For,
		"from": &o.From, "to": &o.To,
	} {
		flags.StringVar(text, name, "", "")
	}
	flags.BoolVar(&o.All, "all", false, "")
	flags.BoolVar(&o.Claim, "claim", false, "")
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
	return o, words, nil
}

type command struct {
	least, most int    // number of words
	needs       string // a flag: why or since
	run         func(c *client, ctx context.Context, words []string, o order) error
}

const many = math.MaxInt

var commands = map[string]command{
	"review":   {run: keysIn("review")},
	"doubt":    {run: keysIn("doubt")},
	"keys":     {run: keysIn("")},
	"show":     {least: 1, most: 1, run: (*client).show},
	"resolve":  {least: 2, most: 2, needs: "why", run: (*client).resolve},
	"dead":     {least: 1, most: 1, run: (*client).dead},
	"removed":  {least: 1, most: 1, run: (*client).removed},
	"redrive":  {least: 1, most: many, run: letters("redrive")},
	"drop":     {least: 1, most: many, needs: "why", run: letters("drop")},
	"erase":    {least: 1, most: many, needs: "why", run: (*client).erase},
	"pause":    {needs: "why", run: instruct("pause")},
	"resume":   {run: instruct("resume")},
	"restored": {needs: "since", run: instruct("restored")},
	"status":   {run: (*client).status},
	"audit":    {run: (*client).audit},
	"sessions": {run: (*client).sessions},
	"signin":   {least: 1, most: 1, run: (*client).signIn},
	"health":   {run: (*client).health},
}

func (c *client) command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	o, words, err := parse(args)
	if err != nil {
		return err
	}
	it, ok := commands[args[0]]
	switch {
	case !ok || len(words) < it.least || len(words) > it.most:
		return fmt.Errorf("%w of %q", errUsage, args[0])
	case it.needs == "why" && o.Why == "", it.needs == "since" && o.Since == "":
		return fmt.Errorf("%w: %s needs -%s", errUsage, args[0], it.needs)
	}
	return it.run(c, ctx, words, o)
}

func keysIn(state string) func(*client, context.Context, []string, order) error {
	return func(c *client, ctx context.Context, _ []string, o order) error {
		query := url.Values{"state": {cmp.Or(state, o.state)}, "prefix": {o.prefix}, "limit": {"1000"}}
		return c.list(ctx, "api/keys", query, "none", "KEY=key", "STATE=says", "SINCE (UTC)=since", "ROUTE=route", "RECORDS=ids")
	}
}

func letters(verb string) func(*client, context.Context, []string, order) error {
	return func(c *client, ctx context.Context, words []string, o order) error {
		o.IDs = words[1:]
		return c.change(ctx, verb, inbox(words)+"/"+verb, o)
	}
}

func instruct(what string) func(*client, context.Context, []string, order) error {
	return func(c *client, ctx context.Context, words []string, o order) error {
		o.Since = lastTime(o.Since, time.Now())
		if err := c.call(ctx, http.MethodPost, "api/"+what, nil, o, &record{}); err != nil {
			return err
		}
		return c.status(ctx, words, o)
	}
}

func inbox(words []string) string { return "api/inboxes/" + url.PathEscape(words[0]) }

func (c *client) dead(ctx context.Context, words []string, o order) error {
	return c.list(ctx, inbox(words), url.Values{"event": {o.Event}, "limit": {"1000"}}, "none",
		"ID=id", "EVENT=event", "ORDER=about", "SET ASIDE (UTC)=setAside", "TRIES=tries", "CAUSE=cause")
}

func (c *client) removed(ctx context.Context, words []string, _ order) error {
	return c.list(ctx, inbox(words)+"/removed", nil, "none", "REMOVED (UTC)=at", "BY=by", "WHY=why", "ID=id", "EVENT=event")
}

func (c *client) erase(ctx context.Context, words []string, o order) error {
	o.IDs = words
	return c.patient().change(ctx, "erased", "api/erase", o)
}

func (c *client) status(ctx context.Context, _ []string, _ order) error {
	return c.list(ctx, "api/standing", nil, "no instruction: the log sends",
		"INSTRUCTION=instruction", "SINCE (UTC)=since", "UNTIL (UTC)=until", "BY=by", "WHY=why")
}

var errDifferences = errors.New("the audit has found differences; see docs/operating.md for each kind")

// patient returns a client for an action that reads everything.
func (c *client) patient() *client {
	patient, waiting := *c, *c.doer
	waiting.Timeout = 6 * time.Hour // the handler ends the action earlier if a store hangs
	patient.doer = &waiting
	return &patient
}

// audit makes an audit if there is a -from, and shows the last result.
func (c *client) audit(ctx context.Context, _ []string, o order) error {
	if o.From != "" {
		quiet := c.patient()
		quiet.json = false
		if err := quiet.call(ctx, http.MethodPost, "api/audit", nil, order{From: o.From, To: o.To}, &record{}); err != nil {
			return err
		}
	}
	var last struct {
		From, To, Ended     time.Time
		Keys, Owners        int
		Found, NotAuditable map[string]int
		Differences         []record
	}
	if err := c.call(ctx, http.MethodGet, "api/audit", nil, nil, &last); err != nil {
		return err
	}
	if last.Ended.IsZero() {
		return errors.New("there was no audit yet: add -from, such as -from 2026-11-01")
	}
	all := [][]string{
		{"from (UTC)", last.From.Format(time.DateTime)},
		{"to (UTC)", last.To.Format(time.DateTime)},
		{"ended (UTC)", last.Ended.UTC().Format(time.DateTime)},
		{"keys", fmt.Sprint(last.Keys)},
		{"owners", fmt.Sprint(last.Owners)},
	}
	n := 0
	for _, kind := range slices.Sorted(maps.Keys(last.Found)) {
		n += last.Found[kind]
		all = append(all, []string{kind, fmt.Sprint(last.Found[kind])})
	}
	for _, what := range slices.Sorted(maps.Keys(last.NotAuditable)) {
		all = append(all, []string{"not auditable", fmt.Sprint(last.NotAuditable[what], " ", what)})
	}
	if err := c.rows(all); err != nil {
		return err
	}
	err := c.table(last.Differences, "no difference",
		"KIND=kind", "OWNER=owner", "ID=id", "LIST=list", "COUNT=count", "KEYS=keys", "RECORDS=records", "WHY=why")
	if err == nil && n > 0 {
		err = errDifferences
	}
	return err
}

func (c *client) sessions(ctx context.Context, _ []string, _ order) error {
	return c.list(ctx, "api/sessions", nil, "none",
		"ACCOUNT=name", "SIGNED IN=signedIn", "UNTIL (UTC)=until", "LEASE=lease",
		"PAUSED UNTIL (UTC)=paused", "PAUSE=pause", "NEEDS A PERSON=person", "CAUSE=cause", "STORE=error")
}

func (c *client) signIn(ctx context.Context, words []string, o order) error {
	o.Session = words[0]
	return c.change(ctx, "signed in", "api/signin", o)
}

func (c *client) show(ctx context.Context, words []string, _ order) error {
	var k record
	if err := c.call(ctx, http.MethodGet, "api/key", url.Values{"key": {words[0]}}, nil, &k); err != nil {
		return err
	}
	var rows [][]string
	for _, line := range []string{
		"key=key", "about=about", "state=says", "since (UTC)=since", "route=route", "records=ids", "sent=sends", "look at=lookAt",
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

func (c *client) resolve(ctx context.Context, words []string, o order) error {
	o.Key, o.Verdict = words[0], words[1]
	var err error
	switch o.answer {
	case "":
	case "-":
		o.Answer, err = io.ReadAll(c.in)
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

func (c *client) change(ctx context.Context, done, path string, o order) error {
	var result struct{ Done int }
	if err := c.call(ctx, http.MethodPost, path, nil, o, &result); err != nil {
		return err
	}
	return c.rows([][]string{{done, fmt.Sprint(result.Done)}})
}

func (c *client) health(ctx context.Context, _ []string, _ order) error {
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
