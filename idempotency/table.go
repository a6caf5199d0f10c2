package idempotency

// route is the row of a mutation in the table of checks. The zero route leaves the decision to a
// person.
type route struct {
	note      string // for a person: why no check can tell
	adds      bool   // the mutation adds records to those of check
	ids       bool   // a later step needs only the ids of the response
	listsIDs  bool   // the reads list the ids of the response
	isOne     bool   // the reads show at most one record, which can be missing although the mutation happened
	optional  bool   // a success needs no response: no later step uses it
	unused    bool   // no later step uses the response: a verdict needs none
	setsValue bool   // a resend sets the same value again
	sendsOTP  bool   // a late execution only sends another password: it looks like no mutation of the lock

	once    bool   // the record can exist only once: an earlier record hides the mutation
	removes bool   // the mutation removes a record
	mayAdd  reads  // the mutation may add a record to this list
	lock    string // the name of the lock of mutations whose effects look alike, per record; "" for no lock
	form    form   // the form of the response; the zero form for nothing, or true

	reads    reads // the check: before the send, and again after a lost response
	rebuilds bool  // the reads show the response
}

// lockFor returns the name of the lock for the record of a request, or "" for no lock.
func (r route) lockFor(of ids) string {
	for _, param := range [...]string{"loanId", "applicationId", "partnerId", "customerId"} {
		if r.lock != "" && of[param] != "" {
			return r.lock + " " + param + " " + of[param]
		}
	}
	return ""
}

// isCounted reports whether the reads show the records of the mutation only by their number.
func (r route) isCounted() bool { return r.adds && !r.listsIDs }

// byEmail reports whether the check needs the e-mail addresses of the request, which no entry keeps.
func (r route) byEmail() bool { return r.reads == readsCustomer || r.reads == readsCustomers }

// reads names the reads of a check.
type reads int

const (
	noReads reads = iota
	readsCustomer
	readsCustomers
	readsApplications
	readsOffer
	readsApplicants
	readsWithdrawals
	readsSubscription
	readsLoans // only of an audit
)

// String names the records of a check for a person.
func (r reads) String() string {
	return [...]string{"records", "customers", "customers", "applications", "offers", "applicants", "withdrawals", "subscriptions", "loans"}[r]
}

