package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

// page shows what the service holds.
type page struct {
	service *lendingtest.Service
	done    <-chan struct{} // closed when the sandbox stops
}

// view is what page.html is filled with: the newest rows, the latest first.
type view struct {
	Host         string
	Accounts     []lendingtest.Account
	Summary      string
	Sent         []lendingtest.Sent
	Applications []lendingtest.Application
	Customers    map[string]lendingtest.Customer
	Loans        []lendingtest.Loan
	Deliveries   []lendingtest.Delivery
}

func (p *page) view(r *http.Request) view {
	state, sent, posted := p.service.Snapshot(), p.service.Sent(), p.service.Deliveries()
	v := view{
		Host: r.Host,
		Accounts: []lendingtest.Account{
			{Username: lendingtest.Username, Password: lendingtest.Password, TrustedDeviceToken: lendingtest.TrustedDeviceToken},
			{Username: lendingtest.AdministratorUsername, Password: lendingtest.AdministratorPassword},
		},
		Summary: fmt.Sprintf("%s sent, %s, %s, %s posted", count(len(sent), "message"),
			count(len(state.Applications), "application"), count(len(state.Loans), "loan"), count(len(posted), "webhook")),
		Sent: newest(sent), Applications: newest(state.Applications), Loans: newest(state.Loans), Deliveries: newest(posted),
		Customers: map[string]lendingtest.Customer{},
	}
	for _, c := range state.Customers {
		v.Customers[c.ID] = c
	}
	return v
}

// sections are the parts of the page that change.
var sections = []string{"summary", "sent", "applications", "loans", "deliveries"}

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"clock":    func(t time.Time) string { return t.Format(time.TimeOnly) },
	"approval": approval,
	"pretty":   pretty,
}).ParseFS(files, "page.html"))

// show answers with the page as it is now, which is all that a browser without
// JavaScript needs.
func (p *page) show(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_ = pageTemplate.Execute(w, p.view(r)) // the browser is gone
}

// stream sends the sections as server-sent events: all of them first, then those
// that have changed. A slow browser skips what lies between; it holds nobody up.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	changed := make(chan struct{}, 1)
	defer p.service.Watch(func(lendingtest.Event) {
		select {
		case changed <- struct{}{}:
		default: // it will look anyway
		}
	})()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]string{}
	for {
		if err := p.push(w, r, shown); err != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-p.done:
			return
		}
	}
}

// push sends what differs from shown, as one JSON object: JSON keeps the line ends
// that somebody may have put into a name from ending the event.
func (p *page) push(w http.ResponseWriter, r *http.Request, shown map[string]string) error {
	now, news := p.view(r), map[string]string{}
	for _, name := range sections {
		var html bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&html, name, now); err != nil {
			return err
		}
		if shown[name] != html.String() {
			shown[name], news[name] = html.String(), html.String()
		}
	}
	if len(news) == 0 {
		return nil
	}
	data, err := json.Marshal(news)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// newest is the last fifty rows, the latest first: what came before is history.
func newest[T any](rows []T) []T {
	rows = slices.Clone(rows[max(0, len(rows)-50):])
	slices.Reverse(rows)
	return rows
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// approval tells how far the approval of an application is.
func approval(a lendingtest.Application) string {
	if a.Offer == nil {
		return ""
	}
	signed, handedIn := 0, 0
	for _, who := range a.Applicants {
		if who.HasSigned {
			signed++
		}
	}
	for _, need := range a.Requirements {
		if need.IsSubmitted {
			handedIn++
		}
	}
	return fmt.Sprintf("%d of %d signed, %d of %s", signed, len(a.Applicants), handedIn, count(len(a.Requirements), "document"))
}

// pretty indents a delivered body.
func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return strings.TrimSpace(b.String())
}
