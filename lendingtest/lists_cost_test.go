package lendingtest

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A list visits the rows that it returns, and no other rows. In this test a visit of another row
// is a nil pointer, and panics.
func TestListsVisitNoOtherRows(t *testing.T) {
	s := New()
	defer s.Close()
	var of [9]Loan
	for i := range of {
		of[i] = s.AddLoan(Loan{})
		s.AddSubscription(Subscription{CustomerID: of[i].CustomerID, WebhookURI: "https://receiver.test/"})
	}
	own := of[4]
	email := s.customers.get(own.CustomerID).Email
	token := s.Token(Username)
	s.mu.Lock()
	hide(&s.customers, own.CustomerID)
	hide(&s.applications, own.ApplicationID)
	hide(&s.loans, own.ID)
	hide(&s.subscriptions, s.subscriptions.by(ofCustomer(own.CustomerID))[0].id)
	s.mu.Unlock()
	for _, test := range []struct{ name, method, path, body, want string }{
		{"customer by e-mail", "GET", "/api/Customer/get-customer-by-email?email=" + email, "", own.CustomerID},
		{"applications", "GET", "/api/Application/get-customer-applications/" + own.CustomerID, "", own.ApplicationID},
		{"loans", "GET", "/api/Loan/get-customer-loans/" + own.CustomerID, "", own.ID},
		{"page", "GET", "/api/Application/get-partner-applications/" + PartnerID + "?skip=4&take=1", "", own.ApplicationID},
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
	s.UpdateLoan(own.ID, func(l *Loan) { l.IsEnabled = false }) // the event visits its own subscription
	for i := range 2 {
		s.AddLoan(Loan{})
		require.Len(t, s.Newest(i+1).Loans, i+1) // the page of the sandbox
	}
}

// A page of a long list copies its own rows.
func TestPagesCopyTheirRows(t *testing.T) {
	c := &call{r: httptest.NewRequest(http.MethodGet, "/?take=3&skip=2&descending=true", nil)}
	c.query = c.r.URL.Query()
	rows := make([]Transaction, 20_000)
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		assert.Len(t, pageOf(c, rows).Data, 3)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(20_000), "bytes for a page; the list has 1.6 million")
}

// hide hides every row of a table but one.
func hide[T any, R keyed[T]](t *table[T, R], but string) {
	for _, at := range t.order {
		if at.id != but {
			at.row = nil
		}
	}
}
