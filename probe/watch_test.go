package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const loanRoute = "GET /api/Loan/get-loan/{loanId}"

// watched is a client whose service answers get-loan with the test's response.
type watched struct {
	*Watcher
	t       *testing.T
	service *lendingtest.Service
	client  *lending.Client
	loan    lending.LoanID

	mu      sync.Mutex
	changes []string
}

func watch(t *testing.T, known *Service) *watched {
	t.Helper()
	server := lendingtest.NewServer()
	t.Cleanup(server.Close)
	w := &watched{t: t, service: server.Service}
	w.Watcher = Watch(known, func(change string) {
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

// answer has the service answer once, and returns the reported changes.
func (w *watched) answer(body string) []string {
	w.t.Helper()
	loan := uuid.New() // another record
	body = strings.ReplaceAll(body, loanID, loan.String())
	w.service.Answer(loanRoute, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(body))
	})
	var own lending.Response
	_, err := w.client.Loans.Get(lending.CaptureResponse(w.t.Context(), &own), lending.LoanID(loan))
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
		{`{` + id + `"rate":0.8}`, nil}, // the first responses teach
		{`{` + id + `"rate":0.9}`, nil},
		{`{` + id + `"rate":1}`, nil}, // an integer is a number
		{`{` + id + `"rate":"secret"}`, []string{".rate: was number, is number or string"}},
		{`{` + id + `"rate":"secret"}`, nil},
		{`{` + id + `"rate":0.5}`, nil},
		{`{` + id + `"rate":null}`, []string{".rate: was number or string, is number or string or null"}},
		{`{` + id + `"rate":0.5,"list":[{"a":true}]}`, nil}, // a single record could have any names
		{`{` + id + `"rate":0.5,"list":[{"a":true}]}`, nil},
		{`{` + id + `"rate":0.5,"list":[{"a":true}]}`, []string{".list: new, list, optional"}},
		{`{` + id + `"list":[]}`, []string{".rate: gone, was number or string or null"}},
		{`{` + id + `"list":[{"a":true,"ada@example.com":1}]}`, nil},
		{`{` + id + `"list":[{"a":"2026-01-01"}]}`, []string{".list[].a: was boolean, is boolean or date"}},
	} {
		t.Run(test.body, func(t *testing.T) {
			var want []string
			for _, line := range test.want {
				want = append(want, "fields: "+loanRoute+" "+line)
			}
			assert.Equal(t, want, w.answer(test.body))
		})
	}
	kept, err := json.Marshal(w.Service().Shapes)
	require.NoError(t, err)
	for _, value := range []string{"secret", "ada", "grace", "5f1c7a90", "0.8", "2026"} {
		assert.NotContains(t, string(kept), value)
	}
	assert.NotContains(t, string(kept), "login", "the sign-in is published")

	seen := newService()
	require.NoError(t, json.Unmarshal(kept, &seen.Shapes))
	next := watch(t, seen)
	assert.Empty(t, next.answer(`{`+id+`"rate":null,"list":[]}`), "a reported change is known after a restart")
	assert.Equal(t, []string{"fields: " + loanRoute + " .list: was list, optional, is integer or list, optional"},
		next.answer(`{`+id+`"list":3}`))
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
	seen := w.Watcher.service.Shapes[loanRoute].Count()
	w.answer(`{` + id + `"a":1,"big":"` + strings.Repeat("x", 1<<20) + `"}`)
	assert.Equal(t, seen, w.Watcher.service.Shapes[loanRoute].Count(), "the large response is ignored")
	kept, err := json.Marshal(w.Service().Shapes)
	require.NoError(t, err)
	assert.Less(t, len(kept), 1000, "each name came with a single record")
	assert.Equal(t, maxFields, w.Watcher.service.Shapes[loanRoute].size())

	for i := range 400 {
		w.learn(t.Context(), lending.Call{Method: "GET", Route: fmt.Sprintf("/api/Loan/route-%c%c", 'a'+i/26, 'a'+i%26)},
			lending.Response{StatusCode: 200, Body: []byte(`{"a":1}`)})
	}
	assert.Len(t, w.Service().Shapes, 200)
}

// Goroutines of a client share a watcher, while another goroutine saves the learnt
func TestWatchTogether(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if i%2 == 0 {
					_, err := json.Marshal(w.Service().Shapes)
					assert.NoError(t, err)
				} else if _, err := w.client.Loans.Get(t.Context(), w.loan); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, 80, w.Service().Shapes[loanRoute].Count())
}

