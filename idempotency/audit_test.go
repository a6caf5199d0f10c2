package idempotency_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// books are a service and a log after two orders of a customer, the first with two withdrawals. All their
// mutations have keys, and MaxLateness is over.
type books struct {
	*testing.T

	service      *lendingtest.Service
	entries      *tampered
	watch        func() // called with each request to the service
	log          *idempotency.Log
	client       *lending.Client // with the log
	other        *lending.Client // of another program
	customer     lending.CustomerID
	applications []lending.ApplicationID
	loan         lending.LoanID
	withdrawals  int
}

func inBooks(t *testing.T, test func(b *books)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &books{T: t, watch: func() {}, entries: &tampered{Store: store.NewMemory()}}
		nobody := &http.Client{Transport: wire.Reply(http.StatusOK, "")}
		b.service = lendingtest.New(lendingtest.WithDeliveryClient(nobody),
			lendingtest.WithWatcher(func(lendingtest.Request, bool) { b.watch() }))
		defer b.service.Close()
		b.log = fake.Must(idempotency.NewLog(b.entries, nil))
		b.client = processWith(t, b.service, b.log)
		b.other = processWith(t, b.service, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
		user := fake.Must(b.client.Applications.CreateCustomer(b.key("customer"), fake.Ada()))
		b.customer = user.ID
		for i := range 2 {
			id := b.apply(b.client, fmt.Sprint("application-", i))
			fake.Must(b.client.Applications.AddOrUpdateBankingData(b.key(fmt.Sprint("bank-", i)), id, bankData(), nil))
			fake.Must(b.client.Applications.Process(b.key(fmt.Sprint("process-", i)), id))
		}
		application := b.applications[0]
		require.NoError(t, b.client.Approval.AddCompanyDetails(b.key("company"), application,
			lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": "Lovelace Analytics"}}))
		require.NoError(t, b.client.Approval.AddPrimaryApplicantDetails(b.key("applicant"), application, applicant()))
		loan := b.service.AddLoan(lendingtest.Loan{
			CustomerID: b.customer.String(), ApplicationID: application.String(), Amount: 1e8, AvailableBalance: 1e8,
			IsEnabled: true,
		})
		b.loan = fake.Must(lending.ParseLoanID(loan.ID))
		b.withdraw(b.client)
		b.withdraw(b.client)
		bubble.Elapse(maxLateness)
		test(b)
	})
}

func applicant() lending.PrimaryApplicantRequest {
	return lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada", "lastName": "Lovelace"}}
}

func (b *books) key(step string) context.Context {
	return lending.WithIdempotencyKey(b.Context(), "order/"+step)
}

func (b *books) apply(client *lending.Client, key string) lending.ApplicationID {
	b.Helper()
	id := fake.Must(client.Applications.Create(b.key(key), request(b), nil))
	b.applications = append(b.applications, id)
	return id
}

// withdraw confirms a withdrawal.
func (b *books) withdraw(client *lending.Client) {
	b.Helper()
	b.withdrawals++
	_, err := b.confirm(client)
	require.NoError(b, err)
}

func (b *books) confirm(client *lending.Client) (*lending.GuidApiResponse, error) {
	loan := fake.Must(b.other.Loans.Get(b.Context(), b.loan))
	fake.Must(b.other.Calculation.Invoice(b.Context(), loan.ApplicationID, fake.Invoice()))
	started := fake.Must(client.Loans.WithdrawInvoice(b.key(fmt.Sprint("start-", b.withdrawals)), b.loan,
		lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()}))
	return client.Loans.ConfirmInvoiceWithdrawal(b.key(fmt.Sprint("confirm-", b.withdrawals)), *started,
		lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0), OTP: lending.NewSecret(b.service.OTP(b.loan.String()))})
}

// audit returns the differences of the last year as kind, list and count, and the unread owners.
func (b *books) audit() (found, unread []string) {
	b.Helper()
	opts := idempotency.AuditOptions{From: time.Now().AddDate(-1, 0, 0), To: time.Now().Add(time.Second), Client: b.client}
	for d, err := range b.log.Audit(b.Context(), opts) {
		require.NoError(b, err)
		if d.Kind == idempotency.Unread {
			unread = append(unread, d.Owner+" "+d.ID+": "+d.Why)
			continue
		}
		found = append(found, fmt.Sprint(d.Kind, " ", d.List, " ", d.Count))
	}
	result := fake.Must(b.log.Audited(b.Context()))
	require.NotNil(b, result)
	assert.Equal(b, len(unread), result.Found[idempotency.Unread])
	assert.Len(b, result.Differences, len(found)+len(unread))
	return found, unread
}

func request(b *books) lending.ApplicationRequest {
	return lending.ApplicationRequest{CustomerID: b.customer, BusinessName: "B", BusinessZip: "94105"}
}

