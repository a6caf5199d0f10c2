package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
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
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/lendingtest"
)

// personsVariable sets the number of onboardings of TestFewDoubtsNeedAPerson.
const personsVariable = "LENDING_TEST_ONBOARDINGS"

// tally counts what became of the mutations of all onboardings.
type tally struct {
	mutations, doubts, twice, claimed int
	persons                           map[string]int // by step
}

func (y *tally) all() (n int) {
	for _, of := range y.persons {
		n += of
	}
	return n
}

// TestFewDoubtsNeedAPerson takes customers through the whole approval to a withdrawal, at a service
// where 15 % of all mutations meet a fault and reads show writes late. It prints how many
// mutations were in doubt, and how many of those needed a person.
func TestFewDoubtsNeedAPerson(t *testing.T) {
	fake.NeedsControl(t)
	t.Parallel()
	few := 300
	if race.Enabled || testing.Short() {
		few = 30
	}
	count := seeds.FromEnvironment(t, personsVariable, few)
	first := seeds.FromEnvironment(t, seeds.Variable, 1)
	y := tally{persons: map[string]int{}}
	for seed := first; seed < first+count; seed++ {
		synctest.Test(t, func(t *testing.T) {
			onboard(t, uint64(seed), &y)
		})
	}
	share := 100 * float64(y.all()) / float64(max(y.doubts, 1))
	t.Logf("%d onboardings, %d mutations, %d in doubt, %d with a person (%.1f %%): %v",
		count, y.mutations, y.doubts, y.all(), share, y.persons)
	assert.Zero(t, y.twice, "executed twice")
	assert.Zero(t, y.claimed, "said to have happened, and not executed")
	assert.Positive(t, y.doubts)
	for step := range y.persons {
		assert.Contains(t, []string{"statement", "required document", "company", "signature", "processing"}, step,
			"a published read shows the other steps")
	}
}

// onboarding is one customer on the way.
type onboarding struct {
	t       *testing.T
	random  *rand.Rand
	service *lendingtest.Service
	log     *idempotency.Log
	client  *lending.Client
	tally   *tally

	customer    lending.CustomerID
	application lending.ApplicationID
}

// stage is a mutation of an onboarding.
type stage struct {
	name, route string
	call        func(context.Context) (any, error)
	options     []keyOption
	repeats     bool   // declared so by the table or by the caller
	rejected    func() // what to do before the next call; nil if the service has no reason to reject it
	// answer is what a person finds out that a lost answer was; nil for none.
	answer func(lendingtest.Snapshot) any
}

func onboard(t *testing.T, seed uint64, y *tally) {
	t.Helper()
	lag := time.Duration(rand.New(rand.NewPCG(seed, 2)).IntN(600)) * time.Millisecond
	service := lendingtest.New(lendingtest.WithReadLag(lag), lendingtest.WithSeed(uint32(seed)))
	defer service.Close()
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	o := &onboarding{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), service: service, log: log,
		client: processWith(t, service, log), tally: y,
	}
	fake.Must(o.client.Customers.GetByEmail(t.Context(), service.AddCustomer(lendingtest.Customer{}).Email)) // signs in
	o.begin()
	o.approve()
	o.withdraw()
}

func (o *onboarding) begin() {
	user := fake.Newcomer()
	customer := o.do(stage{
		name: "customer", route: fake.CreateRoute,
		call: func(ctx context.Context) (any, error) {
			created, err := o.client.Applications.CreateCustomer(ctx, user)
			if err != nil {
				return nil, err
			}
			return created.ID.String(), nil
		},
		answer: func(s lendingtest.Snapshot) any { return s.Customers[len(s.Customers)-1].ID },
	})
	o.customer = lending.CustomerID(uuid.MustParse(customer.(string)))
	application := o.do(stage{
		name: "application", route: createApplicationRoute,
		call: func(ctx context.Context) (any, error) {
			id, err := o.client.Applications.Create(ctx, lending.ApplicationRequest{
				CustomerID: o.customer, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
			}, nil)
			return id.String(), err
		},
		answer: func(s lendingtest.Snapshot) any { return s.Applications[len(s.Applications)-1].ID },
	})
	o.application = lending.ApplicationID(uuid.MustParse(application.(string)))
	o.set("name", updateName, func(ctx context.Context) (any, error) {
		return o.client.Applications.UpdateName(ctx, o.application, "Lovelace & Co")
	})
	o.set("data", "GET /api/Application/update-application-data/{applicationId}",
		func(ctx context.Context) (any, error) {
			return o.client.Applications.UpdateData(ctx, o.application,
				lending.ApplicationData{Name: "Lovelace & Co", ZipCode: "94105", StartDate: catalog.Start})
		})
	o.set("customer data", "GET /api/Application/update-customer-data/{applicationId}",
		func(ctx context.Context) (any, error) {
			return o.client.Applications.UpdateCustomerData(ctx, o.application, customerData(nil))
		})
	o.upload("statement", "POST /api/Application/submit-bankstatement-document/{applicationId}",
		func(ctx context.Context, doc lending.Document) error {
			return o.client.Applications.SubmitBankStatement(ctx, o.application, doc)
		})
	o.set("bank data", "POST /api/Application/add-or-update-banking-data/{applicationId}",
		func(ctx context.Context) (any, error) {
			return o.client.Applications.AddOrUpdateBankingData(ctx, o.application,
				fake.AccountsWith(fake.Booked("2026-08-03", "Invoice", "12500.00")), nil)
		})
	o.do(stage{
		name: "processing", route: fake.ProcessRoute,
		call:   func(ctx context.Context) (any, error) { return o.client.Applications.Process(ctx, o.application) },
		answer: func(s lendingtest.Snapshot) any { return s.Applications[len(s.Applications)-1].Offer.ID },
	})
}

