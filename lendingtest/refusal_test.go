package lendingtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

const (
	invalid = "ValidationFailed"
	bad     = http.StatusBadRequest
)

// refusals lists every refusal of the interface, and those of the model: a
// request and what the service answers.
var refusals = []struct {
	name   string
	do     func(*rig) reply
	status int
	code   string
	fields []string
}{
	// Error table of the interface.
	{
		"token missing", func(r *rig) reply { r.token = ""; return r.get("/api/Loan/get-loan/" + unknownID) }, 401,
		"TokenMissing", nil,
	},
	{
		"token invalid", func(r *rig) reply { r.token = "x"; return r.get("/api/Loan/get-loan/" + unknownID) }, 401,
		"TokenInvalid", nil,
	},
	{
		"token expired", func(r *rig) reply { r.Advance(time.Hour); return r.get("/api/Loan/get-loan/" + unknownID) }, 401,
		"TokenExpired", nil,
	},
	{
		"token revoked", func(r *rig) reply { r.RevokeTokens(); return r.get("/api/Loan/get-loan/" + unknownID) }, 401,
		"TokenInvalid", nil,
	},
	{"not permitted", func(r *rig) reply { return r.get("/api/Webhook/get-all-subscriptions") }, 403, "Forbidden", nil},
	{"wrong path", func(r *rig) reply { return r.get("/api/Loan/get-nothing") }, 404, "NotFound", nil},
	{"wrong method", func(r *rig) reply { return r.post("/api/Loan/get-loan/"+unknownID, "") }, 404, "NotFound", nil},
	{
		"wrong identifier", func(r *rig) reply { return r.get("/api/Loan/get-loan/" + unknownID) }, 404, "LoanNotFound",
		nil,
	},
	{
		"malformed identifier", func(r *rig) reply { return r.get("/api/Loan/get-loan/7") }, bad, invalid,
		[]string{"loanId InvalidGuid"},
	},
	{
		"zero identifier", func(r *rig) reply { return r.get("/api/Loan/get-loan/00000000-0000-0000-0000-000000000000") },
		bad, invalid,
		[]string{"loanId InvalidGuid"},
	},
	{
		"application id as loan id", func(r *rig) reply { return r.get("/api/Loan/get-loan/" + r.application()) }, 404,
		"LoanNotFound", nil,
	},
	{"body of an unknown type", func(r *rig) reply {
		r.header.Set("Content-Type", "text/plain")
		return r.post("/api/Application/create-customer", ann)
	}, 415, "UnsupportedMediaType", nil},
	{
		"malformed JSON", func(r *rig) reply { return r.post("/api/Application/create-customer", `{"a":`) }, bad, invalid,
		[]string{"$ InvalidJson"},
	},
	{
		"trailing JSON", func(r *rig) reply { return r.post("/api/Application/create-customer", `{} {}`) }, bad, invalid,
		[]string{"$ InvalidJson"},
	},
	{
		"wrong JSON type", func(r *rig) reply { return r.post("/api/Application/create-customer", `{"email":7}`) }, bad,
		invalid,
		[]string{"$.email InvalidType"},
	},
	{
		"array for an object", func(r *rig) reply { return r.post("/api/Application/create-customer", `[]`) }, bad,
		invalid,
		[]string{"$ InvalidType"},
	},
	{
		"no body", func(r *rig) reply { return r.post("/api/Application/create-customer", "") }, bad, invalid,
		[]string{" BodyRequired"},
	},
	{
		"null body", func(r *rig) reply { return r.post("/api/Application/create-customer", "null") }, bad, invalid,
		[]string{" BodyRequired"},
	},
	{"too large for the host", func(r *rig) reply {
		return r.post("/api/Application/create-customer", strings.Repeat(" ", 30_000_001))
	}, 413, "RequestTooLarge", nil},

	// Customers.
	{"customer with every fault", func(r *rig) reply {
		long := strings.Repeat("n", 51)
		return r.post("/api/Application/create-customer", `{"firstName":"`+long+`","lastName":"`+long+
			`","email":"x","password":"short","mobileNumber":"123"}`)
	}, bad, invalid, []string{
		"firstName MaximumLength", "lastName MaximumLength", "email InvalidEmail",
		"password PasswordRules", "mobileNumber InvalidMobileNumber",
	}},
	{"e-mail of 51 characters", func(r *rig) reply {
		return r.post("/api/Application/create-customer", strings.Replace(ann, "ann@", strings.Repeat("a", 39)+"@", 1))
	}, bad, invalid, []string{"email MaximumLength"}},
	{"eleven digits", func(r *rig) reply {
		return r.post("/api/Application/create-customer", strings.Replace(ann, "(555)", "+1 (555)", 1))
	}, bad, invalid, []string{"mobileNumber InvalidMobileNumber"}},
	{"letters in the number", func(r *rig) reply {
		return r.post("/api/Application/create-customer", strings.Replace(ann, "(555)", "abc", 1))
	}, bad, invalid, []string{"mobileNumber InvalidMobileNumber"}},
	{"duplicate e-mail", func(r *rig) reply {
		r.customer()
		return r.post("/api/Application/create-customer", strings.Replace(ann, "ann@", "ANN@", 1))
	}, bad, invalid, []string{"email DuplicateEmail"}},

	// Applications.
	{"zip code twice", func(r *rig) reply {
		return r.post("/api/Application/create-application", `{"customerId":"`+r.customer()+
			`","businessZip":"1","extraInformation":{"zipcode":"1"}}`)
	}, bad, invalid, []string{"businessZip DuplicateZipCode"}},
	{"years and types", func(r *rig) reply {
		return r.post("/api/Application/create-application", `{"customerId":"`+r.customer()+
			`","extraInformation":{"years":"100","a":5}}`)
	}, bad, invalid, []string{"extraInformation.a InvalidType", "extraInformation.years InvalidYears"}},
	{"years as a number", func(r *rig) reply {
		return r.post("/api/Application/create-application", `{"customerId":"`+r.customer()+
			`","extraInformation":{"years":7}}`)
	}, bad, invalid, []string{"extraInformation.years InvalidType"}},
	{"zero partner and agent", func(r *rig) reply {
		zero := `"00000000-0000-0000-0000-000000000000"`
		return r.post("/api/Application/create-application", `{"customerId":`+zero+`,"partnerId":`+zero+`,"agentId":`+
			zero+`}`)
	}, bad, invalid, []string{"partnerId InvalidGuid", "agentId InvalidGuid", "customerId InvalidGuid"}},
	{"partner of others", func(r *rig) reply {
		return r.post("/api/Application/create-application", `{"customerId":"`+r.customer()+`","partnerId":"`+unknownID+
			`"}`)
	}, bad, invalid, []string{"partnerId PartnerNotAssigned"}},
	{"unknown customer", func(r *rig) reply {
		return r.post("/api/Application/create-application", `{"customerId":"`+unknownID+`"}`)
	}, bad, invalid, []string{"customerId CustomerNotFound"}},
	{"sendLink is no boolean", func(r *rig) reply {
		return r.post("/api/Application/create-application?sendLink=1", `{"customerId":"`+r.customer()+`"}`)
	}, bad, invalid, []string{"sendLink InvalidBoolean"}},
	{"combined creation validates both", func(r *rig) reply {
		return r.post("/api/Application/create-customer-and-application",
			strings.Replace(ann, `"Ann"`, `"`+strings.Repeat("n", 51)+`","extraInformation":{"years":"x"}`, 1))
	}, bad, invalid, []string{"firstName MaximumLength", "extraInformation.years InvalidYears"}},
	{"partner's list of others", func(r *rig) reply {
		return r.get("/api/Application/get-partner-applications/" +
			unknownID)
	}, 403, "Forbidden", nil},
	{"negative skip, take too large", func(r *rig) reply {
		return r.get("/api/Application/get-partner-applications/" + lendingtest.PartnerID + "?skip=-1&take=2147483648")
	}, bad, invalid, []string{"skip InvalidNumber", "take InvalidNumber"}},
	{"no bank account", func(r *rig) reply {
		return r.post("/api/Application/add-or-update-banking-data/"+r.application(), `{"accounts":[]}`)
	}, bad, invalid, []string{"accounts Required"}},
	{"amounts as numbers", func(r *rig) reply {
		return r.post("/api/Application/add-or-update-banking-data/"+r.application(),
			`{"accounts":[{"balance":1,"transactions":[{"amount":2},{"amount":"x"}]}]}`)
	}, bad, invalid, []string{
		"accounts[0].accountNumber Required", "accounts[0].balance InvalidType",
		"accounts[0].transactions[0].amount InvalidType", "accounts[0].transactions[1].amount InvalidAmount",
	}},
	{
		"processing without bank data",
		func(r *rig) reply { return r.get("/api/Application/process-application/" + r.application()) }, bad,
		"InsufficientBankingData", nil,
	},
	{"processing without transactions", func(r *rig) reply {
		id := r.application()
		r.post("/api/Application/add-or-update-banking-data/"+id,
			`{"accounts":[{"accountNumber":"1","balance":"0","transactions":[]}]}`).ok()
		return r.get("/api/Application/process-application/" + id)
	}, bad, "InsufficientBankingData", nil},
	{
		"no offer", func(r *rig) reply { return r.get("/api/Application/application-offer/" + r.application()) }, bad,
		"OfferNotFound", nil,
	},
	{"customer data missing", func(r *rig) reply {
		return r.get("/api/Application/update-customer-data/" + r.application() + "?mobile=1")
	}, bad, invalid, []string{
		"firstname Required", "lastname Required", "address Required", "state Required",
		"city Required", "ssn Required", "dateOfBirth Required", "mobile InvalidMobileNumber",
	}},
	{"application data missing", func(r *rig) reply {
		return r.get("/api/Application/update-application-data/" + r.application() + "?startDate=soon")
	}, bad, invalid, []string{"name Required", "zipcode Required", "startDate InvalidDate"}},
	{"cancelled twice", func(r *rig) reply {
		id := r.application()
		r.post("/api/Application/cancel-application/"+id, "").ok()
		return r.post("/api/Application/cancel-application/"+id, "")
	}, bad, "ApplicationCancelled", nil},
	{
		"link for nobody", func(r *rig) reply { return r.post("/api/Application/send-application-link", "") }, bad,
		invalid,
		[]string{"applicationId InvalidGuid"},
	},

	// Uploads.
	{"empty file", func(r *rig) reply { return r.post(statement(r), `""`) }, bad, "EmptyDocument", nil},
	{"file over 15 MiB", func(r *rig) reply { return r.post(statement(r), oversized()) }, 413, "FileTooLarge", nil},
	{
		"upload too large for the host",
		func(r *rig) reply { return r.post(statement(r), strings.Repeat(" ", 30_000_001)) }, 413, "RequestTooLarge",
		nil,
	},
	{
		"object for a file", func(r *rig) reply { return r.post(statement(r), `{"file":"eA=="}`) }, bad, "InvalidDocument",
		nil,
	},
	{"raw binary", func(r *rig) reply { return r.post(statement(r), "%PDF-1.7") }, bad, "InvalidDocument", nil},
	{"not base64", func(r *rig) reply { return r.post(statement(r), `"????"`) }, bad, "InvalidDocument", nil},
	{"base64 cut", func(r *rig) reply { return r.post(statement(r), `"eA="`) }, bad, "InvalidDocument", nil},
	{"string not closed", func(r *rig) reply { return r.post(statement(r), `"eA==`) }, bad, "InvalidDocument", nil},
	{"two strings", func(r *rig) reply { return r.post(statement(r), `"eA==" "eA=="`) }, bad, "InvalidDocument", nil},
	{"multipart", func(r *rig) reply {
		path := statement(r)
		r.header.Set("Content-Type", "multipart/form-data; boundary=x")
		return r.post(path, "--x--")
	}, 415, "UnsupportedMediaType", nil},
	{"no file name", func(r *rig) reply {
		return r.post("/api/Application/submit-bankstatement-document/"+r.application(), file(1))
	}, bad, invalid, []string{"fileName Required"}},
	{"required document without its query", func(r *rig) reply {
		return r.post(approval+"submit-required-document/"+r.offered(), file(1))
	}, bad, invalid, []string{"fileName Required", "fileType Required", "supportingDocumentId Required"}},
	{"document without its query", func(r *rig) reply {
		return r.post(approval+"submit-document/"+r.offered(), file(1))
	}, bad, invalid, []string{"fileName Required", "fileType Required"}},
	{"document of another type", func(r *rig) reply {
		id := r.offered()
		need := r.get(approval + "get-required-documents/" + id).list()[0]["supportingDocumentId"].(string)
		return r.post(approval+"submit-required-document/"+id+
			"?fileName=a&fileType=application/pdf&supportingDocumentId="+need, file(1))
	}, bad, "FileTypeMismatch", nil},
	{"upload after the offer expired", func(r *rig) reply {
		id := r.offered()
		r.ExpireOffer(id)
		return r.post(approval+"submit-document/"+id+"?fileName=a&fileType=b", file(1))
	}, bad, "OfferExpired", nil},
	{"required upload after the offer expired", func(r *rig) reply {
		id := r.offered()
		need := r.get(approval + "get-required-documents/" + id).list()[0]
		r.ExpireOffer(id)
		return r.post(approval+"submit-required-document/"+id+"?fileName=a&fileType="+need["fileType"].(string)+
			"&supportingDocumentId="+need["supportingDocumentId"].(string), file(1))
	}, bad, "OfferExpired", nil},

	// Approval.
	{"company before the offer", func(r *rig) reply {
		return r.post(approval+"add-company-details/"+r.application(),
			`{}`)
	}, bad, "StepOutOfOrder", nil},
	{"primary applicant before the company", func(r *rig) reply {
		return r.post(approval+"add-primary-applicant-details/"+r.offered(), `{}`)
	}, bad, "StepOutOfOrder", nil},
	{"secondary applicant before the primary", func(r *rig) reply {
		id := r.offered()
		r.post(approval+"add-company-details/"+id, `{}`).ok()
		return r.post(approval+"add-secondary-applicant-details/"+id, `{}`)
	}, bad, "StepOutOfOrder", nil},
	{"unknown bank account", func(r *rig) reply {
		return r.post(approval+"set-primary-bank-account/"+r.offered()+"/nothing", "")
	}, 404, "BankAccountNotFound", nil},
	{"signing without images", func(r *rig) reply {
		id, applicant := r.approved()
		return r.post(approval+"sign-contract/"+id+"/"+applicant, "")
	}, bad, invalid, []string{"signature InvalidSignature", "signature2 InvalidSignature", "mimeType InvalidMimeType"}},
	{"signing with one empty image", func(r *rig) reply {
		id, applicant := r.approved()
		return r.post(approval+"sign-contract/"+id+"/"+applicant, strings.Replace(signatures, `"signature2":"iVBORw=="`,
			`"signature2":""`, 1))
	}, bad, invalid, []string{"signature2 InvalidSignature"}},
	{"signing for somebody else", func(r *rig) reply {
		id, _ := r.approved()
		_, other := r.approved()
		return r.post(approval+"sign-contract/"+id+"/"+other, signatures)
	}, bad, "ApplicantNotInApplication", nil},
	{"signing after the offer expired", func(r *rig) reply {
		id, applicant := r.approved()
		r.ExpireOffer(id)
		return r.post(approval+"sign-contract/"+id+"/"+applicant, signatures)
	}, bad, "OfferExpired", nil},
	{"signing before the bank account", func(r *rig) reply {
		id, applicant := r.approved()
		r.UpdateApplication(id, func(a *lendingtest.Application) { a.PrimaryAccountID = "" })
		return r.post(approval+"sign-contract/"+id+"/"+applicant, signatures)
	}, bad, "StepOutOfOrder", nil},
	{"signing twice", func(r *rig) reply {
		id, applicant := r.approved()
		r.post(approval+"sign-contract/"+id+"/"+applicant, signatures).ok()
		return r.post(approval+"sign-contract/"+id+"/"+applicant, signatures)
	}, bad, "AlreadySigned", nil},
	{"applicants after signing", func(r *rig) reply {
		return r.post(approval+"add-secondary-applicant-details/"+r.borrowed().ApplicationID, `{}`)
	}, bad, "AlreadySigned", nil},
	{"processing a loan's application", func(r *rig) reply {
		return r.get("/api/Application/process-application/" + r.borrowed().ApplicationID)
	}, bad, "LoanOpened", nil},

	// Signing in.
	{
		"login without anything", func(r *rig) reply { return r.post("/api/Authenication/login", `{}`) }, bad, invalid,
		[]string{"username Required", "password Required"},
	},
	{"wrong password", func(r *rig) reply {
		return r.post("/api/Authenication/login", `{"username":"`+lendingtest.Username+`","password":"x"}`)
	}, bad, "InvalidCredentials", nil},
	{"unknown user", func(r *rig) reply {
		return r.post("/api/Authenication/login", `{"username":"x","password":"`+lendingtest.Password+`"}`)
	}, bad, "InvalidCredentials", nil},
	{"code without a login", func(r *rig) reply {
		return r.post("/api/Authenication/validate-two-factor", `{"username":"`+lendingtest.Username+
			`","code":"000000"}`)
	}, bad, "InvalidTwoFactorCode", nil},
	{"refresh after expiry", func(r *rig) reply {
		r.ExpireTokens()
		return r.post("/api/Authenication/refresh-token", "")
	}, 401, "TokenExpired", nil},

	// Loans.
	{
		"early repayment of no loan",
		func(r *rig) reply { return r.as("").get("/api/Loan/get-early-repayment/" + unknownID) }, 404, "LoanNotFound",
		nil,
	},
	{"withdrawal without calculation", func(r *rig) reply {
		return r.post("/api/Loan/make-withdrawal-invoice/"+r.borrowed().ID, `{}`)
	}, bad, invalid, []string{"calculation Required"}},
	{"withdrawal without a stored calculation", func(r *rig) reply {
		return r.post("/api/Loan/make-withdrawal-invoice/"+r.borrowed().ID, `{"calculation":`+invoice+`}`)
	}, bad, "CalculationNotFound", nil},
	{"withdrawal of another amount", func(r *rig) reply {
		return r.post("/api/Loan/make-withdrawal-invoice/"+r.withdrawing().ID, `{"calculation":`+
			strings.Replace(invoice, "2500.00", "2500.01", 1)+`}`)
	}, bad, "CalculationMismatch", nil},
	{"withdrawal with other inputs", func(r *rig) reply {
		return r.post("/api/Loan/make-withdrawal-invoice/"+r.withdrawing().ID, `{"calculation":`+
			strings.Replace(invoice, `"terms":6`, `"terms":7`, 1)+`}`)
	}, bad, "CalculationMismatch", nil},
	{"withdrawal above the balance", func(r *rig) reply {
		loan := r.withdrawing()
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.AvailableBalance = 2499_99 })
		return r.post("/api/Loan/make-withdrawal-invoice/"+loan.ID, `{"calculation":`+invoice+`}`)
	}, bad, "InsufficientBalance", nil},
	{"line of credit above the balance", func(r *rig) reply {
		return r.post("/api/Loan/make-withdrawal-line-of-credit/"+r.borrowed().ID, `{"amount":1000000}`)
	}, bad, "InsufficientBalance", nil},
	{"withdrawal from a disabled loan", func(r *rig) reply {
		loan := r.withdrawing()
		r.SetLoanEnabled(loan.ID, false)
		return r.post("/api/Loan/make-withdrawal-invoice/"+loan.ID, `{"calculation":`+invoice+`}`)
	}, bad, "LoanDisabled", nil},
	{"withdrawal from a closed loan", func(r *rig) reply {
		loan := r.withdrawing()
		r.CloseLoan(loan.ID)
		return confirm(r, loan, "2500", "0.8", r.OTP(loan.ID))
	}, bad, "LoanClosed", nil},
	{"confirming with nothing", func(r *rig) reply {
		return r.post("/api/Loan/confirm-withdrawal-invoice/"+r.withdrawing().ID, `{}`)
	}, bad, invalid, []string{"amount Required", "advanceRate Required", "dateUTC Required", "otp Required"}},
	{"confirming another amount", func(r *rig) reply {
		loan := r.withdrawing()
		return confirm(r, loan, "2500.01", "0.8", r.OTP(loan.ID))
	}, bad, "AmountMismatch", nil},
	{"confirming another rate", func(r *rig) reply {
		loan := r.withdrawing()
		return confirm(r, loan, "2500", "0.81", r.OTP(loan.ID))
	}, bad, "AdvanceRateMismatch", nil},
	{"confirming above what the balance has become", func(r *rig) reply {
		loan := r.withdrawing()
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.AvailableBalance = 2499_99 })
		return confirm(r, loan, "2500", "0.8", r.OTP(loan.ID))
	}, bad, "InsufficientBalance", nil},
	{
		"wrong one-time password", func(r *rig) reply { return confirm(r, r.withdrawing(), "2500", "0.8", "nothing") },
		bad, "InvalidOtp", nil,
	},
	{"old one-time password", func(r *rig) reply {
		loan := r.withdrawing()
		old := r.OTP(loan.ID)
		r.post("/api/Loan/resend-withdrawal-otp/"+loan.ID, "").ok()
		return confirm(r, loan, "2500", "0.8", old)
	}, bad, "InvalidOtp", nil},
	{"one-time password expired", func(r *rig) reply {
		loan := r.withdrawing()
		r.Advance(5 * time.Minute)
		return confirm(r, loan, "2500", "0.8", r.OTP(loan.ID))
	}, bad, "InvalidOtp", nil},
	{"confirming a line of credit", func(r *rig) reply {
		loan := r.withdrawing()
		r.post("/api/Loan/make-withdrawal-line-of-credit/"+loan.ID, `{"amount":2500}`).ok()
		return confirm(r, loan, "2500", "0.8", r.OTP(loan.ID))
	}, bad, "NoPendingWithdrawal", nil},
	{
		"resend for nothing", func(r *rig) reply { return r.post("/api/Loan/resend-withdrawal-otp/"+r.borrowed().ID, "") },
		bad, "NoPendingWithdrawal", nil,
	},
	{"calculation of nothing", func(r *rig) reply {
		return r.post("/api/Calculation/application-loc-calculation?applicationId="+r.application(),
			`{"amount":0,"percentOfIncome":101,"terms":-1}`)
	}, bad, invalid, []string{"amount InvalidAmount", "percentOfIncome InvalidPercentage", "terms InvalidTerms"}},
	{"calculation amount as a string", func(r *rig) reply {
		return r.post("/api/Calculation/application-loc-calculation?applicationId="+r.application(), `{"amount":"5"}`)
	}, bad, invalid, []string{"$.amount InvalidType"}},
	{
		"calculation for no application",
		func(r *rig) reply { return r.post("/api/Calculation/application-loc-calculation", invoice) }, bad, invalid,
		[]string{"applicationId InvalidGuid"},
	},

	// Webhooks.
	{"no target", func(r *rig) reply { return r.get("/api/Webhook/get-subscription") }, bad, "TargetRequired", nil},
	{"two targets", func(r *rig) reply {
		return r.get("/api/Webhook/get-subscription?partnerId=" + lendingtest.PartnerID + "&customerId=" + r.customer())
	}, bad, "TargetRequired", nil},
	{
		"target without an identifier", func(r *rig) reply { return r.get("/api/Webhook/get-subscription?partnerId=7") },
		bad, invalid, []string{"partnerId InvalidGuid"},
	},
	{
		"target of others", func(r *rig) reply { return r.get("/api/Webhook/get-subscription?partnerId=" + unknownID) },
		403, "Forbidden", nil,
	},
	{
		"unknown customer as target",
		func(r *rig) reply { return r.get("/api/Webhook/get-subscription?customerId=" + unknownID) }, 404,
		"CustomerNotFound", nil,
	},
	{"receiver without https", func(r *rig) reply {
		return r.post("/api/Webhook/register"+mine, `{"webhookUri":"http://127.0.0.1/","webhooks":["WB_Nothing"]}`)
	}, bad, invalid, []string{"webhookUri InvalidUri", "webhooks[0] UnknownEvent"}},
	{"new receiver without https", func(r *rig) reply {
		return r.post("/api/Webhook/update-webhook-uri"+mine+"&webhookUri=http://a.example/", "")
	}, bad, invalid, []string{"webhookUri InvalidUri"}},
	{"new receiver for nothing", func(r *rig) reply {
		return r.post("/api/Webhook/update-webhook-uri"+mine+"&webhookUri=https://a.example/", "")
	}, bad, "SubscriptionNotFound", nil},
	{
		"simulation of no event", func(r *rig) reply { return r.post("/api/Webhook/generate-simulated-webhook"+mine, "") },
		bad, invalid,
		[]string{"eventName Required"},
	},
	{"simulation of an unknown event", func(r *rig) reply {
		r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://a.example/"})
		return r.post("/api/Webhook/generate-simulated-webhook"+mine+"&eventName=WB_Nothing", "")
	}, bad, "UnknownEvent", nil},
	{"simulation beyond the subset", func(r *rig) reply {
		r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://a.example/"})
		return r.post("/api/Webhook/generate-simulated-webhook"+mine+"&eventName=WB_Send_Otp", "")
	}, bad, "SimulationNotSupported", nil},
	{"simulation of an event not subscribed", func(r *rig) reply {
		r.AddSubscription(lendingtest.Subscription{
			WebhookURI: "https://a.example/",
			Webhooks:   []string{"WB_Loan_Closed"},
		})
		return r.post("/api/Webhook/generate-simulated-webhook"+mine+"&eventName=WB_Loan_Created", "")
	}, bad, "EventNotSubscribed", nil},

	// Bulk.
	{"bulk customers", func(r *rig) reply {
		return r.post("/api/ApplicationBulk/create-customers", `[`+ann+`,`+ann+`,`+
			strings.Replace(ann, "ann@example.com", "x", 1)+`]`)
	}, bad, invalid, []string{"[1].email DuplicateEmail", "[2].email InvalidEmail"}},
	{"bulk applications", func(r *rig) reply {
		return r.post("/api/ApplicationBulk/create-applications", `[{"customerId":"`+r.customer()+
			`"},{"extraInformation":{"years":"-1"}}]`)
	}, bad, invalid, []string{"[1].extraInformation.years InvalidYears", "[1].customerId InvalidGuid"}},
	{
		"bulk of an object", func(r *rig) reply { return r.post("/api/ApplicationBulk/create-applications", `{}`) }, bad,
		invalid,
		[]string{"$ InvalidType"},
	},
}

const mine = "?partnerId=" + lendingtest.PartnerID

func statement(r *rig) string {
	return "/api/Application/submit-bankstatement-document/" + r.application() + "?fileName=may.pdf"
}

func confirm(r *rig, loan lendingtest.Loan, amount, rate, otp string) reply {
	return r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, confirmation(amount, rate, otp))
}

// A refusal is answered as documented, is not counted as executed, and leaves
// the state alone.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			test.do(r).refused(test.status, test.code, test.fields...)
			requests := r.Requests()
			last := requests[len(requests)-1]
			require.Equal(t, test.status, last.Status)
			if last.Route != "" {
				done := 0
				for _, e := range requests {
					if e.Route == last.Route && e.Status == http.StatusOK {
						done++
					}
				}
				require.Equal(t, done, r.Executed(last.Route))
			}
		})
	}
}
