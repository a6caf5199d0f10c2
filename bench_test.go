package lending_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// Every benchmark has a floor: what careful code with net/http and encoding/json alone
// takes for the same work. Compare the two of one run; the times mean nothing by themselves.

// transaction is what the floors decode into: a struct as a caller would write it.
type transaction struct {
	ID, LoanID, Type, Status, Description, Reference, Counterparty string
	Amount, Balance, Fee                                           json.Number
	PostedUTC                                                      string
}

// transactionJSON is a record of 420 bytes.
func transactionJSON(i int) string {
	return fmt.Sprintf(`{"id":"00000000-0000-4000-8000-%012d","loanId":"11111111-2222-3333-4444-555555555555",`+
		`"type":"Repayment","status":"Settled","description":"Scheduled repayment for the billing period, collected by direct debit",`+
		`"reference":"REF-%08d-AUTOMATIC","counterparty":"Example Trading Company LLC, 1 Main Street","amount":1234.56,"balance":98765.43,`+
		`"fee":0.25,"postedUtc":"2024-01-02T03:04:05.1234567Z"}`, i, i)
}

// pageJSON is a page of n records, of 84 KB for 200.
func pageJSON(from, n, total int) string {
	records := make([]string, n)
	for i := range records {
		records[i] = transactionJSON(from + i)
	}
	return `{"data":[` + strings.Join(records, ",") + `],"totalCount":` + strconv.Itoa(total) + `}`
}

// loan is what the floor of a small GET decodes into.
type loan struct {
	ID, ApplicationID, CustomerID, Status, ProductName, Currency, Description string
	Amount, Balance, Limit, Rate                                              json.Number
	CreatedUTC, UpdatedUTC, Notes                                             string
}

// loanJSON is a record of 1 KB.
var loanJSON = `{"id":"11111111-2222-3333-4444-555555555555","applicationId":"66666666-7777-8888-9999-aaaaaaaaaaaa",` +
	`"customerId":"bbbbbbbb-cccc-dddd-eeee-ffffffffffff","status":"Active","productName":"Line of credit","currency":"USD",` +
	`"description":"` + strings.Repeat("Working capital. ", 18) + `","amount":250000.00,"balance":123456.78,"limit":250000.00,` +
	`"rate":0.0125,"createdUtc":"2024-01-02T03:04:05.1234567Z","updatedUtc":"2024-02-03T04:05:06.7654321Z",` +
	`"notes":"` + strings.Repeat("Reviewed by the desk. ", 10) + `"}`

// memory is a transport that answers without a network.
type memory func(*http.Request) string

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	body := m(r)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json; charset=utf-8"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func always(body string) memory { return func(*http.Request) string { return body } }

// portfolio answers with the page that is asked for, of a list of total records.
func portfolio(total int) memory {
	pages := map[string]string{}
	for skip := 0; skip < total; skip += lending.MaxTake {
		key := ""
		if skip > 0 {
			key = strconv.Itoa(skip)
		}
		pages[key] = pageJSON(skip, min(lending.MaxTake, total-skip), total)
	}
	return func(r *http.Request) string { return pages[r.URL.Query().Get("skip")] }
}

func benchmarkClient(b testing.TB, url string, hc *http.Client) *lending.Client {
	opts := []lending.Option{lending.WithTokenSource(lending.StaticToken("test-token"))}
	if hc != nil {
		opts = append(opts, lending.WithHTTPClient(hc))
	}
	client, err := lending.New(url, opts...)
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	return client
}

var benchmarkID = uuid.MustParse("11111111-2222-3333-4444-555555555555")

// fetch is the floor: a GET whose answer is decoded into T.
func fetch[T any](b *testing.B, hc *http.Client, url string) T {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer test-token")
	resp, err := hc.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var result T
	if err := json.NewDecoder(resp.Body).Decode(&result); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return result
}

func BenchmarkSmallGet(b *testing.B) {
	hc := &http.Client{Transport: always(loanJSON)}
	client := benchmarkClient(b, "https://service.example", hc)
	b.Run("memory/floor", func(b *testing.B) { benchmarkFetchLoan(b, hc, "https://service.example") })
	b.Run("memory/lending", func(b *testing.B) { benchmarkGetLoan(b, client) })

	server := httptest.NewServer(answer(http.StatusOK, loanJSON))
	defer server.Close()
	client = benchmarkClient(b, server.URL, nil)
	b.Run("loopback/floor", func(b *testing.B) { benchmarkFetchLoan(b, &http.Client{}, server.URL) })
	b.Run("loopback/lending", func(b *testing.B) { benchmarkGetLoan(b, client) })
}

func benchmarkFetchLoan(b *testing.B, hc *http.Client, base string) {
	b.ReportAllocs()
	for b.Loop() {
		if got := fetch[loan](b, hc, base+"/api/Loan/get-loan/"+benchmarkID.String()); got.Balance != "123456.78" {
			b.Fatal(got)
		}
	}
}

func benchmarkGetLoan(b *testing.B, client *lending.Client) {
	b.ReportAllocs()
	for b.Loop() {
		got, err := client.Applications.Get(context.Background(), lending.ApplicationID(benchmarkID))
		if err != nil || len(got.Raw()) != len(loanJSON) {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	text := pageJSON(0, 200, 200)
	text = text[8 : len(text)-len(`,"totalCount":200}`)]
	hc := &http.Client{Transport: always(text)}
	client := benchmarkClient(b, "https://service.example", hc)
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := fetch[[]transaction](b, hc, "https://service.example/api/Loan/get-transactions-paged/"+benchmarkID.String()); len(got) != 200 {
				b.Fatal(len(got))
			}
		}
	})
	b.Run("lending", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := client.Applications.ListByCustomer(context.Background(), lending.CustomerID(benchmarkID))
			if err != nil || len(got) != 200 {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("lending decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := client.Applications.ListByCustomer(context.Background(), lending.CustomerID(benchmarkID))
			if err != nil || len(got) != 200 {
				b.Fatal(len(got), err)
			}
			for i := range got {
				var mine transaction
				if err := got[i].Decode(&mine); err != nil || mine.Amount != "1234.56" {
					b.Fatal(err)
				}
			}
		}
	})
}

// discard is a service that takes uploads and looks at nothing of them.
func discard(b testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != base64Length(lending.MaxDocument) {
			b.Error(n, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "true")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

func base64Length(n int) int64 { return int64(base64.StdEncoding.EncodedLen(n)) + 2 }

func BenchmarkUpload(b *testing.B) {
	content := file(lending.MaxDocument)
	url := discard(b)
	b.Run("floor", func(b *testing.B) {
		body, err := json.Marshal(content)
		require.NoError(b, err)
		b.SetBytes(lending.MaxDocument)
		b.ReportAllocs()
		for b.Loop() {
			resp, err := http.Post(url, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "true" {
				b.Fatal(string(got), err)
			}
			resp.Body.Close()
		}
	})
	b.Run("lending", func(b *testing.B) {
		client := benchmarkClient(b, url, nil)
		b.SetBytes(lending.MaxDocument)
		b.ReportAllocs()
		for b.Loop() {
			doc := lending.Document{Name: "statement.pdf", Content: bytes.NewReader(content)}
			if err := client.Applications.SubmitBankStatement(context.Background(), uploadTo, doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var _ net.Conn