func (o *onboarding) approve() {
	const approval = "POST /api/ApplicationApproval/"
	o.nothing("company", approval+"add-company-details/{applicationId}", func(ctx context.Context) error {
		return o.client.Approval.AddCompanyDetails(ctx, o.application, lending.CompanyDataRequest{
			Extra: catalog.Unpublished{"name": "Lovelace Analytics LLC", "taxId": "12-3456789"},
		})
	})
	o.nothing("primary applicant", approval+"add-primary-applicant-details/{applicationId}",
		func(ctx context.Context) error {
			return o.client.Approval.AddPrimaryApplicantDetails(ctx, o.application, lending.PrimaryApplicantRequest{
				Extra: catalog.Unpublished{"firstName": "Ada", "email": "ada@example.com"},
			})
		})
	o.nothing("secondary applicant", approval+"add-secondary-applicant-details/{applicationId}",
		func(ctx context.Context) error {
			return o.client.Approval.AddSecondaryApplicantDetails(ctx, o.application,
				lending.SecondaryApplicantRequest{
					Extra: catalog.Unpublished{"firstName": "Grace", "email": "grace@example.com"},
				})
		})
	o.set("account", approval+"set-primary-bank-account/{applicationId}/{id}",
		func(ctx context.Context) (any, error) {
			return nil, o.client.Approval.SetPrimaryBankAccount(ctx, o.application, "account-1")
		})
	app := o.own()
	for i, r := range app.Requirements {
		o.upload(fmt.Sprint("required document ", i), approval+"submit-required-document/{applicationId}",
			func(ctx context.Context, doc lending.Document) error {
				return o.client.Approval.SubmitRequiredDocument(ctx, o.application,
					lending.RequirementID(uuid.MustParse(r.ID)), r.FileType, doc)
			})
	}
	for i, a := range app.Applicants {
		o.nothing(fmt.Sprint("signature ", i), approval+"sign-contract/{applicationId}/{applicantId}",
			func(ctx context.Context) error {
				return o.client.Approval.SignContract(ctx, o.application, lending.ApplicantID(uuid.MustParse(a.ID)),
					&lending.SignaturesRequest{
						MIMEType: "image/png", Signature: lending.SignatureImage([]byte("1")),
						Signature2: lending.SignatureImage([]byte("2")),
					})
			})
	}
}

func (o *onboarding) withdraw() {
	loan := o.service.Snapshot().Loans[0]
	id := lending.LoanID(uuid.MustParse(loan.ID))
	o.set("calculation", "POST /api/Calculation/application-invoice-calculation",
		func(ctx context.Context) (any, error) {
			return o.client.Calculation.Invoice(ctx, o.application, calculation(1000_00))
		})
	repeat := []keyOption{idempotency.SafeToRepeat}
	o.do(stage{
		name: "withdrawal", route: "POST /api/Loan/make-withdrawal-invoice/{loanId}", options: repeat, repeats: true,
		call: func(ctx context.Context) (any, error) {
			return o.client.Loans.WithdrawInvoice(ctx, id,
				lending.InvoiceWithdrawalRequest{Calculation: *calculation(1000_00)})
		},
		answer: func(lendingtest.Snapshot) any { return map[string]any{"advanceRate": 0.8} },
	})
	begun := lending.InvoiceWithdrawal{
		LoanID: id, AdvanceRate: "0.8", Amount: json.Number(lendingtest.Cents(1000_00).String()),
	}
	o.do(stage{
		name: "confirmation", route: "POST /api/Loan/confirm-withdrawal-invoice/{loanId}",
		call: func(ctx context.Context) (any, error) {
			return o.client.Loans.ConfirmInvoiceWithdrawal(ctx, begun, lending.WithdrawInvoiceRequestData{
				DateUTC: catalog.Start, OTP: lending.NewSecret(o.service.OTP(loan.ID)),
			})
		},
		rejected: func() { // the password is too old
			fake.Must(o.client.Loans.WithdrawInvoice(o.t.Context(), id,
				lending.InvoiceWithdrawalRequest{Calculation: *calculation(1000_00)}))
		},
		answer: func(s lendingtest.Snapshot) any { return map[string]any{"data": s.Loans[0].Withdrawals[0].ID} },
	})
}