func withApplicant(b *books) lending.ApplicationAndApplicantRequest {
	return lending.ApplicationAndApplicantRequest{Extra: catalog.Unpublished{
		"customerId": b.customer, "businessName": "B", "businessZip": "94105",
		"applicant": map[string]string{"firstName": "Ada", "lastName": "Lovelace"},
	}}
}

const (
	withdrawalsRoute  = "GET /api/Loan/get-withdrawals/{loanId}"
	applicationsRoute = "GET /api/Application/get-customer-applications/{customerId}"

	applicantRoute     = "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}"
	batchRoute         = "POST /api/ApplicationBulk/create-applications"
	withApplicantRoute = "POST /api/Application/create-application-and-applicant"
)

// TestAuditFindsEachDifference plants a difference into balanced books.
func TestAuditFindsEachDifference(t *testing.T) {
	removeWithdrawal := func(b *books, index int) {
		b.service.UpdateLoan(b.loan.String(), func(l *lendingtest.Loan) {
			l.Withdrawals = slices.Delete(l.Withdrawals, index, index+1)
		})
	}
	for _, test := range []struct {
		name  string
		plant func(b *books)
		found []string
	}{
		{"none", func(*books) {}, nil},
		{"a withdrawal is gone", func(b *books) { removeWithdrawal(b, 1) }, []string{"missing withdrawals 1"}},
		{"another program withdraws", func(b *books) { b.withdraw(b.other) }, []string{"unexplained withdrawals 1"}},
		{"a withdrawal is replaced", func(b *books) {
			b.withdraw(b.other)
			removeWithdrawal(b, 0)
		}, []string{"missing withdrawals 1", "unexplained withdrawals 1"}},
		{"an application is gone", func(b *books) {
			b.service.UpdateApplication(b.applications[1].String(), func(a *lendingtest.Application) {
				a.CustomerID = uuid.NewString()
			})
		}, []string{"missing applications 1"}},
		{"another program creates an application, which a response names", func(b *books) {
			b.service.Answer(offerRoute, wire.Answer(http.StatusOK, `{"sameAs":"`+b.apply(b.other, "").String()+`"}`))
			fake.Must(b.client.Applications.Offer(b.key("offer"), b.applications[0], &lending.OfferOptions{Force: true}))
		}, []string{"unexplained applications 1"}},
		{"a second loan of an application", func(b *books) {
			b.service.AddLoan(lendingtest.Loan{CustomerID: b.customer.String(), ApplicationID: b.applications[0].String()})
		}, []string{"unexplained loans 1"}},
		{"another program adds an applicant", func(b *books) {
			require.NoError(b, b.other.Approval.AddSecondaryApplicantDetails(b.Context(), b.applications[0],
				lending.SecondaryApplicantRequest{Extra: applicant().Extra}))
		}, []string{"unexplained applicants 1"}},
		{"a processing is repeated", func(b *books) {
			fake.Must(b.other.Applications.Process(b.Context(), b.applications[1]))
		}, []string{"unexplained offers 1"}},
		{"an open key", func(b *books) {
			b.service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
			b.withdrawals++
			_, err := b.confirm(b.client)
			require.ErrorIs(b, err, lending.ErrOutcomeUnknown)
			bubble.Elapse(25 * time.Hour)
		}, []string{"open  0"}},
		{"two keys claim an application", func(b *books) {
			b.service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
			_, err := b.client.Applications.Create(b.key("shared"), request(b), nil)
			require.ErrorIs(b, err, lending.ErrOutcomeUnknown)
			bubble.Elapse(maxLateness)
			require.NoError(b, b.log.Resolve(b.Context(), "order/shared",
				idempotency.Resolution{By: "kim", Why: "a mistake", Verdict: idempotency.Happened(b.applications[0])}))
		}, []string{"shared applications 1"}},
		{"two applicants of another program, beside two with keys", func(b *books) {
			second := lending.SecondaryApplicantRequest{Extra: applicant().Extra}
			require.NoError(b, b.client.Approval.AddSecondaryApplicantDetails(b.key("second"), b.applications[0], second))
			for range 2 {
				require.NoError(b, b.other.Approval.AddSecondaryApplicantDetails(b.Context(), b.applications[0], second))
			}
		}, []string{"unexplained applicants 2"}},
		{"a store from a copy without two keys", func(b *books) {
			for _, key := range []string{":order/confirm-2", ":order/application-1"} {
				entry := fake.Must(loaded(b.entries, key))
				fake.Must(b.entries.Replace(b.Context(), []store.Entry{{Key: key, Revision: entry.Revision}}))
			}
		}, []string{"unexplained applications 1", "unexplained withdrawals 1"}},
		{"an applicant is gone", func(b *books) {
			b.service.UpdateApplication(b.applications[0].String(), func(a *lendingtest.Application) { a.Applicants = nil })
		}, []string{"missing applicants 1"}},
		{"two applicants are gone, and a third is in doubt", func(b *books) {
			id := b.applications[0]
			require.NoError(b, b.client.Approval.AddSecondaryApplicantDetails(b.key("a-second"), id,
				lending.SecondaryApplicantRequest{Extra: applicant().Extra}))
			bubble.Elapse(maxLateness)
			b.service.Fail(applicantRoute, lendingtest.Fault{ResetBefore: true})
			require.Error(b, b.client.Approval.AddPrimaryApplicantDetails(b.key("a-doubt"), id, applicant()))
			b.service.UpdateApplication(id.String(), func(a *lendingtest.Application) { a.Applicants = nil })
		}, []string{"missing applicants 2"}},
		{"an offer without an id", func(b *books) {
			b.service.Answer(offerRoute, wire.Answer(http.StatusOK, `{"planId":"`+uuid.NewString()+`"}`))
		}, nil},
		{"a withdrawal that is listed from its start waits", func(b *books) {
			opts := listedFromItsStart()
			b.log = fake.Must(idempotency.NewLog(b.entries, &opts))
			b.service.Assume("withdrawal listed", "from its start")
			fake.Must(b.other.Loans.WithdrawInvoice(b.Context(), b.loan,
				lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()}))
		}, nil},
		{"withdrawals without ids, too few", func(b *books) {
			b.service.Answer(withdrawalsRoute, wire.Answer(http.StatusOK, `{"data":[{"amount":1}],"totalCount":1}`))
		}, []string{"missing withdrawals 1"}},
		{"withdrawals without ids, too many", func(b *books) {
			b.service.Answer(withdrawalsRoute,
				wire.Answer(http.StatusOK, `{"data":[{"amount":1},{"amount":2},{"amount":3}],"totalCount":3}`))
		}, []string{"unexplained withdrawals 1"}},
		{"withdrawals without ids", func(b *books) {
			b.service.Answer(withdrawalsRoute, wire.Answer(http.StatusOK, `{"data":[{"amount":1},{"amount":2}],"totalCount":2}`))
		}, nil},
		{"the customer is gone", func(b *books) {
			for _, route := range []string{applicationsRoute, "GET /api/Loan/get-customer-loans/{customerId}"} {
				b.service.Answer(route, wire.Answer(http.StatusNotFound, `{"status":404,"title":"Not Found"}`))
			}
		}, []string{"missing applications 1", "missing applications 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				test.plant(b)
				found, unread := b.audit()
				assert.Equal(t, test.found, found)
				assert.Empty(t, unread)
			})
		})
	}
}

