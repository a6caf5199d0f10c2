package idempotency

// Route is a mutation for [Options].SafeToRepeat: its method and path template. The constants are the
// mutations that no read shows, and whose second execution creates no customer and no application
// and moves no money.
type Route string

// The mutations for [Options].SafeToRepeat. The constants have the names of the methods.
const (
	AddCompanyDetails      Route = "POST /api/ApplicationApproval/add-company-details/{applicationId}"
	OfferWithForce         Route = "GET /api/Application/application-offer/{applicationId}"
	PostMessage            Route = "POST /api/Communication/post-messages/{applicationId}"
	PostToHandler          Route = "POST /api/Webhook/handler"
	QuickTest              Route = "POST /api/Application/quick-test/{applicationId}"
	ResendWithdrawalOTP    Route = "POST /api/Loan/resend-withdrawal-otp/{loanId}"
	SendLink               Route = "POST /api/Application/send-application-link"
	SignContract           Route = "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}"
	SimulateWebhook        Route = "POST /api/Webhook/generate-simulated-webhook"
	SubmitBankStatement    Route = "POST /api/Application/submit-bankstatement-document/{applicationId}"
	SubmitDocument         Route = "POST /api/ApplicationApproval/submit-document/{applicationId}"
	SubmitRequiredDocument Route = "POST /api/ApplicationApproval/submit-required-document/{applicationId}"
	UpdateAllWebhooks      Route = "POST /api/Webhook/update-all"
	WithdrawInvoice        Route = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	WithdrawLineOfCredit   Route = "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}" //nolint:gosec // a path
)

var repeatable = [...]Route{
	AddCompanyDetails, OfferWithForce, PostMessage, PostToHandler, QuickTest, ResendWithdrawalOTP, SendLink, SignContract,
	SimulateWebhook, SubmitBankStatement, SubmitDocument, SubmitRequiredDocument, UpdateAllWebhooks, WithdrawInvoice, WithdrawLineOfCredit,
}
