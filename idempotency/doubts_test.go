package idempotency_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestRejectedResendEndsNoDoubt: what was sent, lost its answer and is sent
// again may have happened the first time, or happen yet, whatever becomes of the second.
func TestRejectedResendEndsNoDoubt(t *testing.T) {
	for _, test := range []struct {
		name   string
		second func(*lendingtest.Service) lending.Option
	}{
		{"refused", refusesName(http.StatusBadRequest)},
		{"without a token", refusesName(http.StatusUnauthorized)},
		{"too often", refusesName(http.StatusTooManyRequests)},
		{"no connection", func(service *lendingtest.Service) lending.Option {
			refuses := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "update-application-name") {
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}
				return service.Transport().RoundTrip(r)
			})
			return lending.WithHTTPClient(&http.Client{Transport: refuses})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				older, newer := lending.WithIdempotencyKey(t.Context(), "name-1"),
					lending.WithIdempotencyKey(t.Context(), "name-2")
				service.Fail(renameRoute, lendingtest.Fault{Late: maxLateness - time.Second})
				_, err := client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				_, err = process(test.second(service)).Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				inDoubt := fake.Must(log.Keys(t.Context(), doubtful))
				require.Len(t, inDoubt, 1)
				assert.Equal(t, store.InDoubt, inDoubt[0].State)
				_, err = client.Applications.UpdateName(newer, o.application, "New")
				require.ErrorIs(t, err, idempotency.ErrLocked, "the older one would overwrite it")
			})
		})
	}
}

func refusesName(status int) func(*lendingtest.Service) lending.Option {
	return func(service *lendingtest.Service) lending.Option {
		service.Fail(renameRoute, lendingtest.Fault{Status: status})
		return nil
	}
}

// TestStoreFailureBeforeAResendEndsNoDoubt either.
func TestStoreFailureBeforeAResendEndsNoDoubt(t *testing.T) {
	for _, test := range []struct {
		name  string
		after bool
	}{{"before", false}, {"after", true}} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				older, newer := lending.WithIdempotencyKey(t.Context(), "name-1"),
					lending.WithIdempotencyKey(t.Context(), "name-2")
				service.Fail(renameRoute, lendingtest.Fault{Late: maxLateness - time.Second})
				_, err := client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				fail := func(store.Entry) error {
					entries.save, entries.saved = nil, nil // once
					return errStore
				}
				if entries.save = fail; test.after {
					entries.save, entries.saved = nil, fail
				}
				_, err = client.Applications.UpdateName(older, o.application, "Old")
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				_, err = client.Applications.UpdateName(newer, o.application, "New")
				require.ErrorIs(t, err, idempotency.ErrLocked)
			})
		})
	}
}

// TestFalseConflictEndsNoDoubt has the store save the second send and report a
// conflict, as a driver does that repeats a save whose answer was lost.
func TestFalseConflictEndsNoDoubt(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.UpdateName(ctx, o.application, "New")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		entries.saved = func(store.Entry) error {
			entries.saved = nil // once
			return store.ErrConflict
		}
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		_, err = client.Applications.UpdateName(ctx, o.application, "New")
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "the first one was executed")
		assert.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":the/key")).State)
		assert.Equal(t, 1, service.Executed(renameRoute))
	})
}

// TestVerdictKeepsTheLockOfTwoSends where it was sent twice.
func TestVerdictKeepsTheLockOfTwoSends(t *testing.T) {
	for _, test := range []struct {
		name string
		says func(*testing.T, *idempotency.Log, func(...keyOption) error)
	}{
		{"a person", func(t *testing.T, log *idempotency.Log, _ func(...keyOption) error) {
			t.Helper()
			require.NoError(t, log.Resolve(t.Context(), "name-1", idempotency.Resolution{
				By: "ada", Why: "seen", Sends: 2,
				Verdict: idempotency.Happened(true),
			}))
		}},
		{"a look", func(t *testing.T, _ *idempotency.Log, older func(...keyOption) error) {
			t.Helper()
			require.NoError(t, older(withCheck(func(context.Context) (idempotency.Verdict,
				error,
			) {
				return idempotency.Happened(true), nil
			})))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				set := func(key, value string, opts ...keyOption) error {
					_, err := client.Applications.UpdateName(withKey(t.Context(), key, opts...), o.application, value)
					return err
				}
				service.Fail(renameRoute, lendingtest.Fault{Late: maxLateness - time.Second})
				service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
				for range 2 {
					require.ErrorIs(t, set("name-1", "Old"), lending.ErrOutcomeUnknown)
				}
				test.says(t, log, func(opts ...keyOption) error { return set("name-1", "Old", opts...) })
				var refused *idempotency.Error
				for err := set("name-2", "New"); err != nil; err = set("name-2", "New") {
					require.ErrorIs(t, err, idempotency.ErrLocked)
					require.ErrorAs(t, err, &refused)
					bubble.Elapse(refused.RetryAfter)
				}
				bubble.Elapse(2 * maxLateness)
				assert.Equal(t, "New", service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
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
		require.NoError(t, log.Resolve(t.Context(), "lost", idempotency.Resolution{
			By: "ada", Why: "seen",
			Verdict: idempotency.Happened(nil),
		}))
		require.NoError(t, upload("lost"))
		require.NoError(t, upload("swept"))
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		require.NoError(t, upload("swept"))
		assert.Equal(t, 2, service.Executed(submit))
	})
}

// TestReviewShowsTheReasonOfTheLastSend and no words about an earlier send.
func TestReviewShowsTheReasonOfTheLastSend(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		service.Fail("POST /api/Loan/resend-withdrawal-otp/{loanId}", lendingtest.Fault{ResetBefore: true, Times: 2})
		resend := func() error {
			_, err := client.Loans.ResendWithdrawalOTP(lending.WithIdempotencyKey(t.Context(), "the/key"), o.loan)
			return err
		}
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		bubble.Elapse(maxLateness)
		require.NoError(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{
			By: "ada", Why: "it is not there",
			Verdict: idempotency.NotHappened(),
		}))
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		assert.Equal(t, "no published field shows it", fake.Must(log.Keys(t.Context(), doubtful))[0].Why)
		require.NoError(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{
			By: "ada", Why: "it came", Sends: 2,
			Verdict: idempotency.Happened(nil),
		}))
		require.NoError(t, resend())
		assert.Equal(t, "it came", fake.Must(log.Lookup(t.Context(), "the/key")).Why)
	})
}

