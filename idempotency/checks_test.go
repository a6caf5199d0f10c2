package idempotency_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The end of a mutation with a lost answer, if the reads show nothing.
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

// emptyReads answers the reads of checks like a service without new records.
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
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Header().Get("Name")
}

// client returns a client of the service, with a log.
func (s *forgetful) client(t *testing.T, log *idempotency.Log) *lending.Client {
	t.Helper()
	return wire.InMemory(t, s.RoundTrip, lending.WithIdempotency(log))
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
				client := service.client(t, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
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
					if len(want.reads) > 0 { // a later read can show the mutation
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
		client := service.client(t, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
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

// TestFailedListIsNotEmpty: an application from before would look like the new one.
func TestFailedListIsNotEmpty(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		one := service.AddApplication(lendingtest.Application{}) // the only application of its customer
		o.customer = fake.Must(lending.ParseCustomerID(one.CustomerID))
		create := o.creates(t, process())
		service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		for _, want := range []error{lending.ErrOutcomeUnknown, idempotency.ErrNeedsReview} {
			require.ErrorIs(t, create("the/key"), want)
		}
	})
}

// TestFailedReadOfAnIDIsNoAbsence: a record holds UUIDs of other kinds, and a read of such a UUID can fail
// in any way.
func TestFailedReadOfAnIDIsNoAbsence(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o := newOrder(service) // no application shows the id of the new customer
				o.customer = fake.Must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID))
				create := o.createsID(t, process())
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
				_, err := create("the/key")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				ours := service.Snapshot().Applications[3].ID
				service.Answer("GET /api/Application/get-application/{applicationId}",
					func(w http.ResponseWriter, r *http.Request) {
						if r.PathValue("applicationId") != ours {
							wire.Answer(status, `{"title":"No"}`)(w, r)
							return
						}
						wire.Answer(http.StatusOK, `{"id":"`+ours+`"}`)(w, r)
					})
				id, err := create("the/key")
				require.NoError(t, err)
				assert.Equal(t, ours, id.String())
			})
		})
	}
}

// TestListThatFailsAfterwardsIsNotCounted has the read after a mutation fail as the service
// fails with "not found": no count follows from this failure.
func TestListThatFailsAfterwardsIsNotCounted(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		err := create("the/key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		assert.ErrorContains(t, err, "the current count of records is not known")
		require.NoError(t, create("the/key"), "the next read shows it")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestAbsencesDoNotProveAnOffer has the service deny the offer in two ways.
func TestAbsencesDoNotProveAnOffer(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		status := http.StatusNotFound
		service.Answer(offerRoute, func(w http.ResponseWriter, r *http.Request) {
			wire.Answer(status, `{"title":"None","errorCode":"NotFound"}`)(w, r)
		})
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		call := func() error {
			_, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
			return err
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		status = http.StatusBadRequest
		require.ErrorIs(t, call(), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
	})
}

// TestAnotherOfferProvesNoProcessing loses the request of a processing whose application has an
// offer already, which reads otherwise each time: no field of an offer is published, so that a
// difference does not prove the processing.
func TestAnotherOfferProvesNoProcessing(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		service.Answer(offerRoute, tracedOffer("00000001-0001-4000-8000-000000000009"))
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		call := func() error {
			_, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
			return err
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		err := call()
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.ErrorContains(t, err, "the record existed before")
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
		assert.Zero(t, service.Executed(fake.ProcessRoute))
	})
}

// TestRebuiltOfferIsReadTwice loses the answer of a processing: a UUID that another read does not
// show is not the id of the offer.
func TestRebuiltOfferIsReadTwice(t *testing.T) {
	const offer = "00000001-0001-4000-8000-000000000009"
	for _, test := range []struct {
		name, id string
		want     error
	}{
		{"the id beside another UUID", offer, nil},
		{"another UUID alone", "", idempotency.ErrAnswerLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetAfter: true})
				executed, ctx := service.Executed(fake.ProcessRoute), lending.WithIdempotencyKey(t.Context(), "the/key")
				_, err := client.Applications.Process(ctx, o.application)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				service.Answer(offerRoute, tracedOffer(test.id))
				if test.want != nil {
					_, err = client.Applications.Process(ctx, o.application)
					require.ErrorIs(t, err, idempotency.ErrInDoubt)
					bubble.Elapse(maxLateness)
				}
				id, err := client.Applications.Process(ctx, o.application)
				require.ErrorIs(t, err, test.want)
				if test.want == nil {
					assert.Equal(t, offer, id.String())
				}
				assert.Equal(t, executed+1, service.Executed(fake.ProcessRoute))
			})
		})
	}
}

// TestReplacedApplicantCountsForNobody has an application that came with an applicant: whether
// another primary applicant adds a record is not known, and the next count uses neither number.
func TestReplacedApplicantCountsForNobody(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		o, client := newOrder(service), process()
		prepareOrder(t, client, &o)
		primary := lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada"}}
		require.NoError(t, client.Approval.AddPrimaryApplicantDetails(t.Context(), o.offered, primary))
		require.NoError(t, client.Approval.AddPrimaryApplicantDetails(
			lending.WithIdempotencyKey(t.Context(), "again"), o.offered, primary))
		const add = "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}"
		service.Fail(add, lendingtest.Fault{ResetAfter: true})
		secondary := func() error {
			return client.Approval.AddSecondaryApplicantDetails(lending.WithIdempotencyKey(t.Context(), "secondary"),
				o.offered, lending.SecondaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Grace"}})
		}
		require.ErrorIs(t, secondary(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, secondary(), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(add))
	})
}

