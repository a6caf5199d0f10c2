package lending

// settledBy names the reads that show whether a mutation has happened, for each
// mutation after which there is something to read.
var settledBy = map[string]string{
	"POST /api/Application/create-customer-and-application":                     "Customers.GetByEmail, Applications.ListByCustomer",
	"POST /api/Application/create-customer-and-application-and-applicant":       "Customers.GetByEmail, Applications.ListByCustomer",
	"POST /api/Application/create-customer":                                     "Customers.GetByEmail",
	"POST /api/Application/create-application":                                  "Applications.ListByCustomer",
	"POST /api/Application/create-application-and-applicant":                    "Applications.ListByCustomer",
	"POST /api/Application/quick-test/{applicationId}":                          "Applications.Status",
	"POST /api/Application/add-or-update-banking-data/{applicationId}":          "Approval.BankAccounts",
	"GET /api/Application/process-application/{applicationId}":                  "Applications.Status, Applications.Offer",
	"GET /api/Application/application-offer/{applicationId}":                    "Applications.Offer",
	"GET /api/Application/update-application-name/{applicationId}":              "Applications.Get",
	"GET /api/Application/update-application-name-and-zip-code/{applicationId}": "Applications.Get",
	"GET /api/Application/update-customer-data/{applicationId}":                 "Customers.GetByID",
	"GET /api/Application/update-application-data/{applicationId}":              "Applications.Get",
	"POST /api/Application/submit-bankstatement-document/{applicationId}":       "Applications.Status",
	"POST /api/Application/cancel-application/{applicationId}":                  "Applications.Status",
}