// TestAuditOfReadsThatFailIsIncomplete has reads that fail, end early or lag.
func TestAuditOfReadsThatFailIsIncomplete(t *testing.T) {
	for _, test := range []struct {
		name  string
		plant func(b *books)
	}{
		{"a read fails", func(b *books) {
			for i := range 12 {
				id := b.apply(b.client, fmt.Sprint("further-", i))
				fake.Must(b.client.Applications.UpdateName(b.key(fmt.Sprint("name-", i)), id, "C"))
			}
			bubble.Elapse(maxLateness)
			b.service.Fail(withdrawalsRoute, lendingtest.Fault{Status: http.StatusBadGateway, Times: 100})
		}},
		{"the answer to a read is none", func(b *books) {
			b.service.Answer(withdrawalsRoute, wire.Answer(http.StatusBadRequest, `{"status":400,"title":"failed"}`))
		}},
		{"a list ends early", func(b *books) {
			b.service.Answer(withdrawalsRoute, wire.Answer(http.StatusOK, `{"data":[],"totalCount":2}`))
		}},
		{"a list does not end", func(b *books) {
			pages := 0
			b.service.Answer(withdrawalsRoute, func(w http.ResponseWriter, r *http.Request) {
				pages++
				assert.Less(b, pages, 102)
				page := strings.Repeat(fmt.Sprintf(`{"id":%q},`, uuid.New()), 200)
				wire.Answer(http.StatusOK, `{"data":[`+page[:len(page)-1]+`],"totalCount":1000000000}`)(w, r)
			})
		}},
		{"reads lag", func(b *books) {
			b.withdraw(b.client)
			b.service.UpdateLoan(b.loan.String(), func(l *lendingtest.Loan) { l.Withdrawals = l.Withdrawals[:2] })
		}},
		{"reads without ids lag", func(b *books) {
			b.withdraw(b.client)
			b.service.Answer(withdrawalsRoute, wire.Answer(http.StatusOK, `{"data":[{"amount":1},{"amount":2}],"totalCount":2}`))
		}},
		{"two reads differ", func(b *books) {
			b.service.Answer(withdrawalsRoute, func(w http.ResponseWriter, r *http.Request) {
				b.service.Answer(withdrawalsRoute, nil)
				wire.Answer(http.StatusOK, `{"data":[],"totalCount":0}`)(w, r)
			})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				test.plant(b)
				found, unread := b.audit()
				assert.Empty(t, found)
				require.Len(t, unread, 1, "%v", unread)
				assert.Contains(t, unread[0], "loan "+b.loan.String())
			})
		})
	}
}

