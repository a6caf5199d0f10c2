package lendingtest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// rules quotes the interface and tests what it says.
var rules = []struct {
	sentence string
	test     func(*rig)
}{
	// Conventions and records.
	{"Requests accept the content types application/json, application/json-patch+json, text/json and " +
		"application/*+json.", func(r *rig) {
		for i, accepted := range []string{
			"application/json", "application/json-patch+json", "text/json",
			"application/vnd.x+json", "application/json; charset=UTF-8",
		} {
			r.header.Set("Content-Type", accepted)
			r.post("/api/Application/create-customer", strings.Replace(ann, "ann@", fmt.Sprintf("a%d@", i), 1)).ok()
		}
		for _, refused := range []string{
			"text/plain", "application/xml", "text/x+json",
			"application/json; charset=latin1", "x",
		} {
			r.header.Set("Content-Type", refused)
			r.post("/api/Application/create-customer", ann).refused(415, "UnsupportedMediaType")
		}
	}},
	{"Request and response bodies are JSON.", func(r *rig) {
		r.post("/api/Application/create-customer", ann+"\r\n").ok()
	}},
	{"Supply the zip code either as businessZip or as extraInformation.zipcode, never both.", func(r *rig) {
		id := r.customer()
		for _, zip := range []string{`"businessZip":"10001"`, `"extraInformation":{"zipcode":"10001"}`} {
			app := r.post("/api/Application/create-application", `{"customerId":"`+id+`",`+zip+`}`).text()
			assert.Equal(r.t, "10001", r.get("/api/Application/get-application/" + app).object()["businessZip"])
		}
	}},
	{"The body is a single JSON string containing the base64 encoding of the file bytes.", func(r *rig) {
		id := r.application()
		path := "/api/Application/submit-bankstatement-document/" + id + "?fileName=may.pdf"
		for _, body := range []string{`"+/8="`, ` "\u002b\/8\u003d" `, "\n\"+/8=\"\r\n"} {
			assert.Equal(r.t, "true", r.post(path, body).ok())
		}
		sum := sha256.Sum256([]byte{0xfb, 0xff})
		for _, d := range r.Snapshot().Applications[0].Documents {
			assert.Equal(r.t, "may.pdf", d.FileName)
			assert.EqualValues(r.t, 2, d.Size)
			assert.Equal(r.t, hex.EncodeToString(sum[:]), d.SHA256)
		}
	}},

	// Applications.
	{"GET process-application once; do not poll or auto-retry it.", func(r *rig) {
		id := r.offered()
		first := r.get("/api/Application/application-offer/" + id).object()["id"]
		second := r.get("/api/Application/process-application/" + id).text()
		assert.NotEqual(r.t, first, second, "each run makes another offer")
		assert.Equal(r.t, 2, r.Snapshot().Applications[0].ProcessRuns)
		assert.Equal(r.t, 2, r.Executed("GET /api/Application/process-application/{applicationId}"))
	}},
	{"Sending sendLink=true requests that a customer application link be sent.", func(r *rig) {
		body := `{"customerId":"` + r.customer() + `"}`
		r.post("/api/Application/create-application?sendLink=false", body).text()
		assert.Empty(r.t, r.Sent())
		id := r.post("/api/Application/create-application?sendLink=true", body).text()
		require.Len(r.t, r.Sent(), 1)
		assert.Equal(r.t, "application-link", r.Sent()[0].Kind)
		assert.Equal(r.t, id, r.Sent()[0].ApplicationID)
		assert.Equal(r.t, "ann@example.com", r.Sent()[0].To)
	}},
	{"The bank-statement upload instead requires only that the application exists.", func(r *rig) {
		id := r.offered()
		r.expireOffer(id)
		r.post("/api/Application/submit-bankstatement-document/"+id+"?fileName=a", file(1)).ok()
		r.post("/api/Application/cancel-application/"+id, "").ok()
		r.post("/api/Application/submit-bankstatement-document/"+id+"?fileName=a", file(1)).ok()
		r.post("/api/Application/submit-bankstatement-document/"+unknownID+"?fileName=a", file(1)).refused(404,
			"ApplicationNotFound")
	}},
	{"An offer can expire.", func(r *rig) {
		id := r.offered()
		path := "/api/Application/application-offer/" + id
		assert.Equal(r.t, false, r.get(path).object()["isExpired"])
		r.Advance(30 * 24 * time.Hour)
		r.token = r.Token(lendingtest.Username)
		assert.Equal(r.t, true, r.get(path).object()["isExpired"])
		assert.Equal(r.t, false, r.get(path + "?force=true").object()["isExpired"])
	}},
	{"An application can be cancelled", func(r *rig) {
		id := r.offered()
		r.post("/api/Application/cancel-application/"+id, "").ok()
		r.get("/api/Application/process-application/"+id).refused(bad, "ApplicationCancelled")
		r.post(approval+"add-company-details/"+id, `{}`).refused(bad, "ApplicationCancelled")
		r.post(approval+"submit-document/"+id+"?fileType=a&fileName=b", `"AAAA"`).refused(bad, "ApplicationCancelled")
		r.post("/api/Calculation/application-invoice-calculation?applicationId="+id, `{"amount":1}`).refused(bad,
			"ApplicationCancelled")
		r.post("/api/Application/send-application-link?applicationId="+id, "").refused(bad, "ApplicationCancelled")
		r.post("/api/Application/submit-bankstatement-document/"+id+"?fileName=b", `"AAAA"`).ok()
	}},

	// Limits.
	{"| take cap | 200 | loan lists and communication lists |", func(r *rig) {
		loan := r.AddLoan(lendingtest.Loan{})
		r.AddTransactions(loan.ID, make([]lendingtest.Transaction, 450)...)
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.Withdrawals = make([]lendingtest.Withdrawal, 450) })
		r.UpdateApplication(loan.ApplicationID, func(a *lendingtest.Application) {
			a.Messages = make([]lendingtest.Message, 450)
		})
		for _, query := range []string{"", "?take=201", "?skip=5&take=2147483647"} {
			assert.Len(r.t, r.get("/api/Loan/get-transactions/"+loan.ID+query).list(), 200)
			assert.Len(r.t, r.get("/api/Communication/get-all-messages/"+loan.ApplicationID+query).list(), 200)
			for _, path := range []string{"get-transactions-paged/", "get-withdrawals/"} {
				page := r.get("/api/Loan/" + path + loan.ID + query).object()
				assert.Len(r.t, page["data"], 200)
				assert.InDelta(r.t, 450, page["totalCount"], 0)
			}
		}
		assert.Len(r.t, r.get("/api/Loan/get-transactions/"+loan.ID+"?skip=400").list(), 50)
		assert.Empty(r.t, r.get("/api/Loan/get-transactions/"+loan.ID+"?skip=451").list())
	}},
	{"| take cap | none applied | partner-application and invoice-customer routes |", func(r *rig) {
		customer := r.AddCustomer(lendingtest.Customer{}).ID
		for range 250 {
			r.AddApplication(lendingtest.Application{CustomerID: customer})
		}
		path := "/api/Application/get-partner-applications/" + lendingtest.PartnerID
		assert.Len(r.t, r.get(path).list(), 250)
		assert.Len(r.t, r.get(path+"?skip=245&take=10").list(), 5)
	}},
	{"The descending option exists only on get-transactions-paged and get-withdrawals.", func(r *rig) {
		loan := r.AddLoan(lendingtest.Loan{})
		r.AddTransactions(loan.ID, lendingtest.Transaction{ID: "a"}, lendingtest.Transaction{ID: "b"})
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.Withdrawals = []lendingtest.Withdrawal{{ID: "a"}, {ID: "b"}} })
		for _, path := range []string{"get-transactions-paged/", "get-withdrawals/"} {
			rows := r.get("/api/Loan/" + path + loan.ID + "?take=1&descending=true").object()["data"].([]any)
			assert.Equal(r.t, "b", rows[0].(map[string]any)["id"])
		}
		assert.Equal(r.t, "a", r.get("/api/Loan/get-transactions/" + loan.ID + "?descending=true").list()[0]["id"])
	}},

	// Signing in.
	{"When requiresTwoFactor is true: the code arrives through the account's configured channel", func(r *rig) {
		login := `{"username":"` + lendingtest.Username + `","password":"` + lendingtest.Password + `"`
		user := r.post("/api/Authenication/login", login+`,"trustedDeviceToken":"`+lendingtest.TrustedDeviceToken+
			`"}`).object()
		assert.NotEmpty(r.t, user["token"], "a trusted device needs no code")
		assert.Empty(r.t, r.Sent())
		assert.Empty(r.t, r.post("/api/Authenication/login", login+`,"trustedDeviceToken":"x"}`).object()["token"])
		code := r.TwoFactorCode(lendingtest.Username)
		other := r.AddAccount(lendingtest.Account{TwoFactor: true})
		r.post("/api/Authenication/login", `{"username":"`+other.Username+`","password":"`+other.Password+`"}`).ok()
		assert.Len(r.t, r.Sent(), 2)
		assert.Equal(r.t, code, r.TwoFactorCode(lendingtest.Username))
		answer := `{"username":"` + lendingtest.Username + `","code":"` + code + `"}`
		r.post("/api/Authenication/validate-two-factor", strings.Replace(answer, code, "nothing", 1)).refused(bad,
			"InvalidTwoFactorCode")
		assert.NotEmpty(r.t, r.post("/api/Authenication/validate-two-factor", answer).object()["token"])
		r.post("/api/Authenication/validate-two-factor", answer).refused(bad, "InvalidTwoFactorCode")
		r.post("/api/Authenication/login", login+`}`).ok()
		code = r.TwoFactorCode(lendingtest.Username)
		for range 5 {
			r.post("/api/Authenication/validate-two-factor", answer).refused(bad, "InvalidTwoFactorCode")
		}
		r.post("/api/Authenication/validate-two-factor", `{"username":"`+lendingtest.Username+`","code":"`+code+
			`"}`).refused(bad, "InvalidTwoFactorCode")
	}},
	// Withdrawals.
	{"POST confirm-withdrawal-invoice with the agreed amount, the returned advance rate, the requested dateUTC and " +
		"the entered OTP.", func(r *rig) {
		loan := r.withdrawing()
		otp := r.OTP(loan.ID)
		confirm(r, loan, "2500.00", "0.80", otp).ok()
		confirm(r, loan, "2500.00", "0.80", otp).refused(bad, "NoPendingWithdrawal")
		after := r.Snapshot().Loans[0]
		assert.Len(r.t, after.Withdrawals, 1)
		assert.EqualValues(r.t, 2500_00, after.Balance)
	}},

	// Webhooks.
	{"Registering again updates the URI and event list only; it does not rotate the secret.", func(r *rig) {
		r.post("/api/Webhook/register"+mine, `{"webhookUri":"https://a.example/","secret":"x","id":"`+unknownID+
			`"}`).ok()
		first := r.get("/api/Webhook/get-subscription" + mine).object()
		assert.Regexp(r.t, `^whs_[0-9a-f]{32}$`, first["secret"])
		assert.NotEqual(r.t, unknownID, first["id"])
		assert.NotEqual(r.t, lendingtest.PartnerID, first["id"])
		r.post("/api/Webhook/register"+mine,
			`{"webhookUri":"https://b.example/","isActive":false,"webhooks":["WB_Loan_Closed"]}`).ok()
		first["webhookUri"], first["webhooks"] = "https://b.example/", []any{"WB_Loan_Closed"}
		assert.Equal(r.t, first, r.get("/api/Webhook/get-subscription"+mine).object())
	}},
	{"omitted or empty means all supported events", func(r *rig) {
		r.post("/api/Webhook/register"+mine, `{"webhookUri":"https://a.example/","webhooks":[]}`).ok()
		var names []string
		require.NoError(r.t, json.Unmarshal([]byte(r.get("/api/Webhook/get-registered-webhooks"+mine).ok()), &names))
		assert.Len(r.t, names, 22)
	}},
	{"publishers can reuse a target id across events", func(r *rig) {
		receiver := newReceiver(r.t)
		r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
		r.offered()
		r.wait()
		ids := map[string]int{}
		for _, d := range receiver.all() {
			var e envelope
			require.NoError(r.t, json.Unmarshal(d.body, &e))
			ids[e.ID]++
		}
		assert.Len(r.t, ids, 1, "one application, one id, several events")
		assert.Greater(r.t, len(receiver.all()), 3)
	}},
	{"Application-created data may include extraInformation.years as a string.", func(r *rig) {
		receiver := newReceiver(r.t)
		r.AddSubscription(lendingtest.Subscription{
			WebhookURI: receiver.URL,
			Webhooks:   []string{"WB_Application_Created"},
		})
		r.post("/api/Application/create-application", `{"customerId":"`+r.customer()+
			`","extraInformation":{"years":"7"}}`).text()
		r.wait()
		assert.Contains(r.t, string(receiver.all()[0].body), `"extraInformation":{"years":"7"}`)
	}},
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		t.Run(rule.sentence, func(t *testing.T) {
			t.Parallel()
			rule.test(newRig(t))
		})
	}
}