// TestRepeatedSaveIsNoConflict is one whose driver tries again after it was heard: this call has
// the entry then, and nobody else.
func TestRepeatedSaveIsNoConflict(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		entries.saved = func(entry store.Entry) error { return entries.Store.Save(t.Context(), entry) }
		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer()))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// loudError is an error of a caller's store that quotes, and that fmt prints from within a
// struct.
type loudError string

func (e loudError) Error() string { return string(e) }

func TestErrorOfAKeyQuotesNoCause(t *testing.T) {
	withStore(t, nil, func(t *testing.T, _ *lendingtest.Service, entries *tampered, client *lending.Client) {
		const canary = "C4n4ry-5ecret!"
		entries.load = func() error { return loudError(canary) }
		_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer())
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, loudError(canary))
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%t"} {
			assert.NotContains(t, fmt.Sprintf(verb, refused), canary, verb)
		}
	})
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

// TestStoredFormatIsRead has an entry as it is stored: after a change of its form or of the
// fingerprint, every key of a program that updates would be refused.
func TestStoredFormatIsRead(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("a"), MobileNumber: "4155550100",
		}
		mac := hmac.New(sha256.New, []byte("SALT"))
		mac.Write([]byte(`{"email":"ada@example.com","firstName":"Ada","lastName":"Lovelace","mobileNumber":"4155550100"}`))
		username := fake.Credentials(&lendingtest.Server{Service: service}).Username
		account := sha256.Sum256([]byte(`["https" "lending.example" "443" "" "` + username + `"]`))
		kept := fmt.Sprintf(`{"request":{"frozen":true,"route":"POST /api/Application/create-customer","account":"%x",`+
			`"fingerprint":%q,"salt":"SALT"},"response":{"status":200,"media":"application/json","body":%q}}`,
			account, base64.StdEncoding.EncodeToString(mac.Sum(nil)),
			base64.StdEncoding.EncodeToString([]byte(`{"id":"00000001-0001-4000-8000-000000000009"}`)))
		require.NoError(t, entries.Save(t.Context(), store.Entry{
			Key: ":the/key", State: store.Done,
			Data: []byte(kept),
		}))
		customer, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), user)
		require.NoError(t, err)
		assert.Equal(t, "00000001-0001-4000-8000-000000000009", customer.ID.String())
		assert.Zero(t, service.Executed(fake.CreateRoute))
	})
}

// TestResendAfterACallersCheckForgetsTheSnapshot has a record of another program in the list. The caller's
// check knows that the record is not its own, and the count before the first send would not.
func TestResendAfterACallersCheckForgetsTheSnapshot(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		create := o.creates(t, process())
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("lost"), lending.ErrOutcomeUnknown)
		service.AddApplication(lendingtest.Application{CustomerID: o.customer.String()})
		bubble.Elapse(maxLateness)
		notOurs := withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.NotHappened(), nil })
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("lost", notOurs), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create("lost"), idempotency.ErrNeedsReview, "a resend that never arrived made the record")
	})
}

// TestReviewOfAnUncountedSendSaysSo has a send with the caller's check, before which the log makes none of
// its own. Another mutation takes the lock, and the person reads that the log has not counted.
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

// TestEntryLostDuringASendIsSavedAgain has the store lose the entry of a mutation that is on its way.
func TestEntryLostDuringASendIsSavedAgain(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		lose := func() {
			sent := fake.Must(entries.Load(t.Context(), ":lost"))
			fake.Must(entries.Replace(t.Context(), []store.Entry{{Key: sent.Key, Revision: sent.Revision}}))
		}
		service.Fail(createApplicationRoute, lendingtest.Fault{Reached: lose, ResetAfter: true})
		require.ErrorIs(t, create("lost"), lending.ErrOutcomeUnknown)
		require.NoError(t, create("lost"))
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}