// TestAuditGoesOnAfterRejectedReads has a service reject the reads of 14 applications. A list of the customer lags.
func TestAuditGoesOnAfterRejectedReads(t *testing.T) {
	inBooks(t, func(b *books) {
		for i := range 12 {
			id := b.apply(b.client, fmt.Sprint("further-", i))
			fake.Must(b.client.Applications.UpdateName(b.key(fmt.Sprint("name-", i)), id, "C"))
		}
		bubble.Elapse(maxLateness)
		id := b.apply(b.client, "not-shown")
		b.service.UpdateApplication(id.String(), func(a *lendingtest.Application) { a.CustomerID = uuid.NewString() })
		b.service.Fail("GET /api/ApplicationApproval/get-all-applicants/{applicationId}",
			lendingtest.Fault{Status: http.StatusForbidden, Times: 1000})
		found, unread := b.audit()
		assert.Empty(b, found)
		assert.Len(b, unread, 14+1)
		assert.Contains(b, unread[14], "customer "+b.customer.String()+": the reads do not show the last mutations yet")
	})
}

// TestAuditOfAForgetfulLogFindsNothingWrong has swept, forgotten and erased keys.
func TestAuditOfAForgetfulLogFindsNothingWrong(t *testing.T) {
	for _, test := range []struct {
		name   string
		forget func(b *books)
		owners int // not auditable
		unread int
	}{
		{"swept", func(b *books) {
			bubble.Elapse(31 * 24 * time.Hour)
			assert.Positive(b, fake.Must(b.log.Sweep(b.Context())))
		}, 0, 0},
		{"swept after a key was forgotten", func(b *books) {
			fake.Must(b.log.Forget(b.Context(), "order/confirm-1"))
			bubble.Elapse(31 * 24 * time.Hour)
			assert.Positive(b, fake.Must(b.log.Sweep(b.Context())))
		}, 2, 0},
		{"unreadable", func(b *books) {
			entry := fake.Must(loaded(b.entries, ":order/confirm-1"))
			entry.Data = []byte(`{"format":99}`)
			require.NoError(b, b.entries.Save(b.Context(), entry))
		}, 4, 1},
		{"a batch without a response", func(b *books) {
			b.service.Fail(batchRoute, lendingtest.Fault{ResetAfter: true})
			_, err := b.client.Bulk.CreateApplications(b.key("batch"), []lending.ApplicationRequest{request(b), request(b)})
			require.Error(b, err)
		}, 4, 0},
		{"a creation for an unknown customer without a response", func(b *books) {
			b.service.Fail(withApplicantRoute, lendingtest.Fault{ResetAfter: true})
			_, err := b.client.Applications.CreateWithApplicant(b.key("both"), withApplicant(b), nil)
			require.Error(b, err)
		}, 4, 0},
		{"a single key forgotten", func(b *books) { fake.Must(b.log.Forget(b.Context(), "order/confirm-1")) }, 4, 0},
		{"erased", func(b *books) {
			fake.Must(b.log.Erase(b.Context(), idempotency.Decision{By: "kim", Why: "request"}, b.loan.String()))
			b.withdraw(b.client)
			bubble.Elapse(maxLateness)
		}, 4, 0},
		{"an application after a key was forgotten", func(b *books) {
			fake.Must(b.log.Forget(b.Context(), "order/confirm-1"))
			bubble.Elapse(3 * time.Hour)
			b.apply(b.client, "late")
			bubble.Elapse(maxLateness)
		}, 4, 0},
		{"a key of a younger owner forgotten later", func(b *books) {
			fake.Must(b.log.Forget(b.Context(), "order/confirm-1"))
			bubble.Elapse(2*time.Hour + 10*time.Minute)
			id := b.apply(b.client, "late")
			fake.Must(b.client.Applications.AddOrUpdateBankingData(b.key("late-bank"), id, bankData(), nil))
			fake.Must(b.client.Applications.Process(b.key("late-process"), id))
			require.NoError(b, b.client.Approval.AddCompanyDetails(b.key("late-company"), id,
				lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": "Lovelace Analytics"}}))
			require.NoError(b, b.client.Approval.AddPrimaryApplicantDetails(b.key("late-applicant"), id, applicant()))
			bubble.Elapse(maxLateness)
			fake.Must(b.log.Forget(b.Context(), "order/late-applicant"))
		}, 5, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				test.forget(b)
				found, unread := b.audit()
				assert.Empty(t, found)
				assert.Len(t, unread, test.unread)
				result := fake.Must(b.log.Audited(b.Context()))
				assert.Equal(t, test.owners, result.NotAuditable["owners of which the log has forgotten a key"])
			})
		})
	}
}

