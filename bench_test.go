package lending_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
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

// background is the context of benchmarks: that of a test can end, which costs.
var background = context.Background()

// transaction is what the floors decode into: a struct as a caller would write it.
type transaction struct {
	ID          string      `json:"id"`
	LoanID      string      `json:"loanId"`
	Type        string      `json:"type"`
	Status      string      `json:"status"`
	Description string      `json:"description"`
	Reference   string      `json:"reference"`
	Amount      json.Number `json:"amount"`
	Balance     json.Number `json:"balance"`
	PostedUTC   string      `json:"postedUtc"`
}

// transactionJSON is a record of 420 bytes.
func transactionJSON(i int) string {
	return fmt.Sprintf(`{"id":"00000000-0000-4000-8000-%012d","loanId":"11111111-2222-3333-4444-555555555555",`+
		`"type":"Repayment","status":"Settled","description":"Scheduled repayment for the billing period, collected by direct debit `+
		`from the account of Example Trading Company LLC, 1 Main Street",`+
		`"reference":"REF-%08d-AUTOMATIC","amount":1234.56,"balance":98765.43,"postedUtc":"2024-01-02T03:04:05.1234567Z"}`, i, i)
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
	ID            string      `json:"id"`
	ApplicationID string      `json:"applicationId"`
	CustomerID    string      `json:"customerId"`
	Status        string      `json:"status"`
	ProductName   string      `json:"productName"`
	Currency      string      `json:"currency"`
	Description   string      `json:"description"`
	Amount        json.Number `json:"amount"`
	Balance       json.Number `json:"balance"`
	Limit         json.Number `json:"limit"`
	Rate          json.Number `json:"rate"`
	CreatedUTC    string      `json:"createdUtc"`
	UpdatedUTC    string      `json:"updatedUtc"`
	Notes         string      `json:"notes"`
}

// loanJSON is a record of 1 KB.
var loanJSON = `{"id":"11111111-2222-3333-4444-555555555555","applicationId":"66666666-7777-8888-9999-aaaaaaaaaaaa",` +
	`"customerId":"bbbbbbbb-cccc-dddd-eeee-ffffffffffff","status":"Active","productName":"Line of credit","currency":"USD",` +
	`"description":"` + strings.Repeat("Working capital. ", 18) + `","amount":250000.00,"balance":123456.78,"limit":250000.00,` +
	`"rate":0.0125,"createdUtc":"2024-01-02T03:04:05.1234567Z","updatedUtc":"2024-02-03T04:05:06.7654321Z",` +
	`"notes":"` + strings.Repeat("Reviewed by the desk. ", 10) + `"}`

// memory is a transport that answers without a network, and with as few allocations
// of its own as it can.
type memory func(*http.Request) string

var jsonHeader = http.Header{"Content-Type": {"application/json; charset=utf-8"}}

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer struct {
		http.Response
		text strings.Reader
	}
	body := m(r)
	answer.text.Reset(body)
	answer.Response = http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: jsonHeader, ContentLength: int64(len(body)), Body: io.NopCloser(&answer.text),
	}
	return &answer.Response, nil
}

func always(body string) memory { return func(*http.Request) string { return body } }

// portfolio answers with the page that is asked for, of a list of total records.
func portfolio(total int) memory {
	pages := map[string]string{}
	for skip := 0; skip < total; skip += lending.MaxTake {
		pages[strconv.Itoa(skip)] = pageJSON(skip, min(lending.MaxTake, total-skip), total)
	}
	return func(r *http.Request) string {
		_, skip, ok := strings.Cut(r.URL.RawQuery, "skip=")
		if !ok {
			return pages["0"]
		}
		skip, _, _ = strings.Cut(skip, "&")
		return pages[skip]
	}
}

func benchmarkClient(tb testing.TB, url string, hc *http.Client) *lending.Client {
	tb.Helper()
	opts := []lending.Option{lending.WithTokenSource(lending.StaticToken("test-token"))}
	if hc != nil {
		opts = append(opts, lending.WithHTTPClient(hc))
	}
	client, err := lending.New(url, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

var benchmarkID = uuid.MustParse("11111111-2222-3333-4444-555555555555")

// fetch is the floor: a GET whose answer is decoded into T.
func fetch[T any](b *testing.B, hc *http.Client, url string) T {
	b.Helper()
	req, err := http.NewRequestWithContext(background, http.MethodGet, url, nil)
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
	b.Run("over=memory/by=floor", func(b *testing.B) { benchmarkFetchLoan(b, hc, "https://service.example") })
	b.Run("over=memory/by=lending", func(b *testing.B) { benchmarkGetLoan(b, client) })

	server := httptest.NewServer(answer(http.StatusOK, loanJSON))
	defer server.Close()
	client = benchmarkClient(b, server.URL, nil)
	b.Run("over=loopback/by=floor", func(b *testing.B) { benchmarkFetchLoan(b, &http.Client{}, server.URL) })
	b.Run("over=loopback/by=lending", func(b *testing.B) { benchmarkGetLoan(b, client) })
}

func benchmarkFetchLoan(b *testing.B, hc *http.Client, base string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if got := fetch[loan](b, hc, base+"/api/Loan/get-loan/"+benchmarkID.String()); got.Balance != "123456.78" {
			b.Fatal(got)
		}
	}
}

func benchmarkGetLoan(b *testing.B, client *lending.Client) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		got, err := client.Loans.Get(background, lending.LoanID(benchmarkID))
		if err != nil || len(got.Raw()) != len(loanJSON) || got.ID != lending.LoanID(benchmarkID) {
			b.Fatal(got, err)
		}
	}
}

