package idempotency_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// What becomes of a mutation whose answer is lost, where the reads show nothing.
const (
	again  = "again"  // it is sent again
	absent = "absent" // it is sent again when the absence has lasted
	person = "person" // nothing but a person decides it
	noKey  = "none"   // it takes no key
)

// checkRows is the table of checks, transcribed: how, and the reads before the
// mutation and after it.
var checkRows = map[string]struct {
	how   string
	reads []string
}{
	"Applications.CreateCustomer":                 {absent, []string{"Customers.GetByEmail"}},
	"Applications.Create":                         {absent, []string{"Applications.ListByCustomer"}},
	"Applications.CreateWithApplicant":            {person, nil},
	"Applications.CreateWithCustomer":             {person, nil},
	"Applications.CreateWithCustomerAndApplicant": {person, nil},
	"Applications.SendLink":                       {person, nil},
	"Applications.QuickTest":                      {person, nil},
	"Applications.AddOrUpdateBankingData":         {again, nil},
	"Applications.Process":                        {absent, []string{"Applications.Status", "Applications.Offer"}},
	"Applications.UpdateName":                     {again, nil},
	"Applications.UpdateNameAndZipCode":           {again, nil},
	"Applications.UpdateCustomerData":             {again, nil},
	"Applications.UpdateData":                     {again, nil},
	"Applications.SubmitBankStatement":            {person, nil},
	"Applications.Cancel":                         {again, nil},
	"Approval.AddCompanyDetails":                  {person, nil},
	"Approval.AddPrimaryApplicantDetails":         {absent, []string{"Approval.Applicants"}},
	"Approval.AddSecondaryApplicantDetails":       {absent, []string{"Approval.Applicants"}},
	"Approval.SetPrimaryBankAccount":              {again, nil},
	"Approval.SignContract":                       {person, nil},
	"Approval.SubmitRequiredDocument":             {person, nil},
	"Approval.SubmitDocument":                     {person, nil},
	"Auth.Login":                                  {noKey, nil},
	"Auth.ValidateTwoFactor":                      {noKey, nil},
	"Auth.RefreshToken":                           {noKey, nil},
	"Bulk.CreateCustomers":                        {absent, []string{"Customers.GetByEmail", "Customers.GetByEmail"}},
	"Bulk.CreateApplications":                     {absent, []string{"Applications.ListByCustomer"}},
	"Calculation.LineOfCreditSlider":              {again, nil},
	"Calculation.LineOfCredit":                    {again, nil},
	"Calculation.Invoice":                         {again, nil},
	"Communication.Post":                          {person, nil},
	"Loans.WithdrawLineOfCredit":                  {person, nil},
	"Loans.WithdrawInvoice":                       {person, nil},
	"Loans.ResendWithdrawalOTP":                   {person, nil},
	"Loans.ConfirmInvoiceWithdrawal": {absent, []string{
		"Loans.TransactionsPaged", "Loans.TotalBalance",
		"Loans.Withdrawals",
	}},
	"Webhooks.Register":      {again, nil},
	"Webhooks.Unregister":    {absent, []string{"Webhooks.Subscription"}},
	"Webhooks.UpdateAll":     {person, nil},
	"Webhooks.UpdateURI":     {again, nil},
	"Webhooks.PostToHandler": {person, nil},
	"Webhooks.Simulate":      {person, nil},
}

// emptyReads answers the reads of checks as a service does that holds nothing new.
var emptyReads = map[string]string{
	"Applications.ListByCustomer": `[{"id":"00000001-0001-4000-8000-000000000009"}]`,
	"Approval.Applicants":         `[]`,
	"Loans.Withdrawals":           `{"data":[],"totalCount":0}`,
	"Loans.TransactionsPaged":     `{"data":[],"totalCount":0}`,
	"Loans.TotalBalance":          `{"available":"100.00"}`,
}

// forgetful is a service that answers reads, with emptyReads or 404, and loses every mutation, unless
// it has a status for mutations.
type forgetful struct {
	routes map[string]catalog.Route
	status int
	mu     sync.Mutex
	seen   []string // the method of each request
}

func (s *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	name := s.called(r)
	s.mu.Lock()
	s.seen = append(s.seen, name)
	s.mu.Unlock()
	body, ok := emptyReads[name]
	if !s.routes[name].Reads && r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	switch {
	case !s.routes[name].Reads && s.status != 0:
		return wire.Reply(s.status, s.routes[name].Success())(r)
	case !s.routes[name].Reads:
		return nil, errors.New("the connection is gone")
	case ok:
		return wire.Reply(http.StatusOK, body)(r)
	}
	return wire.Reply(http.StatusNotFound, `{"status":404,"title":"Not Found","errorCode":"NotFound"}`)(r)
}

