package idempotency_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

type lostAnswer struct {
	route string
	call  func(context.Context, *lending.Client, order) (string, error)
	id    func(lendingtest.Snapshot) string // the answer; nil if it is lost
}

// lostAnswers are mutations with a lost response, and the result of the next call with the key.
var lostAnswers = map[string]lostAnswer{
	"Applications.CreateCustomer": {
		fake.CreateRoute,
		func(ctx context.Context, c *lending.Client, _ order) (string, error) {
			customer, err := c.Applications.CreateCustomer(ctx, fake.Ada())
			if err != nil {
				return "", err
			}
			return customer.ID.String(), nil
		},
		func(s lendingtest.Snapshot) string { return s.Customers[len(s.Customers)-1].ID },
	},
	"Applications.Create": {
		"POST /api/Application/create-application",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			id, err := c.Applications.Create(ctx, o.request(), nil)
			return id.String(), err
		},
		func(s lendingtest.Snapshot) string { return s.Applications[len(s.Applications)-1].ID },
	},
	"Applications.Process": {
		fake.ProcessRoute,
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			id, err := c.Applications.Process(ctx, o.application)
			return id.String(), err
		},
		func(s lendingtest.Snapshot) string { return s.Applications[1].Offer.ID },
	},
	"Bulk.CreateCustomers": {
		"POST /api/ApplicationBulk/create-customers",
		func(ctx context.Context, c *lending.Client, _ order) (string, error) {
			other := fake.Ada()
			other.Email = "grace@example.com"
			created, err := c.Bulk.CreateCustomers(ctx, []lending.UserRequest{fake.Ada(), other})
			if err != nil {
				return "", err
			}
			return created[0].ID.String() + created[1].ID.String(), nil
		},
		func(s lendingtest.Snapshot) string {
			return s.Customers[len(s.Customers)-2].ID + s.Customers[len(s.Customers)-1].ID
		},
	},
	"Bulk.CreateApplications": {
		"POST /api/ApplicationBulk/create-applications",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			_, err := c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{o.request(), o.request()})
			return "", err
		},
		nil,
	},
	"Approval.AddPrimaryApplicantDetails": {
		"POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			return "", c.Approval.AddPrimaryApplicantDetails(ctx, o.offered,
				lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada"}})
		},
		func(lendingtest.Snapshot) string { return "" },
	},
	"Webhooks.Unregister": {
		"POST /api/Webhook/unregister",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			return "", c.Webhooks.Unregister(ctx, lending.ForCustomer(o.customer),
				lending.WebhookSubscription{WebhookURI: "https://receiver.invalid/"})
		},
		func(lendingtest.Snapshot) string { return "" },
	},
	"Loans.ConfirmInvoiceWithdrawal": {
		"POST /api/Loan/confirm-withdrawal-invoice/{loanId}",
		func(ctx context.Context, c *lending.Client, o order) (string, error) {
			_, err := c.Loans.ConfirmInvoiceWithdrawal(ctx, *o.withdrawal,
				lending.WithdrawInvoiceRequestData{
					DateUTC: catalog.Date,
					OTP:     lending.NewSecret(o.service.OTP(o.loan.String())),
				})
			return "", err
		},
		func(lendingtest.Snapshot) string { return "" }, // no read shows the id, and the record is empty
	},
}

func TestCheckFindsALostResponse(t *testing.T) {
	for name, test := range lostAnswers {
		for _, fault := range []lendingtest.Fault{{ResetAfter: true}, {CutBody: -1}, {CutBody: 1}} {
			t.Run(fmt.Sprintf("%s/cut %d", name, fault.CutBody), func(t *testing.T) {
				keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
					o, client := newOrder(service), process()
					prepareOrder(t, client, &o)
					before := service.Executed(test.route)
					service.Fail(test.route, fault)
					ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
					_, err := test.call(ctx, client, o)
					require.ErrorIs(t, err, lending.ErrMayHaveHappened)
					for range 2 {
						answer, err := test.call(ctx, process(), o)
						if test.id == nil {
							require.ErrorIs(t, err, idempotency.ErrAnswerLost)
							assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
							continue
						}
						require.NoError(t, err)
						assert.Equal(t, test.id(service.Snapshot()), answer)
					}
					assert.Equal(t, before+1, service.Executed(test.route))
				})
			})
		}
	}
}

