package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// client calls the JSON routes of package ops. It decides nothing itself.
type client struct {
	url, token string
	json       bool
	stdin      io.Reader
	out        io.Writer
}

// refusal is an error of the handler.
type refusal struct {
	Status int             `json:"-"`
	Text   string          `json:"error"`
	Now    json.RawMessage `json:"now"`
}

func (r *refusal) Error() string {
	var record key
	switch err := json.Unmarshal(r.Now, &record); {
	case err == nil && record.Says != "":
		return r.Text + "; now: " + record.Says
	case len(r.Now) > 0:
		return r.Text + "; now: " + string(r.Now)
	}
	return r.Text
}

// changed reports whether the record is missing or has changed.
func (r *refusal) changed() bool {
	return r.Status == http.StatusNotFound || r.Status == http.StatusConflict
}

// maxBody bounds a response.
const maxBody = 64 << 20

// call calls a route, decodes the response into result, and prints its JSON with -json.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, result any) error {
	address := c.url + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var content io.Reader // none for a GET: some proxies refuse it
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		if isOpen(request.URL) {
			return errors.New("http would show the token to the network; use https in -url")
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := doer.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if c.json && json.Valid(text) {
		if _, err := c.out.Write(append(bytes.TrimSpace(text), '\n')); err != nil {
			return err
		}
	}
	if response.StatusCode != http.StatusOK && !(path == "api/health" && response.StatusCode == http.StatusServiceUnavailable) {
		refused := &refusal{Status: response.StatusCode}
		if json.Unmarshal(text, refused) != nil || refused.Text == "" {
			return fmt.Errorf("the handler responded with %s; check -url and LENDING_OPS_TOKEN", response.Status)
		}
		return refused
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("the response is not from package ops; check -url: %w", err)
	}
	return nil
}

// doer follows no redirect: to a page for signing in, or from https to http.
var doer = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// isOpen reports whether others can read a request to u.
func isOpen(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Scheme != "https" && u.Hostname() != "localhost" && (err != nil || !address.IsLoopback())
}

// key is a key of the log as the handler shows it.
type key struct {
	Key, Class, State, Says, Route, CheckWith, Why, ResolvedBy string
	IDs                                                        map[string]string
	Since, HappenedFrom, NotHappenedFrom                       time.Time
	Sends                                                      int
	Correctable                                                bool
	History                                                    []struct {
		At            time.Time
		Says, By, Why string
		Dropped       int
	}
}

func (c *client) keys(ctx context.Context, state, prefix string) error {
	query := url.Values{"state": {state}, "prefix": {prefix}, "limit": {"1000"}}
	return c.pages(ctx, "api/keys", query, []string{"KEY", "STATE", "SINCE (UTC)", "ROUTE", "CHECK WITH"}, func(page []byte) (rows [][]string, next string, err error) {
		var found struct {
			Keys []key
			Next string
		}
		err = json.Unmarshal(page, &found)
		for _, k := range found.Keys {
			rows = append(rows, []string{k.Key, k.Says, stamp(k.Since), k.Route, k.CheckWith})
		}
		return rows, found.Next, err
	})
}

func (c *client) dead(ctx context.Context, inbox string, o options) error {
	query := url.Values{"event": {o.event}, "from": {o.from}, "before": {o.before}, "limit": {"1000"}}
	return c.pages(ctx, "api/inboxes/"+url.PathEscape(inbox), query, []string{"ID", "EVENT", "SET ASIDE (UTC)", "TRIES", "CAUSE"}, func(page []byte) (rows [][]string, next string, err error) {
		var found struct {
			DeadLetters []struct {
				ID, Event, Cause string
				SetAside         time.Time
				Tries            int
			}
			Next string
		}
		err = json.Unmarshal(page, &found)
		for _, l := range found.DeadLetters {
			rows = append(rows, []string{l.ID, l.Event, stamp(l.SetAside), fmt.Sprint(l.Tries), l.Cause})
		}
		return rows, found.Next, err
	})
}

// pages prints the rows of all pages of a list.
func (c *client) pages(ctx context.Context, path string, query url.Values, head []string, read func(page []byte) ([][]string, string, error)) error {
	table := [][]string{head}
	for {
		var page json.RawMessage
		if err := c.call(ctx, http.MethodGet, path, query, nil, &page); err != nil {
			return err
		}
		rows, next, err := read(page)
		if err != nil {
			return err
		}
		table = append(table, rows...)
		if next == "" && len(table) == 1 {
			return c.table([][]string{{"none"}})
		}
		if next == "" {
			return c.table(table)
		}
		query.Set("after", next)
	}
}

