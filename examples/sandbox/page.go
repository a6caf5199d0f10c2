package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/lendingtest"
)

// site is the page, which shows what the service holds.
type site struct {
	service *lendingtest.Service
	set     settings
	feed    page.Feed
}

// view is what page.html is filled with: the newest rows, the latest first.
type view struct {
	Base       string // of the API
	Control    bool   // there are forms that steer the sandbox,
	Token      bool   // for whoever has the token
	Accounts   []lendingtest.Account
	Routes     []string
	Now        time.Time // by the service's clock
	Summary    string
	Newest     string // request
	Sent       []lendingtest.Sent
	Requests   []request
	Deliveries []lendingtest.Delivery
	Customers  []customer
	Faults     []lendingtest.PlannedFault
}

// request is one of the log, with the lines that send it again.
type request struct {
	lendingtest.Request
	Call, Curl, Go string
}

// A customer has applications, and these have loans: Count of them, of which those that
// are among the newest of all are shown.
type (
	customer struct {
		lendingtest.Customer
		Applications []application
		Count        int
	}
	application struct {
		lendingtest.Application
		Loans []lendingtest.Loan
		Count int
	}
)

// base is the address by which the browser called the sandbox.
func (p *site) base(r *http.Request) string { return p.set.scheme() + "://" + r.Host }

func (p *site) view(base string) view {
	now := p.service.Newest(shown)
	v := view{
		Base: base, Control: p.set.control, Token: p.set.token != "",
		Accounts: []lendingtest.Account{
			{Username: lendingtest.Username, Password: lendingtest.Password, TrustedDeviceToken: lendingtest.TrustedDeviceToken},
			{Username: lendingtest.AdministratorUsername, Password: lendingtest.AdministratorPassword},
		},
		Routes: p.service.Routes(), Now: now.Time,
		Summary: fmt.Sprintf("%s sent, %s, %s, %s, %s posted", count(now.AllSent, "message"), count(now.AllCustomers, "customer"),
			count(now.AllApplications, "application"), count(now.AllLoans, "loan"), count(now.AllDeliveries, "webhook")),
		Sent: latestFirst(now.Sent), Deliveries: latestFirst(now.Deliveries), Customers: tree(now), Faults: p.service.Faults(),
	}
	for _, r := range latestFirst(now.Requests) {
		v.Requests = append(v.Requests, request{r, method(r.Route), curl(v.Base, p.set.certificate, r), goCall(r)})
	}
	if len(v.Requests) > 0 {
		r := v.Requests[0]
		v.Newest = fmt.Sprintf("%s: %s, %s", name(r.Request), answer(r.Status), executed(r.Executed))
	}
	return v
}

// tree hangs applications below their customers and loans below their applications.
func tree(now lendingtest.Newest) (all []customer) {
	loans, applications := map[string][]lendingtest.Loan{}, map[string][]application{}
	for _, l := range latestFirst(now.Loans) {
		l.Transactions, l.Withdrawals = newest(l.Transactions), newest(l.Withdrawals)
		loans[l.ApplicationID] = append(loans[l.ApplicationID], l)
	}
	for _, a := range latestFirst(now.Applications) {
		a.Documents, a.Messages = newest(a.Documents), newest(a.Messages)
		applications[a.CustomerID] = append(applications[a.CustomerID], application{a, loans[a.ID], now.LoansOf[a.ID]})
	}
	for _, c := range latestFirst(now.Customers) {
		all = append(all, customer{c, applications[c.ID], now.ApplicationsOf[c.ID]})
	}
	return all
}

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"clock":    func(t time.Time) string { return t.Format(time.TimeOnly) },
	"approval": approval,
	"pretty":   pretty,
	"name":     name,
	"answer":   answer,
	"executed": executed,
	"count":    count,
	"times":    times,
	"took":     func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) },
	"stamp":    func(t lendingtest.Timestamp) string { return t.Format("2006-01-02 15:04") },
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
}).ParseFS(files, "page.html"))

// sections are the parts of the page that change, each a template and the id of an element.
var sections = []string{"clock", "summary", "newest", "sent", "requests", "deliveries", "customers", "faults"}

// render returns the sections as they are now.
func (p *site) render(base string) (map[string]template.HTML, error) {
	now, all := p.view(base), map[string]template.HTML{}
	for _, name := range sections {
		var html bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&html, name, now); err != nil {
			return nil, err
		}
		all[name] = template.HTML(html.String()) // escaped by the template
	}
	return all, nil
}

// show answers with the page as it is now, which is all that a browser without
// JavaScript needs.
func (p *site) show(w http.ResponseWriter, r *http.Request) {
	page.Secure(w.Header())
	_ = pageTemplate.Execute(w, p.view(p.base(r))) // an error means that the browser is gone
}

// shown is how many rows of each list the page shows.
const shown = 50

// newest returns the last rows, the latest first.
func newest[T any](rows []T) []T { return latestFirst(rows[max(0, len(rows)-shown):]) }

func latestFirst[T any](rows []T) []T {
	rows = slices.Clone(rows)
	slices.Reverse(rows)
	return rows
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// name says what a request was for.
func name(r lendingtest.Request) string {
	if r.Route == "" {
		return r.Method + ", no route"
	}
	return r.Route
}

func answer(status int) string {
	if status == 0 {
		return "no answer"
	}
	return strconv.Itoa(status)
}

func executed(done bool) string {
	if done {
		return "executed"
	}
	return "not executed"
}

// times tells how often a fault still shows.
func times(left int) string {
	if left < 0 {
		return "from now on"
	}
	return count(left, "time")
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
