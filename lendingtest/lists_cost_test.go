package lendingtest_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// A list visits the rows that it returns, and no other rows. In this test a visit of another row
// is a nil pointer, and panics.
func TestListsVisitNoOtherRows(t *testing.T) {
	s := lendingtest.New()
	defer s.Close()
	var of [9]lendingtest.Loan
	var subscriptions [9]lendingtest.Subscription
	for i := range of {
		of[i] = s.AddLoan(lendingtest.Loan{})
		subscriptions[i] = s.AddSubscription(lendingtest.Subscription{
			CustomerID: of[i].CustomerID, WebhookURI: "https://receiver.test/",
		})
	}
	own := of[4]
	const ofPartner = "/api/Application/get-partner-applications/" + lendingtest.PartnerID
	email := s.Snapshot().Customers[4].Email
	token := s.Token(lendingtest.Username)
	hide(s, "Customers", own.CustomerID)
	hide(s, "Applications", own.ApplicationID)
	hide(s, "Loans", own.ID)
	hide(s, "Subscriptions", subscriptions[4].ID)
	for _, test := range []struct{ name, method, path, body, want string }{
		{"customer by e-mail", "GET", "/api/Customer/get-customer-by-email?email=" + email, "", own.CustomerID},
		{"applications", "GET", "/api/Application/get-customer-applications/" + own.CustomerID, "", own.ApplicationID},
		{"loans", "GET", "/api/Loan/get-customer-loans/" + own.CustomerID, "", own.ID},
		{"page", "GET", ofPartner + "?skip=4&take=1", "", own.ApplicationID},
		{"subscription", "GET", "/api/Webhook/get-subscription?customerId=" + own.CustomerID, "", "webhookUri"},
		{"creation", "POST", "/api/Application/create-application", `{"customerId":"` + own.CustomerID + `"}`, "-0002-"},
		{"taken e-mail", "POST", "/api/ApplicationBulk/create-customers", `[{"email":"` + email + `"}]`, "DuplicateEmail"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			require.NotPanics(t, func() { s.ServeHTTP(w, r) })
			assert.Contains(t, w.Body.String(), test.want)
		})
	}
	s.UpdateLoan(own.ID, func(l *lendingtest.Loan) { l.IsEnabled = false }) // the event visits its own subscription
	for i := range 2 {
		s.AddLoan(lendingtest.Loan{})
		require.Len(t, s.Newest(i+1).Loans, i+1) // the page of the sandbox
	}
}

// A page of a long list copies its own rows.
func TestPagesCopyTheirRows(t *testing.T) {
	s := lendingtest.New()
	defer s.Close()
	loan := s.AddLoan(lendingtest.Loan{Transactions: make([]lendingtest.Transaction, 20_000)})
	r := httptest.NewRequest(http.MethodGet, "/api/Loan/get-transactions-paged/"+loan.ID+
		"?take=3&skip=2&descending=true", nil)
	r.Header.Set("Authorization", "Bearer "+s.Token(lendingtest.Username))
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, 3, strings.Count(w.Body.String(), `"amount"`), w.Body.String())
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(100_000), "bytes for a page of 1.6 million")
}

// hide makes every row of a table but one nil.
func hide(s *lendingtest.Service, table, but string) {
	state := reflect.ValueOf(s).Elem().FieldByName("book").Elem().FieldByName("state")
	rows := state.FieldByName("Tables").Elem().FieldByName(table).FieldByName("order")
	for i := range rows.Len() {
		at := rows.Index(i).Elem()
		if row := at.FieldByName("row"); at.FieldByName("id").String() != but {
			reflect.NewAt(row.Type(), row.Addr().UnsafePointer()).Elem().SetZero()
		}
	}
}
