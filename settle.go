package lending

// settledBy names the reads that show whether a mutation has happened, for each
// mutation after which there is something to read. Nothing shows whether a link, a
// one-time password, a simulated event or a document that nobody asked for was taken,
// nor what was calculated; a sign-in is begun anew.
var settledBy = map[string]string{
	"POST /api/Application/create-customer-and-application":                         "Customers.GetByEmail, Applications.ListByCustomer",
	"POST /api/Application/create-customer-and-application-and-applicant":           "Customers.GetByEmail, Applications.ListByCustomer",
	"POST /api/Application/create-customer":                                         "Customers.GetByEmail",
	"POST /api/Application/create-application":                                      "Applications.ListByCustomer",
	"POST /api/Application/create-application-and-applicant":                        "Applications.ListByCustomer",
	"POST /api/Application/quick-test/{applicationId}":                              "Applications.Status",
	"POST /api/Application/add-or-update-banking-data/{applicationId}":              "Approval.BankAccounts",
	"GET /api/Application/process-application/{applicationId}":                      "Applications.Status, Applications.Offer",
	"GET /api/Application/application-offer/{applicationId}":                        "Applications.Offer",
	"GET /api/Application/update-application-name/{applicationId}":                  "Applications.Get",
	"GET /api/Application/update-application-name-and-zip-code/{applicationId}":     "Applications.Get",
	"GET /api/Application/update-customer-data/{applicationId}":                     "Customers.GetByID",
	"GET /api/Application/update-application-data/{applicationId}":                  "Applications.Get",
	"POST /api/Application/submit-bankstatement-document/{applicationId}":           "Applications.Status",
	"POST /api/Application/cancel-application/{applicationId}":                      "Applications.Status",
	"POST /api/ApplicationApproval/add-company-details/{applicationId}":             "Applications.Get",
	"POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}":   "Approval.Applicants",
	"POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}": "Approval.Applicants",
	"POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}":   "Approval.PrimaryBankAccount",
	"POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}":     "Approval.ContractDetails, Approval.Contracts",
	"POST /api/ApplicationApproval/submit-required-document/{applicationId}":        "Approval.RequiredDocuments",
	"POST /api/ApplicationBulk/create-customers":                                    "Customers.GetByEmail",
	"POST /api/ApplicationBulk/create-applications":                                 "Applications.ListByCustomer",
	"POST /api/Communication/post-messages/{applicationId}":                         "Communication.Messages",
	"POST /api/Loan/make-withdrawal-line-of-credit/{loanId}":                        "Loans.Withdrawals",
	"POST /api/Loan/make-withdrawal-invoice/{loanId}":                               "Loans.Withdrawals",
	"POST /api/Loan/confirm-withdrawal-invoice/{loanId}":                            "Loans.Withdrawals, Loans.TotalBalance",
	"POST /api/Webhook/register":                                                    "Webhooks.Subscription",
	"POST /api/Webhook/unregister":                                                  "Webhooks.Subscription",
	"POST /api/Webhook/update-all":                                                  "Webhooks.Subscription",
	"POST /api/Webhook/update-webhook-uri":                                          "Webhooks.Subscription",
}
