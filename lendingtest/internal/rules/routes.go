package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

type access int

const (
	bearer access = iota
	anonymous
	administrators
)

// Route is a row of the interface's tables.
type Route struct {
	Pattern string // method and path, as ServeMux and the interface write them
	handle  func(*Call) any
	access  access
}

// Method returns the method of a route.
func (rt *Route) Method() string {
	method, _, _ := strings.Cut(rt.Pattern, " ")
	return method
}

// Action returns the name of a route in its group, such as "get-loan".
func (rt *Route) Action() string {
	parts := strings.Split(rt.Pattern, "/")
	return parts[min(3, len(parts)-1)]
}

// on finds the record of a route before the rest of the handler runs.
func on[T any](find func(*Call) *T, then func(*Call, *T) any) func(*Call) any {
	return func(c *Call) any { return then(c, find(c)) }
}

// show answers with a record, or a part of it.
func show[T any](find func(*Call) *T, part func(*T) any) func(*Call) any {
	return func(c *Call) any { return part(find(c)) }
}

// Routes returns the interface's 69 routes in order.
func Routes() []Route { return routes }

// MustExist panics for an unknown route. Otherwise a test with a misspelled route would wait for ever for its fault.
func MustExist(route string) {
	if !slices.ContainsFunc(routes, func(rt Route) bool { return rt.Pattern == route }) {
		panic(fmt.Sprintf("lendingtest: no route %q; openapi.yaml lists all routes", route))
	}
}