// TestAnotherRecordInTheListNeedsReview has two possible causes of a record: a person decides.
func TestAnotherRecordInTheListNeedsReview(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.Create(ctx, o.request(), nil)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		other := fake.Must(client.Applications.Create(t.Context(), o.request(), nil)) // without a key
		_, err = client.Applications.Create(ctx, o.request(), nil)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.Contains(t, err.Error(), "there are 5 records where there were 3")

		ours := idempotency.Happened(other) // says a person, who is wrong; it is believed
		require.NoError(t, log.Resolve(t.Context(), "the/key",
			idempotency.Resolution{By: "ada", Why: "seen on the page", Verdict: ours}))
		id, err := client.Applications.Create(ctx, o.request(), nil)
		require.NoError(t, err)
		assert.Equal(t, other, id)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestBatchForSeveralCustomersNeedsReview: no lock covers several customers.
func TestBatchForSeveralCustomersNeedsReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		other := o.request()
		grace := service.AddCustomer(lendingtest.Customer{Email: "grace@example.com"})
		other.CustomerID = fake.Must(lending.ParseCustomerID(grace.ID))
		service.Fail("POST /api/ApplicationBulk/create-applications", lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		for _, want := range []error{lending.ErrOutcomeUnknown, idempotency.ErrNeedsReview} {
			_, err := client.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{o.request(), other})
			require.ErrorIs(t, err, want)
		}
	})
}

// TestUploadNeedsNoResponse from a person, nor after a sweep.
func TestUploadNeedsNoResponse(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		const submit = "POST /api/Application/submit-bankstatement-document/{applicationId}"
		upload := func(key string) error {
			document := lending.Document{Name: "a.pdf", Content: strings.NewReader("%PDF-1.7")}
			return client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(t.Context(), key), o.application,
				document)
		}
		service.Fail(submit, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, upload("lost"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, upload("lost"), idempotency.ErrNeedsReview)
		require.NoError(t, log.Resolve(t.Context(), "lost", says(idempotency.Happened(nil))))
		require.NoError(t, upload("lost"))
		require.NoError(t, upload("swept"))
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		require.NoError(t, upload("swept"))
		assert.Equal(t, 2, service.Executed(submit))
	})
}

// TestAnswerThatNoReadRebuilds cuts the responses of mutations without a check: the log resends where a
// second execution is safe, the caller's check finds the response, or a person supplies it.
func TestAnswerThatNoReadRebuilds(t *testing.T) {
	const route = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	given := map[string]any{"advanceRate": 0.75}
	says := func(v idempotency.Verdict) keyOption {
		return withCheck(func(context.Context) (idempotency.Verdict, error) { return v, nil })
	}
	for _, test := range []struct {
		name     string
		opts     []keyOption
		want     error
		executed int
	}{
		{"as it is", nil, idempotency.ErrAnswerLost, 1},
		{"safe to repeat", []keyOption{idempotency.SafeToRepeat}, nil, 2},
		{"a check finds it", []keyOption{says(idempotency.Happened(given))}, nil, 1},
		{"a check does not", []keyOption{says(idempotency.NotHappened())}, idempotency.ErrAnswerLost, 1},
		{"a check cannot tell", []keyOption{says(idempotency.NeedsReview("who knows"))}, idempotency.ErrAnswerLost, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				before := service.Executed(route)
				withdraw := func(opts ...keyOption) (*lending.InvoiceWithdrawal, error) {
					return client.Loans.WithdrawInvoice(withKey(t.Context(), "the/key", opts...), o.loan,
						lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
				}
				service.Fail(route, lendingtest.Fault{CutBody: 10})
				_, err := withdraw(test.opts...)
				require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
				require.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
				for range 3 {
					_, err = withdraw(test.opts...)
					require.ErrorIs(t, err, test.want)
					if err != nil {
						require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
						require.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
						bubble.Elapse(maxLateness)
					}
				}
				assert.Equal(t, test.executed, service.Executed(route)-before)
				if err == nil {
					return
				}
				said := idempotency.Resolution{By: "Grace", Why: "asked", Verdict: idempotency.NotHappened()}
				require.ErrorAs(t, log.Resolve(t.Context(), "the/key", said), new(*lending.ArgumentError))
				said.Verdict = idempotency.Happened(given)
				require.NoError(t, log.Resolve(t.Context(), "the/key", said))
				answer, err := withdraw(test.opts...)
				require.NoError(t, err)
				assert.Equal(t, "0.75", answer.AdvanceRate.String())
				assert.Empty(t, fake.Must(log.Keys(t.Context(), doubtful)))
				assert.Equal(t, 1, service.Executed(route)-before)
			})
		})
	}
}