func (s *forgetful) called(r *http.Request) string {
	mux := http.NewServeMux()
	for name, route := range s.routes {
		mux.HandleFunc(route.Method+" "+route.Path,
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Name", name) })
	}
	header := http.Header{}
	mux.ServeHTTP(headerOnly(header), r)
	return header.Get("Name")
}

type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h headerOnly) WriteHeader(int)             {}

// lossy returns a client of a service that loses every mutation.
func lossy(t *testing.T, log *idempotency.Log) *lending.Client {
	t.Helper()
	return wire.NewClient(t, "https://lending.example",
		lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: &forgetful{routes: catalog.Routes(t)}}),
		lending.WithIdempotency(log))
}

// TestEveryMutationHasACheckOrAReason loses the answer of each mutation and calls again, as another
// process would.
func TestEveryMutationHasACheckOrAReason(t *testing.T) {
	routes := catalog.Routes(t)
	for name, r := range routes {
		if _, ok := checkRows[name]; ok == r.Reads {
			t.Errorf("%s: %t that it is in the table, %t that it is a read", name, ok, r.Reads)
		}
	}
	for name, want := range checkRows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &forgetful{routes: routes}
				client := wire.NewClient(t, "https://lending.example",
					lending.WithTokenSource(lending.StaticToken("test-token")),
					lending.WithHTTPClient(&http.Client{Transport: service}),
					lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
				call := func(opts ...keyOption) error {
					_, err := catalog.Calls[name](withKey(t.Context(), "the/key", opts...), client)
					return err
				}
				commands := func() (n int) {
					for _, seen := range service.seen {
						if seen == name {
							n++
						}
					}
					return n
				}
				first := call()
				if want.how == noKey {
					assert.ErrorAs(t, first, new(*lending.ArgumentError))
					assert.Empty(t, service.seen)
					return
				}
				require.ErrorIs(t, first, lending.ErrOutcomeUnknown)
				assert.Equal(t, append(slices.Clone(want.reads), name), service.seen,
					"the reads before, and the command")
				service.seen = nil
				second := call()
				switch want.how {
				case again:
					assert.Equal(t, []string{name}, service.seen)
				case absent:
					require.ErrorIs(t, second, idempotency.ErrInDoubt)
					assert.Equal(t, want.reads, service.seen, "the reads after")
					bubble.Elapse(maxLateness)
					require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
					assert.Equal(t, 1, commands())
				case person:
					assert.Equal(t, want.reads, service.seen)
					if len(want.reads) > 0 { // which may show it later
						require.ErrorIs(t, second, idempotency.ErrInDoubt)
						bubble.Elapse(maxLateness)
						second = call()
					}
					require.ErrorIs(t, second, idempotency.ErrNeedsReview)
					bubble.Elapse(100 * maxLateness)
					require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
					assert.Zero(t, commands())
					service.seen = nil
					require.ErrorIs(t, call(idempotency.SafeToRepeat), lending.ErrOutcomeUnknown)
					assert.Equal(t, []string{name}, service.seen, "the caller says that it may be repeated")
				}
			})
		})
	}
}

// TestOfferWithForceNeedsReview is the row of the route that is a read without force.
func TestOfferWithForceNeedsReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &forgetful{routes: map[string]catalog.Route{}}
		client := wire.NewClient(t, "https://lending.example",
			lending.WithTokenSource(lending.StaticToken("test-token")),
			lending.WithHTTPClient(&http.Client{Transport: service}),
			lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
		ctx := lending.WithIdempotencyKey(t.Context(), "force")
		_, err := client.Applications.Offer(ctx, catalog.Application, &lending.OfferOptions{Force: true})
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		_, err = client.Applications.Offer(ctx, catalog.Application, &lending.OfferOptions{Force: true})
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.Contains(t, err.Error(), "the effect of force is not published")
	})
}

// The reads of a row include the reads that the error names.
func TestCheckWithNamesTheReadsOfTheCheck(t *testing.T) {
	for name, row := range checkRows {
		for _, read := range row.reads {
			if read == "Loans.TransactionsPaged" {
				continue // beside those that a person needs
			}
			assert.Contains(t, strings.Split(catalog.CheckWith(t, name), ", "), read, name)
		}
	}
}