// A response that an idempotency log has kept or rebuilt teaches nothing, and neither does a refusal.
func TestWatchLearnsFromTheService(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	w.answer(`{` + id + `"a":1}`)
	before := w.Service().Shapes
	w.learn(t.Context(), lending.Call{Method: "GET", Route: "/api/x", Idempotency: "rebuilt"},
		lending.Response{StatusCode: 200, Body: []byte(`{"a":1}`)})
	w.service.Fail(loanRoute, lendingtest.Fault{Status: http.StatusNotFound})
	_, err := w.client.Loans.Get(t.Context(), w.loan)
	require.Error(t, err)
	assert.Equal(t, before, w.Service().Shapes)
}

// canaries are values of records that stand where the service has a word or a name.
var canaryBodies = []struct {
	canary, body string
	records      int // in so many records
}{
	{"Passport of Ada Lovelace", `[{"amount":1,"fileType":"CANARY"}]`, 2},
	{"Ada", `{"status":"CANARY","amount":1}`, 2},
	{"Lovelace-Byron", `{"amount":1,"accountType":"CANARY"}`, 2},
	{"Adas Konto", `[{"kind":"CANARY","amount":1},{"kind":"CANARY","amount":2}]`, 1},
	{"On Hold for Ada", `"CANARY"`, 2},
	{"ada@example.com", `{"amount":1,"CANARY":true}`, 9},
	{"+14155550100", `{"amount":1,"CANARY":true}`, 9},
	{"123-45-6789", `{"amount":1,"CANARY":true}`, 9},
	{"1815-12-10", `{"amount":1,"CANARY":true}`, 9},
	{loanID, `{"amount":1,"CANARY":true}`, 9},
	{"ada", `{"amount":1,"CANARY":true}`, 2},
	{"ada.lovelace", `{"amount":1,"signers":{"CANARY":{"signed":true}}}`, 2},
	{"ada_lovelace", `{"amount":1,"signers":{"CANARY":{"signed":true},"other":{"signed":true}}}`, 2},
	{"AdaLovelace", `{"data":[{"of":{"CANARY":"x"},"amount":1},{"of":{"CANARY":"x"},"amount":1}],"totalCount":2}`, 1},
	{"Ada Lovelace", `{"amount":1,"CANARY":true}|{"amount":1}`, 9},
	{"Lovelace Analytics, LLC", `{"amount":1,"CANARY":{"amount":true}}|{"amount":1}`, 9},
	{"grace", `{"amount":1,"of":{"CANARY":1}}|{"amount":1,"of":{"a":2.5}}|{"amount":1,"of":{"b":3}}`, 9},
	{"largo", `{"amount":1,"extraInformation":{"CANARY":"x"}}`, 9},
}

// Of 18 values of records not one is in service.json. The same record, read again, is no other record.
func TestNoCanaryIsKept(t *testing.T) {
	t.Parallel()
	require.Len(t, canaryBodies, 18)
	for _, test := range canaryBodies {
		t.Run(test.canary, func(t *testing.T) {
			t.Parallel()
			w := watch(t, nil)
			for i := range 2 * test.records {
				bodies := strings.Split(strings.ReplaceAll(test.body, "CANARY", test.canary), "|")
				id := []string{"id", "documentId"}[len(test.canary)%2]
				body := strings.ReplaceAll(bodies[i%len(bodies)], `"amount":1`,
					fmt.Sprintf(`"amount":%d,%q:"%d"`, i, id, i%test.records))
				w.learn(t.Context(), lending.Call{Method: "GET", Route: "/api/x"},
					lending.Response{StatusCode: 200, Body: []byte(body)})
			}
			kept, err := json.Marshal(w.Service())
			require.NoError(t, err)
			assert.NotContains(t, string(kept), test.canary)
			assert.Contains(t, string(kept), "GET /api/x")
		})
	}
}

