package openapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const partner = "partnerId=" + lendingtest.PartnerID

// TestEveryRouteIsDescribed calls every route, in every broken form and in a valid form, and
// compares requests and responses with the description.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := newSuite(t)
	s.signIn()
	secret := s.subscribe()
	s.createEverything()
	customer := s.customer("ada")
	application := decode[string](s, s.ok("createApplication", "sendLink=true", s.application(customer)))
	s.apply(application, customer)
	s.approve(application)
	loan := s.member(s.ok("getCustomerLoans", "customerId="+customer, ""), "id")
	s.draw(application, loan)
	s.readLoan(loan)
	s.deliveries(secret)
	s.ok("unregister", partner, `{"webhookUri":"`+s.receiver+`"}`)

	for id, op := range s.operations {
		assert.Positive(t, s.done[id], "%s was never exercised", op.route())
	}
	for _, more := range []string{problemType, noContent, mediaType} {
		assert.Positive(t, s.beyond[more], "the fake no longer departs: %s", more)
	}
	if s.prism != nil {
		t.Logf("Prism judged %d exchanges", s.prism.judged)
		assert.Greater(t, s.prism.judged, 10*len(s.operations))
	}
}

// The description, the service and testdata/routes.tsv have the same routes.
func TestSameRoutes(t *testing.T) {
	_, operations := load(t)
	var described, ledger []string
	for _, op := range operations {
		described = append(described, op.route())
	}
	require.Len(t, described, 69)
	service := lendingtest.New()
	defer service.Close()
	assert.ElementsMatch(t, described, service.Routes())

	rows, err := os.ReadFile("../../testdata/routes.tsv")
	require.NoError(t, err)
	for row := range strings.Lines(string(rows)) {
		columns := strings.Split(row, "\t")
		ledger = append(ledger, columns[1]+" "+columns[2])
	}
	assert.ElementsMatch(t, described, ledger[1:])
}

func (s *suite) signIn() {
	s.Helper()
	name := `"username":"` + lendingtest.Username + `"`
	answer := s.ok("login", "", `{`+name+`,"password":"`+lendingtest.Password+`","ipAddress":"192.0.2.1"}`)
	require.Contains(s, answer, `"requiresTwoFactor":true`)
	require.Contains(s, answer, `"token":""`)
	answer = s.ok("validateTwoFactor", "", `{`+name+`,"code":"`+s.service.TwoFactorCode(lendingtest.Username)+`"}`)
	require.NotEmpty(s, s.member(answer, "token"))
	s.token = decode[string](s, s.ok("refreshToken", "", ""))
	answer = s.ok("login", "", `{`+name+`,"password":"`+lendingtest.Password+`","trustedDeviceToken":"`+
		lendingtest.TrustedDeviceToken+`"}`)
	require.NotEmpty(s, s.member(answer, "token"))
}

// customer creates a customer with each of the four content types.
func (s *suite) customer(name string) (id string) {
	s.Helper()
	for i, kind := range []string{
		"application/json", "application/json-patch+json", "text/json",
		"application/*+json",
	} {
		x := s.request("createCustomer", "", s.user(fmt.Sprint(name, i)))
		x.declared, x.contentType = kind, strings.Replace(kind, "*", "vnd.partner", 1)+"; charset=utf-8"
		id = s.member(s.send(x), "id")
	}
	return id
}

func (s *suite) user(name string) string {
	return `{"firstName":"Ada","lastName":"Lovelace","email":"` + name +
		`@example.com","password":"Analytical-1","mobileNumber":"(415) 555-0100"}`
}

func (s *suite) application(customer string) string {
	return `{"customerId":"` + customer + `","businessName":"Lovelace Analytics","businessZip":"94105",` +
		`"extraInformation":{"years":"7"},"partnerId":"` + lendingtest.PartnerID + `","agentId":"` + unknownID + `"}`
}

