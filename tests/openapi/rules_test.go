package openapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

// The description states these rules beside the forms of breakIt, and the service refuses the same
// requests. The tests of lendingtest hold the rules that a description can only give in prose.
func TestRulesOfRecordsAreStated(t *testing.T) {
	s := newSuite(t)
	customer := s.service.AddCustomer(lendingtest.Customer{}).ID
	loan := s.service.AddLoan(lendingtest.Loan{})
	ofLoan, application := "loanId="+loan.ID, "applicationId="+loan.ApplicationID
	s.ok("applicationInvoiceCalculation", application, calculation)
	withdrawal, confirm := `{"calculation":`+calculation+`}`, confirmation("2500.5", "0.8", "1")
	for _, test := range []struct{ id, params, fine, old, wrong string }{
		{"createCustomer", "", s.user("new"), `"(415) 555-0100"}`, `4155550100}`},
		{"createCustomers", "", "[" + s.user("new") + "]", `"Ada"`, `"` + strings.Repeat("a", 51) + `"`},
		{"createCustomers", "", "[" + s.user("new") + "]", "new@example.com", "no address"},
		{"createApplication", "", s.application(customer), `"years":"7"`, `"years":7`},
		{"createApplication", "", s.application(customer), `"years":"7"`, `"else":{"a":"b"}`},
		{"createApplication", "", s.application(customer), customer, "no-uuid"},
		{"createApplication", "", s.application(customer), lendingtest.PartnerID, zeroID},
		{"createApplication", "", s.application(customer), lendingtest.AgentID, zeroID},
		{"createApplications", "", "[" + s.application(customer) + "]", `"years":"7"`, `"years":"seven"`},
		{"login", "", `{"username":"a","password":"b"}`, `,"password":"b"`, ""},
		{"validateTwoFactor", "", `{"username":"a","code":"b"}`, `,"code":"b"`, ""},
		{"makeWithdrawalInvoice", ofLoan, withdrawal, withdrawal, calculation}, // a single property
		{"makeWithdrawalInvoice", ofLoan, withdrawal, "}}", `},"amount":2500.5}`},
		{"makeWithdrawalInvoice", ofLoan, withdrawal, "2500.5", `"2500.5"`},
		{"applicationLocCalculation", application, calculation, ":6", ":6.5"},
		{"confirmWithdrawalInvoice", ofLoan, confirm, confirm, withdrawal},
		{"register", partner, `{"webhookUri":"` + s.receiver + `"}`, "}", `,"webhooks":["WB_Nothing"]}`},
		{"updateWebhookUri", partner + "&webhookUri=http://example.com", "fine", "fine", ""},
	} {
		broken := strings.Replace(test.fine, test.old, test.wrong, 1)
		require.NotEqual(t, test.fine, broken)
		s.refused(test.id, test.params, broken)
	}
	require.Len(t, s.service.Snapshot().Customers, 2, "the customer, and the customer of the loan")
}

func TestRulesOfUploadsAreStated(t *testing.T) {
	s := newSuite(t)
	id := "applicationId=" + s.service.AddApplication(lendingtest.Application{}).ID
	named := id + "&fileType=VoidedCheck&fileName=a.pdf"
	s.ok("addOrUpdateBankingData", id, bankData)
	s.ok("processApplication", id, "")
	requirement := "&supportingDocumentId=" + s.member(s.ok("getRequiredDocuments", id, ""), "0.supportingDocumentId")
	for upload, params := range map[string]string{
		"submitBankstatementDocument": id + "&fileName=a.pdf", "submitDocument": named,
		"submitRequiredDocument": named + requirement,
	} {
		s.refused(upload, params, `"`+base64.URLEncoding.EncodeToString([]byte{0xff, 0xff, 0xff})+`"`)
		s.send(s.request(upload, params, file(strings.Repeat("a", 15<<20))))
		x := s.request(upload, params, file(strings.Repeat("a", 15<<20+1)))
		x.want, x.broken = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, true
		s.send(x)
	}
	s.ok("addCompanyDetails", id, `{}`)
	s.ok("addPrimaryApplicantDetails", id, `{}`)
	signer := id + "&applicantId=" + s.member(s.ok("getAllApplicants", id, ""), "0.id")
	for _, empty := range []string{"signature", "signature2"} {
		s.refused("signContract", signer, strings.Replace(signatures, `"`+empty+`":"aW1hZ2U="`, `"`+empty+`":""`, 1))
	}
	s.refused("signContract", signer, `{"mimeType":"image/png"}`)
}

// A subscription without a list of events has all events, and they are those of the description.
func TestEveryEventIsDescribed(t *testing.T) {
	s := newSuite(t)
	s.service.AddSubscription(lendingtest.Subscription{PartnerID: lendingtest.PartnerID, WebhookURI: s.receiver})
	names := decode[[]string](s, s.ok("getRegisteredWebhooks", partner, ""))
	require.Len(t, names, 22)
	for _, name := range names {
		require.NoError(t, s.doc.Components.Schemas["WebhookEvent"].Value.VisitJSON(name))
	}
}
