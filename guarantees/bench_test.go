package guarantees_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/probe"
)

// Every benchmark has a floor: careful code with net/http and encoding/json for the same work, in
// turn with the library. The result, "floors", is the ratio of the two times. The times alone mean
// nothing.

// background is the context of benchmarks: the context of a test can end, which costs time.
var background = context.Background()

// transaction is a struct as a caller would write it. The floors decode into it.
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
		`"type":"Repayment","status":"Settled","description":"Scheduled repayment for the billing period, collected `+
		`by direct debit `+
		`from the account of Example Trading Company LLC, 1 Main Street",`+
		`"reference":"REF-%08d-AUTOMATIC","amount":1234.56,"balance":98765.43,`+
		`"postedUtc":"2024-01-02T03:04:05.1234567Z"}`, i, i)
}

// pageJSON is a page of n records: 84 KB for 200.
func pageJSON(from, n, total int) string {
	records := make([]string, n)
	for i := range records {
		records[i] = transactionJSON(from + i)
	}
	return `{"data":[` + strings.Join(records, ",") + `],"totalCount":` + strconv.Itoa(total) + `}`
}

// loan is the struct of the floor of a small GET.
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
	`"customerId":"bbbbbbbb-cccc-dddd-eeee-ffffffffffff","status":"Active","productName":"Line of ` +
	`credit","currency":"USD",` +
	`"description":"` + strings.Repeat("Working capital. ", 18) +
	`","amount":250000.00,"balance":123456.78,"limit":250000.00,` +
	`"rate":0.0125,"createdUtc":"2024-01-02T03:04:05.1234567Z","updatedUtc":"2024-02-03T04:05:06.7654321Z",` +
	`"notes":"` + strings.Repeat("Reviewed by the desk. ", 10) + `"}`

// memory is a transport without a network and with few allocations.
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

