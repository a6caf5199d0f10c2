package lendingtest_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// live is what is in use after the garbage has gone.
func live() uint64 {
	runtime.GC()
	runtime.GC() // of what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// However many requests there are, the logs keep the last of them, and counts go on.
func TestLogsKeepTheLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, lendingtest.WithDeliveryClient(&http.Client{Transport: answers(http.StatusOK)}))
	r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://receiver.test/"})
	const login = "POST /api/Authenication/login"
	signIn := `{"username":"` + lendingtest.Username + `","password":"` + lendingtest.Password + `"}`
	for range 10_050 {
		r.post("/api/Authenication/login", signIn).ok()
	}
	r.wait()
	r.post("/api/Webhook/handler", `{"a":1}`).ok()
	all := r.Requests()
	assert.Len(t, all, 10_000)
	assert.Equal(t, []string{login, "POST /api/Webhook/handler"}, []string{all[9998].Route, all[9999].Route})
	assert.Equal(t, []int{10_050, 10_050}, []int{r.Executed(login), r.ExecutedFor(login)[lendingtest.Username]})
	posted, sent := r.Deliveries(), r.Sent()
	assert.Equal(t, []int{10_000, 51, 10_050}, []int{len(posted), posted[0].Number, posted[9999].Number})
	assert.Equal(t, []any{10_000, r.TwoFactorCode(lendingtest.Username)}, []any{len(sent), sent[9999].Code})
}

// Large bodies are kept by their size, not by their number.
func TestLogsOfLargeBodiesAreBounded(t *testing.T) { // not parallel: it looks at the memory of the whole process
	r := newRig(t)
	r.Answer("POST /api/Webhook/handler", func(http.ResponseWriter, *http.Request) {}) // nobody parses it
	body := strings.Repeat("x", 64<<10)
	before := live()
	for range 1_500 {
		r.post("/api/Webhook/handler", body).ok()
	}
	grown := (int64(live()) - int64(before)) >> 20
	assert.Less(t, grown, int64(32+4), "MiB, of 94 that have come")
	assert.Greater(t, grown, int64(28))
	assert.NotEmpty(t, r.Requests()[len(r.Requests())-1].Body)
}

// A receiver that never answers does not fill the memory.
func TestQueueOfDeliveriesEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.AddSubscription(lendingtest.Subscription{
		WebhookURI: "https://receiver.test/",
		Webhooks:   []string{"WB_Loan_Closed"},
	})
	r.SetDeliveryMode(lendingtest.DeliveryMode{Hold: true})
	loan := r.AddLoan(lendingtest.Loan{})
	for range 10_002 {
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.IsClosed = false })
		r.UpdateLoan(loan.ID, closeLoan)
	}
	refused := r.Deliveries()
	require.Len(t, refused, 2)
	assert.Equal(t, "lendingtest: the delivery was dropped: 10,000 deliveries wait for slow receivers", refused[0].Err)
}

// Tokens that expired go when there are many; those that live stay, however many.
func TestTokensThatExpiredGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 9 {
		for range 2_000 {
			r.Token(lendingtest.Username)
		}
		if i == 4 { // 10,001 are swept once, and live
			r.get("/api/Loan/is-loan-closed/"+unknownID).refused(404, "LoanNotFound")
			r.Advance(2 * time.Hour)
			r.get("/api/Loan/is-loan-closed/"+unknownID).refused(401, "TokenExpired")
		}
	}
	for range 4_000 {
		r.Token(lendingtest.Username)
	}
	r.get("/api/Loan/is-loan-closed/"+unknownID).refused(401, "TokenInvalid")
}
