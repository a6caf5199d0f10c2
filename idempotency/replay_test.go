package idempotency_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestReplayedResponseIsMarked captures the response of a mutation and of its replay. They have the
// same body and media type, and differ in a header.
func TestReplayedResponseIsMarked(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		user, bodies := fake.Newcomer(), map[string]bool{}
		for _, want := range []string{"", "replayed"} {
			var response lending.Response
			ctx := lending.CaptureResponse(lending.WithIdempotencyKey(t.Context(), "the/key"), &response)
			fake.Must(client.Applications.CreateCustomer(ctx, user))
			assert.Equal(t, "application/json; charset=utf-8", response.Header.Get("Content-Type"))
			assert.Equal(t, want, response.Header.Get("Lending-Idempotency"))
			bodies[string(response.Body)] = true
		}
		assert.Len(t, bodies, 1)
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestReplayNeedsNoSecret calls again without the one-time password, which the customer would be
// asked for after he has been paid: the recorded answer comes. Where there is none the password is
// missing, and nothing is written down or sent.
func TestReplayNeedsNoSecret(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault *lendingtest.Fault // of the call before, with the password; nil for none
	}{
		{"confirmed", &lendingtest.Fault{}},
		{"confirmed, answer lost", &lendingtest.Fault{ResetAfter: true}},
		{"never sent", nil},
		{"lost", &lendingtest.Fault{ResetBefore: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				prepareOrder(t, client, &o)
				confirm := func(password lending.Secret) error {
					_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "the/key"),
						*o.withdrawal, lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date, OTP: password})
					return err
				}
				if test.fault != nil {
					service.Fail(confirmRoute, *test.fault)
					if err := confirm(lending.NewSecret(service.OTP(o.loan.String()))); err != nil {
						require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
					}
				}
				before, executed := fake.Must(entries.Load(t.Context(), ":the/key")), service.Executed(confirmRoute)
				switch err := confirm(lending.Secret{}); test.name {
				case "confirmed", "confirmed, answer lost":
					require.NoError(t, err)
				case "never sent":
					require.ErrorAs(t, err, new(*lending.ArgumentError))
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
					require.ErrorContains(t, err, "otp")
				default:
					require.ErrorIs(t, err, idempotency.ErrInDoubt)
					bubble.Elapse(maxLateness)
					err = confirm(lending.Secret{})
					require.ErrorContains(t, err, "otp")
					require.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
				}
				assert.Equal(t, executed, service.Executed(confirmRoute))
				if test.fault == nil {
					assert.Nil(t, before)
					assert.Nil(t, fake.Must(entries.Load(t.Context(), ":the/key")), "nothing was written down")
				}
				_, err := client.Loans.ConfirmInvoiceWithdrawal(t.Context(), *o.withdrawal,
					lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date})
				require.ErrorAs(t, err, new(*lending.ArgumentError), "without a key")
			})
		})
	}
}

// TestAcceptRecordedReturnsTheResponse changes a request, like a release with a new field.
func TestAcceptRecordedReturnsTheResponse(t *testing.T) {
	phone := func(u *lending.UserRequest) { u.MobileNumber = "4155550199" }
	address := func(u *lending.UserRequest) { u.Email = "other@example.com" }
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault // of the first request
		change   func(*lending.UserRequest)
		want     error // of the changed request at once
		executed int   // when MaxLateness is over
		isOther  bool  // it is about another record
	}{
		{"done", lendingtest.Fault{}, phone, nil, 1, false},
		{"done, of another address", lendingtest.Fault{}, address, idempotency.ErrKeyReused, 1, true},
		{"answer cut", lendingtest.Fault{CutBody: 5}, phone, nil, 1, false},
		{"answer lost", lendingtest.Fault{ResetAfter: true}, phone, nil, 1, false},
		{"lost, of another address", lendingtest.Fault{ResetAfter: true}, address, idempotency.ErrKeyReused, 1, true},
		{"request lost", lendingtest.Fault{ResetBefore: true}, phone, idempotency.ErrInDoubt, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				client, user := process(), fake.Newcomer()
				create := func(u lending.UserRequest, opts ...keyOption) error {
					_, err := client.Applications.CreateCustomer(withKey(t.Context(), "the/key", opts...), u)
					return err
				}
				service.Fail(fake.CreateRoute, test.fault)
				if err := create(user); err != nil {
					require.ErrorIs(t, err, lending.ErrMayHaveHappened)
				}
				changed := user
				test.change(&changed)
				require.ErrorIs(t, create(changed), idempotency.ErrKeyReused, "nothing was said of it")
				require.ErrorIs(t, create(changed, idempotency.AcceptRecorded), test.want)
				bubble.Elapse(maxLateness)
				err := create(changed, idempotency.AcceptRecorded)
				if test.isOther {
					require.ErrorIs(t, err, idempotency.ErrKeyReused)
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, test.fault.ResetBefore, create(changed) == nil, "the key belongs to the request that was sent")
				assert.Equal(t, test.executed, service.Executed(fake.CreateRoute))
			})
		})
	}
}

// TestChangedValueIsNotResentAtOnce loses the answer of a value and then changes the value. The new value
// is not sent while a late execution can set the old value, and never if the old value was set.
func TestChangedValueIsNotResentAtOnce(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		set := func(key, value string) error {
			ctx := withKey(t.Context(), key, idempotency.AcceptRecorded)
			_, err := client.Applications.UpdateName(ctx, o.application, value)
			return err
		}
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, set("lost", "Old"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, set("lost", "New"), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		require.NoError(t, set("lost", "New"))
		service.Fail(renameRoute, lendingtest.Fault{CutBody: 1})
		require.ErrorIs(t, set("cut", "Newer"), lending.ErrMayHaveHappened)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, set("cut", "Newest"), idempotency.ErrAnswerLost)
		assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
		_, err := client.Applications.UpdateName(withKey(t.Context(), "cut", idempotency.AcceptRecorded), o.offered, "X")
		require.ErrorIs(t, err, idempotency.ErrKeyReused, "it is another application")
	})
}
