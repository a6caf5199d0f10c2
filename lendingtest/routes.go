package lendingtest

import "strings"

type access int

const (
	bearer access = iota
	anonymous
	administrators
)

// route is one row of the interface's tables.
type route struct {
	pattern string // method and path, in the notation that ServeMux shares with the interface
	handle  func(*call) (any, error)
	access  access
	upload  bool // the handler reads the body as a stream and locks by itself
}

func (rt *route) method() string {
	method, _, _ := strings.Cut(rt.pattern, " ")
	return method
}

// routeTable is the interface's 69 routes in its order.
func routeTable() []route {
	return []route{
		{pattern: "POST /api/Application/create-customer-and-application", handle: (*call).createCustomerAndApplication},
		{pattern: "POST /api/Application/send-application-link", handle: (*call).sendApplicationLink},
		{pattern: "POST /api/Application/create-customer-and-application-and-applicant", handle: (*call).createCustomerAndApplication},
		{pattern: "POST /api/Application/create-customer", handle: (*call).createCustomer},
		{pattern: "POST /api/Application/create-application", handle: (*call).createApplication},
		{pattern: "POST /api/Application/create-application-and-applicant", handle: (*call).createApplication},
		{pattern: "POST /api/Application/quick-test/{applicationId}", handle: (*call).quickTest},
		{pattern: "POST /api/Application/add-or-update-banking-data/{applicationId}", handle: (*call).addBankingData},
		{pattern: "GET /api/Application/process-application/{applicationId}", handle: (*call).process},
		{pattern: "GET /api/Application/application-status/{applicationId}", handle: (*call).applicationStatus},
		{pattern: "GET /api/Application/application-offer/{applicationId}", handle: (*call).applicationOffer},
		{pattern: "GET /api/Application/get-customer-applications/{customerId}", handle: (*call).customerApplications},
		{pattern: "GET /api/Application/get-partner-applications/{partnerId}", handle: (*call).partnerApplications},
		{pattern: "GET /api/Application/get-application/{applicationId}", handle: (*call).getApplication},
		{pattern: "GET /api/Application/update-application-name/{applicationId}", handle: (*call).updateName},
		{pattern: "GET /api/Application/update-application-name-and-zip-code/{applicationId}", handle: (*call).updateNameAndZip},
		{pattern: "GET /api/Application/update-customer-data/{applicationId}", handle: (*call).updateCustomerData},
		{pattern: "GET /api/Application/update-application-data/{applicationId}", handle: (*call).updateApplicationData},
		{pattern: "POST /api/Application/submit-bankstatement-document/{applicationId}", handle: (*call).submitBankStatement, upload: true},
		{pattern: "POST /api/Application/cancel-application/{applicationId}", handle: (*call).cancelApplication},

		{pattern: "POST /api/ApplicationApproval/add-company-details/{applicationId}", handle: (*call).addCompany},
		{pattern: "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}", handle: (*call).addPrimaryApplicant},
		{pattern: "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}", handle: (*call).addSecondaryApplicant},
		{pattern: "GET /api/ApplicationApproval/get-contracts/{applicationId}", handle: (*call).contracts},
		{pattern: "GET /api/ApplicationApproval/get-contract-details/{applicationId}", handle: (*call).contractDetails},
		{pattern: "GET /api/ApplicationApproval/get-all-applicants/{applicationId}", handle: (*call).applicants},
		{pattern: "GET /api/ApplicationApproval/get-all-bank-accounts/{applicationId}", handle: (*call).bankAccounts},
		{pattern: "GET /api/ApplicationApproval/get-primary-bank-account/{applicationId}", handle: (*call).primaryBankAccount},
		{pattern: "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}", handle: (*call).setPrimaryBankAccount},
		{pattern: "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}", handle: (*call).signContract},
		{pattern: "GET /api/ApplicationApproval/get-required-documents/{applicationId}", handle: (*call).requiredDocuments},
		{pattern: "POST /api/ApplicationApproval/submit-required-document/{applicationId}", handle: (*call).submitRequiredDocument, upload: true},
		{pattern: "POST /api/ApplicationApproval/submit-document/{applicationId}", handle: (*call).submitDocument, upload: true},

		{pattern: "POST /api/ApplicationBulk/create-customers", handle: (*call).createCustomers},
		{pattern: "POST /api/ApplicationBulk/create-applications", handle: (*call).createApplications},

		{pattern: "POST /api/Authenication/login", handle: (*call).login, access: anonymous},
		{pattern: "POST /api/Authenication/validate-two-factor", handle: (*call).validateTwoFactor, access: anonymous},
		{pattern: "POST /api/Authenication/refresh-token", handle: (*call).refreshToken},

		{pattern: "POST /api/Calculation/application-loc-calculation-slider", handle: (*call).calculationSlider},
		{pattern: "POST /api/Calculation/application-loc-calculation", handle: (*call).lineOfCreditCalculation},
		{pattern: "POST /api/Calculation/application-invoice-calculation", handle: (*call).invoiceCalculation},

		{pattern: "GET /api/Communication/get-all-messages/{applicationId}", handle: (*call).messages},
		{pattern: "POST /api/Communication/post-messages/{applicationId}", handle: (*call).postMessage},

		{pattern: "GET /api/Customer/get-customer-by-email", handle: (*call).customerByEmail},
		{pattern: "GET /api/Customer/get-customer-by-id/{customerId}", handle: (*call).customerByID},

		{pattern: "GET /api/Loan/get-loan/{loanId}", handle: (*call).getLoan},
		{pattern: "GET /api/Loan/get-customer-loans/{customerId}", handle: (*call).customerLoans},
		{pattern: "GET /api/Loan/get-transactions/{loanId}", handle: (*call).transactions},
		{pattern: "GET /api/Loan/get-transactions-paged/{loanId}", handle: (*call).transactionsPaged},
		{pattern: "GET /api/Loan/get-withdrawals/{loanId}", handle: (*call).withdrawals},
		{pattern: "GET /api/Loan/get-contract-documents/{loanId}", handle: (*call).loanContracts},
		{pattern: "GET /api/Loan/get-total-balance/{loanId}", handle: (*call).totalBalance},
		{pattern: "GET /api/Loan/get-repayment-balances/{loanId}", handle: (*call).repaymentBalances},
		{pattern: "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", handle: (*call).withdrawLineOfCredit},
		{pattern: "POST /api/Loan/make-withdrawal-invoice/{loanId}", handle: (*call).withdrawInvoice},
		{pattern: "POST /api/Loan/resend-withdrawal-otp/{loanId}", handle: (*call).resendOTP},
		{pattern: "POST /api/Loan/confirm-withdrawal-invoice/{loanId}", handle: (*call).confirmWithdrawal},
		{pattern: "GET /api/Loan/is-loan-enabled/{loanId}", handle: (*call).isEnabled},
		{pattern: "GET /api/Loan/is-loan-closed/{loanId}", handle: (*call).isClosed},
		{pattern: "GET /api/Loan/get-early-repayment/{loanId}", handle: (*call).earlyRepayment, access: anonymous},

		{pattern: "POST /api/Webhook/register", handle: (*call).registerWebhook},
		{pattern: "POST /api/Webhook/unregister", handle: (*call).unregisterWebhook},
		{pattern: "POST /api/Webhook/update-all", handle: (*call).updateAllWebhooks},
		{pattern: "POST /api/Webhook/handler", handle: (*call).webhookHandler, access: anonymous},
		{pattern: "POST /api/Webhook/generate-simulated-webhook", handle: (*call).simulateWebhook},
		{pattern: "GET /api/Webhook/get-registered-webhooks", handle: (*call).registeredWebhooks},
		{pattern: "GET /api/Webhook/get-subscription", handle: (*call).subscription},
		{pattern: "GET /api/Webhook/get-all-subscriptions", handle: (*call).allSubscriptions, access: administrators},
		{pattern: "POST /api/Webhook/update-webhook-uri", handle: (*call).updateWebhookURI},
	}
}
