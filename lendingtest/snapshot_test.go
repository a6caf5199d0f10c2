package lendingtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// exchange is a request, and what it was answered.
type exchange struct {
	request *http.Request
	sent    []byte
	answer  string
}

// recording keeps what goes through it.
type recording struct {
	service *lendingtest.Service
	all     []exchange
}

func (rec *recording) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchange{request: r.Clone(r.Context())}
	if r.Body != nil {
		x.sent, _ = io.ReadAll(r.Body)
	}
	x.answer = x.play(rec.service)
	rec.all = append(rec.all, x)
	status, body, _ := strings.Cut(x.answer, " ")
	code, err := strconv.Atoi(status)
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r}, err
}

// play sends the request to a service, and returns the answer's status and body.
func (x *exchange) play(s *lendingtest.Service) string {
	r := x.request.Clone(x.request.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.sent)), int64(len(x.sent))
	resp, err := s.Transport().RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return strconv.Itoa(resp.StatusCode) + " " + string(body)
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}

// At each step of a journey through all routes the state goes through JSON into another
// service, where the rest of the journey gets the same answers and ends in the same state.
func TestSnapshotGoesOnAnywhere(t *testing.T) {
	t.Parallel()
	opts := []lendingtest.Option{
		lendingtest.WithLoopbackReceivers(),
		lendingtest.WithClock(func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC) }),
	}
	r := newRig(t, opts...)
	rec := &recording{service: r.Service}
	r.client = &http.Client{Transport: rec}
	before := r.Snapshot()
	journey(t, r)
	end := marshal(t, r.Snapshot())

	first := lendingtest.New(append(opts, lendingtest.Restore(before))...)
	defer first.Close()
	first.SetDeliveryMode(lendingtest.DeliveryMode{Off: true}) // the receiver has gone
	for i := range rec.all {
		state := marshal(t, first.Snapshot())
		var snap lendingtest.Snapshot
		require.NoError(t, json.Unmarshal([]byte(state), &snap))
		second := lendingtest.New(append(opts, lendingtest.WithSeed(77), lendingtest.Restore(snap))...)
		second.SetDeliveryMode(lendingtest.DeliveryMode{Off: true})
		require.Equal(t, state, marshal(t, second.Snapshot()))
		rest := rec.all[i:]
		if i%10 != 0 {
			rest = rest[:min(5, len(rest))] // the whole of it from each step takes long
		}
		for _, x := range rest {
			require.Equal(t, x.answer, x.play(second), "%s %s after %d", x.request.Method, x.request.URL, i)
		}
		if i%10 == 0 {
			require.Equal(t, end, marshal(t, second.Snapshot()))
		}
		second.Close()
		rec.all[i].play(first)
	}
	assert.NotEqual(t, end, marshal(t, before))
}

func TestRestoreGoesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	loan := r.withdrawing()
	r.AddTransactions(loan.ID, lendingtest.Transaction{Type: "Fee"})
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
			assert.Panics(t, func() { lendingtest.New(lendingtest.Restore(snap)) })
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

// After a reset the service is as it was restored, not empty.
func TestResetOfARestoredService(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	other := newRig(t, lendingtest.Restore(r.Snapshot()), lendingtest.WithReadLag(time.Hour))
	other.token = r.token
	other.get("/api/Application/application-status/" + id).ok() // restored records do not lag
	other.cancel(id).ok()
	other.Reset()
	assert.Equal(t, lendingtest.StatusCreated, other.get("/api/Application/application-status/"+id).text())
}
