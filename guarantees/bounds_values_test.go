package guarantees_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

type (
	ring      struct{ Next *ring }
	ringValue struct {
		Next any `json:"next"`
	}
	selfWritten struct {
		Parent *selfWritten
		Name   string
	}
	panicking     struct{}
	panickingText struct{}
	panickingZero struct {
		Value zeroPanics `json:"value,omitzero"`
	}
	zeroPanics struct{ N int }
	listOfSelf []listOfSelf
	mapOfSelf  map[string]mapOfSelf
	pointer    *pointer
	node       struct{ Left, Right *node }
)

func (s *selfWritten) MarshalJSON() ([]byte, error) { return json.Marshal(s.Name) }
func (panicking) MarshalJSON() ([]byte, error)      { panic("123-45-6789") }
func (panickingText) MarshalText() ([]byte, error)  { panic(errors.New("123-45-6789")) }
func (zeroPanics) IsZero() bool                     { panic("123-45-6789") }
func (panickingText) IsZero() bool                  { panic("123-45-6789") }
func (panickingText) UUID() uuid.UUID               { panic("123-45-6789") }

// dangerous are values for Extra on which a walk without a bound would not end, and the rejected
// field. The field is empty if the client sends the value.
var dangerous = map[string]struct {
	extra func() any
	want  string
}{
	"a map in itself": {func() any {
		m := catalog.Unpublished{"a": 1}
		m["self"] = m
		return m
	}, "Extra.self.self.self is nested too deep, or holds itself"},
	"a map in itself, wide": {func() any {
		m := catalog.Unpublished{}
		for i := range 50 {
			m[fmt.Sprint(i)] = []any{m, m}
		}
		return m
	}, "Extra.0[0].0 is nested too deep, or holds itself"},
	"a typed map in itself": {func() any {
		m := mapOfSelf{}
		m["self"] = m
		return m
	}, "Extra.self.self.self is nested too deep, or holds itself"},
	"a map that doubles forty times": {func() any {
		m := catalog.Unpublished{"leaf": strings.Repeat("x", 1<<20)}
		for range 40 {
			m = catalog.Unpublished{"l": m, "r": m}
		}
		return m
	}, "Extra.l.l.l is larger than 64 MiB as JSON"},
	"a slice in itself": {func() any {
		s := []any{0, nil}
		s[1] = s
		return catalog.Unpublished{"list": s}
	}, "Extra.list[1][1] is nested too deep, or holds itself"},
	"a typed slice in itself": {func() any {
		s := make(listOfSelf, 1)
		s[0] = s
		return catalog.Unpublished{"list": s}
	}, "Extra.list[0][0] is nested too deep, or holds itself"},
	"a pointer to itself": {func() any {
		var p any
		p = &p
		return catalog.Unpublished{"p": p}
	}, "Extra.p is nested too deep, or holds itself"},
	"a typed pointer to itself": {func() any {
		var p pointer
		p = &p
		return catalog.Unpublished{"p": p}
	}, "Extra.p is nested too deep, or holds itself"},
	"a struct in itself": {func() any {
		r := &ring{}
		r.Next = r
		return catalog.Unpublished{"ring": r}
	}, "Extra.ring cannot be written as JSON"},
	"a struct in itself, as a whole": {func() any {
		r := &ringValue{}
		r.Next = []any{map[string]any{"r": r}}
		return r
	}, "Extra cannot be written as JSON"},
	"a request record in itself": {func() any {
		m := catalog.Unpublished{}
		m["record"] = lending.CompanyDataRequest{Extra: m}
		return m
	}, "Extra.record.Extra.record is nested too deep, or holds itself"},
	"a request record that writes itself, in itself": {func() any {
		s := &lending.WebhookSubscription{WebhookURI: "https://partner.example"}
		s.Extra = catalog.Unpublished{"webhook": s}
		return catalog.Unpublished{"subscription": s}
	}, "Extra.subscription.Extra.webhook is nested too deep, or holds itself"},
	"nested without end, as good as": {func() any {
		var v any
		for range 1_000_000 {
			v = []any{v}
		}
		return catalog.Unpublished{"deep": v}
	}, "Extra.deep[0][0] is nested too deep, or holds itself"},
	"records nested without end, as good as": {func() any {
		var r lending.CompanyDataRequest
		for range 1_000_000 {
			r = lending.CompanyDataRequest{Extra: r}
		}
		return catalog.Unpublished{"deep": r}
	}, "Extra.deep.Extra.Extra is nested too deep, or holds itself"},
	"a long list of structs": {func() any {
		var r *ring
		for range 1_000_000 {
			r = &ring{r}
		}
		return catalog.Unpublished{"deep": r}
	}, "Extra.deep is nested too deep, or holds itself"},
	"nested deep": {func() any {
		var v any
		for range 9_000 {
			v = []any{v}
		}
		return catalog.Unpublished{"deep": v}
	}, ""},
	"in itself, but written by its own method": {func() any {
		s := &selfWritten{Name: "root"}
		s.Parent = s
		return catalog.Unpublished{"tree": s}
	}, ""},
	"many ways to one place": {func() any {
		n := &selfWritten{Name: "leaf"}
		for range 200 {
			n = &selfWritten{Name: "node", Parent: n}
		}
		return catalog.Unpublished{"a": n, "b": struct{ A, B *selfWritten }{n, n}}
	}, ""},
	"twelve doublings": {func() any { // 2^12 leaves, as encoding/json would
		n := &node{}
		for range 12 {
			n = &node{n, n}
		}
		return catalog.Unpublished{"tree": n}
	}, ""},
	"MarshalJSON panics": {
		func() any { return catalog.Unpublished{"a": []any{panicking{}}} },
		"Extra.a[0] cannot be written as JSON: a method of its type panicked",
	},
	"MarshalJSON panics, within": {
		func() any { return catalog.Unpublished{"a": struct{ P any }{panicking{}}} },
		"Extra.a cannot be written as JSON: a method of its type panicked",
	},
	"MarshalText panics": {
		func() any { return catalog.Unpublished{"a": map[panickingText]int{{}: 1}} },
		"Extra.a cannot be written as JSON: a method of its type panicked",
	},
	"IsZero panics": {
		func() any { return catalog.Unpublished{"a": panickingZero{}} },
		"Extra.a cannot be written as JSON: a method of its type panicked",
	},
	"an id panics": {
		func() any { return catalog.Unpublished{"a": panickingText{}} },
		"Extra.a cannot be written as JSON: a method of its type panicked",
	},
	"no id": {func() any {
		return catalog.Unpublished{"a": (*lending.LoanID)(nil), "b": []any{(*lending.LoanID)(nil)}}
	}, ""},
}

