package openapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

// What the interface refuses for a reason of its own, beside the broken forms that every
// route has. "stated" marks the rules that the description can state, and does: there the
// request has to fail against it, too.
const (
	stated   = true
	inWords  = false // the description has no means to state it but prose
	tooLarge = 15<<20 + 1
)

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"customers", (*suite).refuseCustomers},
		{"applications", (*suite).refuseApplications},
		{"sign-in", (*suite).refuseSignIn},
		{"bank data and processing", (*suite).refuseProcessing},
		{"documents and signatures", (*suite).refuseDocuments},
		{"withdrawals", (*suite).refuseWithdrawals},
		{"webhooks", (*suite).refuseWebhooks},
		{"other partners and administrators", (*suite).refuseStrangers},
		{"the legacy login", (*suite).refuseLegacyLogin},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newSuite(t)) })
	}
}

func (s *suite) refuseCustomers() {
	fine := s.user("new")
	for _, test := range []struct{ old, wrong string }{
		{`"Ada"`, `"` + strings.Repeat("a", 51) + `"`}, // max 50 characters
		{`"Lovelace"`, `"` + strings.Repeat("l", 51) + `"`},
		{"new@example.com", "no address"}, // valid e-mail format
		{`"new@`, `"` + strings.Repeat("n", 40) + "@"},
		{`"(415) 555-0100"`, `"415555010"`}, // exactly ten digits
		{`(415) 555-0100"`, `1 (415) 555-0100"`},
		{`"(415) 555-0100"}`, `4155550100}`}, // a string
	} {
		broken := strings.Replace(fine, test.old, test.wrong, 1)
		require.NotEqual(s, fine, broken)
		s.refused("createCustomer", "", broken, stated)
		s.refused("createCustomers", "", "["+s.user("other")+","+broken+"]", stated)
		s.refused("createCustomerAndApplication", "", broken, inWords) // its fields are not shown
	}
	weak := strings.Replace(fine, "Analytical-1", "1", 1) // "must satisfy password rules of the service", not shown
	s.refused("createCustomer", "", weak, inWords)
	require.Empty(s, s.service.Snapshot().Customers)
	s.ok("createCustomer", "", strings.Replace(fine, `"Ada"`, `"`+strings.Repeat("a", 50)+`"`, 1))
}

func (s *suite) refuseApplications() {
	customer := s.service.AddCustomer(lendingtest.Customer{}).ID
	fine := s.application(customer)
	for _, change := range []struct {
		old, wrong string
		rule       bool
	}{
		{`"years":"7"`, `"years":"100"`, stated},
		{`"years":"7"`, `"years":"seven"`, stated},
		{`"years":"7"`, `"years":7`, stated},
		{`"years":"7"`, `"years":"7","zipcode":"94105"`, stated},
		{`"years":"7"`, `"else":{"a":"b"}`, stated},
		{lendingtest.PartnerID, "00000000-0000-0000-0000-000000000000", stated},
		{lendingtest.PartnerID, unknownID, inWords},
		{`"agentId":"` + unknownID, `"agentId":"00000000-0000-0000-0000-000000000000`, stated},
		{customer, "no-uuid", stated},
		{customer, unknownID, inWords},
	} {
		broken := strings.Replace(fine, change.old, change.wrong, 1)
		require.NotEqual(s, fine, broken)
		s.refused("createApplication", "", broken, change.rule)
		s.refused("createApplications", "", "["+fine+","+broken+"]", change.rule)
		s.refused("createApplicationAndApplicant", "", broken, inWords)
	}
	require.Empty(s, s.service.Snapshot().Applications)
	for _, years := range []string{"0", "99"} {
		s.ok("createApplication", "", strings.Replace(fine, `"years":"7"`, `"years":"`+years+`"`, 1))
	}
	// an empty zip code is none
	s.ok("createApplication", "", strings.NewReplacer(`"94105"`, `""`, `"years":"7"`,
		`"zipcode":"94105"`).Replace(fine))
}

func (s *suite) refuseSignIn() {
	name := `"username":"` + lendingtest.Username + `"`
	s.refused("login", "", `{`+name+`}`, stated)
	s.refused("login", "", `{`+name+`,"password":""}`, inWords)
	s.refused("login", "", `{`+name+`,"password":"wrong"}`, inWords)
	s.refused("validateTwoFactor", "", `{`+name+`}`, stated)
	s.refused("validateTwoFactor", "", `{`+name+`,"code":"000000"}`, inWords)
	s.service.RevokeTokens()
	x := s.request("refreshToken", "", "")
	x.want = []int{http.StatusUnauthorized}
	s.send(x)
}

