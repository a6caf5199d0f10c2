package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// client calls the JSON routes of package ops. It decides nothing itself.
type client struct {
	url, token string
	json       bool
	doer       *http.Client
	in         io.Reader
	out        io.Writer
}

type refusal struct {
	Status int             `json:"-"`
	Text   string          `json:"error"`
	Now    json.RawMessage `json:"now"`
}

func (r *refusal) Error() string {
	var key struct{ Says string }
	switch err := json.Unmarshal(r.Now, &key); {
	case err == nil && key.Says != "":
		return r.Text + "; now: " + key.Says
	case len(r.Now) > 0:
		return r.Text + "; now: " + string(r.Now)
	}
	return r.Text
}

// changed reports whether the record is missing or has changed.
func (r *refusal) changed() bool {
	return r.Status == http.StatusNotFound || r.Status == http.StatusConflict
}

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
	response, err := c.doer.Do(request)
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
	isList := bytes.HasPrefix(text, []byte("[")) // of the health, if a part cannot work
	if response.StatusCode != http.StatusOK && !(isList && response.StatusCode == http.StatusServiceUnavailable) {
		refused := &refusal{Status: response.StatusCode}
		if json.Unmarshal(text, refused) != nil || refused.Text == "" {
			return fmt.Errorf("the handler responded with %s; check -url and LENDING_OPS_TOKEN", response.Status)
		}
		return refused
	}
	if err := json.Unmarshal(text, result); err != nil {
		return errForeign
	}
	return nil
}

var errForeign = errors.New("the response is not from package ops; check -url")

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

// record is a JSON object of the handler.
type record map[string]any

// records returns the objects of a list, of all its pages.
func (c *client) records(ctx context.Context, path string, query url.Values) (all []record, err error) {
	for {
		var page json.RawMessage
		if err := c.call(ctx, http.MethodGet, path, query, nil, &page); err != nil {
			return nil, err
		}
		var found struct {
			Keys, DeadLetters, Removed []record
			Next                       string
		}
		var list any = &found
		if bytes.HasPrefix(page, []byte("[")) {
			list = &found.Keys
		}
		err := json.Unmarshal(page, list)
		if err != nil || found.Keys == nil && found.DeadLetters == nil && found.Removed == nil {
			return nil, errForeign
		}
		all = slices.Concat(all, found.Keys, found.DeadLetters, found.Removed)
		if found.Next == "" {
			return all, nil
		}
		query.Set("after", found.Next)
	}
}

func (c *client) list(ctx context.Context, path string, query url.Values, none string, columns ...string) error {
	all, err := c.records(ctx, path, query)
	if err != nil {
		return err
	}
	return c.table(all, none, columns...)
}

// table prints records in columns, or the text none. A column is "heading=name of the values".
func (c *client) table(all []record, none string, columns ...string) error {
	if len(all) == 0 {
		return c.rows([][]string{{none}})
	}
	rows := make([][]string, len(all)+1)
	for _, column := range columns {
		heading, name, _ := strings.Cut(column, "=")
		rows[0] = append(rows[0], heading)
		for i, r := range all {
			rows[i+1] = append(rows[i+1], r.text(name))
		}
	}
	return c.rows(rows)
}

// rows prints rows in columns, unless the JSON was printed.
func (c *client) rows(rows [][]string) error {
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

// text returns the value called name for people, empty if it is missing.
func (r record) text(name string) string {
	switch value := r[name].(type) {
	case nil:
		return ""
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			return at.UTC().Format(time.DateTime)
		}
		return value
	case []any:
		var texts []string
		for _, text := range value {
			texts = append(texts, fmt.Sprint(text))
		}
		return strings.Join(texts, ", ")
	case map[string]any:
		var members []string
		for name, member := range value {
			members = append(members, fmt.Sprint(name, " ", member))
		}
		slices.Sort(members)
		return strings.Join(members, ", ")
	default:
		return fmt.Sprint(value)
	}
}

// after returns the value called name behind prefix, or "" if the value is missing.
func (r record) after(prefix, name string) string {
	if text := r.text(name); text != "" {
		return prefix + text
	}
	return ""
}