// rowOf returns the row of a method and path template. The table uses published facts only.
// An absence assumes MaxLateness, and reads that show earlier writes.
//
//nolint:funlen // a table
func rowOf(name string) route {
	switch name {
	// The e-mail address identifies a customer: no lock is needed.
	case "POST /api/Application/create-customer":
		return route{form: aCustomer, ids: true, listsIDs: true, once: true, reads: readsCustomer, rebuilds: true}
	case "POST /api/ApplicationBulk/create-customers":
		return route{form: customers, ids: true, listsIDs: true, once: true, reads: readsCustomers, rebuilds: true}

	// The list of the customer has one more application. Applications.Get accepts the new UUID.
	case "POST /api/Application/create-application":
		return route{form: aUUID, adds: true, listsIDs: true, lock: "applications", reads: readsApplications, rebuilds: true}
	case "POST /api/ApplicationBulk/create-applications":
		return route{
			form: objects, adds: true, ids: true, listsIDs: true, lock: "applications", reads: readsApplications,
			note: "reads cannot distinguish the applications of several customers",
		}

	// The request has no published field for the customer or the e-mail address.
	case "POST /api/Application/create-application-and-applicant":
		return route{form: aUUID, ids: true, mayAdd: readsApplicants, note: noFields}
	case "POST /api/Application/create-customer-and-application":
		return route{form: anObject, ids: true, note: noFields}
	case "POST /api/Application/create-customer-and-application-and-applicant":
		return route{form: anObject, ids: true, mayAdd: readsApplicants, note: noFields}

	// An offer appears where there was none. The interface says: "The partner triggers processing, which
	// produces an offer", and the response of a success is the id of the offer. The status is a text
	// without published values: the same text and no offer show that nothing was processed. A read
	// of the current process exists only as an event.
	case "GET /api/Application/process-application/{applicationId}":
		return route{
			form: aUUID, adds: true, listsIDs: true, isOne: true, unused: true, once: true, lock: "offer",
			reads: readsOffer, rebuilds: true,
			note: "there is no new offer, but the status has changed",
		}
	case "GET /api/Application/application-offer/{applicationId}":
		return route{form: anObject, optional: true, lock: "offer", mayAdd: readsOffer, note: "the effect of force is not published"}

	// Routes that set a value. Assumption: setting the same value again changes nothing.
	case "POST /api/Application/add-or-update-banking-data/{applicationId}":
		return route{form: aBoolean, setsValue: true, lock: "bank data"}
	case "GET /api/Application/update-application-name/{applicationId}",
		"GET /api/Application/update-application-name-and-zip-code/{applicationId}",
		"GET /api/Application/update-application-data/{applicationId}":
		return route{form: aBoolean, setsValue: true, lock: "business"}
	case "GET /api/Application/update-customer-data/{applicationId}":
		return route{form: aBoolean, setsValue: true, lock: "customer data"}
	case "POST /api/Application/cancel-application/{applicationId}":
		return route{setsValue: true, lock: "cancel"}
	case "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}":
		return route{setsValue: true, lock: "primary account"}
	case "POST /api/Calculation/application-loc-calculation-slider":
		return route{form: objects, setsValue: true, optional: true, lock: "calculation"}
	case "POST /api/Calculation/application-loc-calculation",
		"POST /api/Calculation/application-invoice-calculation":
		return route{form: anObject, setsValue: true, optional: true, lock: "calculation"}

	// The list of all applicants has one more. A primary applicant may replace an earlier one.
	case "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}":
		return route{adds: true, reads: readsApplicants, once: true, lock: "applicants"}
	case "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}":
		return route{adds: true, reads: readsApplicants, lock: "applicants"}

	case "POST /api/ApplicationApproval/submit-document/{applicationId}",
		"POST /api/Application/submit-bankstatement-document/{applicationId}":
		return route{note: "no read lists the documents of an application"}

	// Money moves: the loan has one more withdrawal. The mutation is absent only if the
	// transactions and the balance have not changed either.
	case "POST /api/Loan/confirm-withdrawal-invoice/{loanId}":
		return route{
			form: withUUID, adds: true, ids: true, optional: true, reads: readsWithdrawals, lock: "withdrawals",
			note: "there is no new withdrawal, but the transactions or the balance have changed",
		}
	// These send a one-time password and move no money. SafeToRepeat is sensible. How the withdrawal of a
	// line of credit goes on is not published: it may end as one more withdrawal without a confirmation.
	case "POST /api/Loan/make-withdrawal-invoice/{loanId}":
		return route{form: anObject, sendsOTP: true, lock: "withdrawals", note: noPending}
	case "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}":
		return route{form: anObject, lock: "withdrawals", mayAdd: readsWithdrawals, note: noPending}

	// The UUID in the response is not the password.
	case "POST /api/Loan/resend-withdrawal-otp/{loanId}":
		return route{form: aUUID, optional: true}
	case "POST /api/Application/quick-test/{applicationId}":
		return route{form: aBoolean}

	// The interface says: "Registering again updates the URI and event list only." For
	// update-webhook-uri the same is assumed.
	case "POST /api/Webhook/register", "POST /api/Webhook/update-webhook-uri":
		return route{setsValue: true, lock: "subscription"}
	case "POST /api/Webhook/unregister":
		return route{removes: true, lock: "subscription", reads: readsSubscription}
	case "POST /api/Webhook/update-all":
		return route{lock: "subscription", note: "the effect is not published"}

	case "POST /api/Communication/post-messages/{applicationId}":
		return route{note: "anybody can have posted the message"}
	}
	return route{} // no published field shows whether the mutation happened
}

const (
	noFields  = "the fields that identify the customer are not published"
	noPending = "no read shows a withdrawal that waits for the one-time password"
)

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