// table prints rows in columns, unless the JSON was printed.
func (c *client) table(rows [][]string) error {
	if c.json {
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.Map(printable, cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// printable keeps a text from steering the terminal.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return '?'
	}
	return r
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// fields prints names and values in lines, without empty values.
func (c *client) fields(pairs ...string) error {
	var rows [][]string
	for pair := range slices.Chunk(pairs, 2) {
		if pair[len(pair)-1] != "" {
			rows = append(rows, pair)
		}
	}
	return c.table(rows)
}

func (c *client) show(ctx context.Context, name string) error {
	var k key
	if err := c.call(ctx, http.MethodGet, "api/key", url.Values{"key": {name}}, nil, &k); err != nil {
		return err
	}
	var ids []string
	for name, id := range k.IDs {
		ids = append(ids, name+" "+id)
	}
	slices.Sort(ids)
	correctable := ""
	if k.Correctable {
		correctable = "with -correct"
	}
	pairs := []string{
		"key", k.Key, "state", k.Says, "since (UTC)", stamp(k.Since), "route", k.Route, "records", strings.Join(ids, ", "),
		"sent", fmt.Sprint(k.Sends), "check with", k.CheckWith, "why", k.Why, "decided by", k.ResolvedBy,
		"correctable", correctable, "happened from (UTC)", stamp(k.HappenedFrom), "not happened from (UTC)", stamp(k.NotHappenedFrom),
	}
	for _, h := range k.History {
		text := h.Says
		if h.By != "" {
			text += ", by " + h.By
		}
		if h.Why != "" {
			text += ": " + h.Why
		}
		if h.Dropped > 0 {
			text += fmt.Sprintf(", then %d changes not kept", h.Dropped)
		}
		pairs = append(pairs, stamp(h.At), text)
	}
	return c.fields(pairs...)
}

func (c *client) resolve(ctx context.Context, name, verdict string, o options) error {
	body := map[string]any{"key": name, "verdict": verdict, "why": o.why, "correct": o.correct, "sends": o.sends}
	if o.answer != "" {
		text, err := c.file(o.answer)
		if err != nil {
			return err
		}
		body["answerText"] = string(text)
	}
	if err := c.call(ctx, http.MethodPost, "api/resolve", nil, body, &struct{}{}); err != nil {
		return err
	}
	return c.fields("resolved", name, "verdict", verdict)
}

// file reads a file, or the standard input for "-".
func (c *client) file(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(name) //nolint:gosec // the person's own file
}

func (c *client) act(ctx context.Context, verb, inbox string, ids []string, o options) error {
	body := map[string]any{"why": o.why}
	if len(ids) > 0 {
		body["ids"] = ids
	}
	if o.all {
		body["all"], body["event"], body["from"], body["before"] = true, o.event, o.from, o.before
	}
	var result struct{ Done int }
	if err := c.call(ctx, http.MethodPost, "api/inboxes/"+url.PathEscape(inbox)+"/"+verb, nil, body, &result); err != nil {
		return err
	}
	return c.fields(verb, fmt.Sprint(result.Done))
}

func (c *client) sessions(ctx context.Context) error {
	var sessions []struct {
		Name, Error         string
		SignedIn, Person    bool
		Until, Paused       time.Time
		Lease, Pause, Cause string
	}
	if err := c.call(ctx, http.MethodGet, "api/sessions", nil, nil, &sessions); err != nil {
		return err
	}
	rows := [][]string{{"ACCOUNT", "SIGNED IN", "UNTIL (UTC)", "LEASE", "PAUSED UNTIL (UTC)", "PAUSE", "NEEDS A PERSON", "CAUSE"}}
	for _, s := range sessions {
		rows = append(rows, []string{
			s.Name, strconv.FormatBool(s.SignedIn), stamp(s.Until), s.Lease, stamp(s.Paused), s.Pause,
			strconv.FormatBool(s.Person), cmp.Or(s.Error, s.Cause),
		})
	}
	return c.table(rows)
}

func (c *client) health(ctx context.Context) error {
	var parts []struct {
		Name, Error string
		Since       time.Time
	}
	if err := c.call(ctx, http.MethodGet, "api/health", nil, nil, &parts); err != nil {
		return err
	}
	rows, failed := [][]string{{"PART", "STATE", "SINCE (UTC)"}}, 0
	for _, p := range parts {
		state := "ready"
		if p.Error != "" {
			state, failed = p.Error, failed+1
		}
		rows = append(rows, []string{p.Name, state, stamp(p.Since)})
	}
	if err := c.table(rows); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d parts cannot work", failed, len(parts))
}
