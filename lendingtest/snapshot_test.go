package lendingtest_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}

// Before each step of a journey through all routes the state goes through JSON into another
// service, where the journey goes on, and ends in the same state as without these moves.
func TestSnapshotGoesOnAnywhere(t *testing.T) {
	t.Parallel()
	opts := []lendingtest.Option{
		lendingtest.WithLoopbackReceivers(),
		lendingtest.WithClock(func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC) }),
	}
	stays, moves := newRig(t, opts...), newRig(t, opts...)
	moves.before = func() {
		state := marshal(t, moves.Snapshot())
		var snap lendingtest.Snapshot
		require.NoError(t, json.Unmarshal([]byte(state), &snap))
		moves.wait() // for its deliveries
		moves.Close()
		moves.Service = lendingtest.New(append(opts, lendingtest.WithSeed(77))...)
		require.NoError(t, moves.Restore(snap))
		require.Equal(t, state, marshal(t, moves.Snapshot()))
		moves.client = &http.Client{Transport: moves.Transport()}
	}
	journey(t, stays)
	journey(t, moves)
	defer moves.Close()
	want, got := stays.Snapshot(), moves.Snapshot()
	want.Subscriptions, got.Subscriptions = nil, nil // each journey has a receiver of its own
	require.Equal(t, marshal(t, want), marshal(t, got))
}

func TestRestoreGoesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	loan := r.withdrawing()
	r.AddTransactions(loan.ID, lendingtest.Transaction{Type: "Fee"})
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://receiver.test/"})
	r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.Secret = "whs_new" })
	snap, otp := r.Snapshot(), r.OTP(loan.ID)
	confirm := func() reply {
		return r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, confirmation("2500.00", "0.8", otp))
	}
	r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour})
	require.Error(t, r.cancel(loan.ApplicationID).err)
	r.Advance(4 * time.Minute)
	made := confirm().ok()
	confirm().refused(bad, "NoPendingWithdrawal")
	require.NoError(t, r.Restore(snap))
	snap.Loans[0].Transactions[0].Type, snap.Applications[0].Applicants[0].FirstName = "another", "another"
	r.wait() // the late mutation is forgotten
	r.Advance(4 * time.Minute)
	assert.Equal(t, made, confirm().ok(), "the password is good again, the identifier the same")
	assert.Equal(t, 2, r.Executed("POST /api/Loan/confirm-withdrawal-invoice/{loanId}"), "counts go on")
	state := marshal(t, r.Snapshot())
	assert.Contains(t, state, `"type": "Fee"`)
	assert.Contains(t, state, `"`+sub.ID+`": "`+sub.Secret+`"`, "the secret before the rotation")
	assert.NotContains(t, state, "another", "it was copied")
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withdrawing()
	for _, test := range []struct {
		want  string
		spoil func(*lendingtest.Snapshot)
	}{
		{
			"lendingtest: the snapshot was not made by a service",
			func(snap *lendingtest.Snapshot) { *snap = lendingtest.Snapshot{Customers: snap.Customers} },
		},
		{"lendingtest: the snapshot has no customer", func(snap *lendingtest.Snapshot) { snap.Customers = nil }},
		{"lendingtest: the snapshot has no application", func(snap *lendingtest.Snapshot) { snap.Applications = nil }},
		{"lendingtest: the snapshot has no loan", func(snap *lendingtest.Snapshot) { snap.Loans = nil }},
		{
			"lendingtest: the snapshot has the customer \"0",
			func(snap *lendingtest.Snapshot) { snap.Customers = append(snap.Customers, snap.Customers[0]) },
		},
		{
			"lendingtest: the snapshot has the loan \"0",
			func(snap *lendingtest.Snapshot) { snap.Loans = append(snap.Loans, snap.Loans[0]) },
		},
	} {
		t.Run(test.want, func(t *testing.T) {
			snap := r.Snapshot()
			test.spoil(&snap)
			require.ErrorContains(t, r.Restore(snap), test.want)
		})
	}
	assert.Len(t, r.Snapshot().Loans, 1, "nothing was changed")
}

func TestReset(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	fresh := lendingtest.New()
	fresh.Token(lendingtest.Username)
	r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	id := r.application()
	r.wait()
	r.SetDeliveryMode(lendingtest.DeliveryMode{Hold: true})
	r.Fail(cancelRoute, lendingtest.Fault{Late: time.Hour})
	require.Error(t, r.cancel(id).err)
	r.Fail("*", lendingtest.Fault{Status: 500, Times: -1})
	r.Answer(cancelRoute, func(http.ResponseWriter, *http.Request) {})
	r.Advance(time.Hour)
	seen := 0
	r.Watch(func(lendingtest.Event) { seen++ })

	r.Reset()
	r.wait()
	r.get("/api/Application/application-status/"+id).refused(401, "TokenInvalid")
	r.token = r.Token(lendingtest.Username)
	require.Len(t, r.Requests(), 1)
	assert.Equal(t, 1, r.Requests()[0].Number)
	assert.Equal(t, 1, seen, "watchers stay")
	assert.Empty(t, r.Deliveries())
	assert.Empty(t, r.ExecutedFor("POST /api/Application/create-application"))
	assert.Equal(t, []int{0, 0}, []int{r.Arrived(cancelRoute), r.Executed("POST /api/Application/create-application")})
	r.post("/api/Application/cancel-application/"+id, "").refused(404, "ApplicationNotFound")
	was, is := fresh.Snapshot(), r.Snapshot()
	assert.WithinDuration(t, was.Time, is.Time, time.Minute)
	assert.Equal(t, id, r.application(), "identifiers begin again")
}

func TestRestoredRecordsDoNotLag(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	other := newRig(t, lendingtest.WithReadLag(time.Hour))
	require.NoError(t, other.Restore(r.Snapshot()))
	other.get("/api/Application/application-status/" + id).ok()
}
