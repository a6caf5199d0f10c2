package shapes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/probe"
	"github.com/lendingapi/lending-go/shapes"
)

const loanRoute = "GET /api/Loan/get-loan/{loanId}"

// watched is a client whose service answers get-loan with the test's response.
type watched struct {
	*shapes.Watcher
	t       *testing.T
	service *lendingtest.Service
	client  *lending.Client
	loan    lending.LoanID

	mu      sync.Mutex
	changes []string
}

func watch(t *testing.T, known shapes.Seen) *watched {
	t.Helper()
	server := lendingtest.NewServer()
	t.Cleanup(server.Close)
	w := &watched{t: t, service: server.Service}
	w.Watcher = shapes.Watch(known, func(change string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, change)
	})
	var err error
	w.client, err = lending.New(server.URL, lending.WithObserver(w.Observe, nil), lending.WithCredentials(
		lending.Credentials{
			Username: lendingtest.AdministratorUsername,
			Password: lending.NewSecret(lendingtest.AdministratorPassword),
		}))
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	w.loan, err = lending.ParseLoanID(server.AddLoan(lendingtest.Loan{ID: loanID}).ID)
	require.NoError(t, err)
	return w
}

// answer has the service answer once, and returns the changes that the watcher reports.
func (w *watched) answer(body string) []string {
	w.t.Helper()
	w.service.Answer(loanRoute, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(body))
	})
	var own lending.Response
	_, err := w.client.Loans.Get(lending.CaptureResponse(w.t.Context(), &own), w.loan)
	require.NoError(w.t, err)
	require.Equal(w.t, body, string(own.Body), "the caller's own capture gets the response, too")
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.changes
	w.changes = nil
	return changes
}

const (
	loanID = "5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b"
	id     = `"id":"` + loanID + `","applicationId":"` + loanID + `",`
)

// A change is reported once, with names and types and without a value.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	for _, test := range []struct {
		body string
		want []string
	}{
		{`{` + id + `"rate":0.8}`, nil}, // the first response teaches
		{`{` + id + `"rate":0.9}`, nil},
		{`{` + id + `"rate":1}`, nil}, // an integer is a number
		{`{` + id + `"rate":"secret"}`, []string{".rate: was number, is string"}},
		{`{` + id + `"rate":"secret"}`, nil},
		{`{` + id + `"rate":0.5}`, nil},
		{`{` + id + `"rate":null}`, []string{".rate: was mixed, is null"}},
		{`{` + id + `"rate":0.5,"list":[{"a":true}]}`, []string{
			".list: new, list, optional", ".list[]: new, object", ".list[].a: new, boolean",
		}},
		{`{` + id + `"list":[]}`, []string{".rate: gone, was mixed or null"}},
		{`{` + id + `"list":[{"a":true,"ada@example.com":1}]}`, []string{".list[].*: new, integer"}},
		{`{` + id + `"list":[{"a":false,"grace@example.com":2}]}`, nil},
		{`{` + id + `"list":[{"a":"2026-01-01"}]}`, []string{".list[].a: was boolean, is date"}},
	} {
		t.Run(test.body, func(t *testing.T) {
			var want []string
			for _, line := range test.want {
				want = append(want, loanRoute+" "+line)
			}
			assert.Equal(t, want, w.answer(test.body))
		})
	}
	kept, err := json.Marshal(w.Seen())
	require.NoError(t, err)
	for _, value := range []string{"secret", "ada", "grace", "5f1c7a90", "0.8", "2026"} {
		assert.NotContains(t, string(kept), value)
	}
	assert.Contains(t, w.Seen(), "POST /api/Authenication/login", "the sign-in is watched, and works")

	var seen shapes.Seen
	require.NoError(t, json.Unmarshal(kept, &seen))
	next := watch(t, seen)
	assert.Empty(t, next.answer(`{`+id+`"rate":null,"list":[]}`), "what was reported once is known after a restart")
	assert.Equal(t, []string{loanRoute + " .list: was list, optional, is integer"}, next.answer(`{`+id+`"list":3}`))
}

// The empty object of names that a caller chooses is a map already. The object of a record is none, and
// neither is a number.
func TestFirstMemberOfAMapChangesNoKind(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	require.Empty(t, w.answer(`{`+id+`"extraInformation":{},"signer":{}}`))
	assert.Equal(t, []string{
		loanRoute + " .extraInformation.*: new, string", loanRoute + " .signer.name: new, string, optional",
	}, w.answer(`{`+id+`"extraInformation":{"years":"seven"},"signer":{"name":"Ada"}}`))
	number := w.answer(`{` + id + `"extraInformation":7,"signer":{}}`)
	assert.Contains(t, number, loanRoute+" .extraInformation: was map, is integer")
}