func (s *suite) refuseProcessing() {
	id := "applicationId=" + s.service.AddApplication(lendingtest.Application{}).ID
	s.refused("processApplication", id, "", inWords)
	s.refused("applicationOffer", id, "", inWords)
	s.refused("addOrUpdateBankingData", id, `{"accounts":[]}`, inWords) // "at least one bank account"
	for _, number := range []string{`"48210.55"`, `"12500.00"`} {       // "strings"
		s.refused("addOrUpdateBankingData", id, strings.Replace(bankData, number, strings.Trim(number, `"`), 1),
			inWords)
	}
	s.ok("addOrUpdateBankingData", id, `{"accounts":[{"accountNumber":"1","balance":"1.00","transactions":[]}]}`)
	// "an empty transaction array does not establish enough information"
	s.refused("processApplication", id, "", inWords)
	s.ok("cancelApplication", id, "")
	s.refused("addOrUpdateBankingData", id, bankData, inWords)
}

func (s *suite) refuseDocuments() {
	application := s.service.AddApplication(lendingtest.Application{}).ID
	id, named := "applicationId="+application, "&fileType=VoidedCheck&fileName=a.pdf"
	s.ok("addOrUpdateBankingData", id, bankData)
	s.ok("processApplication", id, "")
	requirement := "&supportingDocumentId=" + s.member(s.ok("getRequiredDocuments", id, ""), "supportingDocumentId")
	s.refused("submitRequiredDocument", id+named+"&supportingDocumentId="+unknownID, file("a"), inWords)
	s.ok("addCompanyDetails", id, `{}`)
	s.ok("addPrimaryApplicantDetails", id, `{}`)
	s.ok("setPrimaryBankAccount", id+"&id=account-1", "")
	signer := id + "&applicantId=" + s.member(s.ok("getAllApplicants", id, ""), "id")
	for _, empty := range []string{
		``, `{"mimeType":"image/png"}`,
		strings.Replace(signatures, `"signature":"aW1hZ2U="`, `"signature":""`, 1),
		strings.Replace(signatures, `"signature2":"aW1hZ2U="`, `"signature2":""`, 1),
	} {
		s.refused("signContract", signer, empty, empty != "") // the body is declared optional
	}
	s.refused("signContract", id+"&applicantId="+unknownID, signatures, inWords)

	uploads := map[string]string{
		"submitBankstatementDocument": id + "&fileName=a.pdf", "submitDocument": id + named,
		"submitRequiredDocument": id + named + requirement,
	}
	largest, larger := file(strings.Repeat("a", tooLarge-1)), file(strings.Repeat("a", tooLarge))
	for upload, params := range uploads {
		if s.prism == nil { // which passes on no such size
			s.send(s.request(upload, params, largest))
			x := s.request(upload, params, larger)
			x.want, x.broken = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, stated
			s.send(x)
		}
		s.refused(upload, params, `"`+base64.URLEncoding.EncodeToString([]byte{0xff, 0xff, 0xff})+`"`, stated)
	}
	s.service.ExpireOffer(application)
	// "requires only that the application exists"
	s.send(s.request("submitBankstatementDocument", uploads["submitBankstatementDocument"], file("a")))
	delete(uploads, "submitBankstatementDocument")
	for upload, params := range uploads {
		s.refused(upload, params, file("a"), inWords)
	}
	s.refused("signContract", signer, signatures, inWords)
}

func (s *suite) refuseWithdrawals() {
	loan := s.service.AddLoan(lendingtest.Loan{})
	id, application := "loanId="+loan.ID, "applicationId="+loan.ApplicationID
	start := `{"calculation":` + calculation + `}`
	s.refused("makeWithdrawalInvoice", id, start, inWords) // nothing is stored yet
	s.ok("applicationInvoiceCalculation", application, calculation)
	s.refused("makeWithdrawalInvoice", id, calculation, stated) // one property
	s.refused("makeWithdrawalInvoice", id, strings.Replace(start, "}}", `},"amount":2500.5}`, 1), stated)
	s.refused("makeWithdrawalInvoice", id, strings.Replace(start, "2500.5", `"2500.5"`, 1), stated)
	for _, other := range []string{"2500.5/1", "10/11", "6/7", "true/false"} { // "the same amount and inputs"
		old, changed, _ := strings.Cut(other, "/")
		s.refused("makeWithdrawalInvoice", id, strings.Replace(start, old, changed, 1), inWords)
	}
	s.refused("resendWithdrawalOtp", id, "", inWords)
	s.refused("applicationLocCalculation", application, strings.Replace(calculation, ":6", ":6.5", 1), stated)
	s.ok("makeWithdrawalInvoice", id, start)
	otp := s.service.OTP(loan.ID)
	for _, broken := range []string{
		confirmation("2500.5", "0.8", "wrong"), confirmation("1", "0.8", otp), confirmation("2500.5", "0.9", otp),
	} {
		s.refused("confirmWithdrawalInvoice", id, broken, inWords)
	}
	s.refused("confirmWithdrawalInvoice", id, start, stated) // "not the nested calculation"
	much := strings.Replace(calculation, "2500.5", "10000.01", 1)
	s.ok("applicationInvoiceCalculation", application, much)
	s.refused("makeWithdrawalInvoice", id, `{"calculation":`+much+`}`, inWords) // the available balance
	s.refused("makeWithdrawalLineOfCredit", id, `{"amount":10000.01}`, inWords)
	s.service.CloseLoan(loan.ID)
	s.refused("makeWithdrawalInvoice", id, start, inWords)
	require.Equal(s, "true", s.send(s.request("isLoanClosed", id, "")))
}

