package guarantees_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// notThere are responses, and whether they say that a record does not exist.
var notThere = []struct {
	status   int
	media    string
	body     string
	notFound bool
}{
	{404, "application/problem+json", `{"status":404,"title":"Not Found","traceId":"00-1"}`, true},
	{404, "application/json; charset=utf-8", "\xEF\xBB\xBF" + `{"ErrorCode":"E1"}`, true},
	{404, "application/json", `{"title":"x","errors":[{"field":"id","message":"m","code":"c"}]}`, true},
	{404, "", ``, false},
	{404, "text/html", `<html>404</html>`, false},
	{404, "text/plain", `default backend - 404`, false},
	{404, "application/json", `{"message":"no Route matched with those values"}`, false},
	{404, "application/json", `{"statusCode":404,"message":"Resource not found"}`, false},
	{404, "application/json", `{"status":404,"error":"Not Found","path":"/x"}`, false},
	{400, "application/problem+json", `{"status":400,"title":"Bad Request"}`, true},
	{400, "application/json", `{"errorCode":"CustomerNotFound","errors":[]}`, true},
	{400, "application/problem+json", `{"title":"t","errors":[{"field":"email","message":"m","code":"c"}]}`, false},
	{400, "application/problem+json", `{"title":"t","errors":{"email":["no e-mail address"]}}`, false},
	{400, "", ``, false},
	{400, "application/json", `{}`, false},
	{400, "text/html", `<html>400 Bad Request</html>`, false},
	{401, "application/problem+json", `{"title":"t"}`, false},
	{403, "application/problem+json", `{"title":"t"}`, false},
	{409, "application/problem+json", `{"title":"t"}`, false},
	{410, "application/problem+json", `{"title":"t"}`, false},
	{302, "", ``, false},
	{200, "application/json", `{"status":404,"title":"Not Found"}`, false},
	{200, "application/json", `false`, false},
	{200, "application/json", `"half`, false},
}

// No error of a mutation is an absence.
func TestIsNotFoundOfEveryRead(t *testing.T) {
	t.Parallel()
	var answer wire.RoundTripper
	client := afterRequest(t, func(r *http.Request) (*http.Response, error) { return answer(r) })
	with := func(status int, media, body string) wire.RoundTripper {
		return wire.Reply(status, body, "Content-Type", media)
	}
	all := map[string]catalog.Call{"with force": catalog.Variants["Applications.Offer with force"]}
	for name := range catalog.Routes(t) {
		all[name] = catalog.Calls[name]
	}
	for name, call := range all {
		r := catalog.Routes(t)[name]
		t.Run(name, func(t *testing.T) {
			for _, test := range notThere {
				answer = with(test.status, test.media, test.body)
				_, err := call(t.Context(), client)
				assert.Equal(t, test.notFound && r.Reads, lending.IsNotFound(err), "%d %s: %v", test.status, test.body,
					err)
			}
			for _, answer = range []wire.RoundTripper{
				with(204, "", ""), with(200, "application/json", "null"),
				with(200, "application/json", " "),
			} {
				_, err := call(t.Context(), client)
				assert.Equal(t, r.Reads && errors.Is(err, lending.ErrNoContent), lending.IsNotFound(err), "%v", err)
				assert.False(t, r.Reads && err != nil && !lending.IsNotFound(err), "%v", err)
			}
		})
	}
}

