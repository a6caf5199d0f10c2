package lendingtest

import (
	"slices"
	"strings"
)

type access int

const (
	bearer access = iota
	anonymous
	administrators
)

// route is a row of the interface's tables.
type route struct {
	pattern string // method and path, as ServeMux and the interface write them
	handle  func(*call) (any, error)
	parse   func(*call) error // reads the body before the service is locked; nil for most routes
	access  access
	upload  bool // the handler reads the body as a stream and does its own locking
}

func (rt *route) method() string {
	method, _, _ := strings.Cut(rt.pattern, " ")
	return method
}

// on finds the record of a route before the rest of the handler runs.
func on[T any](find func(*call) (*T, error), then func(*call, *T) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		row, err := find(c)
		if err != nil {
			return nil, err
		}
		return then(c, row)
	}
}

// routeTable returns the interface's 69 routes in order.
func routeTable() []route {
	return slices.Concat(applicationRoutes(), approvalRoutes(), smallRoutes(), loanRoutes(), webhookRoutes())
}

// applicationRoutes returns the Application group.
func applicationRoutes() []route {
	return []route{
		{pattern: "POST /api/Application/create-customer-and-application", handle: (*call).createCustomerAndApplication},
		{pattern: "POST /api/Application/send-application-link", handle: on((*call).openApplication, (*call).sendApplicationLink)},
		{pattern: "POST /api/Application/create-customer-and-application-and-applicant", handle: (*call).createCustomerAndApplication},
		{pattern: "POST /api/Application/create-customer", handle: (*call).createCustomer},
		{pattern: "POST /api/Application/create-application", handle: (*call).createApplication},
		{pattern: "POST /api/Application/create-application-and-applicant", handle: (*call).createApplication},
		{pattern: "POST /api/Application/quick-test/{applicationId}", handle: on((*call).openApplication, (*call).quickTest)},
		{pattern: "POST /api/Application/add-or-update-banking-data/{applicationId}", handle: on((*call).openApplication, (*call).addBankingData)},
		{pattern: "GET /api/Application/process-application/{applicationId}", handle: on((*call).applicationWithoutLoan, (*call).process)},
		{pattern: "GET /api/Application/application-status/{applicationId}", handle: on((*call).application, (*call).applicationStatus)},
		{pattern: "GET /api/Application/application-offer/{applicationId}", handle: on((*call).application, (*call).applicationOffer)},
		{pattern: "GET /api/Application/get-customer-applications/{customerId}", handle: on((*call).customer, (*call).customerApplications)},
		{pattern: "GET /api/Application/get-partner-applications/{partnerId}", handle: (*call).partnerApplications},
		{pattern: "GET /api/Application/get-application/{applicationId}", handle: on((*call).application, (*call).getApplication)},
		{pattern: "GET /api/Application/update-application-name/{applicationId}", handle: on((*call).openApplication, (*call).updateName)},
		{pattern: "GET /api/Application/update-application-name-and-zip-code/{applicationId}", handle: on((*call).openApplication, (*call).updateNameAndZip)},
		{pattern: "GET /api/Application/update-customer-data/{applicationId}", handle: on((*call).openApplication, (*call).updateCustomerData)},
		{pattern: "GET /api/Application/update-application-data/{applicationId}", handle: on((*call).openApplication, (*call).updateApplicationData)},
		{pattern: "POST /api/Application/submit-bankstatement-document/{applicationId}", handle: (*call).submitBankStatement, upload: true},
		{pattern: "POST /api/Application/cancel-application/{applicationId}", handle: on((*call).applicationWithoutLoan, (*call).cancelApplication)},
	}
}

// approvalRoutes returns the ApplicationApproval group.
func approvalRoutes() []route {
	return []route{
		{pattern: "POST /api/ApplicationApproval/add-company-details/{applicationId}", handle: on((*call).approving, (*call).addCompany)},
		{pattern: "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}", handle: on((*call).approving, (*call).addPrimaryApplicant)},
		{pattern: "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}", handle: on((*call).approving, (*call).addSecondaryApplicant)},
		{pattern: "GET /api/ApplicationApproval/get-contracts/{applicationId}", handle: on((*call).application, (*call).contracts)},
		{pattern: "GET /api/ApplicationApproval/get-contract-details/{applicationId}", handle: on((*call).application, (*call).contractDetails)},
		{pattern: "GET /api/ApplicationApproval/get-all-applicants/{applicationId}", handle: on((*call).application, (*call).applicants)},
		{pattern: "GET /api/ApplicationApproval/get-all-bank-accounts/{applicationId}", handle: on((*call).application, (*call).bankAccounts)},
		{pattern: "GET /api/ApplicationApproval/get-primary-bank-account/{applicationId}", handle: on((*call).application, (*call).primaryBankAccount)},
		{pattern: "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}", handle: on((*call).approving, (*call).setPrimaryBankAccount)},
		{pattern: "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}", handle: on((*call).approving, (*call).signContract)},
		{pattern: "GET /api/ApplicationApproval/get-required-documents/{applicationId}", handle: on((*call).application, (*call).requiredDocuments)},
		{pattern: "POST /api/ApplicationApproval/submit-required-document/{applicationId}", handle: (*call).submitRequiredDocument, upload: true},
		{pattern: "POST /api/ApplicationApproval/submit-document/{applicationId}", handle: (*call).submitDocument, upload: true},
	}
}