// TestAuditTakesNoKeyForAnotherProgram has records whose keys are no ordinary creations.
func TestAuditTakesNoKeyForAnotherProgram(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(b *books)
	}{
		{"a batch", func(b *books) {
			fake.Must(b.client.Bulk.CreateApplications(b.key("batch"), []lending.ApplicationRequest{request(b), request(b)}))
		}},
		{"a batch of several customers", func(b *books) {
			other := request(b)
			other.CustomerID = fake.Must(lending.ParseCustomerID(b.service.AddCustomer(lendingtest.Customer{}).ID))
			batch := []lending.ApplicationRequest{request(b), other, request(b)}
			fake.Must(b.client.Bulk.CreateApplications(b.key("batch"), batch))
		}},
		{"an application with its applicant", func(b *books) {
			id := fake.Must(b.client.Applications.CreateWithApplicant(b.key("both"), withApplicant(b), nil))
			fake.Must(b.client.Applications.UpdateName(b.key("rename"), id, "C"))
		}},
		{"a customer with an application", func(b *books) {
			fake.Must(b.client.Applications.CreateWithCustomerAndApplicant(b.key("all"),
				lending.ApplicationAndCustomerAndApplicantRequest{Extra: catalog.Unpublished{
					"firstName": "Grace", "lastName": "Hopper", "email": "grace@example.com", "password": "Correct-Horse-7",
					"mobileNumber": "4155550100", "businessName": "B", "businessZip": "94105",
					"applicant": map[string]string{"firstName": "Grace", "lastName": "Hopper"},
				}}, nil))
			added := b.service.Snapshot().Customers
			b.customer = fake.Must(lending.ParseCustomerID(added[len(added)-1].ID))
			b.apply(b.client, "further")
		}},
		{"a line of credit with a withdrawal", func(b *books) {
			fake.Must(b.client.Loans.WithdrawLineOfCredit(b.key("line"), b.loan, lending.LineOfCreditWithdrawalRequest{}))
			b.withdraw(b.other)
		}},
		{"a second primary applicant", func(b *books) {
			require.NoError(b, b.client.Approval.AddPrimaryApplicantDetails(b.key("again"), b.applications[0], applicant()))
		}},
		{"a rejected application", func(b *books) {
			b.service.Fail(createApplicationRoute, lendingtest.Fault{Status: http.StatusConflict})
			_, err := b.client.Applications.Create(b.key("rejected"), request(b), nil)
			require.Equal(b, lending.OutcomeRejected, lending.OutcomeOf(err))
		}},
		{"a lost response to a withdrawal", func(b *books) {
			b.service.Fail(confirmRoute, lendingtest.Fault{ResetAfter: true})
			b.withdrawals++
			_, err := b.confirm(b.client)
			require.ErrorIs(b, err, lending.ErrOutcomeUnknown)
		}},
		{"withdrawals during the audit", func(b *books) {
			b.entries.list = func() error {
				if b.withdrawals < 7 {
					b.withdraw(b.client)
				}
				return nil
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				test.make(b)
				bubble.Elapse(maxLateness)
				found, unread := b.audit()
				assert.Empty(t, found)
				assert.Empty(t, unread)
			})
		})
	}
}

