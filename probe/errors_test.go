package probe

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestRunThatCannotBegin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*variant, *Options)
		want   string
	}{
		{
			"no route", func(_ *variant, o *Options) { o.BaseURL, o.HTTPClient = "http://127.0.0.1:1", nil },
			"the service cannot be reached; check the base URL and the network",
		},
		{"not https", func(_ *variant, o *Options) { o.BaseURL = "http://lending.example" }, "must use https"},
		{
			"wrong password", func(_ *variant, o *Options) { o.Credentials.Password = lending.NewSecret("x") },
			"check the base URL and the credentials",
		},
		{
			"a code that nobody enters", func(_ *variant, o *Options) { o.Credentials.TwoFactor = nil },
			"the sign-in was refused",
		},
		{"no rights", func(v *variant, _ *Options) {
			v.change[""] = func(r *http.Request, a *reply) {
				if !strings.Contains(r.URL.Path, "/Authenication/") {
					a.status = http.StatusForbidden
				}
			}
		}, "ask for the rights of a partner"},
		{"no file", func(_ *variant, o *Options) { o.File = "" }, "needs File"},
		{"no e-mail address", func(_ *variant, o *Options) { o.Email = "tests" }, "needs Email"},
		{
			"a file that nobody can write", func(_ *variant, o *Options) { o.File = filepath.Join(o.File, "x") },
			"no such file",
		},
		{"a folder", func(_ *variant, o *Options) { o.File = filepath.Dir(o.File) }, "is no regular file"},
		{
			"a link", func(_ *variant, o *Options) {
				write(o.File+".target", "")
				assert.NoError(t, os.Symlink(o.File+".target", o.File))
			},
			"is no regular file",
		},
		{
			"a link to nothing", func(_ *variant, o *Options) { assert.NoError(t, os.Symlink(o.File+".target", o.File)) },
			"is no regular file",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVariant(t)
				options := v.options(t)
				test.change(v, &options)
				l := &log{TB: t}
				err := Run(l, options).Err
				require.ErrorContains(t, err, test.want)
				assert.Contains(t, strings.Join(l.reported, "\n"), err.Error())
				assert.Zero(t, v.Executed("POST /api/Application/create-customer"))
				assert.NotContains(t, l.told, "Signing in as a user who does not exist.", "the first step of the walk")
			})
		})
	}
}

// A wait ends at the lag limit, and says so meanwhile.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVariant(t, lendingtest.WithReadLag(time.Hour))
		began, l, options := time.Now(), &log{TB: t}, v.options(t)
		require.ErrorContains(t, Run(l, options).Err, "does not appear within 2m0s; raise -lag-limit")
		assert.InDelta(t, 125, time.Since(began).Seconds(), 5)
		assert.InDelta(t, 11, strings.Count(strings.Join(l.told, "\n"), "  still waiting, for at most 2m0s"), 1)
	})
}

// A list that was always empty, and a field that was always null, were not known: they are no change. The caller of
// create-application chooses the names in extraInformation.
func TestFirstRecordsOfAListAreNoChange(t *testing.T) {
	const route = "GET /api/Loan/get-loan/{loanId}"
	const first = `{"list":[],"null":null,"in":[{"list":[],"n":1}],"object":{},"number":1,"extraInformation":{"note":"x"}}`
	for body, changes := range map[string]int{
		`{"list":[{"a":1}],"null":7,"in":[{"list":[1],"n":1}],"object":{"a":1},"number":1,"extraInformation":{"a":"7"}}`: 0,
		`{"list":[],"null":{"a":1},"in":[{"list":{},"n":1}],"object":{},"number":"x","extraInformation":{}}`:             2,
	} {
		w := Watch(nil, nil)
		found := map[string][]string{}
		w.learnShape(found, route, []byte(first), true)
		w = Watch(w.Service(), nil)
		w.learnShape(found, route, []byte(body), true)
		assert.Len(t, found["fields"], changes, body)
	}
}

func write(path, text string) { _ = os.WriteFile(path, []byte(text), 0o600) }

