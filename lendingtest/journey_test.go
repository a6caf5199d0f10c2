package lendingtest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// One journey through all 69 routes, over a socket.
func TestJourneyTakesEveryRoute(t *testing.T) {
	t.Parallel()
	journey(t, serverRig(t, lendingtest.WithLoopbackReceivers(), lendingtest.WithBasePath("/lending/")))
}

func journey(t *testing.T, r *rig) {
	t.Helper()
	receiver := newReceiver(t)
	r.token = ""

	// Sign in.
	user := r.post("/api/Authenication/login", `{"username":"`+lendingtest.Username+`","password":"`+
		lendingtest.Password+`","ipAddress":"192.0.2.1"}`).object()
	require.Equal(t, true, user["requiresTwoFactor"])
	require.Empty(t, user["token"])
	require.Equal(t, "0001-01-01T00:00:00", user["expiresUTC"])
	code := r.TwoFactorCode(lendingtest.Username)
	require.Regexp(t, `^\d{6}$`, code)
	user = r.post("/api/Authenication/validate-two-factor", `{"username":"`+lendingtest.Username+`","code":"`+code+
		`"}`).object()
	require.Equal(t, false, user["requiresTwoFactor"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}$`, user["expiresUTC"])
	r.token = user["token"].(string)
	r.token = r.post("/api/Authenication/refresh-token", "").text()

	// Subscribe.
	r.post("/api/Webhook/register"+mine, `{"webhookUri":"`+receiver.URL+`"}`).ok()
	sub := r.get("/api/Webhook/get-subscription" + mine).object()
	r.post("/api/Webhook/update-all"+mine, "").ok()
	r.post("/api/Webhook/update-webhook-uri"+mine+"&webhookUri="+receiver.URL+"/hook", "").ok()
	r.post("/api/Webhook/generate-simulated-webhook"+mine+"&eventName=WB_Loan_Created", "").ok()
	assert.Contains(t, r.get("/api/Webhook/get-registered-webhooks"+mine).ok(), "WB_Loan_Opened")
	r.as("").post("/api/Webhook/handler", `{"any":"thing"}`).ok()
	administrator := r.as("")
	administrator.token = r.post("/api/Authenication/login", `{"username":"`+lendingtest.AdministratorUsername+
		`","password":"`+lendingtest.AdministratorPassword+`"}`).object()["token"].(string)
	summaries := administrator.get("/api/Webhook/get-all-subscriptions")
	assert.Len(t, summaries.list(), 1)
	assert.NotContains(t, summaries.body, sub["secret"])

	// Customers and applications, in every way.
	customer := r.customer()
	assert.Equal(t, customer, r.get("/api/Customer/get-customer-by-email?email=ann@example.com").object()["id"])
	assert.Equal(t, "5550100199", r.get("/api/Customer/get-customer-by-id/" + customer).object()["mobileNumber"])
	application := `{"customerId":"` + customer +
		`","businessName":"Lee & Co","extraInformation":{"zipcode":"10001","years":"7"}`
	id := r.post("/api/Application/create-application?sendLink=true", application+`}`).text()
	r.post("/api/Application/create-application-and-applicant", application+`,"applicant":{"firstName":"Ann"}}`).text()
	combined := strings.Replace(ann, "ann@", "bob@", 1)
	both := r.post("/api/Application/create-customer-and-application", combined).object()
	assert.Equal(t, both["customerId"],
		r.get("/api/Application/get-application/" + both["applicationId"].(string)).object()["customerId"])
	combined = strings.Replace(ann, `ann@example.com"`,
		`eve@example.com","businessName":"Eve","applicant":{"firstName":"Eve"}`, 1)
	all := r.post("/api/Application/create-customer-and-application-and-applicant", combined).object()
	assert.Equal(t, all["applicantId"],
		r.get(approval + "get-all-applicants/" + all["applicationId"].(string)).list()[0]["id"])
	bulk := r.post("/api/ApplicationBulk/create-customers", `[`+strings.Replace(ann, "ann@", "c1@", 1)+`,`+
		strings.Replace(ann, "ann@", "c2@", 1)+`]`).list()
	assert.Len(t, bulk, 2)
	assert.Len(t, r.post("/api/ApplicationBulk/create-applications", `[`+application+`},{"customerId":"`+
		bulk[1]["id"].(string)+`"}]`).list(), 2)
	assert.Len(t, r.get("/api/Application/get-customer-applications/"+customer).list(), 3)
	assert.Len(t, r.get("/api/Application/get-partner-applications/"+lendingtest.PartnerID+
		"?skip=1&take=2147483647").list(), 5)
	r.post("/api/Application/send-application-link?applicationId="+id, "").ok()

	// Change them.
	assert.Equal(t, "true", r.get("/api/Application/update-application-name/"+id+"?name=A%26B").ok())
	assert.Equal(t, "true", r.get("/api/Application/update-application-name-and-zip-code/"+id+
		"?name=AB&zipCode=20002").ok())
	assert.Equal(t, "true", r.get("/api/Application/update-customer-data/"+id+
		"?firstname=A&lastname=L&address=1+Main&state=NY&city=N&ssn=123-45-6789&mobile=5550100100&"+
		"dateOfBirth=1980-01-02").ok())
	assert.Equal(t, "true", r.get("/api/Application/update-application-data/"+id+
		"?name=AB+Ltd&zipcode=30003&startDate=2020-01-02T00:00:00").ok())
	got := r.get("/api/Application/get-application/" + id).object()
	assert.Equal(t, "AB Ltd", got["businessName"])
	assert.Equal(t, map[string]any{"zipcode": "30003", "years": "7"}, got["extraInformation"])

	// To the offer.
	assert.Equal(t, "false", r.post("/api/Application/quick-test/"+id, "").ok())
	assert.Equal(t, "true", r.post("/api/Application/quick-test/"+id, bankData).ok())
	assert.Equal(t, "true", r.post("/api/Application/add-or-update-banking-data/"+id+"?bankName=First", bankData).ok())
	assert.Equal(t, "true", r.post("/api/Application/submit-bankstatement-document/"+id+"?fileName=may.pdf",
		file(10)).ok())
	offerID := r.get("/api/Application/process-application/" + id).text()
	assert.Equal(t, lendingtest.StatusOfferReady, r.get("/api/Application/application-status/"+id).text())
	offer := r.get("/api/Application/application-offer/" + id).object()
	assert.Equal(t, offerID, offer["id"])
	assert.InDelta(t, 23400, offer["amount"], 0)

	// Approval.
	r.post(approval+"add-company-details/"+id, `{"taxId":"1"}`).ok()
	r.post(approval+"add-primary-applicant-details/"+id, `{"firstName":"Ann","ssn":"123-45-6789"}`).ok()
	r.post(approval+"add-secondary-applicant-details/"+id, `{"firstName":"Bob"}`).ok()
	assert.Equal(t, 204, r.get(approval+"get-primary-bank-account/"+id).status)
	r.post(approval+"set-primary-bank-account/"+id+"/"+r.get(approval + "get-all-bank-accounts/" +
		id).list()[0]["id"].(string), "").ok()
	assert.Equal(t, "000123", r.get(approval + "get-primary-bank-account/" + id).object()["accountNumber"])
	for _, need := range r.get(approval + "get-required-documents/" + id).list() {
		path := approval + "submit-required-document/" + id + "?fileName=a.png&fileType=" + need["fileType"].(string) +
			"&supportingDocumentId=" + need["supportingDocumentId"].(string)
		assert.Equal(t, "true", r.post(path, file(3)).ok())
	}
	assert.NotContains(t, r.get(approval+"get-required-documents/"+id).body, `"isSubmitted":false`)
	assert.Equal(t, "true", r.post(approval+"submit-document/"+id+"?fileName=b.png&fileType=Anything", file(3)).ok())
	assert.Len(t, r.get(approval + "get-contract-details/" + id).list()[0]["applicants"], 2)
	applicants := r.get(approval + "get-all-applicants/" + id)
	assert.NotContains(t, applicants.body, "123-45-6789")
	for i, a := range applicants.list() {
		assert.Empty(t, r.get("/api/Loan/get-customer-loans/"+customer).list(), "no loan before the last signature")
		assert.Equal(t, i == 0, a["isPrimary"])
		r.post(approval+"sign-contract/"+id+"/"+a["id"].(string), signatures).ok()
	}
	assert.Equal(t, true, r.get(approval + "get-contracts/" + id).list()[0]["isSigned"])

	// The loan.
	loan := r.get("/api/Loan/get-customer-loans/" + customer).list()[0]
	loanID := loan["id"].(string)
	assert.Equal(t, id, loan["applicationId"])
	assert.Equal(t, loan, r.get("/api/Loan/get-loan/"+loanID).object())
	assert.Len(t, r.get("/api/Loan/get-contract-documents/"+loanID).list(), 1)
	assert.Equal(t, "true", r.get("/api/Loan/is-loan-enabled/"+loanID).ok())
	assert.Equal(t, "false", r.get("/api/Loan/is-loan-closed/"+loanID).ok())
	calculate := "/api/Calculation/application-%?applicationId=" + id
	assert.Len(t, r.post(strings.Replace(calculate, "%", "loc-calculation-slider", 1), invoice).list(), 3)
	assert.InDelta(t, 300, r.post(strings.Replace(calculate, "%", "loc-calculation", 1), invoice).object()["fee"], 0)
	r.post(strings.Replace(calculate, "%", "invoice-calculation", 1), invoice).ok()
	r.post("/api/Loan/make-withdrawal-line-of-credit/"+loanID, `{"anything":1}`).ok()
	made := r.post("/api/Loan/make-withdrawal-invoice/"+loanID, `{"calculation":`+invoice+`}`).object()
	assert.InDelta(t, 0.8, made["advanceRate"], 0)
	resent := r.post("/api/Loan/resend-withdrawal-otp/"+loanID, "").text()
	assert.NotEqual(t, r.OTP(loanID), resent)
	r.post("/api/Loan/confirm-withdrawal-invoice/"+loanID, confirmation("2500.00", "0.8", r.OTP(loanID))).ok()
	assert.Contains(t, r.get("/api/Loan/get-total-balance/"+loanID).ok(),
		`"totalBalance":2500.00,"availableBalance":20900.00`)
	assert.Contains(t, r.get("/api/Loan/get-repayment-balances/"+loanID).ok(), `"outstandingBalance":2500.00`)
	assert.Contains(t, r.as("").get("/api/Loan/get-early-repayment/"+loanID).ok(), `"amount":2500.00`)
	assert.Len(t, r.get("/api/Loan/get-transactions/"+loanID).list(), 1)
	for _, path := range []string{"get-transactions-paged/", "get-withdrawals/"} {
		page := r.get("/api/Loan/" + path + loanID).object()
		assert.Len(t, page["data"], 1)
		assert.InDelta(t, 1, page["totalCount"], 0)
	}
	r.post("/api/Communication/post-messages/"+id, `{"message":"hello"}`).ok()
	assert.Equal(t, "hello", r.get("/api/Communication/get-all-messages/" + id).list()[0]["message"])

	// And away.
	r.post("/api/Application/cancel-application/"+both["applicationId"].(string), "").ok()
	assert.Equal(t, lendingtest.StatusCancelled,
		r.get("/api/Application/application-status/"+both["applicationId"].(string)).text())
	r.post("/api/Webhook/unregister"+mine, `{}`).ok()
	assert.Equal(t, 204, r.get("/api/Webhook/get-subscription"+mine).status)

	assert.Len(t, r.Routes(), 69)
	for _, route := range r.Routes() {
		assert.NotZero(t, r.Executed(route), route)
	}
	require.NoError(t, r.Wait(t.Context()))
	assert.Subset(t, receiver.events(), []string{
		"WB_Loan_Created", "WB_Customer_Created", "WB_Application_Created", "WB_Customer_And_Application_Created",
		"WB_Bank_Transactions_Refresh", "WB_Application_Status_Changed", "WB_Application_Ready", "WB_Loan_Opened",
		"WB_Send_Loan_Otp", "WB_Loan_Withdrawal_Completed", "WB_Communication_Sent", "WB_Application_Cancelled",
		"WB_Send_Secondary_Applicant_Notice", "WB_Under_Review", "WB_Send_Application_Ready",
		"WB_Application_Current_Process",
	})
	for _, body := range receiver.verified(sub["secret"].(string)) {
		assert.True(t, json.Valid(body))
		assert.NotContains(t, string(body), r.OTP(loanID), "a delivery carries no code")
	}
}

// The same calls in the same order give the same answers.
func TestRunsAreTheSame(t *testing.T) {
	t.Parallel()
	run := func(seed uint32) (string, string, string) {
		r := newRig(t, lendingtest.WithSeed(seed))
		loan := r.withdrawing()
		return loan.ID, r.OTP(loan.ID), r.token
	}
	id, otp, token := run(7)
	id2, otp2, token2 := run(7)
	assert.Equal(t, []string{id, otp, token}, []string{id2, otp2, token2})
	id3, otp3, token3 := run(8)
	assert.NotEqual(t, id, id3)
	assert.NotEqual(t, otp, otp3)
	assert.NotEqual(t, token, token3)
}