// TestRawCallHasNoCheck has a call of Client.Do lose its response. Its body can be anything, so a person decides.
func TestRawCallHasNoCheck(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, o := process(), newOrder(service)
		create := func() error {
			_, err := client.Do(withKey(t.Context(), "the/key"), lending.RawRequest{
				Effect: lending.Mutation, Method: http.MethodPost, Path: "/api/Application/create-application", Body: o.request(),
			})
			return err
		}
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create(), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
		assert.Zero(t, service.Arrived(fake.ListRoute))
	})
}

// TestEmptyObjectIsNoCustomer has a service that answers {} if no customer has the address: the
// customer is created, and is not there when the request is lost.
func TestEmptyObjectIsNoCustomer(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client := process()
		service.Answer(fake.EmailRoute, wire.Answer(http.StatusOK, `{}`))
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetBefore: true})
		create := creation(t, client, fake.Ada())
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		err := create("the/key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		assert.NotContains(t, err.Error(), "other fields have changed", "nothing has changed")
		assert.ErrorContains(t, err, "no read shows the mutation")
		bubble.Elapse(maxLateness)
		require.NoError(t, create("the/key"))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestCheckTriesAFewIDsOnly has a record with many UUIDs. The id of the customer is among them.
func TestCheckTriesAFewIDsOnly(t *testing.T) {
	for count, want := range map[int]error{16: nil, 17: idempotency.ErrAnswerLost} {
		keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
			client := process()
			create := creation(t, client, fake.Ada())
			service.Fail(fake.CreateRoute, lendingtest.Fault{ResetAfter: true})
			require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
			uuids := []string{service.Snapshot().Customers[0].ID}
			for len(uuids) < count {
				uuids = append(uuids, uuid.NewString())
			}
			body := fake.Must(json.Marshal(map[string]any{"ids": uuids}))
			service.Answer(fake.EmailRoute, wire.Answer(http.StatusOK, string(body)))
			if want != nil {
				require.ErrorIs(t, create("the/key"), idempotency.ErrInDoubt)
				bubble.Elapse(maxLateness)
			}
			require.ErrorIs(t, create("the/key"), want)
		})
	}
}

const getApplicationRoute = "GET /api/Application/get-application/{applicationId}"

// TestSecondReadOfACheckCanLag has the list show a record at once, and the read of the record later.
func TestSecondReadOfACheckCanLag(t *testing.T) {
	const lags = "no read shows its response yet"
	application := func(t *testing.T, service *lendingtest.Service, client *lending.Client) func() error {
		t.Helper()
		create := newOrder(service).creates(t, client)
		return func() error { return create("the/key") }
	}
	customer := func(t *testing.T, _ *lendingtest.Service, client *lending.Client) func() error {
		t.Helper()
		return func() error { return creation(t, client, fake.Ada())("the/key") }
	}
	for _, test := range []struct {
		name, route, read string
		status            int    // of the read
		want              string // of the error
		prepare           func(*testing.T, *lendingtest.Service, *lending.Client) func() error
		checks            bool // Log.Check reads before the call
	}{
		{"application", createApplicationRoute, getApplicationRoute, 404, lags, application, false},
		{"application, by Check", createApplicationRoute, getApplicationRoute, 404, lags, application, true},
		{"application, refused", createApplicationRoute, getApplicationRoute, 403, "403 Forbidden", application, false},
		{"customer", fake.CreateRoute, "GET /api/Customer/get-customer-by-id/{customerId}", 404, lags, customer, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				client := process()
				create := test.prepare(t, service, client)
				service.Fail(test.route, lendingtest.Fault{ResetAfter: true})
				require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
				for range 40 { // the ids of the records
					service.Fail(test.read, lendingtest.Fault{Status: test.status})
				}
				if test.checks {
					fake.Must(log.Check(t.Context(), client))
				}
				err := create()
				require.ErrorIs(t, err, idempotency.ErrInDoubt)
				require.ErrorContains(t, err, test.want)
				service.ClearFaults()
				patiently(t, create)
				assert.Equal(t, 1, service.Executed(test.route))
			})
		})
	}
}

// TestCustomerThatReadsDoNotShowYetHasNoApplications creates a customer and at once an application
// whose request is lost: the check before the send met no customer, the check after it an empty list.
// Neither shows an application.
func TestCustomerThatReadsDoNotShowYetHasNoApplications(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		again error // of the call after the reads have caught up
	}{
		{"request lost", lendingtest.Fault{ResetBefore: true}, idempotency.ErrInDoubt},
		{"answer lost", lendingtest.Fault{ResetAfter: true}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
				client := process()
				customer := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
				create := order{service: service, customer: customer.ID}.creates(t, client)
				service.Fail(createApplicationRoute, test.fault)
				require.ErrorIs(t, create("application"), lending.ErrOutcomeUnknown)
				bubble.Elapse(2 * time.Second)
				require.ErrorIs(t, create("application"), test.again)
				bubble.Elapse(maxLateness)
				require.NoError(t, create("application"))
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			}, lendingtest.WithReadLag(time.Second))
		})
	}
}