// TestAuditOfAnOwnerThatIsYoungerThanTheForgottenKeys has another program create an application for a customer whose
// keys are all in the log.
func TestAuditOfAnOwnerThatIsYoungerThanTheForgottenKeys(t *testing.T) {
	var ahead store.Entry
	inBooks(t, func(b *books) { // a process whose clock is a year ahead
		bubble.Elapse(365 * 24 * time.Hour)
		b.withdraw(b.client)
		bubble.Elapse(2 * time.Hour)
		fake.Must(b.log.Forget(b.Context(), "order/confirm-3"))
		ahead = fake.Must(loaded(b.entries, "!standing"))
	})
	for _, test := range []struct {
		name   string
		forget func(b *books, customer lending.CustomerID)
	}{
		{"forgotten", func(b *books, _ lending.CustomerID) { fake.Must(b.log.Forget(b.Context(), "order/confirm-1")) }},
		{"forgotten with another clock", func(b *books, _ lending.CustomerID) {
			if now := fake.Must(b.entries.Load(b.Context(), "!standing")); now != nil {
				ahead.Revision = now.Revision
			} else {
				ahead.Revision = 0
			}
			require.NoError(b, b.entries.Save(b.Context(), ahead))
		}},
		{"erased", func(b *books, customer lending.CustomerID) {
			fake.Must(b.log.Erase(b.Context(), idempotency.Decision{By: "kim", Why: "request"}, customer.String()))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				older := b.customer
				fake.Must(b.client.Bulk.CreateApplications(b.key("older"), []lending.ApplicationRequest{request(b)}))
				bubble.Elapse(time.Hour)
				user := fake.Ada()
				user.Email = "young@example.com"
				b.customer = fake.Must(b.client.Applications.CreateCustomer(b.key("young"), user)).ID
				id := b.apply(b.client, "first")
				b.apply(b.other, "")
				fake.Must(b.client.Bulk.CreateApplications(b.key("batch"), []lending.ApplicationRequest{request(b)}))
				b.service.Fail(batchRoute, lendingtest.Fault{Status: http.StatusConflict})
				_, err := b.client.Bulk.CreateApplications(b.key("rejected"), []lending.ApplicationRequest{request(b)})
				require.Error(b, err)
				loan := b.service.AddLoan(lendingtest.Loan{
					CustomerID: b.customer.String(), ApplicationID: id.String(), IsEnabled: true,
				})
				b.loan = fake.Must(lending.ParseLoanID(loan.ID))
				b.withdraw(b.client)
				b.withdraw(b.other)
				bubble.Elapse(maxLateness)
				test.forget(b, older)
				found, unread := b.audit()
				assert.Equal(b, []string{"unexplained applications 1", "unexplained withdrawals 1"}, found)
				assert.Empty(b, unread)
			})
		})
	}
}

// TestAuditAfterARestore has orders after the copy of a store. After the restore some of them run again, and a new
// order follows. The audit finds the records of the others.
func TestAuditAfterARestore(t *testing.T) {
	inBooks(t, func(b *books) {
		copied, at := store.NewMemory(), time.Now()
		all := store.Filter{States: append(idempotency.InDoubtStates(), store.Free, store.Done, store.Forgotten), Limit: 1000}
		for entry, err := range store.All(b.Context(), b.entries, all) {
			require.NoError(b, err)
			entry.Revision = 0
			require.NoError(b, copied.Save(b.Context(), entry))
		}
		bubble.Elapse(time.Minute)
		again := b.apply(b.client, "application-2")
		b.apply(b.client, "lost-1")
		b.apply(b.client, "lost-2")
		for range 3 { // confirm-3 to confirm-5
			b.withdraw(b.client)
		}
		ran := len(b.service.Snapshot().Applications) + len(b.service.Snapshot().Loans[0].Withdrawals)

		b.entries.Store = copied
		b.log = fake.Must(idempotency.NewLog(b.entries, &idempotency.Options{
			SafeToRepeat: []idempotency.Route{idempotency.WithdrawInvoice},
		}))
		b.client = processWith(b.T, b.service, b.log)
		restored(b.T, b.log, idempotency.Restoration{By: "kim", Copy: at})
		bubble.Elapse(maxLateness)
		create := func() error {
			_, err := b.client.Applications.Create(b.key("application-2"), request(b), nil)
			return err
		}
		b.withdrawals = 3
		confirm := func() error {
			_, err := b.confirm(b.client)
			return err
		}
		for _, step := range []struct {
			key    string
			call   func() error
			answer any
		}{{"application-2", create, again}, {"confirm-3", confirm, nil}} {
			require.ErrorIs(b, step.call(), idempotency.ErrNeedsReview)
			require.NoError(b, b.log.Resolve(b.Context(), "order/"+step.key,
				idempotency.Resolution{By: "kim", Why: "the books", Verdict: idempotency.Happened(step.answer)}))
			require.NoError(b, step.call())
		}
		accepted := idempotency.WithAccepted(b.key("application-3"), time.Now())
		fake.Must(b.client.Applications.Create(accepted, request(b), nil))
		after := len(b.service.Snapshot().Applications) + len(b.service.Snapshot().Loans[0].Withdrawals)
		require.Equal(b, ran+1, after, "nothing is done twice")
		bubble.Elapse(maxLateness)
		found, unread := b.audit()
		assert.Equal(b, []string{"unexplained applications 2", "unexplained withdrawals 2"}, found)
		assert.Empty(b, unread)
	})
}

