package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/shapes"
)

// learner collects the fields of responses.
type learner struct {
	out           io.Writer // receives the names of the routes
	seen          shapes.Seen
	answers, left int
}

func newLearner(out io.Writer) *learner { return &learner{out: out, seen: shapes.Seen{}} }

// see learns from a response.
func (l *learner) see(route string, status int, body []byte) {
	known := l.seen[route] != nil
	if status/100 != 2 || !l.seen.Learn(route, body) {
		l.left++
		return
	}
	if !known {
		fmt.Fprintln(l.out, " ", route)
	}
	l.answers++
}

// capture is an HTTP archive, or a line of a capture file.
type capture struct {
	Log struct {
		Entries []struct {
			Request  struct{ Method, URL string }
			Response struct {
				Status  int
				Content struct{ Text, Encoding string }
			}
		}
	}
	Route string
	Body  json.RawMessage
}

// read learns from a capture file.
func (l *learner) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Fprintln(l.out, "Reading", path)
	routes := published()
	for decoder := json.NewDecoder(file); ; {
		var c capture
		err := decoder.Decode(&c)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil { // the text of err may contain a value
			return fmt.Errorf("%s: neither an HTTP archive nor a line of a capture, at byte %d", path, decoder.InputOffset())
		}
		for _, entry := range c.Log.Entries {
			body := []byte(entry.Response.Content.Text)
			if entry.Response.Content.Encoding == "base64" {
				body, _ = base64.StdEncoding.DecodeString(string(body)) // empty if it is not base64
			}
			l.see(routeOf(routes, entry.Request.Method, entry.Request.URL), entry.Response.Status, body)
		}
		if c.Route != "" {
			l.see(c.Route, http.StatusOK, c.Body)
		}
	}
}

// published returns a mux with the published routes.
func published() *http.ServeMux {
	mux, service := http.NewServeMux(), lendingtest.New()
	defer service.Close()
	for _, route := range service.Routes() {
		mux.Handle(route, http.NotFoundHandler())
	}
	return mux
}

// routeOf returns the route of an address, or "" if there is none.
func routeOf(routes *http.ServeMux, method, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	_, path, _ := strings.Cut(u.Path, "/api/")
	_, route := routes.Handler(&http.Request{Method: method, URL: &url.URL{Path: "/api/" + path}})
	return route
}