// TestIsNotFoundOfOtherErrors wraps and joins the error of an absence.
func TestIsNotFoundOfOtherErrors(t *testing.T) {
	t.Parallel()
	missing := wire.Answer(http.StatusNotFound, `{"title":"Not Found"}`)
	client := wire.Serve(t, missing)
	_, notFound := client.Loans.Get(t.Context(), catalog.Loan)
	lost := &lending.Error{Effect: lending.Mutation, Outcome: lending.OutcomeUnknown}
	refused := &lending.Error{Effect: lending.Mutation, StatusCode: 404, Outcome: lending.OutcomeRejected}
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"of somebody else", errors.New("not found"), false},
		{"itself", notFound, true},
		{"wrapped", fmt.Errorf("loan: %w", notFound), true},
		{"without its %w", fmt.Errorf("loan: %v", notFound), false}, //nolint:errorlint // the subject of this case
		{"beside a command", errors.Join(lost, notFound), false},
		{"before a command", errors.Join(notFound, lost), false},
		{"the sentinel by itself", lending.ErrNoContent, false},
		{"made by hand", &lending.Error{
			Effect: lending.Read, StatusCode: 404,
			Problem: &lending.ProblemDetails{Title: "x"},
		}, true},
		{"made without the record", &lending.Error{Effect: lending.Read, StatusCode: 404}, false},
		{"an argument", &lending.ArgumentError{}, false},
		{"beside a refused mutation", errors.Join(notFound, refused), false},
		{"behind a refused mutation", fmt.Errorf("%w: %w", refused, notFound), false},
		{"beside an argument", errors.Join(notFound, &lending.ArgumentError{}), false},
		{"beside a sign-in", errors.Join(notFound, lending.ErrSignInRequired), false},
		{"beside another read", errors.Join(&lending.Error{Effect: lending.Read, StatusCode: 403}, notFound), true},
		{"of a page, joined", errors.Join(errors.New("x"), &lending.PageError{Err: notFound}), true},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, lending.IsNotFound(test.err)) })
	}
	for _, err := range client.Loans.AllTransactions(t.Context(), catalog.Loan, nil) {
		assert.True(t, lending.IsNotFound(err), "of a page: %v", err)
	}
	for _, test := range []struct {
		effect lending.Effect
		want   bool
	}{{lending.Read, true}, {lending.Mutation, false}} {
		t.Run(fmt.Sprint(test.effect), func(t *testing.T) {
			_, err := client.Do(t.Context(), lending.RawRequest{
				Effect: test.effect, Method: http.MethodGet,
				Path: "/api/Group/get-thing",
			})
			assert.Equal(t, test.want, lending.IsNotFound(err), "%s: %v", test.effect, err)
		})
	}

	// The response of a sign-in says nothing about the read.
	for _, status := range []int{http.StatusNotFound, http.StatusNoContent, http.StatusBadRequest} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			client := wire.NewClient(t, wire.Listen(t, func(w http.ResponseWriter, r *http.Request) {
				assert.True(t, strings.HasSuffix(r.URL.Path, "/login"))
				if status == http.StatusNoContent {
					w.WriteHeader(status)
					return
				}
				wire.Answer(status, `{"title":"t"}`)(w, r)
			}), lending.WithCredentials(lending.Credentials{Username: "ada", Password: lending.NewSecret("p")}))
			_, err := client.Loans.Get(t.Context(), catalog.Loan)
			require.Error(t, err)
			assert.False(t, lending.IsNotFound(err), "%d: %v", status, err)
			assert.NotErrorIs(t, err, lending.ErrNoContent)
		})
	}
}

// The outcome of a read hides no outcome of a mutation.
func TestOutcomeOfJoinedErrors(t *testing.T) {
	t.Parallel()
	of := func(effect lending.Effect, outcome lending.Outcome) error {
		return &lending.Error{Effect: effect, Outcome: outcome}
	}
	read := of(lending.Read, lending.OutcomeRejected)
	lost, refused := of(lending.Mutation, lending.OutcomeUnknown), of(lending.Mutation, lending.OutcomeRejected)
	for _, test := range []struct {
		name string
		err  error
		want lending.Outcome
	}{
		{"a read", read, lending.OutcomeRejected},
		{"a read before a lost mutation", errors.Join(read, lost), lending.OutcomeUnknown},
		{"a read around a refused mutation", fmt.Errorf("%w: %w", read, refused), lending.OutcomeRejected},
		{"a refused and a lost mutation", errors.Join(refused, lost), lending.OutcomeUnknown},
		{"two refused mutations", errors.Join(refused, refused), lending.OutcomeRejected},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, lending.OutcomeOf(test.err)) })
	}
}

// Each read of a missing record returns an empty list or an error of IsNotFound, and IsNotFound
// reports no other rejection.
func TestIsNotFoundAtTheEmbeddedService(t *testing.T) {
	t.Parallel()
	service := lendingtest.NewServer()
	defer service.Close()
	client := wire.NewClient(t, service.URL,
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.AdministratorUsername))))
	docs := methodDocs(t)
	for name, r := range catalog.Routes(t) {
		if !r.Reads {
			continue
		}
		result, err := catalog.Calls[name](t.Context(), client)
		if err != nil {
			assert.True(t, lending.IsNotFound(err), "%s: %v", name, err)
		} else if record, ok := result.(*lending.Record); ok {
			assert.Equal(t, "[]", string(record.Raw()), name)
		} else {
			assert.Zero(t, reflect.ValueOf(result).Len(), name)
		}
		service, _, _ := strings.Cut(name, ".")
		comment := strings.Join(strings.Fields(docs[service]+docs[name]), " ")
		assert.True(t, strings.Contains(comment, "[IsNotFound] reports") ||
			name == "Webhooks.AllSubscriptions", "%s says what its absence looks like", name)
		if strings.HasPrefix(r.Answer, "[]") || strings.HasPrefix(r.Answer, "PagedList") {
			assert.Contains(t, comment, "A list without records is empty", name)
		}
	}
	application := service.AddApplication(lendingtest.Application{}).ID
	_, err := client.Applications.Offer(t.Context(), fake.Must(lending.ParseApplicationID(application)), nil)
	assert.True(t, lending.IsNotFound(err), "no offer yet: %v", err)
	_, err = client.Do(t.Context(), lending.RawRequest{
		Effect: lending.Read, Method: http.MethodGet, Path: "/api/Loan/get-loan/{loanId}", Args: []string{"no-uuid"},
	})
	assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
	assert.False(t, lending.IsNotFound(err), "malformed: %v", err)
}