// TestAuditReadsTheOwnersOfItsPeriod has keys of three days, which Sweep saves again a month later.
func TestAuditReadsTheOwnersOfItsPeriod(t *testing.T) {
	inBooks(t, func(b *books) {
		b.service.Fail("GET /api/Application/update-application-name/{applicationId}",
			lendingtest.Fault{Status: http.StatusConflict})
		_, err := b.client.Applications.UpdateName(b.key("rejected"), b.applications[0], "C")
		require.Error(b, err)
		b.audit()
		assert.Equal(b, map[string]int{
			"POST /api/Application/create-customer":                             1,
			"POST /api/Application/add-or-update-banking-data/{applicationId}":  2,
			"GET /api/Application/process-application/{applicationId}":          2,
			"POST /api/ApplicationApproval/add-company-details/{applicationId}": 1,
			"POST /api/Loan/make-withdrawal-invoice/{loanId}":                   2,
		}, fake.Must(b.log.Audited(b.Context())).NotAuditable)
		bubble.Elapse(24 * time.Hour)
		from := time.Now()
		bubble.Elapse(time.Hour)
		b.withdraw(b.client)
		bubble.Elapse(24 * time.Hour)
		to := time.Now()
		b.apply(b.client, "later")
		bubble.Elapse(time.Hour)
		for range 2 {
			for _, err := range b.log.Audit(b.Context(), idempotency.AuditOptions{From: from, To: to, Client: b.client}) {
				require.NoError(b, err)
			}
			result := fake.Must(b.log.Audited(b.Context()))
			assert.Equal(b, 1, result.Owners)
			assert.Equal(b, 2, result.Keys)
			assert.Equal(b, time.Now().UTC(), result.Ended)
			bubble.Elapse(31 * 24 * time.Hour)
			fake.Must(b.log.Sweep(b.Context()))
			fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		}
	})
}

// TestAuditThatDoesNotEndHasNoResult has wrong arguments, a service out of order, and a caller who has enough.
func TestAuditThatDoesNotEndHasNoResult(t *testing.T) {
	year := func(b *books) idempotency.AuditOptions {
		return idempotency.AuditOptions{From: time.Now().AddDate(-1, 0, 0), To: time.Now().Add(time.Second), Client: b.client}
	}
	for _, test := range []struct {
		name  string
		audit func(b *books) idempotency.AuditOptions
		want  string
	}{
		{"no client", func(b *books) idempotency.AuditOptions {
			o := year(b)
			o.Client = nil
			return o
		}, "Client"},
		{"no period", func(b *books) idempotency.AuditOptions { return idempotency.AuditOptions{Client: b.client} }, "From"},
		{"a service out of order", func(b *books) idempotency.AuditOptions {
			for i := range 20 {
				id := b.apply(b.client, fmt.Sprint("further-", i))
				fake.Must(b.client.Applications.UpdateName(b.key(fmt.Sprint("name-", i)), id, "C"))
			}
			b.service.Fail("*", lendingtest.Fault{Status: http.StatusBadGateway, Times: 1000})
			return year(b)
		}, "9 reads in a row failed"},
		{"an entry of a newer release", func(b *books) idempotency.AuditOptions {
			entry := fake.Must(loaded(b.entries, ":order/bank-0"))
			entry.Data = []byte(`{"format":99}`)
			require.NoError(b, b.entries.Save(b.Context(), entry))
			b.watch = func() { panic("the caller has had enough") }
			return year(b)
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBooks(t, func(b *books) {
				var last error
				for d, err := range b.log.Audit(b.Context(), test.audit(b)) {
					if last = err; test.want == "" {
						assert.Equal(b, idempotency.Unread, d.Kind)
						assert.Equal(b, []string{"order/bank-0"}, d.Keys)
						break
					}
				}
				if test.want != "" {
					assert.ErrorContains(b, last, test.want)
				}
				assert.Nil(b, fake.Must(b.log.Audited(b.Context())))
			})
		})
	}
}

// TestAuditDailyWithAnotherClock has a replica whose clock is a year ahead make an audit.
func TestAuditDailyWithAnotherClock(t *testing.T) {
	var audited store.Entry
	inBooks(t, func(b *books) {
		bubble.Elapse(365 * 24 * time.Hour)
		fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		fake.Must(b.log.AuditDaily(b.Context(), b.client))
		audited = fake.Must(loaded(b.entries, "!audit"))
	})
	inBooks(t, func(b *books) {
		audited.Revision = 0
		require.NoError(b, b.entries.Save(b.Context(), audited))
		b.withdraw(b.client)
		b.withdraw(b.other)
		wait := fake.Must(b.log.AuditDaily(b.Context(), b.client))
		assert.InDelta(b, 24*time.Hour, wait, float64(time.Minute))
		bubble.Elapse(wait)
		fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		assert.Equal(b, 24*time.Hour, fake.Must(b.log.AuditDaily(b.Context(), b.client)))
		result := fake.Must(b.log.Audited(b.Context()))
		assert.Equal(b, map[idempotency.DifferenceKind]int{idempotency.Unexplained: 1}, result.Found)
		assert.InDelta(b, 25*time.Hour, result.To.Sub(result.From), float64(10*time.Minute))
	})
}

