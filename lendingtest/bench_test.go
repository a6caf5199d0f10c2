package lendingtest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
)

// crowd is a service with n customers, each with an application and a loan.
func crowd(b *testing.B, n int) (s *lendingtest.Service, send func(method, path, body string)) {
	b.Helper()
	s = lendingtest.New()
	b.Cleanup(s.Close)
	for range n {
		s.AddLoan(lendingtest.Loan{})
	}
	token := s.Token(lendingtest.Username)
	return s, func(method, path, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// A list costs what it returns, not what there is: both sizes are equally fast.
func BenchmarkLists(b *testing.B) {
	for _, n := range []int{10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, send := crowd(b, n)
			loan := s.AddLoan(lendingtest.Loan{
				Transactions: make([]lendingtest.Transaction, n), Withdrawals: make([]lendingtest.Withdrawal, n),
			})
			email := s.Newest(1).Customers[0].Email
			const partner = "/api/Application/get-partner-applications/" + lendingtest.PartnerID
			for _, list := range []struct{ name, path string }{
				{"customer by e-mail", "/api/Customer/get-customer-by-email?email=" + email},
				{"applications", "/api/Application/get-customer-applications/" + loan.CustomerID},
				{"loans", "/api/Loan/get-customer-loans/" + loan.CustomerID},
				{"partner", fmt.Sprintf("%s?take=20&skip=%d", partner, n-20)},
				{"transactions", "/api/Loan/get-transactions-paged/" + loan.ID + "?take=20&descending=true"},
				{"withdrawals", "/api/Loan/get-withdrawals/" + loan.ID + "?take=20&descending=true"},
			} {
				b.Run(list.name, func(b *testing.B) {
					for b.Loop() {
						send(http.MethodGet, list.path, "")
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
				})
			}
		})
	}
}

// A bulk request of 10,000 customers costs no more in a service that has many.
func BenchmarkBulk(b *testing.B) {
	for _, n := range []int{0, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, send := crowd(b, n)
			var list []string
			for i := range 10_000 {
				list = append(list, fmt.Sprintf(`{"firstName":"A","lastName":"B","email":"%d@bulk.example",`+
					`"password":"Analytical-Engine-1","mobileNumber":"4155550100"}`, i))
			}
			body, start := "["+strings.Join(list, ",")+"]", s.Snapshot()
			for b.Loop() {
				send(http.MethodPost, "/api/ApplicationBulk/create-customers", body)
				b.StopTimer()
				if err := s.Restore(start); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
