package lendingtest_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The records of another partner are like records that do not exist, for reads and for mutations.
func TestRecordsOfAnotherPartnerAreNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	customer, loan := r.customer(), r.AddLoan(lendingtest.Loan{})
	other := r.as(r.AddAccount(lendingtest.Account{}).Username)
	for _, path := range []string{
		"/api/Customer/get-customer-by-id/" + customer, "/api/Application/get-customer-applications/" + customer,
		"/api/Application/get-application/" + loan.ApplicationID, "/api/Loan/get-loan/" + loan.ID,
		"/api/Webhook/get-subscription?customerId=" + customer, "/api/Application/process-application/" + loan.ApplicationID,
	} {
		assert.Equal(t, http.StatusNotFound, other.get(path).status, path)
	}
	assert.Equal(t, http.StatusNoContent, other.get("/api/Customer/get-customer-by-email?email=ann@example.com").status)
	other.post("/api/Application/cancel-application/"+loan.ApplicationID, "").refused(404, "ApplicationNotFound")
	other.post("/api/Loan/make-withdrawal-line-of-credit/"+loan.ID, "{}").refused(404, "LoanNotFound")
	other.post("/api/ApplicationApproval/submit-document/"+loan.ApplicationID+"?fileName=a&fileType=b", file(1)).
		refused(404, "ApplicationNotFound")
	other.post("/api/Application/create-application", `{"customerId":"`+customer+`"}`).
		refused(400, "ValidationFailed", "customerId CustomerNotFound")
	assert.Equal(t, lendingtest.StatusLoanOpened, r.Snapshot().Applications[0].Status)
	r.as(lendingtest.AdministratorUsername).get("/api/Loan/get-loan/" + loan.ID).ok()
	r.get("/api/Loan/get-loan/" + loan.ID).ok()
}

// A switch makes them forbidden.
func TestRecordsOfAnotherPartnerAreForbidden(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Assume("foreign records", "403 problem record")
	loan := r.AddLoan(lendingtest.Loan{})
	other := r.as(r.AddAccount(lendingtest.Account{}).Username)
	other.get("/api/Loan/get-loan/"+loan.ID).refused(403, "LoanNotFound")
	other.get("/api/Application/get-application/"+loan.ApplicationID).refused(403, "ApplicationNotFound")
	other.get("/api/Loan/get-loan/"+unknownID).refused(404, "LoanNotFound")
	r.get("/api/Loan/get-loan/" + loan.ID).ok()
}

// The trace of a problem has the form of W3C with every seed.
func TestTraceIDIsHexadecimal(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint32{0, 1, math.MaxInt32 + 1, math.MaxUint32} {
		r := newRig(t, lendingtest.WithSeed(seed))
		assert.Regexp(t, `"traceId":"00-[0-9a-f]{32}-[0-9a-f]{16}-00"`, r.get("/api/x").body)
	}
}

// A redirect is the receiver's answer: the event is not posted where nobody has allowed it.
func TestDeliveryFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		redirects := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		t.Cleanup(redirects.Close)
		r := newRig(t, lendingtest.WithLoopbackReceivers())
		r.AddSubscription(lendingtest.Subscription{WebhookURI: redirects.URL})
		r.customer()
		r.wait()
		assert.Equal(t, status, r.Deliveries()[0].Status)
	}
	assert.Empty(t, elsewhere.all())
}