func (s *suite) createEverything() {
	s.Helper()
	customer := s.member(s.ok("createCustomer", "", s.user("create")), "id")
	s.ok("createCustomers", "", "["+s.user("bulk1")+","+s.user("bulk2")+"]")
	s.ok("createApplications", "", "["+s.application(customer)+","+s.application(customer)+"]")
	zip := `{"customerId":"` + customer + `","extraInformation":{"zipcode":"94105"}`
	withApplicant := zip + `,"applicant":{"firstName":"Ada"}}`
	other := decode[string](s, s.ok("createApplicationAndApplicant", "sendLink=false", withApplicant))
	both := strings.TrimSuffix(s.user("both"), "}") + `,"businessZip":"94105"}`
	s.ok("createCustomerAndApplication", "sendLink=false", both)
	s.ok("createCustomerAndApplicationAndApplicant", "sendLink=true", strings.ReplaceAll(both, "both@", "three@"))
	s.ok("sendApplicationLink", "applicationId="+other, "")
	s.ok("cancelApplication", "applicationId="+other, "")
	s.ok("getCustomerByEmail", "email=create@example.com", "")
	nobody := s.request("getCustomerByEmail", "email=nobody@example.com", "")
	nobody.want = []int{204}
	s.send(nobody)
	s.ok("getCustomerById", "customerId="+customer, "")
}

const bankData = `{"accounts":[{"accountNumber":"1","balance":"48210.55","transactions":[{"date":"2026-08-03",` +
	`"description":"Invoice","amount":"12500.00"}]}]}`

func (s *suite) apply(application, customer string) {
	s.Helper()
	id := "applicationId=" + application
	require.Equal(s, "false", s.ok("quickTest", id, ""), "an optional body may be left out")
	require.Equal(s, "true", s.ok("quickTest", id, bankData))
	s.ok("addOrUpdateBankingData", id+"&bankName=First", bankData)
	offer := decode[string](s, s.ok("processApplication", id, ""))
	s.ok("applicationStatus", id, "")
	require.Contains(s, s.ok("applicationOffer", id+"&force=false", ""), offer)
	s.ok("getCustomerApplications", "customerId="+customer, "")
	s.ok("getPartnerApplications", partner+"&skip=0&take=2147483647", "")
	s.ok("getApplication", id, "")
	require.Equal(s, "true", s.ok("updateApplicationName", id+"&name=Lovelace", ""))
	require.Equal(s, "true", s.ok("updateApplicationNameAndZipCode", id+"&name=Lovelace&zipCode=94107", ""))
	s.ok("updateCustomerData", id+
		"&firstname=Ada&lastname=King&address=1+Main+St&state=CA&city=SF&ssn=123-45-6789&mobile=4155550100&"+
		"dateOfBirth=1985-12-10T00:00:00Z", "")
	s.ok("updateApplicationData", id+"&name=Lovelace&zipcode=94107&startDate=2019-01-01T00:00:00Z", "")
	s.ok("submitBankstatementDocument", id+"&fileName=june.pdf", file("statement"))
	s.ok("postMessages", id, `{"message":"Hello"}`)
	s.ok("getAllMessages", id+"&skip=0&take=10", "")
}

func file(content string) string {
	return `"` + base64.StdEncoding.EncodeToString([]byte(content)) + `"`
}

const signatures = `{"ipAddress":"192.0.2.1","mimeType":"image/png","signature":"aW1hZ2U=","signature2":"aW1hZ2U="}`

func (s *suite) approve(application string) {
	s.Helper()
	id := "applicationId=" + application
	none := s.request("getPrimaryBankAccount", id, "")
	none.want = []int{204}
	s.send(none)
	s.ok("addCompanyDetails", id, `{"name":"Lovelace"}`)
	s.ok("addPrimaryApplicantDetails", id, `{"firstName":"Ada"}`)
	s.ok("addSecondaryApplicantDetails", id, `{"firstName":"Charles"}`)
	s.ok("getAllBankAccounts", id, "")
	s.ok("setPrimaryBankAccount", id+"&id=account-1", "")
	s.ok("getPrimaryBankAccount", id, "")
	requirement := s.member(s.ok("getRequiredDocuments", id, ""), "supportingDocumentId")
	s.ok("submitRequiredDocument", id+"&fileType=VoidedCheck&fileName=check.pdf&supportingDocumentId="+requirement,
		file("check"))
	s.ok("submitDocument", id+"&fileType=Other&fileName=note.pdf", file("note"))
	s.ok("getContracts", id, "")
	s.ok("getContractDetails", id, "")
	for _, applicant := range decode[[]struct{ ID string }](s, s.ok("getAllApplicants", id, "")) {
		s.ok("signContract", id+"&applicantId="+applicant.ID, signatures)
	}
}

const calculation = `{"amount":2500.5,"percentOfIncome":10,"terms":6,"fixedRepaymentCalculation":true}`

