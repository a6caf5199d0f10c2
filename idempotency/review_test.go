package idempotency_test

import (
	"context"
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
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func says(v idempotency.Verdict) idempotency.Resolution {
	return idempotency.Resolution{By: "ada", Why: "the books say so", Verdict: v}
}

func corrects(v idempotency.Verdict) idempotency.Resolution {
	r := says(v)
	r.Correct = true
	return r
}

func TestResolveEndsAReview(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		send := func() error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		}
		resolve := func(v idempotency.Verdict) error {
			return log.Resolve(t.Context(), "the/key", says(v))
		}
		require.ErrorAs(t, resolve(idempotency.Happened(nil)), new(*lending.ArgumentError), "there is no such command")
		service.Fail(linkRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, send(), idempotency.ErrNeedsReview)
		bubble.Elapse(time.Minute)

		inDoubt, err := log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Len(t, inDoubt, 1)
		inDoubt[0].Position = ""
		assert.Equal(t, idempotency.KeyStatus{
			Key: "the/key", Route: linkRoute, State: store.NeedsReview, Age: time.Minute, Sends: 1,
			IDs:         map[string]string{"applicationId": o.application.String()},
			NeedsPerson: true, Why: "no published field shows it", NotHappenedAfter: maxLateness - time.Minute,
			History: []idempotency.Change{
				{State: store.Sent, Age: time.Minute, Sends: 1},
				{State: store.InDoubt, Age: time.Minute, Sends: 1, Why: "connection reset"},
				{State: store.NeedsReview, Age: time.Minute, Sends: 1, Why: "no published field shows it"},
			},
		}, inDoubt[0])
		err = resolve(idempotency.NotHappened())
		require.ErrorIs(t, err, idempotency.ErrInDoubt, "it can still be executed")
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		bubble.Elapse(refused.RetryAfter)
		require.NoError(t, resolve(idempotency.NotHappened()))
		require.NoError(t, send())
		assert.Equal(t, 1, service.Executed(linkRoute))
		require.ErrorAs(t, resolve(idempotency.Happened(nil)), new(*lending.ArgumentError),
			"it is not in doubt any more")
		inDoubt, err = log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		assert.Empty(t, inDoubt)
		require.ErrorAs(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{}), new(*lending.ArgumentError))
	})
}

// TestVerdictHasTheShapeOfTheAnswer offers answers of right and of wrong shapes to a mutation of
// every kind of answer.
func TestVerdictHasTheShapeOfTheAnswer(t *testing.T) {
	const id = "00000001-0001-4000-8000-000000000009"
	object := map[string]any{"id": id}
	for _, test := range []struct {
		method       string
		right, wrong []any
	}{
		{
			"Applications.CreateCustomer",
			[]any{object},
			[]any{nil, id, true, struct{}{}, map[string]any{"id": "x"}, []any{object}},
		},
		{"Applications.Create", []any{id}, []any{nil, object, true, "an id", 7}},
		{"Applications.Process", []any{nil, id}, []any{object, lending.OfferID{}}},
		{"Applications.UpdateName", []any{nil, true, false}, []any{"true", object, id}},
		{"Applications.CreateWithCustomer", []any{object}, []any{nil, id, []any{object}}},
		{"Approval.AddCompanyDetails", []any{nil, true}, []any{false, object}},
		{"Approval.SubmitDocument", []any{nil, true}, []any{false, "true"}},
		{"Bulk.CreateCustomers", []any{[]any{object, object}}, []any{object, []any{}, []any{id}}},
		{"Bulk.CreateApplications", []any{[]any{object, object}}, []any{nil, object, []any{id}}},
		{"Calculation.Invoice", []any{object}, []any{id}},
		{
			"Loans.ConfirmInvoiceWithdrawal",
			[]any{nil, id, map[string]any{"data": id}},
			[]any{true, map[string]any{"data": 1}},
		},
		{"Loans.ResendWithdrawalOTP", []any{nil, id}, []any{object}},
	} {
		t.Run(test.method, func(t *testing.T) {
			for _, answer := range append(test.right, test.wrong...) {
				keyedLoss(t, test.method, func(t *testing.T, log *idempotency.Log, call func() (any, error)) {
					t.Helper()
					err := log.Resolve(t.Context(), "the/key", says(idempotency.Happened(answer)))
					for _, wrong := range test.wrong {
						if assert.ObjectsAreEqual(wrong, answer) {
							assert.Contains(t, []string{"Verdict format", "Verdict required"}, catalog.Refused(t, err))
							assert.ErrorContains(t, err, "must hold the response of the route")
							return
						}
					}
					require.NoError(t, err)
					if answer != nil && !strings.Contains(test.method, "CreateCustomer") { // no read shows the customer
						_, err = call()
						require.NoError(t, err, "%v", answer)
					}
				})
			}
		})
	}
}