// portfolio responds with the requested page of a list of total records.
func portfolio(total int) memory {
	pages := map[string]string{}
	for skip := 0; skip < total; skip += 200 {
		pages[strconv.Itoa(skip)] = pageJSON(skip, min(200, total-skip), total)
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
	if hc == nil {
		return wire.NewClient(tb, url, withToken)
	}
	return wire.NewClient(tb, url, withToken, lending.WithHTTPClient(hc))
}

var benchmarkID = uuid.MustParse("11111111-2222-3333-4444-555555555555")

// versus runs the floor and the library in turn. It reports the ratio of their medians, the ratio
// of their processor times, with the garbage collector, and the allocations of each. It repeats a
// run shorter than a millisecond until a millisecond is full.
func versus(b *testing.B, floor, ours func() error) {
	b.Helper()
	times := 1
	run := func(f func() error) (took, worked time.Duration) {
		start, before := time.Now(), processor()
		for range times {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start), processor() - before
	}
	for took, _ := run(floor); took < time.Millisecond; took, _ = run(floor) {
		times *= 2
	}
	var tooks [2][]time.Duration
	var worked [2]time.Duration
	for b.Loop() {
		for i, f := range []func() error{floor, ours} {
			t, w := run(f)
			tooks[i], worked[i] = append(tooks[i], t), worked[i]+w
		}
	}
	var median [2]float64
	for i := range tooks {
		slices.Sort(tooks[i])
		median[i] = float64(tooks[i][len(tooks[i])/2].Nanoseconds()) / float64(times)
	}
	b.ReportMetric(0, "ns/op") // of both, which means nothing
	b.ReportMetric(median[1]/median[0], "floors")
	if worked[0] > 0 {
		b.ReportMetric(float64(worked[1])/float64(worked[0]), "cpu-floors")
	}
	b.ReportMetric(median[1], "ours-ns")
	b.ReportMetric(median[0], "floor-ns")
	b.ReportMetric(testing.AllocsPerRun(5, func() { _ = ours() }), "ours-allocs")
	b.ReportMetric(testing.AllocsPerRun(5, func() { _ = floor() }), "floor-allocs")
}

// errWrong says that a benchmark got a wrong result.
var errWrong = errors.New("another answer than the service gave")

func expect(ok bool, err error) error {
	if err == nil && !ok {
		err = errWrong
	}
	return err
}

// send is the floor of a call: a request with the deadline of the library. use takes the response.
func send(hc *http.Client, method, url string, content io.Reader, use func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(background, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer test-token")
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return expect(resp.StatusCode == http.StatusOK, use(resp.Body))
}

// fetch is the floor of a read.
func fetch(hc *http.Client, url string, use func(io.Reader) error) error {
	return send(hc, http.MethodGet, url, nil, use)
}

// decode decodes a response for the floors.
func decode(into any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(into) }
}

// readWhole is the floor of a view: it reads the response and checks that it is JSON.
func readWhole(body io.Reader) error {
	text, err := io.ReadAll(body)
	return expect(json.Valid(text), err)
}

// These callers read one field of a record.
type (
	loanBalance struct {
		Balance json.Number `json:"balance"`
	}
	transactionAmount struct {
		Amount json.Number `json:"amount"`
	}
)

func BenchmarkSmallGet(b *testing.B) {
	server := httptest.NewServer(wire.Answer(http.StatusOK, loanJSON))
	defer server.Close()
	for _, over := range []struct {
		name, url string
		hc        *http.Client // nil for the library's own
	}{
		{"memory", "https://service.example", &http.Client{Transport: always(loanJSON)}},
		{"loopback", server.URL, nil},
	} {
		client, url := benchmarkClient(b, over.url, over.hc), over.url+"/api/Loan/get-loan/"+benchmarkID.String()
		hc := cmp.Or(over.hc, &http.Client{})
		get := func() (*lending.LoanResponse, error) {
			return client.Loans.Get(background, lending.LoanID(benchmarkID))
		}
		b.Run(over.name+"/decoded", func(b *testing.B) {
			versus(b, func() error {
				var mine loan
				err := fetch(hc, url, decode(&mine))
				return expect(mine.Balance == "123456.78", err)
			}, func() error {
				mine, err := lending.As[loan](get())
				return expect(mine.Balance == "123456.78", err)
			})
		})
		b.Run(over.name+"/one field", func(b *testing.B) {
			versus(b, func() error {
				var mine loanBalance
				err := fetch(hc, url, decode(&mine))
				return expect(mine.Balance == "123456.78", err)
			}, func() error {
				mine, err := lending.As[loanBalance](get())
				return expect(mine.Balance == "123456.78", err)
			})
		})
		b.Run(over.name+"/undecoded view", func(b *testing.B) {
			versus(b, func() error { return fetch(hc, url, readWhole) }, func() error {
				got, err := get()
				return expect(err != nil || len(got.Raw()) == len(loanJSON), err)
			})
		})
	}
}

// page is the struct of the floor of a list.
type page[T any] struct {
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"`
}

func pageURL(skip int) string {
	return "https://service.example/api/Loan/get-transactions-paged/" + benchmarkID.String() + "?skip=" +
		strconv.Itoa(skip) + "&take=200"
}

// walkFloor reads a list of total records page by page, each record into a T.
func walkFloor[T any](hc *http.Client, total int) error {
	n := 0
	for n < total {
		var got page[T]
		if err := fetch(hc, pageURL(n), decode(&got)); err != nil || len(got.Data) == 0 {
			return expect(false, err)
		}
		n += len(got.Data)
	}
	return nil
}

// listAs decodes the records of a page, each into a T of the caller.
func listAs[T any](records []lending.Transaction) error {
	mine, err := lending.ListAs[T](records, nil)
	return expect(len(mine) == len(records), err)
}

// decodeEach does the same with the caller's decoder, for example encoding/json.
func decodeEach[T any](records []lending.Transaction) error {
	mine := make([]T, len(records))
	for i, record := range records {
		if err := json.Unmarshal(record.Raw(), &mine[i]); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkPage(b *testing.B) {
	hc := &http.Client{Transport: always(pageJSON(0, 200, 200))}
	client := benchmarkClient(b, "https://service.example", hc)
	get := func(use func([]lending.Transaction) error) func() error {
		return func() error {
			got, err := client.Loans.TransactionsPaged(background, lending.LoanID(benchmarkID), nil)
			if err != nil {
				return err
			}
			return expect(len(got.Data) == 200, use(got.Data))
		}
	}
	b.Run("decoded", func(b *testing.B) {
		versus(b, func() error { return walkFloor[transaction](hc, 200) }, get(listAs[transaction]))
	})
	b.Run("own decoder through Raw", func(b *testing.B) {
		versus(b, func() error { return walkFloor[transaction](hc, 200) }, get(decodeEach[transaction]))
	})
	b.Run("one field of each", func(b *testing.B) {
		versus(b, func() error { return walkFloor[transactionAmount](hc, 200) }, get(listAs[transactionAmount]))
	})
	b.Run("undecoded view", func(b *testing.B) {
		versus(b, func() error { return fetch(hc, pageURL(0), decode(new(page[json.RawMessage]))) },
			get(func([]lending.Transaction) error { return nil }))
	})
}

// BenchmarkWatch compares learning from a response with decoding it by encoding/json.
func BenchmarkWatch(b *testing.B) {
	for _, test := range []struct {
		name, body string
		into       any
	}{{"page", pageJSON(0, 200, 200), new(page[transaction])}, {"small", loanJSON, new(loan)}} {
		b.Run(test.name, func(b *testing.B) {
			ctx, learn := probe.Watch(nil, nil).Observe(background, lending.Call{})
			client := benchmarkClient(b, "https://service.example", &http.Client{Transport: always(test.body)})
			_, err := client.Loans.TransactionsPaged(ctx, lending.LoanID(benchmarkID), nil)
			require.Equal(b, test.name == "page", err == nil, "the context has the response in any case")
			versus(b, func() error { return json.Unmarshal([]byte(test.body), test.into) }, func() error {
				learn(lending.Call{Method: http.MethodGet, Route: "/api/Loan/get-transactions-paged/{loanId}"})
				return nil
			})
		})
	}
}

// uploads is a service for documents, and discards bodies of this length.
func uploads(b *testing.B, want int64) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != want {
			b.Error(n, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "true")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

const maxDocument = 15 << 20

var document = bytes.Repeat([]byte("%PDF-1.7"), maxDocument/8)

// BenchmarkUpload sends a file of 15 MiB. The floor reads the file into memory, encodes it and
// posts the whole: the simplest code, and the fastest as long as there is enough memory.
func BenchmarkUpload(b *testing.B) {
	name := filepath.Join(b.TempDir(), "statement.pdf")
	require.NoError(b, os.WriteFile(name, document, 0o600))
	body := encodeDocument(document)
	url := uploads(b, int64(len(body)))
	client := benchmarkClient(b, url, nil)
	ours := func(r io.Reader) error {
		return client.Applications.SubmitBankStatement(background, catalog.OtherApplication,
			lending.Document{Name: "statement.pdf", Content: r})
	}
	for _, test := range []struct {
		from string
		open func(*os.File) io.Reader
	}{
		{"file", func(f *os.File) io.Reader { return f }},
		{"reader", func(f *os.File) io.Reader { return struct{ io.Reader }{f} }}, // of unknown length
	} {
		opened := func(send func(io.Reader) error) func() error {
			return func() error {
				f, err := os.Open(name)
				if err != nil {
					return err
				}
				defer f.Close()
				return send(test.open(f))
			}
		}
		b.Run("from a "+test.from, func(b *testing.B) {
			b.SetBytes(2 * maxDocument)
			versus(b, opened(func(r io.Reader) error { return postDocument(url, r) }), opened(ours))
		})
		b.Run("from a "+test.from+", beside a body in memory", func(b *testing.B) {
			b.SetBytes(2 * maxDocument)
			versus(b, func() error { return postBody(url, body) }, opened(ours))
		})
	}
}

// postDocument is the floor of an upload: it encodes and sends the bytes in memory.
func postDocument(url string, content io.Reader) error {
	var text bytes.Buffer
	if f, ok := content.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			text.Grow(int(info.Size()) + bytes.MinRead)
		}
	}
	if _, err := text.ReadFrom(content); err != nil {
		return err
	}
	return postBody(url, encodeDocument(text.Bytes()))
}

func encodeDocument(content []byte) []byte {
	body := make([]byte, 1, base64.StdEncoding.EncodedLen(len(content))+len(`""`))
	body[0] = '"'
	return append(base64.StdEncoding.AppendEncode(body, content), '"')
}

func postBody(url string, body []byte) error {
	return send(http.DefaultClient, http.MethodPost, url, bytes.NewReader(body), func(answer io.Reader) error {
		got, err := io.ReadAll(answer)
		return expect(string(got) == "true", err)
	})
}

// BenchmarkMutations sends mutations in a row. The floor is a POST of net/http with the same
// deadline. Over loopback there are two floors: a POST on its own connection, which takes no
// response of another call, like a mutation of the client, and a POST on a kept connection.
func BenchmarkMutations(b *testing.B) {
	const created = `{"id":"11111111-2222-3333-4444-555555555555"}`
	server := httptest.NewServer(wire.Answer(http.StatusOK, created))
	defer server.Close()
	memory := &http.Client{Transport: always(created)}
	kept, own := &http.Transport{}, &http.Transport{DisableKeepAlives: true}
	defer kept.CloseIdleConnections()
	for _, over := range []struct {
		name, url string
		ours      *http.Client // nil for the library's own
		floor     *http.Client
	}{
		{"memory", "https://service.example", memory, memory},
		{"loopback, beside one on a connection of its own", server.URL, nil, &http.Client{Transport: own}},
		{"loopback, beside one on a kept connection", server.URL, nil, &http.Client{Transport: kept}},
	} {
		client := benchmarkClient(b, over.url, over.ours)
		b.Run(over.name+"/without body", func(b *testing.B) {
			versus(b, func() error {
				return postCommand(over.floor, over.url+"/api/Application/cancel-application/"+
					catalog.Application.String(), nil, nil)
			}, func() error { return client.Applications.Cancel(background, catalog.Application) })
		})
		b.Run(over.name+"/with body", func(b *testing.B) {
			versus(b, func() error {
				var created struct{ ID uuid.UUID }
				err := postCommand(over.floor, over.url+"/api/Application/create-customer", ada, &created)
				return expect(created.ID == benchmarkID, err)
			}, func() error {
				created, err := client.Applications.CreateCustomer(background, adaRequest)
				return expect(err != nil || created.ID == lending.CustomerID(benchmarkID), err)
			})
		})
	}
}

// user is the struct of the floor of a mutation.
type user struct {
	FirstName    string `json:"firstName"`
	LastName     string `json:"lastName"`
	Email        string `json:"email"`
	Password     string `json:"password"`
	MobileNumber string `json:"mobileNumber"`
}

var (
	ada        = user{"Ada", "Lovelace", "ada@example.com", "correct horse", "4155550100"}
	adaRequest = lending.UserRequest{
		FirstName: ada.FirstName, LastName: ada.LastName, Email: ada.Email,
		Password: lending.NewSecret(ada.Password), MobileNumber: ada.MobileNumber,
	}
)

// postCommand is the floor of a mutation: a POST whose response is decoded into into, unless into
// is nil.
func postCommand(hc *http.Client, url string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	return send(hc, http.MethodPost, url, content, func(answer io.Reader) error {
		got, err := io.ReadAll(answer)
		if into != nil && err == nil {
			err = json.Unmarshal(got, into)
		}
		return err
	})
}