func (s *suite) draw(application, loan string) {
	s.Helper()
	id := "loanId=" + loan
	s.ok("applicationLocCalculationSlider", "applicationId="+application, `{"amount":1000}`)
	s.ok("applicationLocCalculation", "applicationId="+application, calculation)
	s.ok("applicationLocCalculation", "applicationId="+application, "")
	s.ok("applicationInvoiceCalculation", "applicationId="+application, calculation)
	s.ok("makeWithdrawalLineOfCredit", id, `{"amount":100}`)
	s.ok("makeWithdrawalInvoice", id, `{"calculation":`+calculation+`}`)
	first := s.service.OTP(loan)
	resent := s.ok("resendWithdrawalOtp", id, "")
	require.NotContains(s, resent, first)
	require.NotContains(s, resent, s.service.OTP(loan), "a UUID string, not the OTP")
	s.ok("confirmWithdrawalInvoice", id, confirmation("2500.5", "0.8", s.service.OTP(loan)))
}

// All names except dateUTC are those of the record.
func confirmation(amount, rate, otp string) string {
	return `{"amount":` + amount + `,"advanceRate":` + rate + `,"dateUTC":"2026-11-20T00:00:00Z","otp":"` + otp + `"}`
}

func (s *suite) readLoan(loan string) {
	s.Helper()
	id := "loanId=" + loan
	s.ok("getLoan", id, "")
	s.ok("getTransactions", id+"&skip=0&take=10", "")
	require.Contains(s, s.ok("getTransactionsPaged", id+"&skip=0&take=10&descending=true", ""), `"totalCount":1`)
	require.Contains(s, s.ok("getWithdrawals", id+"&skip=0&take=10&descending=false", ""), `"totalCount":1`)
	s.ok("getContractDocuments", id, "")
	s.ok("getTotalBalance", id, "")
	s.ok("getRepaymentBalances", id, "")
	require.Equal(s, "true", s.ok("isLoanEnabled", id, ""))
	require.Equal(s, "false", s.ok("isLoanClosed", id, ""))
	s.ok("getEarlyRepayment", id, "")
}

// subscribe registers a receiver of all events and returns the secret of its deliveries.
func (s *suite) subscribe() (secret string) {
	s.Helper()
	nothing := s.request("getSubscription", partner, "")
	nothing.want = []int{204}
	s.send(nothing)
	s.ok("register", partner, `{"webhookUri":"`+s.receiver+`","isActive":true,"webhooks":["WB_Application_Created"]}`)
	s.ok("register", partner, `{"webhookUri":"`+s.receiver+`"}`)
	secret = s.member(s.ok("getSubscription", partner, ""), "secret")
	s.ok("updateAll", partner, "")
	s.ok("updateWebhookUri", partner+"&webhookUri="+s.receiver+"/hooks", "")
	s.ok("generateSimulatedWebhook", partner+"&eventName=WB_Application_Created", "")
	s.ok("handler", "", `{"any":"thing"}`)
	s.ok("getRegisteredWebhooks", partner, "")
	administrators := s.request("getAllSubscriptions", "", "")
	administrators.want = []int{403}
	s.send(administrators)
	s.token = s.service.Token(lendingtest.AdministratorUsername)
	s.ok("getAllSubscriptions", "", "")
	s.token = s.service.Token(lendingtest.Username)
	require.Equal(s, secret, s.member(s.ok("getSubscription", partner, ""), "secret"),
		"registering again does not rotate it")
	return secret
}

// deliveries compares the delivered events with the callback of the description.
func (s *suite) deliveries(secret string) {
	s.Helper()
	require.NoError(s, s.service.Wait(s.Context()))
	event := slices.Collect(maps.Values(s.doc.Components.Callbacks["event"].Value.Map()))[0].Post
	envelope := event.RequestBody.Value.Content["application/json"].Schema.Value
	signature := event.Parameters[0].Value
	require.Equal(s, "abp-webhook-signature", signature.Name)
	all, events := s.service.Deliveries(), map[string]bool{}
	for _, d := range all {
		require.NoError(s, d.Err)
		events[d.Event] = true
		value := decode[any](s, string(d.Body))
		require.NoError(s, envelope.VisitJSON(value), "%s", d.Body)
		require.Empty(s, missing(envelope, value, ""))
		require.NoError(s, signature.Schema.Value.VisitJSON(d.Signature))
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(d.Body)
		assert.Equal(s, hex.EncodeToString(mac.Sum(nil)),
			strings.ToLower(strings.NewReplacer("sha256=", "", "-", "").Replace(d.Signature)))
	}
	assert.Greater(s, len(events), 10, "the journey makes the fake post many kinds of events")
}