// keyedLoss has a mutation with a lost request, its log, and a function for the next call.
func keyedLoss(t *testing.T, method string, f func(*testing.T, *idempotency.Log, func() (any, error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		client := (&forgetful{routes: catalog.Routes(t)}).client(t, log)
		call := func() (any, error) {
			return catalog.Calls[method](lending.WithIdempotencyKey(t.Context(), "the/key"), client)
		}
		_, err := call()
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		f(t, log, call)
	})
}

// TestVerdictIsCorrected until a call uses the verdict.
func TestVerdictIsCorrected(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client, ctx := newOrder(service), process(), t.Context()
		send := func() error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(ctx, "the/key"), o.application)
		}
		resolve := func(r idempotency.Resolution) error { return log.Resolve(ctx, "the/key", r) }
		service.Fail(linkRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		refused := func(r idempotency.Resolution, want string) {
			t.Helper()
			assert.Equal(t, want, catalog.Refused(t, resolve(r)))
		}
		refused(corrects(idempotency.Happened(nil)), "Correct conflict")
		require.NoError(t, resolve(says(idempotency.Happened(nil))))
		refused(says(idempotency.NotHappened()), "Correct conflict")
		assert.True(t, fake.Must(log.Keys(ctx, idempotency.Filter{}))[0].Correctable)
		require.ErrorIs(t, resolve(corrects(idempotency.NotHappened())), idempotency.ErrInDoubt, "it is too early")
		bubble.Elapse(maxLateness)
		require.NoError(t, resolve(corrects(idempotency.NotHappened())))
		require.NoError(t, resolve(corrects(idempotency.Happened(nil))))
		require.NoError(t, resolve(corrects(idempotency.NotHappened())))
		require.NoError(t, send())
		assert.Equal(t, 1, service.Executed(linkRoute))
		refused(corrects(idempotency.Happened(nil)), "Correct conflict")

		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		other := func() error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(ctx, "other"), o.application)
		}
		require.ErrorIs(t, other(), lending.ErrOutcomeUnknown)
		require.NoError(t, log.Resolve(ctx, "other", says(idempotency.Happened(nil))))
		require.NoError(t, other())
		bubble.Elapse(maxLateness)
		require.Error(t, log.Resolve(ctx, "other", corrects(idempotency.NotHappened())), "a call has relied on it")
		require.NoError(t, other())
		assert.Equal(t, 2, service.Executed(linkRoute))
	})
}

// TestVerdictOfALockIsCorrected until another mutation has the lock. The record that the wrong verdict has
// left is not believed afterwards, while reads lag.
func TestVerdictOfALockIsCorrected(t *testing.T) {
	for _, test := range []struct {
		name    string
		goesOn  bool // the other mutation, before the correction
		refused string
	}{
		{"in time", false, ""},
		{"too late", true, "Correct conflict"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				create := o.creates(t, client)
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
				require.ErrorIs(t, create("first"), lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				wrong := idempotency.Happened(o.application) // an older application
				require.NoError(t, log.Resolve(t.Context(), "first", says(wrong)))
				if test.goesOn {
					require.NoError(t, create("second"))
				}
				err := log.Resolve(t.Context(), "first", corrects(idempotency.NotHappened()))
				if assert.Equal(t, test.refused, catalog.Refused(t, err)); err != nil {
					return
				}
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
				require.ErrorIs(t, create("second"), lending.ErrOutcomeUnknown)
				bubble.Elapse(2 * maxLateness)
				_ = create("second")
				assert.Equal(t, 1, service.Executed(createApplicationRoute), "it is not sent again")
			}, lendingtest.WithReadLag(time.Second))
		})
	}
}

// TestVerdictOnEarlierSendIsRefused has two people look at a mutation after its first send. The verdict
// of the first person allows a resend. The verdict of the second person is about the first send only.
func TestVerdictOnEarlierSendIsRefused(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client, ctx := newOrder(service), process(), t.Context()
		send := func() error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(ctx, "the/key"), o.application)
		}
		decide := func(sends int) error {
			r := says(idempotency.NotHappened())
			r.Sends = sends
			return log.Resolve(ctx, "the/key", r)
		}
		service.Fail(linkRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		shown := fake.Must(log.Keys(ctx, doubtful))[0].Sends
		require.Equal(t, 1, shown)
		require.NoError(t, decide(shown))
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		assert.Equal(t, "Sends conflict", catalog.Refused(t, decide(shown)))
		assert.Equal(t, "Sends conflict", catalog.Refused(t, decide(0)), "the default is 1")
		require.ErrorIs(t, send(), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(linkRoute))
		require.NoError(t, decide(2), "it is about the second send")
	})
}