// page is what the floor of a list decodes into.
type page struct {
	Data       []transaction `json:"data"`
	TotalCount int           `json:"totalCount"`
}

func BenchmarkPage(b *testing.B) {
	hc := &http.Client{Transport: always(pageJSON(0, 200, 200))}
	b.Run("by=floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := fetch[page](b, hc, pageURL(0)); len(got.Data) != 200 {
				b.Fatal(len(got.Data))
			}
		}
	})
	client := benchmarkClient(b, "https://service.example", hc)
	b.Run("by=lending", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := client.Loans.TransactionsPaged(background, lending.LoanID(benchmarkID), nil)
			if err != nil || len(got.Data) != 200 {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=lending+decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := client.Loans.TransactionsPaged(background, lending.LoanID(benchmarkID), nil)
			if err != nil || len(got.Data) != 200 {
				b.Fatal(err)
			}
			for _, record := range got.Data {
				var mine transaction
				if err := record.Decode(&mine); err != nil || mine.Amount != "1234.56" {
					b.Fatal(err)
				}
			}
		}
	})
}

func pageURL(skip int) string {
	return "https://service.example/api/Loan/get-transactions-paged/" + benchmarkID.String() + "?skip=" + strconv.Itoa(skip) + "&take=200"
}

func BenchmarkWalk(b *testing.B) {
	const total = 10_000
	hc := &http.Client{Transport: portfolio(total)}
	b.Run("by=floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for n < total {
				n += len(fetch[page](b, hc, pageURL(n)).Data)
			}
		}
	})
	client := benchmarkClient(b, "https://service.example", hc)
	b.Run("by=lending", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range client.Loans.AllTransactionsPaged(background, lending.LoanID(benchmarkID), nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != total {
				b.Fatal(n)
			}
		}
	})
}

// uploads is a service that takes documents of 15 MiB and hands each body to use.
func uploads(b *testing.B, use func(io.Reader) (int64, error), want int64) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := use(r.Body); err != nil || n != want {
			b.Error(n, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "true")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

func discard(body io.Reader) (int64, error) { return io.Copy(io.Discard, body) }

// hash does the least that a real service does: it decodes the body.
func hash(body io.Reader) (int64, error) {
	body = bufio.NewReaderSize(body, 64<<10)
	if _, err := io.ReadFull(body, make([]byte, 1)); err != nil { // the quote
		return 0, err
	}
	encoded := io.LimitReader(body, int64(base64.StdEncoding.EncodedLen(lending.MaxDocument)))
	n, err := io.Copy(sha256.New(), base64.NewDecoder(base64.StdEncoding, encoded))
	_, _ = io.Copy(io.Discard, body)
	return n, err
}

func BenchmarkUpload(b *testing.B) {
	content := file(lending.MaxDocument)
	body, err := json.Marshal(content) // the floor has it in memory
	require.NoError(b, err)
	for _, service := range []struct {
		name string
		url  string
	}{
		{"discarded", uploads(b, discard, int64(len(body)))},
		{"hashed", uploads(b, hash, int64(len(content)))},
	} {
		b.Run("service="+service.name+"/by=floor", func(b *testing.B) {
			b.SetBytes(lending.MaxDocument)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Post(service.url, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "true" {
					b.Fatal(string(got), err)
				}
				resp.Body.Close()
			}
		})
		client := benchmarkClient(b, service.url, nil)
		b.Run("service="+service.name+"/by=lending", func(b *testing.B) {
			b.SetBytes(lending.MaxDocument)
			b.ReportAllocs()
			for b.Loop() {
				doc := lending.Document{Name: "statement.pdf", Content: bytes.NewReader(content)}
				if err := client.Applications.SubmitBankStatement(background, uploadTo, doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