// TestCutValueIsResent unless another mutation has set a newer value.
func TestCutValueIsResent(t *testing.T) {
	for _, test := range []struct {
		name  string
		newer bool
		want  error
		value string
	}{
		{"the newest", false, nil, "Old"},
		{"a newer one", true, idempotency.ErrAnswerLost, "New"},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				set := func(value string) error {
					ctx := lending.WithIdempotencyKey(t.Context(), value)
					_, err := client.Applications.UpdateName(ctx, o.application, value)
					return err
				}
				service.Fail(renameRoute, lendingtest.Fault{CutBody: 1})
				require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(set("Old")))
				if test.newer {
					require.NoError(t, set("New"), "what has happened keeps no lock")
				}
				for range 2 {
					require.ErrorIs(t, set("Old"), test.want)
				}
				assert.Equal(t, test.value, service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
}

// MaxAnswer counts itself.
func TestLargestAnswerIsKept(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		want string // the action of the next call
	}{{"of MaxAnswer", 38, idempotency.ActionReplayed}, {"larger", 37, idempotency.ActionRebuilt}} {
		t.Run(test.name, func(t *testing.T) {
			opts := &idempotency.Options{MaxAnswer: test.most}
			withStore(t, opts, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
				var response lending.Response
				for i := range 3 { // the answer is an id in quotes
					ctx := lending.CaptureResponse(lending.WithIdempotencyKey(t.Context(), "the/key"), &response)
					fake.Must(client.Applications.Create(ctx, o.request(), nil))
					if i == 0 {
						kept := fake.Must(log.Lookup(ctx, "the/key")).Answer() != nil
						assert.Equal(t, test.most == 38, kept)
					}
				}
				assert.Equal(t, test.want, response.Header.Get("Lending-Idempotency"))
			})
		})
	}
}

// TestReadsThatLagShowTheRightID has the answer of the second application lost, not its request:
// its id is found, and not the id of the first application.
func TestReadsThatLagShowTheRightID(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		o, client := newOrder(service), process()
		create := o.createsID(t, client)
		_, err := create("first")
		require.NoError(t, err)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		_, err = create("second")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		_, err = create("second") // the reads show neither
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		bubble.Elapse(2 * time.Second)
		second, err := create("second")
		require.NoError(t, err)
		all := service.Snapshot().Applications
		assert.Equal(t, all[len(all)-1].ID, second.String())
	}, lendingtest.WithReadLag(time.Second))
}

// TestSweptResponsesAreRebuilt sweeps the answers of a whole order, which then begins at the top
// again: each step is done, with its answer, and nothing is executed twice.
func TestSweptResponsesAreRebuilt(t *testing.T) {
	for name, test := range lostAnswers {
		t.Run(name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				before := service.Executed(test.route)
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				first, err := test.call(ctx, client, o)
				require.NoError(t, err)
				bubble.Elapse(31 * 24 * time.Hour)
				require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
				require.Zero(t, fake.Must(log.Sweep(t.Context())))
				again, err := test.call(ctx, process(), o)
				require.NoError(t, err)
				assert.Equal(t, first, again)
				assert.Equal(t, before+1, service.Executed(test.route))
			})
		})
	}
}

// TestSweptCalculationIsResent unless a newer calculation was made: the value is not of now.
func TestSweptCalculationIsResent(t *testing.T) {
	const route = "POST /api/Calculation/application-invoice-calculation"
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		prepareOrder(t, client, &o)
		loan := fake.Must(client.Loans.Get(t.Context(), o.loan))
		before := service.Executed(route)
		for i, step := range []struct {
			key      string
			executed int
		}{{"old", 1}, {"old", 2}, {"new", 3}, {"old", 3}} {
			ctx := lending.WithIdempotencyKey(t.Context(), step.key)
			fake.Must(client.Calculation.Invoice(ctx, loan.ApplicationID, fake.Invoice()))
			assert.Equal(t, step.executed, service.Executed(route)-before, "step %d", i)
			bubble.Elapse(31 * 24 * time.Hour)
			fake.Must(log.Sweep(t.Context()))
			bubble.Elapse(maxLateness)
		}
	})
}