// TestAuditDailyRunsInOneReplica has replicas for two days. One of them ends during an audit, and another is killed.
func TestAuditDailyRunsInOneReplica(t *testing.T) {
	inBooks(t, func(b *books) {
		daily := func(client *lending.Client) time.Duration {
			return fake.Must(fake.Must(idempotency.NewLog(b.entries, nil)).AuditDaily(b.Context(), client))
		}
		bubble.Elapse(time.Minute)
		arrived := func() int { return b.service.Arrived(withdrawalsRoute) }
		before := arrived()
		assert.Equal(b, 24*time.Hour, daily(b.client))
		assert.Equal(b, before+1, arrived())
		first := fake.Must(b.log.Audited(b.Context()))
		assert.Empty(b, first.Found)
		assert.Equal(b, 25*time.Hour, first.To.Sub(first.From))

		bubble.Elapse(time.Hour)
		wait := daily(b.client)
		assert.InDelta(b, 23*time.Hour, wait, float64(time.Minute))
		assert.Equal(b, before+1, arrived(), "the others wait")

		b.withdraw(b.other)
		b.withdraw(b.client)
		bubble.Elapse(wait)
		fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		dying, kill := context.WithCancel(b.Context())
		b.watch = kill
		_, err := b.log.AuditDaily(dying, b.client)
		require.ErrorIs(b, err, context.Canceled)
		b.watch = func() {}
		assert.Equal(b, first.To, fake.Must(b.log.Audited(b.Context())).To, "no result of half an audit")

		bubble.Elapse(time.Hour)
		killed := &tampered{Store: b.entries}
		killed.saved = func(store.Entry) error { // the process dies after the first save
			killed.save = func(store.Entry) error { return io.ErrClosedPipe }
			return io.ErrClosedPipe
		}
		_, err = fake.Must(idempotency.NewLog(killed, nil)).AuditDaily(b.Context(), b.client)
		require.ErrorIs(b, err, idempotency.ErrStore)
		wait = daily(b.client)
		assert.InDelta(b, 24*time.Hour, wait, float64(time.Minute), "the killed replica may still be at work")
		bubble.Elapse(wait)
		fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		assert.Equal(b, 24*time.Hour, daily(b.client))
		second := fake.Must(b.log.Audited(b.Context()))
		assert.Equal(b, first.To.Add(-time.Hour), second.From)
		assert.Equal(b, map[idempotency.DifferenceKind]int{idempotency.Unexplained: 1}, second.Found)
	})
}

// TestAuditByHandHidesNothing has a difference in the daily audit. Audits by hand of other days do not hide it.
func TestAuditByHandHidesNothing(t *testing.T) {
	inBooks(t, func(b *books) {
		b.withdraw(b.other)
		bubble.Elapse(time.Hour)
		audit := func(from, to time.Time) *idempotency.AuditResult {
			for _, err := range b.log.Audit(b.Context(), idempotency.AuditOptions{From: from, To: to, Client: b.client}) {
				require.NoError(b, err)
			}
			return fake.Must(b.log.Audited(b.Context()))
		}
		for day := range 2 {
			assert.Nil(b, audit(time.Now().AddDate(0, 0, -day-1), time.Now().AddDate(0, 0, -day)).Daily, "none was made")
		}
		fake.Must(b.log.AuditDaily(b.Context(), b.client))
		daily := fake.Must(b.log.Audited(b.Context()))
		assert.Nil(b, daily.Daily)
		for _, test := range []struct {
			name       string
			from, to   time.Time
			replacesIt bool
		}{
			{"the days before", daily.From.AddDate(0, 0, -2), daily.From, false},
			{"the same days again", daily.From.AddDate(0, 0, -2), daily.From, false},
			{"all but the begin", daily.From.Add(time.Second), time.Now(), false},
			{"all but the end", daily.From, daily.To.Add(-time.Second), false},
			{"the whole period", daily.From, daily.To, true},
		} {
			last := audit(test.from, test.to)
			assert.Equal(b, test.from.UTC(), last.From, test.name)
			if test.replacesIt {
				daily = nil
			}
			assert.Equal(b, daily, last.Daily, test.name)
		}
		require.NotNil(b, audit(time.Now().Add(-time.Hour), time.Now()).Daily)
		bubble.Elapse(24 * time.Hour)
		fake.Must(b.client.Loans.Get(b.Context(), b.loan)) // renews the token
		fake.Must(b.log.AuditDaily(b.Context(), b.client))
		assert.Nil(b, fake.Must(b.log.Audited(b.Context())).Daily)
	})
}
