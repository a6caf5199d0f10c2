package idempotency

// Route is a mutation for [Options].SafeToRepeat: its method and path template. The constants are the
// mutations that no read shows, and whose second execution creates no customer and no application
// and moves no money.
type Route string

// The mutations for [Options].SafeToRepeat.
const (
	AddCompanyDetails      Route = "POST /api/ApplicationApproval/add-company-details/{applicationId}"         // Approval.AddCompanyDetails
	OfferWithForce         Route = "GET /api/Application/application-offer/{applicationId}"                    // Applications.Offer with Force
	PostMessage            Route = "POST /api/Communication/post-messages/{applicationId}"                     // Communication.Post
	PostToHandler          Route = "POST /api/Webhook/handler"                                                 // Webhooks.PostToHandler
	QuickTest              Route = "POST /api/Application/quick-test/{applicationId}"                          // Applications.QuickTest
	ResendWithdrawalOTP    Route = "POST /api/Loan/resend-withdrawal-otp/{loanId}"                             // Loans.ResendWithdrawalOTP
	SendLink               Route = "POST /api/Application/send-application-link"                               // Applications.SendLink
	SignContract           Route = "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}" // Approval.SignContract
	SimulateWebhook        Route = "POST /api/Webhook/generate-simulated-webhook"                              // Webhooks.Simulate
	SubmitBankStatement    Route = "POST /api/Application/submit-bankstatement-document/{applicationId}"       // Applications.SubmitBankStatement
	SubmitDocument         Route = "POST /api/ApplicationApproval/submit-document/{applicationId}"             // Approval.SubmitDocument
	SubmitRequiredDocument Route = "POST /api/ApplicationApproval/submit-required-document/{applicationId}"    // Approval.SubmitRequiredDocument
	UpdateAllWebhooks      Route = "POST /api/Webhook/update-all"                                              // Webhooks.UpdateAll
	WithdrawInvoice        Route = "POST /api/Loan/make-withdrawal-invoice/{loanId}"                           // Loans.WithdrawInvoice
	WithdrawLineOfCredit   Route = "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}"                    //nolint:gosec // Loans.WithdrawLineOfCredit: a path, no secret
)

var repeatable = [...]Route{
	AddCompanyDetails, OfferWithForce, PostMessage, PostToHandler, QuickTest, ResendWithdrawalOTP, SendLink, SignContract,
	SimulateWebhook, SubmitBankStatement, SubmitDocument, SubmitRequiredDocument, UpdateAllWebhooks, WithdrawInvoice, WithdrawLineOfCredit,
}