func TestFileThatIsNoService(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"newer":       {`{"version":2,"facts":{"a":1}}`, "has version 2, and this program reads version 1; update"},
		"no JSON":     {`ada@example.com`, "is not a service.json"},
		"another":     {`{"a":1}`, "is not a service.json"},
		"with values": {`{"version":1,"facts":{"clock":"ada@example.com"},"shapes":{}}`, "has a fact that"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "service.json")
			write(path, test.text)
			_, err := Load(path)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "ada")
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLookOnlyReads runs the first level twice, with no id but the partner's. The second run compares with the first.
func TestLookOnlyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVariant(t)
		options := v.options(t)
		options.Create, options.Loan = false, lending.LoanID{}
		learned := Run(&log{TB: t}, options)
		require.NoError(t, learned.Err)
		assert.Empty(t, learned.Made)
		assert.Zero(t, learned.MaxLateness)
		for _, action := range v.Routes() {
			if method, path, _ := strings.Cut(action, " "); method == "POST" && !strings.Contains(path, "Authenication") {
				assert.Zero(t, v.Executed(action), action)
			}
		}
		assert.NotZero(t, v.Executed("GET /api/Webhook/get-registered-webhooks"))
		path := filepath.Join(t.TempDir(), "service.json")
		learned.Service.Version = 0 // as in a Service of the caller
		require.NoError(t, learned.Service.Save(path))
		var err error
		options.Against, err = Load(path)
		require.NoError(t, err)
		l := &log{TB: t}
		require.NoError(t, Run(l, options).Err)
		assert.Empty(t, l.reported)

		v.change["get-nothing"] = func(_ *http.Request, a *reply) { a.be(http.StatusFound, "text/html", "<h1>Found</h1>") }
		v.change["get-loan"] = replace(`"isClosed":`, `"closed":`)
		v.change["get-total-balance"] = func(_ *http.Request, a *reply) { a.status = max(a.status, 410*(a.status/404)) }
		changed := Run(l, options)
		require.NoError(t, changed.Err)
		assert.Contains(t, l.all(changed), "  absence: nothing for 400, 404, 204, null and an empty body, ")
		assert.Equal(t, []string{
			"absence: get-total-balance was 404 problem record, is 410 problem record",
			"fields: GET /api/Loan/get-loan/{loanId} .closed: new, boolean, optional",
			"fields: GET /api/Loan/get-loan/{loanId} .isClosed: gone, was boolean",
			"gateway: was 404 problem record, is 302 text/html",
		}, l.reported)
	})
}

// No read of a missing record gets a response: the reason stands for all of them.
func TestReasonOfMissingRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVariant(t)
		v.change[""] = func(_ *http.Request, a *reply) {
			if a.status == http.StatusNotFound || a.status == http.StatusBadRequest || a.status == http.StatusNoContent {
				panic(http.ErrAbortHandler)
			}
		}
		options := v.options(t)
		options.Create = false
		want := Finding{Name: "absence", State: NotSeen, Lines: []string{"the call failed: retry"}}
		assert.Contains(t, Run(&log{TB: t}, options).Findings, want)
	})
}

// On ASP.NET Core 2.3 a missing record is an empty 404, as an unknown path is. The probe prints the line to set.
func TestEmptyNotFoundNamesTheOption(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ unknown, want string }{
		"as an unknown path": {"404 empty", `missing and unknown: lending.WithMissing("Customers.GetByEmail", 404), ` +
			`lending.WithMissing("Loans.Get", 404)`},
		"another than an unknown path": {"404 problem record", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVariant(t)
				v.Assume("gateway", test.unknown)
				v.Assume("absence: get-loan", "404 empty")
				v.Assume("absence: get-customer-by-email", "404 empty")
				options := v.options(t)
				options.Create = false
				var out strings.Builder
				Run(&log{TB: t}, options).Print(&out)
				assert.Equal(t, test.want != "", strings.Contains(out.String(), "differs   missing and unknown"))
				assert.Contains(t, out.String(), test.want)
			})
		})
	}
}

// A header of the service holds anything: service.json shows no more than the form of a media type.
func TestFormOfARefusal(t *testing.T) {
	for _, test := range []struct{ media, body, want string }{
		{"application/json; charset=utf-8", "no", "application/json other"},
		{"ada@example.com", `{"errors":[{"field":"a"}]}`, "no content type array"},
		{"", `{"errors":{"a":["b"]}}`, "no content type dictionary"},
		{"text/json", `{"a":["b"],"c":["d"]}`, "text/json bare dictionary"},
		{"text/json", `{"a":["b"],"status":400}`, "text/json record"},
		{"text/json", `{"status":400}`, "text/json record"},
		{"text/json", `{}`, "text/json record"},
	} {
		t.Run(test.media+test.body, func(t *testing.T) {
			header := http.Header{"Content-Type": {test.media}}
			assert.Equal(t, test.want, refusalForm(lending.Response{Header: header, Body: []byte(test.body)}))
		})
	}
}

// Two runs differ a little: durations never agree to the digit, and of the forms of refusals each meets its own.
func TestFactsOfTwoRunsAreCompared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fact, was, is string
		changed       bool
	}{
		{"problem record: 400", "application/json array, empty", "empty", false},
		{"problem record: 400", "empty", "application/json array, empty", true},
		{"webhook events", "WB_A, WB_B", "WB_A", true},
		{"clock", "10s", "12s", false},
		{"clock", "10s", "14s", true},
		{"clock", "0s", "1s", false},
		{"clock", "0s", "2s", true},
		{"wrong password", "404", "404", false},
		{"wrong password", "404", "400", true},
	} {
		t.Run(test.fact+" "+test.was+" "+test.is, func(t *testing.T) {
			was := &Service{Facts: map[string]string{test.fact: test.was}}
			is := &Service{Facts: map[string]string{test.fact: test.is}}
			assert.Equal(t, test.changed, len(differences(was, is)) > 0)
		})
	}
}