// A watcher stays small, whatever a service answers.
func TestWatchIsBounded(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	w.answer(`{` + id + `"a":1}`)
	for i := range 40 {
		var wide strings.Builder
		for j := range 200 {
			fmt.Fprintf(&wide, `"field%c%c%c":%d,`, 'a'+i%26, 'a'+j/26, 'a'+j%26, j)
		}
		w.answer(fmt.Sprintf(`{`+id+`"a":1,"nested%c":{%s"z":true}}`, 'a'+i%26, wide.String()))
	}
	w.answer(`{` + id + `"a":1,"big":"` + strings.Repeat("x", 1<<20) + `"}`)
	kept, err := json.Marshal(w.Seen())
	require.NoError(t, err)
	assert.Less(t, len(kept), 100_000)
	assert.Contains(t, string(kept), "fieldaaa")
	assert.NotContains(t, string(kept), "big")

	for i := range 400 {
		ctx, end := w.Observe(t.Context(), lending.Call{})
		answer(ctx, t, w)
		end(lending.Call{Method: "GET", Route: fmt.Sprintf("/api/Loan/route-%c%c", 'a'+i/26, 'a'+i%26)})
	}
	assert.Len(t, w.Seen(), 200)
}

// answer fills the capture of a context with a response.
func answer(ctx context.Context, t *testing.T, w *watched) {
	t.Helper()
	w.service.Answer(loanRoute, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{` + id + `"a":1}`))
	})
	_, err := w.client.Loans.Get(ctx, w.loan)
	require.NoError(t, err)
}

// Goroutines of a client share a watcher, while another goroutine saves the learnt shapes.
func TestWatchTogether(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if i%2 == 0 {
					_, err := json.Marshal(w.Seen())
					assert.NoError(t, err)
				} else if _, err := w.client.Loans.Get(t.Context(), w.loan); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, 80, w.Seen()[loanRoute].Count())
}

// A response that an idempotency log has kept or rebuilt teaches nothing, and neither does a refusal.
func TestWatchLearnsFromTheService(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	ctx, end := w.Observe(t.Context(), lending.Call{})
	answer(ctx, t, w)
	before := w.Seen()
	end(lending.Call{Method: "GET", Route: "/api/x", Idempotency: "rebuilt"})
	w.service.Fail(loanRoute, lendingtest.Fault{Status: http.StatusNotFound})
	_, err := w.client.Loans.Get(t.Context(), w.loan)
	require.Error(t, err)
	assert.Equal(t, before, w.Seen())
}

func TestSeenIsSavedAsAServiceJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	watcher := shapes.Watch(nil, func(string) {})
	_, err := probe.Load("service.json")
	require.Error(t, err)
	err = (&probe.Service{Shapes: watcher.Seen()}).Save("service.json")
	require.NoError(t, err)
	saved, err := probe.Load("service.json")
	require.NoError(t, err)
	assert.Equal(t, watcher.Seen(), saved.Shapes)
}

func TestLearn(t *testing.T) {
	t.Parallel()
	seen := shapes.Seen{}
	for _, test := range []struct {
		route, body string
		want        bool
	}{
		{loanRoute, `{"a":1,"k":true}`, true},
		{loanRoute, `<html>`, false},
		{loanRoute, ``, false},
		{"GET /api/Loan/get-loan/5f1c7a90", `{"a":1}`, false},
	} {
		t.Run(test.route+test.body, func(t *testing.T) {
			assert.Equal(t, test.want, seen.Learn(test.route, []byte(test.body)))
		})
	}
	assert.Len(t, seen, 1)
	assert.Equal(t, "object", seen[loanRoute].Class())
	later := shapes.Seen{}
	later.Learn(loanRoute, []byte(`{"b":1,"k":true}`))
	later.Learn("GET /api/Loan/is-loan-closed/{loanId}", []byte(`true`))
	assert.Equal(t, []string{
		loanRoute + " .a: gone, was integer", loanRoute + " .b: new, integer, optional",
		"GET /api/Loan/is-loan-closed/{loanId}: new",
	}, shapes.Changes(seen, later))
	assert.Nil(t, seen[loanRoute].Fields["b"], "merging leaves both alone")
}

// One odd name among the fields of a record hides no change of the others.
func TestOddNamesAreFields(t *testing.T) {
	t.Parallel()
	for i, name := range []string{
		"@odata.type", "first name", "line-1", "address_line_12345", "a.b", "größe", "$ref", "x/y", "3dSecure", "a'b",
		"ada@example.com", loanID, "2026-11-20",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, nil)
			w.answer(`{` + id + `"rate":1}`)
			w.answer(`{` + id + `"rate":1,"` + name + `":1}`)
			assert.Equal(t, []string{loanRoute + " .rate: was integer, is string"}, w.answer(`{`+id+`"rate":"x"}`))
			assert.Equal(t, i < 10, w.Seen()[loanRoute].Fields[name] != nil, "the last are data")
		})
	}
}

// A record of which most names are odd stays a record, also if its first response has them.
func TestOddRecordsAreNoMaps(t *testing.T) {
	t.Parallel()
	const odd = `"First Name":"x","12":true,"ada@example.com":[],"Last Name":"y"`
	w := watch(t, nil)
	w.answer(`{` + id + odd + `,"rate":1}`)
	w.answer(`{` + id + odd + `,"rate":1}`)
	assert.Equal(t, []string{loanRoute + " .rate: was integer, is string"}, w.answer(`{`+id+odd+`,"rate":"x"}`))
	record, alike := shapes.Seen{}, shapes.Seen{}
	for range 2 {
		require.True(t, record.Learn(loanRoute, []byte(`{"name":"x","city":"y"}`)))
	}
	require.True(t, alike.Learn(loanRoute, []byte(`{"name":"x","First Name":"y","Last Name":"z"}`)))
	for _, both := range []shapes.Seen{record.Merge(alike), alike.Merge(record)} {
		assert.False(t, both[loanRoute].Map)
		assert.Contains(t, both[loanRoute].Fields, "name")
	}
	assert.True(t, alike.Merge(nil)[loanRoute].Map, "nothing says that it is a record")
}

// Names are data if all members are alike and none is in most of the objects, or if there are very many.
func TestNamesThatAreData(t *testing.T) {
	t.Parallel()
	rare, many := shapes.Seen{}, shapes.Seen{}
	for _, name := range []string{"ada", "bob", "eve"} {
		require.True(t, rare.Learn(loanRoute, fmt.Appendf(nil, `{"signers":{%q:{"signed":true}}}`, name)))
	}
	for i := range 300 {
		many.Learn(loanRoute, fmt.Appendf(nil, `{"of%c%c":%d}`, 'a'+i/26, 'a'+i%26, i))
	}
	require.True(t, many.Learn(loanRoute, []byte(`{"total":"x"}`)))
	hidden := func(name string, seen shapes.Seen) {
		kept, err := json.Marshal(seen)
		require.NoError(t, err)
		assert.NotContains(t, string(kept), name)
		assert.Contains(t, string(kept), `"map":true`)
	}
	hidden("ada", rare)
	hidden("ofab", many)
	for _, bodies := range [][]string{
		{`{"ada":true}`, `{"bob@example.com":true}`},
		{`{"ada":true,"bob@example.com":null}`},
		{`{"ada":null,"bob@example.com":true}`},
	} {
		beside := shapes.Seen{}
		for _, body := range bodies {
			require.True(t, beside.Learn(loanRoute, []byte(body)))
		}
		hidden("ada", beside)
	}
	watcher := shapes.Watch(rare, nil)
	assert.Equal(t, "object", watcher.Seen()[loanRoute].Fields["signers"].Values.Class())
}

// The words of a status are learnt, up to twenty short ones, and of no other field.
func TestWordsOfAStatus(t *testing.T) {
	t.Parallel()
	seen := shapes.Seen{}
	for _, body := range []string{
		`{"status":"On Hold","name":"Ada","type":"Invoice","kind":"x"}`, `{"status":"On Hold","type":"see ada@example.com"}`,
		`{"status":"Closed","type":"Invoice","kind":null}`,
	} {
		require.True(t, seen.Learn(loanRoute, []byte(body)))
	}
	for i := range 30 {
		seen.Learn(loanRoute, fmt.Appendf(nil, `{"stage":"word%c%c"}`, 'a'+i/26, 'a'+i%26))
	}
	seen.Learn("GET /api/Application/application-status/{applicationId}", []byte(`"Under Review"`))
	kept, err := json.Marshal(seen)
	require.NoError(t, err)
	for _, value := range []string{"Ada", "ada", "Invoice", "wordaa"} {
		assert.NotContains(t, string(kept), value)
	}
	assert.Equal(t, map[string]int{"On Hold": 2, "Closed": 1}, seen[loanRoute].Fields["status"].Words)
	assert.Contains(t, string(kept), `"words":{"Under Review":1}`)
}

// Of a time the digits of the fraction and the offset are learnt, up to twenty of them.
func TestFractionsAndOffsetsOfTimes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ value, kind, end string }{
		{"2026-11-20T12:34:56Z", "time", "Z"},
		{"2026-11-20T12:34:56.1234567Z", "time", ".0000000Z"},
		{"2026-11-20T12:34:56.789+02:00", "time", ".000+02:00"},
		{"2026-11-20T12:34:56-05:00", "time", "-05:00"},
		{"2026-11-20T12:34:56", "time without a zone", ""},
		{"2026-11-20T12:34:56.10", "time without a zone", ".00"},
		{"2026-11-20", "date", "none"},
		{"2026-11-31T12:34:56Z", "string", "none"},
		{"2026-11-20T12:34", "string", "none"},
	} {
		t.Run(test.value, func(t *testing.T) {
			t.Parallel()
			seen := shapes.Seen{}
			require.True(t, seen.Learn(loanRoute, []byte(`"`+test.value+`"`)))
			want := map[string]int{test.end: 1}
			if test.end == "none" {
				want = nil
			}
			assert.Equal(t, test.kind, seen[loanRoute].Class())
			assert.Equal(t, want, seen[loanRoute].Times)
		})
	}
	w := watch(t, nil)
	for i := range 30 {
		changes := w.answer(fmt.Sprintf(`{%s"at":"2026-11-20T12:34:56+00:%02d"}`, id, i))
		assert.Empty(t, changes, "another offset is no change")
	}
	assert.Len(t, w.Seen()[loanRoute].Fields["at"].Times, 20)
}

// A long list costs memory for its places and not for its rows.
func TestLongListsCostLittleMemory(t *testing.T) { // not parallel: it counts allocations
	row := `{"id":"` + loanID + `","amount":12.5,"status":"On Hold","when":"2026-11-20T12:00:00Z","note":"a\"b"}`
	body := []byte("[" + strings.Repeat(row+",\n ", 1<<20/len(row)) + row + "]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	shapes.Seen{}.Learn(loanRoute, body)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "for 1 MiB")
}

// A value below the maximum depth is skipped, and the fields behind it are learnt. Any JSON can be learnt.
func FuzzLearn(f *testing.F) {
	deep := strings.Repeat(`{"a":[`, 9) + `1,{"b}":"]\\\""},2` + strings.Repeat(`]}`, 9)
	seen := shapes.Seen{}
	require.True(f, seen.Learn(loanRoute, []byte(`{"deep":`+deep+`,"behind":true}`)))
	assert.Equal(f, "boolean", seen[loanRoute].Fields["behind"].Class())
	for _, seed := range []string{
		deep, ` [ 1 , "x\u0022" , { } , [ ] ] `, `"x"`, `-1e9`, `{"a":1,"a":"x","":null}`, `{"\u0061":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		seen := shapes.Seen{}
		require.Equal(t, json.Valid(bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))), seen.Learn(loanRoute, body))
		_, err := json.Marshal(seen)
		require.NoError(t, err)
	})
}

// A report that panics does not reach the caller, whose mutation has happened.
func TestReportMayPanic(t *testing.T) {
	t.Parallel()
	w := shapes.Watch(nil, func(string) { panic("report") })
	server := lendingtest.NewServer()
	defer server.Close()
	client, err := lending.New(server.URL, lending.WithObserver(w.Observe, nil),
		lending.WithTokenSource(lending.StaticToken(server.Token(lendingtest.Username))))
	require.NoError(t, err)
	defer client.Close()
	customer, err := lending.ParseCustomerID(server.AddCustomer(lendingtest.Customer{}).ID)
	require.NoError(t, err)
	create := func() error {
		_, err := client.Applications.Create(t.Context(), lending.ApplicationRequest{CustomerID: customer}, nil)
		return err
	}
	require.NoError(t, create())
	const route = "POST /api/Application/create-application"
	server.Answer(route, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"id":"` + loanID + `"}`))
	})
	assert.NotPanics(t, func() { _ = create() })
	assert.Positive(t, w.Seen()[route].Kinds["object"], "the change was there to report")
}