// smallRoutes returns the groups Bulk, Authentication, Calculation, Communication and Customer.
func smallRoutes() []route {
	return []route{
		{pattern: "POST /api/ApplicationBulk/create-customers", handle: (*call).createCustomers, parse: (*call).parseCustomers},
		{pattern: "POST /api/ApplicationBulk/create-applications", handle: (*call).createApplications, parse: (*call).parseApplications},

		{pattern: "POST /api/Authenication/login", handle: (*call).login, access: anonymous},
		{pattern: "POST /api/Authenication/validate-two-factor", handle: (*call).validateTwoFactor, access: anonymous},
		{pattern: "POST /api/Authenication/refresh-token", handle: (*call).refreshToken},

		{pattern: "POST /api/Calculation/application-loc-calculation-slider", handle: (*call).calculationSlider},
		{pattern: "POST /api/Calculation/application-loc-calculation", handle: (*call).lineOfCreditCalculation},
		{pattern: "POST /api/Calculation/application-invoice-calculation", handle: (*call).invoiceCalculation},

		{pattern: "GET /api/Communication/get-all-messages/{applicationId}", handle: on((*call).application, (*call).messages)},
		{pattern: "POST /api/Communication/post-messages/{applicationId}", handle: on((*call).application, (*call).postMessage)},

		{pattern: "GET /api/Customer/get-customer-by-email", handle: (*call).customerByEmail},
		{pattern: "GET /api/Customer/get-customer-by-id/{customerId}", handle: on((*call).customer, (*call).customerByID)},
	}
}

// loanRoutes returns the Loan group.
func loanRoutes() []route {
	return []route{
		{pattern: "GET /api/Loan/get-loan/{loanId}", handle: on((*call).loan, (*call).getLoan)},
		{pattern: "GET /api/Loan/get-customer-loans/{customerId}", handle: on((*call).customer, (*call).customerLoans)},
		{pattern: "GET /api/Loan/get-transactions/{loanId}", handle: on((*call).loan, (*call).transactions)},
		{pattern: "GET /api/Loan/get-transactions-paged/{loanId}", handle: on((*call).loan, (*call).transactionsPaged)},
		{pattern: "GET /api/Loan/get-withdrawals/{loanId}", handle: on((*call).loan, (*call).withdrawals)},
		{pattern: "GET /api/Loan/get-contract-documents/{loanId}", handle: on((*call).loan, (*call).loanContracts)},
		{pattern: "GET /api/Loan/get-total-balance/{loanId}", handle: on((*call).loan, (*call).totalBalance)},
		{pattern: "GET /api/Loan/get-repayment-balances/{loanId}", handle: on((*call).loan, (*call).repaymentBalances)},
		{pattern: "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", handle: on((*call).drawable, (*call).withdrawLineOfCredit)},
		{pattern: "POST /api/Loan/make-withdrawal-invoice/{loanId}", handle: on((*call).drawable, (*call).withdrawInvoice)},
		{pattern: "POST /api/Loan/resend-withdrawal-otp/{loanId}", handle: on((*call).drawable, (*call).resendOTP)},
		{pattern: "POST /api/Loan/confirm-withdrawal-invoice/{loanId}", handle: on((*call).drawable, (*call).confirmWithdrawal)},
		{pattern: "GET /api/Loan/is-loan-enabled/{loanId}", handle: on((*call).loan, (*call).isEnabled)},
		{pattern: "GET /api/Loan/is-loan-closed/{loanId}", handle: on((*call).loan, (*call).isClosed)},
		{pattern: "GET /api/Loan/get-early-repayment/{loanId}", handle: on((*call).loan, (*call).earlyRepayment), access: anonymous},
	}
}

// webhookRoutes returns the Webhook group.
func webhookRoutes() []route {
	return []route{
		{pattern: "POST /api/Webhook/register", handle: (*call).registerWebhook},
		{pattern: "POST /api/Webhook/unregister", handle: on((*call).mustBeSubscribed, (*call).unregisterWebhook)},
		{pattern: "POST /api/Webhook/update-all", handle: on((*call).mustBeSubscribed, (*call).updateAllWebhooks)},
		{pattern: "POST /api/Webhook/handler", handle: (*call).webhookHandler, access: anonymous},
		{pattern: "POST /api/Webhook/generate-simulated-webhook", handle: (*call).simulateWebhook},
		{pattern: "GET /api/Webhook/get-registered-webhooks", handle: (*call).registeredWebhooks},
		{pattern: "GET /api/Webhook/get-subscription", handle: (*call).subscription},
		{pattern: "GET /api/Webhook/get-all-subscriptions", handle: (*call).allSubscriptions, access: administrators},
		{pattern: "POST /api/Webhook/update-webhook-uri", handle: (*call).updateWebhookURI},
	}
}