// TestVerdictNamesARecordOfItsOwnCustomer has a person take the application of another customer, or
// the customer, for the response.
func TestVerdictNamesARecordOfItsOwnCustomer(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, other, client := newOrder(service), service.AddApplication(lendingtest.Application{}), process()
		create := o.createsID(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		_, err := create("the/key")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		wrong := says(idempotency.Happened(other.ID))
		require.ErrorIs(t, log.Resolve(t.Context(), "the/key", wrong), idempotency.ErrInDoubt, "reads can lag")
		bubble.Elapse(maxLateness)
		for _, verdict := range []idempotency.Resolution{wrong, says(idempotency.Happened(o.customer))} {
			assert.Equal(t, "Verdict conflict", catalog.Refused(t, log.Resolve(t.Context(), "the/key", verdict)))
		}
		all := service.Snapshot().Applications
		own := all[len(all)-1].ID
		require.NoError(t, log.Resolve(t.Context(), "the/key", says(idempotency.Happened(own))))
		id, err := create("the/key")
		require.NoError(t, err)
		assert.Equal(t, own, id.String())
	})
}

// TestVerdictNamesNothingThatIsNotThere has a person take a record for the response though the customer
// has none at all.
func TestVerdictNamesNothingThatIsNotThere(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		o.customer = fake.Must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, o.creates(t, client)("the/key"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		err := log.Resolve(t.Context(), "the/key", says(idempotency.Happened(o.application)))
		assert.Equal(t, "Verdict conflict", catalog.Refused(t, err))
	})
}

// TestVerdictNamesTheCustomerOfTheRequest has a person take another customer for the response. The log
// keeps no e-mail address, so the next call with the key notices.
func TestVerdictNamesTheCustomerOfTheRequest(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client, ctx := newOrder(service), process(), lending.WithIdempotencyKey(t.Context(), "the/key")
		create := func() (string, error) {
			customer, err := client.Applications.CreateCustomer(ctx, fake.Ada())
			if err != nil {
				return "", err
			}
			return customer.ID.String(), nil
		}
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetAfter: true})
		_, err := create()
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		record := func(id any) idempotency.Verdict { return idempotency.Happened(map[string]any{"id": id}) }
		require.NoError(t, log.Resolve(t.Context(), "the/key", says(record(o.customer))))
		_, err = create()
		require.ErrorIs(t, err, idempotency.ErrAnswerLost, "reads can lag")
		require.Positive(t, lending.NextOf(err).After)
		bubble.Elapse(maxLateness)
		_, err = create()
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		key := fake.Must(log.Keys(t.Context(), doubtful))[0]
		assert.Equal(t, "the verdict named another record: no read shows the record of the verdict", key.Why)
		assert.Empty(t, key.ResolvedBy)
		assert.Nil(t, fake.Must(log.Lookup(t.Context(), "the/key")).Answer())
		all := service.Snapshot().Customers
		own := all[len(all)-1].ID
		require.NoError(t, log.Resolve(t.Context(), "the/key", says(record(own))))
		service.Fail(fake.EmailRoute, lendingtest.Fault{Status: 403}) // a check that can tell nothing trusts the person
		for range 2 {
			id, err := create()
			require.NoError(t, err)
			assert.Equal(t, own, id)
		}
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestVerdictNamesTheOfferOfTheApplication has a person take the offer of another application for the
// response. Without an offer the log trusts the person: the offer can have expired.
func TestVerdictNamesTheOfferOfTheApplication(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		want  string
	}{
		{"another offer is there", lendingtest.Fault{ResetAfter: true}, "Verdict conflict"},
		{"no offer is there", lendingtest.Fault{ResetBefore: true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client, ctx := newOrder(service), process(), t.Context()
				prepareOrder(t, client, &o)
				service.Fail(fake.ProcessRoute, test.fault)
				_, err := client.Applications.Process(lending.WithIdempotencyKey(ctx, "the/key"), o.application)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				err = log.Resolve(ctx, "the/key", says(idempotency.Happened(lending.OfferID(o.customer))))
				assert.Equal(t, test.want, catalog.Refused(t, err))
				if err == nil {
					return
				}
				offer := service.Snapshot().Applications[1].Offer.ID
				require.NoError(t, log.Resolve(ctx, "the/key", says(idempotency.Happened(offer))))
			})
		})
	}
}

