package lendingtest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// Reads come behind, by as much as was said and no more. Mutations do not.
func TestReadLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, lendingtest.WithReadLag(5*time.Second))
		customer := r.customer()
		id := r.post("/api/Application/create-application", `{"customerId":"`+customer+`"}`).text()
		r.post("/api/Application/add-or-update-banking-data/"+id, bankData).ok()
		r.get("/api/Application/process-application/" + id).text()
		r.get("/api/Application/application-offer/" + id + "?force=true").ok()
		r.get("/api/Application/update-application-name/" + id + "?name=Lovelace").ok()

		before := func() {
			t.Helper()
			assert.Equal(t, 204, r.get("/api/Customer/get-customer-by-email?email=ann@example.com").status)
			r.get("/api/Customer/get-customer-by-id/"+customer).refused(404, "CustomerNotFound")
			r.get("/api/Application/application-status/"+id).refused(404, "ApplicationNotFound")
			r.get("/api/Application/application-offer/"+id).refused(404, "ApplicationNotFound")
			assert.Empty(t, r.get("/api/Application/get-partner-applications/"+lendingtest.PartnerID).list())
		}
		before()
		<-time.After(5*time.Second - 1)
		before()
		<-time.After(1)
		assert.Equal(t, customer, r.get("/api/Customer/get-customer-by-email?email=ann@example.com").object()["id"])
		assert.Len(t, r.get("/api/Application/get-partner-applications/"+lendingtest.PartnerID).list(), 1)
		assert.Equal(t, lendingtest.StatusOfferReady, r.get("/api/Application/application-status/"+id).text())

		need := r.Snapshot().Applications[0].Requirements[0]
		r.post(approval+"submit-required-document/"+id+"?fileName=a.png&fileType="+need.FileType+
			"&supportingDocumentId="+need.ID, file(3)).ok()
		assert.NotContains(t, r.get(approval+"get-required-documents/"+id).ok(), `"isSubmitted":true`)
		r.cancel(id).ok()
		<-time.After(4 * time.Second)
		r.post("/api/Communication/post-messages/"+id, `{"message":"hello"}`).ok()
		assert.Equal(t, lendingtest.StatusOfferReady, r.get("/api/Application/application-status/"+id).text(),
			"as it was")
		<-time.After(time.Second)
		assert.Equal(t, lendingtest.StatusCancelled, r.get("/api/Application/application-status/"+id).text())
		assert.Empty(t, r.get("/api/Communication/get-all-messages/"+id).list(), "which came a second ago")
		r.Advance(4 * time.Second)
		assert.Len(t, r.get("/api/Communication/get-all-messages/"+id).list(), 1)
	})
}

// What a test seeds or changes is there.
func TestReadLagDoesNotHoldBackSeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t, lendingtest.WithReadLag(time.Hour))
	id := r.offered()
	r.get("/api/Application/application-status/"+id).refused(404, "ApplicationNotFound")
	loan := r.AddLoan(lendingtest.Loan{ApplicationID: id})
	assert.Len(t, r.get("/api/Loan/get-customer-loans/"+loan.CustomerID).list(), 1)
	assert.Equal(t, "[]", r.get("/api/Loan/get-contract-documents/"+loan.ID).ok())
	assert.Equal(t, lendingtest.StatusOfferReady, r.get("/api/Application/application-status/"+id).text(),
		"the loan's application, too")
	r.UpdateLoan(loan.ID, closeLoan)
	assert.Equal(t, "true", r.get("/api/Loan/is-loan-closed/"+loan.ID).ok())
	r.expireOffer(id)
	r.Advance(time.Hour)
	r.token = r.Token(lendingtest.Username)
	assert.Equal(t, true, r.get("/api/Application/application-offer/" + id).object()["isExpired"],
		"no older write comes after it")
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://receiver.test/"})
	assert.Equal(t, sub.ID, r.get("/api/Webhook/get-subscription" + mine).object()["id"])
}

// Nothing is held back for ever: a lag later every read of the journey shows every write.
func TestReadLagForgetsNothing(t *testing.T) {
	t.Parallel()
	r := serverRig(t, lendingtest.WithLoopbackReceivers(), lendingtest.WithReadLag(time.Second))
	r.before = func() { r.Advance(time.Second) }
	journey(t, r)
}

// Each kind of record comes as late as a probe has measured.
func TestReadLagOfEachKindOfRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, lendingtest.WithService([]byte(`{"version":1,"facts":{"read lag: get-customer-by-id":"9s",`+
		`"read lag: get-customer-applications":"5s","read lag: get-withdrawals":"0s"}}`)))
	loan := r.AddLoan(lendingtest.Loan{})
	r.post("/api/Calculation/application-invoice-calculation?applicationId="+loan.ApplicationID, invoice).ok()
	r.post("/api/Loan/make-withdrawal-invoice/"+loan.ID, `{"calculation":`+invoice+`}`).ok()
	confirm(r, loan, "2500.00", "0.80", r.OTP(loan.ID)).ok()
	assert.Contains(t, r.get("/api/Loan/get-withdrawals/"+loan.ID).ok(), `"totalCount":1`)
	customer := r.customer()
	id := r.post("/api/Application/create-application", `{"customerId":"`+customer+`"}`).text()
	shown := func() string {
		return fmt.Sprint(r.get("/api/Application/application-status/"+id).status, " ",
			r.get("/api/Customer/get-customer-by-id/"+customer).status)
	}
	assert.Equal(t, "404 404", shown())
	r.Advance(5 * time.Second)
	assert.Equal(t, "200 404", shown())
	r.Advance(4 * time.Second)
	assert.Equal(t, "200 200", shown())
}

// An identifier belongs to one record.
func TestALoanCannotHaveTheIdentifierOfItsApplication(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	assert.PanicsWithValue(t, `lendingtest: the identifier "`+id+`" belongs to a record of another kind: application`,
		func() { r.AddLoan(lendingtest.Loan{ID: id, ApplicationID: id}) })
	assert.Empty(t, r.Snapshot().Loans)
}