var routes = []Route{
	{Pattern: "POST /api/Application/create-customer-and-application", handle: (*Call).createCustomerAndApplication},
	{Pattern: "POST /api/Application/send-application-link", handle: on((*Call).openApplication, (*Call).sendApplicationLink)},
	{Pattern: "POST /api/Application/create-customer-and-application-and-applicant", handle: (*Call).createCustomerAndApplication},
	{Pattern: "POST /api/Application/create-customer", handle: (*Call).createCustomer},
	{Pattern: "POST /api/Application/create-application", handle: (*Call).createApplication},
	{Pattern: "POST /api/Application/create-application-and-applicant", handle: (*Call).createApplication},
	{Pattern: "POST /api/Application/quick-test/{applicationId}", handle: on((*Call).openApplication, (*Call).quickTest)},
	{Pattern: "POST /api/Application/add-or-update-banking-data/{applicationId}", handle: on((*Call).openApplication, (*Call).addBankingData)},
	{Pattern: "GET /api/Application/process-application/{applicationId}", handle: on((*Call).applicationWithoutLoan, (*Call).process)},
	{Pattern: "GET /api/Application/application-status/{applicationId}", handle: show(lookUp[record.Application], func(a *record.Application) any { return a.Status })},
	{Pattern: "GET /api/Application/application-offer/{applicationId}", handle: on(lookUp[record.Application], (*Call).applicationOffer)},
	{Pattern: "GET /api/Application/get-customer-applications/{customerId}", handle: on(lookUp[record.Customer], (*Call).customerApplications)},
	{Pattern: "GET /api/Application/get-partner-applications/{partnerId}", handle: (*Call).partnerApplications},
	{Pattern: "GET /api/Application/get-application/{applicationId}", handle: show(lookUp[record.Application], plain.Wire)},
	{Pattern: "GET /api/Application/update-application-name/{applicationId}", handle: on((*Call).openApplication, (*Call).rename)},
	{Pattern: "GET /api/Application/update-application-name-and-zip-code/{applicationId}", handle: on((*Call).openApplication, (*Call).rename)},
	{Pattern: "GET /api/Application/update-customer-data/{applicationId}", handle: on((*Call).openApplication, (*Call).updateCustomerData)},
	{Pattern: "GET /api/Application/update-application-data/{applicationId}", handle: on((*Call).openApplication, (*Call).updateApplicationData)},
	{Pattern: "POST /api/Application/submit-bankstatement-document/{applicationId}", handle: upload("bank-statement")},
	{Pattern: "POST /api/Application/cancel-application/{applicationId}", handle: on((*Call).applicationWithoutLoan, (*Call).cancelApplication)},

	{Pattern: "POST /api/ApplicationApproval/add-company-details/{applicationId}", handle: on((*Call).approving, (*Call).addCompany)},
	{Pattern: "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}", handle: on((*Call).approving, (*Call).addPrimaryApplicant)},
	{Pattern: "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}", handle: on((*Call).approving, (*Call).addSecondaryApplicant)},
	{Pattern: "GET /api/ApplicationApproval/get-contracts/{applicationId}", handle: show(lookUp[record.Application], func(a *record.Application) any { return contracts(a) })},
	{Pattern: "GET /api/ApplicationApproval/get-contract-details/{applicationId}", handle: show(lookUp[record.Application], contractDetails)},
	{Pattern: "GET /api/ApplicationApproval/get-all-applicants/{applicationId}", handle: show(lookUp[record.Application], applicants)},
	{Pattern: "GET /api/ApplicationApproval/get-all-bank-accounts/{applicationId}", handle: show(lookUp[record.Application], func(a *record.Application) any { return list(a.Accounts) })},
	{Pattern: "GET /api/ApplicationApproval/get-primary-bank-account/{applicationId}", handle: show(lookUp[record.Application], primaryBankAccount)},
	{Pattern: "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}", handle: on((*Call).approving, (*Call).setPrimaryBankAccount)},
	{Pattern: "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}", handle: on((*Call).approving, (*Call).signContract)},
	{Pattern: "GET /api/ApplicationApproval/get-required-documents/{applicationId}", handle: show(lookUp[record.Application], func(a *record.Application) any { return list(a.Requirements) })},
	{Pattern: "POST /api/ApplicationApproval/submit-required-document/{applicationId}", handle: upload("required")},
	{Pattern: "POST /api/ApplicationApproval/submit-document/{applicationId}", handle: upload("supporting")},

	{Pattern: "POST /api/ApplicationBulk/create-customers", handle: (*Call).createCustomers},
	{Pattern: "POST /api/ApplicationBulk/create-applications", handle: (*Call).createApplications},

	{Pattern: "POST /api/Authenication/login", handle: (*Call).login, access: anonymous},
	{Pattern: "POST /api/Authenication/validate-two-factor", handle: (*Call).validateTwoFactor, access: anonymous},
	{Pattern: "POST /api/Authenication/refresh-token", handle: (*Call).refreshToken},

	{Pattern: "POST /api/Calculation/application-loc-calculation-slider", handle: on((*Call).openApplication, (*Call).calculationSlider)},
	{Pattern: "POST /api/Calculation/application-loc-calculation", handle: on((*Call).openApplication, func(c *Call, a *record.Application) any { return calculate(a, c.readCalculation(a)) })},
	{Pattern: "POST /api/Calculation/application-invoice-calculation", handle: on((*Call).openApplication, (*Call).invoiceCalculation)},

	{Pattern: "GET /api/Communication/get-all-messages/{applicationId}", handle: on(lookUp[record.Application], (*Call).messages)},
	{Pattern: "POST /api/Communication/post-messages/{applicationId}", handle: on(lookUp[record.Application], (*Call).postMessage)},

	{Pattern: "GET /api/Customer/get-customer-by-email", handle: (*Call).customerByEmail},
	{Pattern: "GET /api/Customer/get-customer-by-id/{customerId}", handle: show(lookUp[record.Customer], plain.Wire)},

	{Pattern: "GET /api/Loan/get-loan/{loanId}", handle: show(lookUp[record.Loan], plain.Wire)},
	{Pattern: "GET /api/Loan/get-customer-loans/{customerId}", handle: on(lookUp[record.Customer], (*Call).customerLoans)},
	{Pattern: "GET /api/Loan/get-transactions/{loanId}", handle: on(lookUp[record.Loan], func(c *Call, l *record.Loan) any { return page(c, l.Transactions, takeCap) })},
	{Pattern: "GET /api/Loan/get-transactions-paged/{loanId}", handle: on(lookUp[record.Loan], func(c *Call, l *record.Loan) any { return pageOf(c, l.Transactions) })},
	{Pattern: "GET /api/Loan/get-withdrawals/{loanId}", handle: on(lookUp[record.Loan], func(c *Call, l *record.Loan) any { return pageOf(c, l.Withdrawals) })},
	{Pattern: "GET /api/Loan/get-contract-documents/{loanId}", handle: on(lookUp[record.Loan], func(c *Call, l *record.Loan) any { return contracts(c.applicationOf(l)) })},
	{Pattern: "GET /api/Loan/get-total-balance/{loanId}", handle: show(lookUp[record.Loan], totalBalance)},
	{Pattern: "GET /api/Loan/get-repayment-balances/{loanId}", handle: show(lookUp[record.Loan], repaymentBalances)},
	{Pattern: "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", handle: on((*Call).drawable, (*Call).withdrawLineOfCredit)},
	{Pattern: "POST /api/Loan/make-withdrawal-invoice/{loanId}", handle: on((*Call).drawable, (*Call).withdrawInvoice)},
	{Pattern: "POST /api/Loan/resend-withdrawal-otp/{loanId}", handle: on((*Call).drawable, (*Call).resendOTP)},
	{Pattern: "POST /api/Loan/confirm-withdrawal-invoice/{loanId}", handle: on((*Call).drawable, (*Call).confirmWithdrawal)},
	{Pattern: "GET /api/Loan/is-loan-enabled/{loanId}", handle: show(lookUp[record.Loan], func(l *record.Loan) any { return l.IsEnabled })},
	{Pattern: "GET /api/Loan/is-loan-closed/{loanId}", handle: show(lookUp[record.Loan], func(l *record.Loan) any { return l.IsClosed })},
	{Pattern: "GET /api/Loan/get-early-repayment/{loanId}", handle: on(lookUp[record.Loan], (*Call).earlyRepayment), access: anonymous},

	{Pattern: "POST /api/Webhook/register", handle: (*Call).registerWebhook},
	{Pattern: "POST /api/Webhook/unregister", handle: on((*Call).mustBeSubscribed, (*Call).unregisterWebhook)},
	{Pattern: "POST /api/Webhook/update-all", handle: on((*Call).mustBeSubscribed, (*Call).updateAllWebhooks)},
	{Pattern: "POST /api/Webhook/handler", handle: (*Call).webhookHandler, access: anonymous},
	{Pattern: "POST /api/Webhook/generate-simulated-webhook", handle: (*Call).simulateWebhook},
	{Pattern: "GET /api/Webhook/get-registered-webhooks", handle: (*Call).registeredWebhooks},
	{Pattern: "GET /api/Webhook/get-subscription", handle: (*Call).subscription},
	{Pattern: "GET /api/Webhook/get-all-subscriptions", handle: (*Call).allSubscriptions, access: administrators},
	{Pattern: "POST /api/Webhook/update-webhook-uri", handle: (*Call).updateWebhookURI},
}