// own is the application, as the service has it.
func (o *onboarding) own() lendingtest.Application {
	all := o.service.Snapshot().Applications
	return all[len(all)-1]
}

// set does a mutation that sets a value.
func (o *onboarding) set(name, route string, call func(context.Context) (any, error)) {
	o.do(stage{name: name, route: route, call: call, repeats: true})
}

// nothing does a mutation that returns only an error.
func (o *onboarding) nothing(name, route string, call func(context.Context) error) {
	o.do(stage{name: name, route: route, call: func(ctx context.Context) (any, error) { return nil, call(ctx) }})
}

func (o *onboarding) upload(name, route string, call func(context.Context, lending.Document) error) {
	o.nothing(name, route, func(ctx context.Context) error {
		return call(ctx, lending.Document{
			Name: strings.ReplaceAll(name, " ", "-") + ".pdf", Content: strings.NewReader("%PDF-1.7 " + name),
		})
	})
}

// faults are what 15 % of all mutations meet, each as often.
var faults = []lendingtest.Fault{
	{ResetAfter: true},
	{ResetBefore: true},
	{Status: http.StatusServiceUnavailable, Executes: true},
	{Status: http.StatusServiceUnavailable},
	{Late: 30 * time.Second},
	{CutBody: -1},
}

// do calls until the mutation has happened, with the help of a person if need be, and counts.
func (o *onboarding) do(s stage) any {
	o.t.Helper()
	before, wasInDoubt, person := o.service.Executed(s.route), false, false
	key := "order/" + s.name
	o.tally.mutations++
	if o.random.IntN(100) < 15 {
		o.service.Fail(s.route, faults[o.random.IntN(len(faults))])
	}
	var last error
	for range 100 {
		result, err := s.call(withKey(o.t.Context(), key, s.options...))
		last = err
		outcome := lending.OutcomeOf(err)
		wasInDoubt = wasInDoubt || err != nil && (outcome == lending.OutcomeUnknown || outcome == lending.OutcomeDone)
		var failed *lending.Error
		switch {
		case err == nil, errors.Is(err, idempotency.ErrAnswerLost) && lending.NextOf(err).Person:
			if err != nil {
				result = s.answer(o.service.Snapshot())
			}
			o.count(s, o.service.Executed(s.route)-before, wasInDoubt, person)
			return result
		case errors.Is(err, idempotency.ErrNeedsReview):
			person = true
			bubble.Elapse(maxLateness)
			o.decide(s, key, o.service.Executed(s.route) > before)
		case outcome == lending.OutcomeRejected && s.rejected != nil:
			s.rejected()
		case errors.As(err, &failed):
			bubble.Elapse(max(failed.RetryAfter, time.Second))
		default:
			require.NoError(o.t, err, s.name)
		}
	}
	require.Fail(o.t, "no end", "%s: %v", s.name, last)
	return nil
}

// decide is a person who looks into the service's books.
func (o *onboarding) decide(s stage, key string, happened bool) {
	verdict := idempotency.NotHappened()
	if happened {
		verdict = idempotency.Happened(nil)
		if s.answer != nil {
			verdict = idempotency.Happened(s.answer(o.service.Snapshot()))
		}
	}
	require.NoError(o.t, o.log.Resolve(o.t.Context(), key,
		idempotency.Resolution{By: "ada", Why: "the books say so", Verdict: verdict}))
}

func (o *onboarding) count(s stage, executed int, wasInDoubt, person bool) {
	if wasInDoubt {
		o.tally.doubts++
	}
	if person {
		o.tally.persons[strings.TrimRight(s.name, " 01")]++
	}
	switch {
	case executed == 0:
		o.tally.claimed++
		o.t.Logf("%s: said to have happened, and not executed", s.name)
	case executed > 1 && !s.repeats:
		o.tally.twice++
		o.t.Logf("%s: executed %d times", s.name, executed)
	}
}
