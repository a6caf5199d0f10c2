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

	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

type site struct {
	service *lendingtest.Service
	set     settings
	path    string // of this service, empty for the sandbox's own

	control  *control.Control
	services *control.Services // further services; nil for a further service
}

// view has the data of page.html: the newest rows, latest first.
type view struct {
	Base       string // of the API
	Control    bool   // whether there are forms for the control
	Token      bool   // whether the forms need the token
	Services   bool   // whether a form opens further services
	PartnerID  string
	Seed       uint64
	ReadLag    time.Duration
	Taught     bool // by a service.json
	Accounts   []lendingtest.Account
	Routes     []string
	Now        time.Time // by the service's clock
	Summary    string
	Sent       []lendingtest.Sent
	Requests   []request
	Deliveries []lendingtest.Delivery
	Customers  []customer
	Faults     []lendingtest.PlannedFault
}

type request struct {
	lendingtest.Request
	Rule *rule // behind a rejection
}

type rule struct {
	ErrorCode, Detail string
	Errors            []struct{ Field, Message, Code string }
}

// A customer has applications, and an application has loans. Count is the number of all; the
// page shows only those among the newest.
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

func (p *site) base(r *http.Request) string { return p.set.scheme() + "://" + r.Host + p.path }

func (p *site) view(base string) view {
	now, deliveries := p.service.Snapshot(), p.service.Deliveries()
	v := view{
		Base: base, Control: p.set.control, Token: p.set.token != "", Services: p.services != nil,
		PartnerID: lendingtest.PartnerID, Seed: p.set.seed, ReadLag: p.set.readLag, Taught: p.set.known != "",
		Accounts: []lendingtest.Account{
			{Username: lendingtest.Username, Password: lendingtest.Password, TrustedDeviceToken: lendingtest.TrustedDeviceToken},
			{Username: lendingtest.AdministratorUsername, Password: lendingtest.AdministratorPassword},
		},
		Routes: p.service.Routes(), Now: now.Time,
		Summary: fmt.Sprintf("%s sent, %s, %s, %s, %s posted", count(len(now.Sent), "message"), count(len(now.Customers), "customer"),
			count(len(now.Applications), "application"), count(len(now.Loans), "loan"), count(len(deliveries), "webhook")),
		Sent: newest(now.Sent), Deliveries: newest(deliveries), Customers: tree(now), Faults: p.service.Faults(),
	}
	for _, r := range newest(p.service.Requests()) {
		r.Path = strings.TrimPrefix(r.Path, p.path)
		v.Requests = append(v.Requests, request{r, ruleOf(r)})
	}
	return v
}

func ruleOf(r lendingtest.Request) *rule {
	var why rule
	if r.Status < 400 || json.Unmarshal(r.Answer, &why) != nil || why.ErrorCode == "" {
		return nil
	}
	return &why
}

func tree(now lendingtest.Snapshot) (all []customer) {
	loans, applications := map[string][]lendingtest.Loan{}, map[string][]application{}
	loansOf, applicationsOf := map[string]int{}, map[string]int{}
	for _, l := range now.Loans {
		loansOf[l.ApplicationID]++
	}
	for _, a := range now.Applications {
		applicationsOf[a.CustomerID]++
	}
	for _, l := range newest(now.Loans) {
		l.Transactions, l.Withdrawals = newest(l.Transactions), newest(l.Withdrawals)
		loans[l.ApplicationID] = append(loans[l.ApplicationID], l)
	}
	for _, a := range newest(now.Applications) {
		a.Documents, a.Messages = newest(a.Documents), newest(a.Messages)
		applications[a.CustomerID] = append(applications[a.CustomerID], application{a, loans[a.ID], loansOf[a.ID]})
	}
	for _, c := range newest(now.Customers) {
		all = append(all, customer{c, applications[c.ID], applicationsOf[c.ID]})
	}
	return all
}

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"pretty":   pretty,
	"executed": executed,
	"count":    count,
	"took":     func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) },
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
}).ParseFS(files, "page.html"))

// show answers with the whole page, for browsers without JavaScript, too.
func (p *site) show(w http.ResponseWriter, r *http.Request) {
	page.Secure(w.Header(), "'none'")
	_ = pageTemplate.Execute(w, p.view(p.base(r))) // an error means that the browser has gone
}

const shown = 50

// newest returns the last rows, latest first.
func newest[T any](rows []T) []T {
	rows = slices.Clone(rows[max(0, len(rows)-shown):])
	slices.Reverse(rows)
	return rows
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func executed(done bool) string {
	if done {
		return "executed"
	}
	return "not executed"
}

func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return strings.TrimSpace(b.String())
}
