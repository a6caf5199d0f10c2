package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
)

// Open pages cost the callers of the API little: 200 pages show the same rendering as one.
func BenchmarkOpenPages(b *testing.B) {
	for _, pages := range []int{0, 20, 200} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			done := make(chan struct{})
			service := lendingtest.New()
			defer service.Close()
			server := httptest.NewServer(newSite(service, settings{}, "", done).handler())
			defer server.Close()
			token, loan := service.Token(lendingtest.Username), service.AddLoan(lendingtest.Loan{})
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
			defer client.CloseIdleConnections()
			read := func(path string) error {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+path, strings.NewReader(""))
				if err != nil {
					return err
				}
				r.Header.Set("Authorization", "Bearer "+token)
				answer, err := client.Do(r)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				_, err = io.Copy(io.Discard, answer.Body)
				return err
			}
			for range pages {
				go func() { _ = read("/events") }() // until done is closed
			}
			defer close(done)
			b.RunParallel(func(callers *testing.PB) {
				for callers.Next() {
					if err := read("/api/Loan/get-total-balance/" + loan.ID); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