func (s *suite) refuseWebhooks() {
	s.refused("generateSimulatedWebhook", partner+"&eventName=WB_Application_Created", "", inWords)
	s.refused("updateWebhookUri", partner+"&webhookUri="+s.receiver, "", inWords)
	require.Empty(s, s.service.Snapshot().Subscriptions, "it does not create one")
	s.refused("register", partner, `{"webhookUri":"http://example.com"}`, stated)
	s.refused("register", partner, `{"webhookUri":"`+s.receiver+`","webhooks":["WB_Nothing"]}`, stated)
	s.ok("register", partner, `{"webhookUri":"`+s.receiver+`","webhooks":["WB_Application_Created","WB_Send_Sms"]}`)
	// unsupported, not subscribed, not simulated
	for _, event := range []string{"WB_Nothing", "WB_Loan_Created", "WB_Send_Sms"} {
		s.refused("generateSimulatedWebhook", partner+"&eventName="+event, "", inWords)
	}
	s.refused("updateWebhookUri", partner+"&webhookUri=http://example.com", "", stated)

	// A subscription for a customer, seeded without a list of events: still an array.
	customer := s.service.AddCustomer(lendingtest.Customer{}).ID
	s.service.AddSubscription(lendingtest.Subscription{CustomerID: customer, WebhookURI: s.receiver})
	s.ok("getSubscription", "customerId="+customer, "")
	s.okAs(lendingtest.AdministratorUsername, "getAllSubscriptions", "", "")
	var names []string
	require.NoError(s, json.Unmarshal([]byte(s.ok("getRegisteredWebhooks", "customerId="+customer, "")), &names))
	require.Len(s, names, 22, "omitted means all")
	for _, name := range names {
		require.NoError(s, s.doc.Components.Schemas["WebhookEvent"].Value.VisitJSON(name))
	}
}

func (s *suite) refuseStrangers() {
	for _, test := range []struct{ id, params string }{
		{"getAllSubscriptions", ""},
		{"getPartnerApplications", "partnerId=" + unknownID},
		{"getSubscription", "partnerId=" + unknownID},
	} {
		x := s.request(test.id, test.params, "")
		x.want = []int{http.StatusForbidden}
		s.send(x)
	}
}

// "A legacy GET login is deprecated and environment-dependent": here there is none.
func (s *suite) refuseLegacyLogin() {
	x := s.request("login", "", "")
	x.method, x.Operation, x.want = http.MethodGet, bodiless(x.Operation), []int{http.StatusNotFound}
	s.send(x)
}

// "take cap 200" on loan and communication lists, none on partner applications; the paged
// lists tell the total.
func TestPages(t *testing.T) {
	s := newSuite(t)
	loan := s.service.AddLoan(lendingtest.Loan{})
	s.service.AddTransactions(loan.ID, make([]lendingtest.Transaction, 250)...)
	s.service.AddWithdrawals(loan.ID, make([]lendingtest.Withdrawal, 250)...)
	s.service.AddMessages(loan.ApplicationID, make([]lendingtest.Message, 250)...)
	for range 250 {
		s.service.AddApplication(lendingtest.Application{CustomerID: loan.CustomerID})
	}
	for _, test := range []struct {
		id, params string
		size       int
	}{
		{"getTransactions", "loanId=" + loan.ID, 200},
		{"getAllMessages", "applicationId=" + loan.ApplicationID, 200},
		{"getPartnerApplications", partner, 251},
	} {
		t.Run(test.id, func(t *testing.T) {
			for _, tt := range []struct {
				query string
				want  int
			}{
				{"", test.size},
				{"&take=250", min(test.size, 250)},
				{"&skip=240&take=10", 10},
				{"&skip=9999", 0},
			} {
				var all []struct{}
				require.NoError(t, json.Unmarshal([]byte(s.send(s.request(test.id, test.params+tt.query, ""))), &all))
				require.Len(t, all, tt.want, "%s%s", test.id, tt.query)
			}
		})
	}
	for _, id := range []string{"getTransactionsPaged", "getWithdrawals"} {
		t.Run(id, func(t *testing.T) {
			for _, test := range []struct {
				query string
				want  int
			}{
				{"", 200},
				{"&take=250&descending=true", 200},
				{"&skip=240&take=20", 10},
				{"&skip=9999", 0},
			} {
				var page struct {
					Data       []struct{}
					TotalCount int
				}
				require.NoError(t, json.Unmarshal([]byte(s.send(s.request(id, "loanId="+loan.ID+test.query, ""))),
					&page))
				require.Len(t, page.Data, test.want, "%s%s", id, test.query)
				require.Equal(t, 250, page.TotalCount)
			}
		})
	}
}