// TestVerdictIsHeldAgainstTheCheck has a person decide against the check of the route.
func TestVerdictIsHeldAgainstTheCheck(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		reads lendingtest.Fault // of the check
		want  string
	}{
		{"it happened", lendingtest.Fault{ResetAfter: true}, lendingtest.Fault{}, "Verdict conflict"},
		{"it did not happen", lendingtest.Fault{ResetBefore: true}, lendingtest.Fault{}, ""},
		{"nobody may read", lendingtest.Fault{ResetBefore: true}, lendingtest.Fault{Status: 403}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				service.Fail(createApplicationRoute, test.fault)
				create := o.creates(t, client)
				require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				service.Fail(fake.ListRoute, test.reads)
				err := log.Resolve(t.Context(), "the/key", says(idempotency.NotHappened()))
				assert.Equal(t, test.want, catalog.Refused(t, err))
				require.NoError(t, create("the/key"))
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestReviewOfAnUncountedSendSaysSo has a send with the caller's check, before which the log makes none of
// its own. Another mutation takes the lock, and the reason for the person is the missing count.
func TestReviewOfAnUncountedSendSaysSo(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		create := newOrder(service).creates(t, process())
		nobodyKnows := func(context.Context) (idempotency.Verdict, error) { return idempotency.Verdict{}, errStore }
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("first", withCheck(nobodyKnows)), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, create("second"))
		assert.Equal(t, 1, service.Arrived(fake.ListRoute), "the second is counted, and the first cannot be")
		first := fake.Must(log.Lookup(t.Context(), "first"))
		assert.Equal(t, store.NeedsReview, first.State)
		assert.Equal(t, "the count of records before the send is not known", first.Why)
	})
}

// TestLaterReadEndsNoReview has a changed status without an offer after a processing. A later read
// shows an offer: nobody knows whose offer it is.
func TestLaterReadEndsNoReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, id := process(), lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{
			Accounts: []lendingtest.BankAccount{{Transactions: []lendingtest.BankTransaction{{Amount: "10.00"}}}},
		}).ID))
		ctx := lending.WithIdempotencyKey(t.Context(), "process")
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		_, err := client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		service.Answer(fake.StatusRoute, wire.Answer(http.StatusOK, `"Declined"`))
		bubble.Elapse(maxLateness)
		_, err = client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		require.ErrorContains(t, err, "there is no new offer, but the status has changed")
		_, err = client.Applications.Process(t.Context(), id) // by somebody without a key
		require.NoError(t, err)
		_, err = client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
	})
}

// The entry has who decided and why, and the answer of the person, also if it is larger than
// MaxAnswer: a verdict without an effect would help nobody.
func TestResolutionIsKept(t *testing.T) {
	opts := &idempotency.Options{MaxAnswer: 37}
	withStore(t, opts, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, opts))
		service.Fail("POST /api/Loan/resend-withdrawal-otp/{loanId}", lendingtest.Fault{ResetAfter: true})
		resend := func() error {
			_, err := client.Loans.ResendWithdrawalOTP(lending.WithIdempotencyKey(t.Context(), "the/key"), o.loan)
			return err
		}
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		require.NoError(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{
			By: "Grace", Why: "asked the customer", Verdict: idempotency.Happened(o.application), // 38 bytes
		}))
		entry := fake.Must(entries.Load(t.Context(), ":the/key"))
		assert.Contains(t, string(entry.Data), "Grace")
		assert.Contains(t, string(entry.Data), "asked the customer")
		require.NoError(t, resend())
	})
}

// TestSecondOfTwoPersonsHearsOfTheFirst has two persons decide a key at once.
func TestSecondOfTwoPersonsHearsOfTheFirst(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.Error(t, client.Applications.SendLink(withKey(t.Context(), "the/key"), o.application))
		entries.save = func(store.Entry) error {
			entries.save = nil
			return log.Resolve(t.Context(), "the/key", says(idempotency.Happened(nil)))
		}
		err := log.Resolve(t.Context(), "the/key", says(idempotency.Happened(nil)))
		require.ErrorContains(t, err, `replaces the verdict of "ada": it happened`)
		require.NotErrorIs(t, err, idempotency.ErrStore)
	})
}

// TestVerdictAtAStoreThatRefusesAllEnds has a store refuse each save as a conflict.
func TestVerdictAtAStoreThatRefusesAllEnds(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.Error(t, client.Applications.SendLink(withKey(t.Context(), "the/key"), o.application))
		saves := 0
		entries.save = func(store.Entry) error { saves++; return store.ErrConflict }
		err := log.Resolve(t.Context(), "the/key", says(idempotency.Happened(nil)))
		require.ErrorIs(t, err, idempotency.ErrStore)
		assert.Less(t, saves, 20)
	})
}