// The names of OData and of spreadsheets are names, once three records have them. A name of lendingtest is known at
// once, and so is any name in a record of the walk.
func TestOddNamesAreKept(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"@odata.type", "Total@Sum", "first name", "First Name", "line-1", "address_line_12345", "a.b", "größe", "$ref", "x/y",
		"3dSecure", "a'b", "", "1", "aNameOfExactlyFortyCharactersForAField12",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, own := Seen{}, Seen{}
			text, err := json.Marshal(name)
			require.NoError(t, err)
			for i := range 3 {
				assert.NotContains(t, seen[loanRoute].public().fields(), name)
				seen.Learn(loanRoute, fmt.Appendf(nil, `{"id":"%d","rate":1,%s:true}`, i, text))
			}
			assert.Contains(t, seen[loanRoute].public().fields(), name)
			assert.Contains(t, seen[loanRoute].public().fields(), "rate")
			own.learn(loanRoute, fmt.Appendf(nil, `{"id":"7","amount":1,"tier":true,%s:"x"}`, text), true)
			assert.Contains(t, own[loanRoute].public().fields(), "tier")
			own.learn(loanRoute, fmt.Appendf(nil, `{"signers":{%s:true}}`, text), true)
			assert.Empty(t, own[loanRoute].Fields["signers"].public().Fields, "a map, also in a record of the walk")
		})
	}
}

func (s *Shape) fields() (names []string) {
	if s == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.Fields))
}

// The words of a status are learnt, up to twenty short ones, and of no other field.
func TestWordsOfAStatus(t *testing.T) {
	t.Parallel()
	seen := Seen{}
	for _, body := range []string{
		`{"id":1,"status":"On Hold","name":"Ada","type":"Invoice","kind":"x"}`, `{"id":1,"status":"Closed"}`,
		`{"id":2,"status":"On Hold","type":"see ada@example.com"}`, `{"id":3,"status":"Closed","type":"Invoice","kind":null}`,
		`{"id":4,"status":"On Hold"}`,
	} {
		require.True(t, seen.Learn(loanRoute, []byte(body)))
	}
	page := `{"data":[{"id":1,"kind":"Paged"},{"id":2,"kind":"Paged"},{"id":3,"kind":"Paged"}]}`
	require.True(t, seen.Learn("GET /page", []byte(page)))
	assert.Equal(t, 3, seen["GET /page"].public().Fields["data"].Items.Fields["kind"].Words["Paged"])
	for i := range 30 {
		seen.Learn(loanRoute, fmt.Appendf(nil, `{"stage":"word%c%c"}`, 'a'+i/26, 'a'+i%26))
	}
	kept, err := json.Marshal(seen)
	require.NoError(t, err)
	for _, value := range []string{"Ada", "ada", "Invoice", "wordaa", "Closed"} {
		assert.NotContains(t, string(kept), value)
	}
	assert.Equal(t, map[string]int{"On Hold": 3}, seen[loanRoute].Fields["status"].public().Words)
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
			seen := Seen{}
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
	assert.Len(t, w.Service().Shapes[loanRoute].Fields["at"].Times, 20)
}

// A long list costs memory for its places and not for its rows.
func TestLongListsCostLittleMemory(t *testing.T) { // not parallel: it counts allocations
	row := `{"id":"` + loanID + `","amount":12.5,"status":"On Hold","when":"2026-11-20T12:00:00Z","note":"a\"b"}`
	body := []byte("[" + strings.Repeat(row+",\n ", 1<<20/len(row)) + row + "]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Seen{}.Learn(loanRoute, body)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "for 1 MiB")
}

// A value below the maximum depth is skipped, and the fields behind it are learnt. Any JSON can be learnt.
func FuzzLearn(f *testing.F) {
	deep := strings.Repeat(`{"a":[`, 9) + `1,{"b}":"]\\\""},2` + strings.Repeat(`]}`, 9)
	seen := Seen{}
	require.True(f, seen.Learn(loanRoute, []byte(`{"deep":`+deep+`,"behind":true}`)))
	assert.Equal(f, "boolean", seen[loanRoute].Fields["behind"].Class())
	require.False(f, seen.Learn("GET /api/Loan/get-loan/5f1c7a90", []byte(`{"a":1}`)), "no template")
	for _, seed := range []string{
		deep, "", "<html>", ` [ 1 , "x\u0022" , { } , [ ] ] `, `"x"`, `-1e9`, `{"a":1,"a":"x","":null}`, `{"\u0061":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		seen := Seen{}
		require.Equal(t, json.Valid(bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))), seen.Learn(loanRoute, body))
		_, err := json.Marshal(seen)
		require.NoError(t, err)
	})
}

// A report that panics does not reach the caller, whose mutation may have happened.
func TestReportMayPanic(t *testing.T) {
	t.Parallel()
	w, told := watch(t, nil), false
	w.report = func(string) { told = true; panic("report") }
	for range 3 {
		w.answer(`{` + id + `"rate":1}`)
	}
	assert.NotPanics(t, func() { w.answer(`{` + id + `"rate":"x"}`) })
	assert.True(t, told)
}