const dangerousEnv = "LENDING_TEST_DANGEROUS"

// TestValuesCannotEndTheProcess passes each dangerous value in a process with little stack and memory. A walk
// without a bound would end the process.
func TestValuesCannotEndTheProcess(t *testing.T) {
	if os.Getenv(dangerousEnv) != "" {
		debug.SetMaxStack(64 << 20)
		debug.SetMemoryLimit(512 << 20)
		for name := range dangerous {
			fmt.Fprintf(os.Stdout, "%s: ", name)
			fmt.Fprintln(os.Stdout, handOver(name))
		}
		return
	}
	t.Parallel()
	arguments := []string{os.Args[0], "-test.run=^TestValuesCannotEndTheProcess$", "-test.timeout=1m"}
	if runtime.GOOS != "windows" && !race.Enabled { // which reserves terabytes
		arguments = append([]string{"sh", "-c", `ulimit -v 2000000 && exec "$0" "$@"`}, arguments...)
	}
	command := exec.CommandContext(t.Context(), arguments[0], arguments[1:]...)
	// A single arena: libc reserves address space for each, which counts for the limit.
	command.Env = append(os.Environ(), dangerousEnv+"=1", "MALLOC_ARENA_MAX=1")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%.6000s", out)
	lines := strings.Split(string(out), "\n")
	for name, test := range dangerous {
		want := "sent"
		if test.want != "" {
			want = "lending: POST /api/ApplicationApproval/add-company-details/{applicationId}: not sent: " + test.want
		}
		assert.Contains(t, lines, name+": "+want)
	}
}

// handOver sends the dangerous value with this name, and returns the result.
func handOver(name string) string {
	sent := false
	client, err := lending.New("https://service.example", withToken,
		withTransport(func(r *http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
		}))
	if err == nil {
		err = client.Approval.AddCompanyDetails(background, catalog.Application,
			lending.CompanyDataRequest{Extra: dangerous[name].extra()})
	}
	var refused *lending.ArgumentError
	switch {
	case errors.As(err, &refused) && !sent && len(refused.Fields) == 1 &&
		refused.Fields[0].Code == lending.CodeUnsafe:
		return err.Error()
	case err == nil && sent:
		return "sent"
	}
	return fmt.Sprint("sent: ", sent, " error: ", err)
}

// The nesting of a request has a bound, of values and of pointers. The values here have an end: an
// error of the bound does not end the tests.
func TestDeepRequestIsRefused(t *testing.T) {
	client := wire.Silent(t)
	for _, test := range []struct {
		name, want string
		deeper     func(any) any
	}{
		{"lists", "Extra.deep[0][0] is nested too deep", func(v any) any { return []any{v} }},
		{"pointers", "Extra.deep is nested too deep", func(v any) any { return &v }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var deep any
			for range 20_000 {
				deep = test.deeper(deep)
			}
			_, err := client.Applications.Create(t.Context(), lending.ApplicationRequest{
				CustomerID: catalog.Customer, BusinessName: "Acme", BusinessZip: "10001", Extra: catalog.Unpublished{"deep": deep},
			}, nil)
			require.ErrorContains(t, err, test.want)
		})
	}
}
