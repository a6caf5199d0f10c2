package lending

import (
	"cmp"
	"context"
	"strconv"
)

// settlement is the row of a mutation in the table of what settles what. A row without
// again and without look leaves it to a person.
type settlement struct {
	reads string // that show whether it has happened, as [Error.SettledBy] names them; "" if nothing does
	note  string // what a person should know, or what is assumed

	signIn bool // has no key: it is begun anew
	again  bool // may be sent again, because it sets what it set before

	// look is read before the command is sent, and again when its answer is lost.
	look   func(context.Context, *Client, *request) (sight, error)
	unique bool // what was there before can have hidden it
	proves bool // a changed state shows that it happened
	unseen bool // that it is not seen proves little
	gone   bool // it removes one record, instead of adding one

	// answer rebuilds the answer of one that has happened. nil for none to be had.
	answer func(context.Context, *Client, *request, *sight, sight) ([]byte, error)

	// scope is shared by commands that would hide each other's effect; nil for none.
	scope func(*request) string
}

// sight is what a look has shown.
type sight struct {
	Count int      `json:"count"`           // of the records; -1 if the service does not say
	IDs   []string `json:"ids,omitempty"`   // all UUIDs in them
	State string   `json:"state,omitempty"` // what else there is to see, hashed
}

// settlementOf is the table: it has a row for each mutation, what is read before and after it, and what the
// difference says. The reads and what follows from them use published facts only; no
// absence is absolute: it assumes [JournalOptions].Quiet, and reads that show what was
// written before.
//
// Where another actor can do the same to the same list, beyond the commands that share the
// scope, exactly one more is taken for ours: it is never sent twice, but ours may be
// missing. Two more are left to a person.
//
//nolint:funlen // it is a table
func settlementOf(route string) settlement {
	switch route {
	// The e-mail address identifies a customer, so that two commands for one need no scope.
	case "POST /api/Application/create-customer":
		return settlement{reads: "Customers.GetByEmail", look: lookCustomer, unique: true, answer: customerSeen}
	case "POST /api/ApplicationBulk/create-customers":
		return settlement{reads: "Customers.GetByEmail", look: lookCustomers, unique: true}

	// One more in the customer's list. Its id is the new UUID that Applications.Get accepts.
	case "POST /api/Application/create-application":
		return settlement{
			reads: "Applications.ListByCustomer", look: lookApplications, answer: applicationSeen, scope: scopeOfCustomer,
		}
	case "POST /api/ApplicationBulk/create-applications":
		return settlement{
			reads: "Applications.ListByCustomer", look: lookApplications, scope: scopeOfCustomer,
			note: "applications of several customers are not settled by reads",
		}

	// The fields of the request are not published: neither customer nor e-mail is known.
	case "POST /api/Application/create-application-and-applicant":
		return settlement{
			reads: "Applications.ListByCustomer", note: "whose application it is stands in fields that are not published",
		}
	case "POST /api/Application/create-customer-and-application", "POST /api/Application/create-customer-and-application-and-applicant":
		return settlement{
			reads: "Customers.GetByEmail, Applications.ListByCustomer", note: "whose application it is stands in fields that are not published",
		}

	// An offer where there was none, or another one. "Once; do not poll or auto-retry it".
	case "GET /api/Application/process-application/{applicationId}":
		return settlement{
			reads: "Applications.Status, Applications.Offer", look: lookOffer, proves: true, unseen: true, answer: offerSeen, scope: scopeOf("offer"),
			note: "there is no new offer: it was refused, or has not begun, or is under way", // or there was one that the look before was not shown
		}
	case "GET /api/Application/application-offer/{applicationId}":
		return settlement{
			reads: "Applications.Offer", scope: scopeOf("offer"), note: "what force does is not published",
		}

	// They set a value: that the same once more changes nothing is assumed.
	case "POST /api/Application/add-or-update-banking-data/{applicationId}":
		return settlement{reads: "Approval.BankAccounts", again: true, scope: scopeOf("bank data")}
	case "GET /api/Application/update-application-name/{applicationId}",
		"GET /api/Application/update-application-name-and-zip-code/{applicationId}",
		"GET /api/Application/update-application-data/{applicationId}":
		return settlement{reads: "Applications.Get", again: true, scope: scopeOf("business")}
	case "GET /api/Application/update-customer-data/{applicationId}":
		return settlement{reads: "Customers.GetByID", again: true, scope: scopeOf("customer data")}
	case "POST /api/Application/cancel-application/{applicationId}":
		return settlement{reads: "Applications.Status", again: true, scope: scopeOf("cancel")}
	case "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}":
		return settlement{
			reads: "Approval.PrimaryBankAccount", again: true, scope: scopeOf("primary account"),
		}
	case "POST /api/Calculation/application-loc-calculation-slider",
		"POST /api/Calculation/application-loc-calculation",
		"POST /api/Calculation/application-invoice-calculation":
		return settlement{again: true, scope: scopeOf("calculation")}

	// One applicant more.
	case "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}",
		"POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}":
		return settlement{
			reads: "Approval.Applicants", look: lookApplicants, unseen: true, scope: scopeOf("applicants"), note: "no applicant has been added to the list",
		}

	// Money moves: one withdrawal more. Only where transactions and balance have not
	// changed either it is absent.
	case "POST /api/Loan/confirm-withdrawal-invoice/{loanId}":
		return settlement{
			reads: "Loans.Withdrawals, Loans.TotalBalance", look: lookWithdrawals, scope: scopeOf("withdrawals"),
			note: "there is no withdrawal more, but the transactions or the balance have changed",
		}
	// They send a one-time password, and move no money: MayRepeat is sensible.
	case "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", "POST /api/Loan/make-withdrawal-invoice/{loanId}":
		return settlement{
			reads: "Loans.Withdrawals", scope: scopeOf("withdrawals"), note: "no read shows a withdrawal that waits for its password",
		}

	// "Registering again updates the URI and event list only." Of the address it is assumed.
	case "POST /api/Webhook/register", "POST /api/Webhook/update-webhook-uri":
		return settlement{reads: "Webhooks.Subscription", again: true, scope: scopeOf("subscription")}
	case "POST /api/Webhook/unregister":
		return settlement{reads: "Webhooks.Subscription", look: lookSubscription, gone: true, scope: scopeOf("subscription")}
	case "POST /api/Webhook/update-all":
		return settlement{reads: "Webhooks.Subscription", scope: scopeOf("subscription"), note: "what it changes is not published"}

	// Nothing published shows whether they have happened; the reads are hints.
	case "POST /api/Application/quick-test/{applicationId}", "POST /api/Application/submit-bankstatement-document/{applicationId}":
		return settlement{reads: "Applications.Status"}
	case "POST /api/ApplicationApproval/add-company-details/{applicationId}":
		return settlement{reads: "Applications.Get"}
	case "POST /api/ApplicationApproval/submit-required-document/{applicationId}":
		return settlement{reads: "Approval.RequiredDocuments"}
	case "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}":
		return settlement{reads: "Approval.ContractDetails, Approval.Contracts"}
	case "POST /api/Communication/post-messages/{applicationId}":
		return settlement{reads: "Communication.Messages", note: "people write there too"}
	case "POST /api/ApplicationApproval/submit-document/{applicationId}",
		"POST /api/Application/send-application-link",
		"POST /api/Loan/resend-withdrawal-otp/{loanId}",
		"POST /api/Webhook/handler",
		"POST /api/Webhook/generate-simulated-webhook":
		return settlement{}

	case "POST /api/Authenication/login",
		"POST /api/Authenication/validate-two-factor",
		"POST /api/Authenication/refresh-token":
		return settlement{signIn: true}
	}
	return settlement{} // of a route that this package does not know
}

// settled returns what a look after the command says of it, beside the one before.
func (s settlement) settled(r *request, before *sight, after sight) verdict {
	step := max(1, r.batch)
	if s.gone {
		step = -step
	}
	switch {
	case before == nil || before.Count < 0 || after.Count < 0:
		return verdict{why: "what was there before is not known"}
	case s.unique && before.Count > 0:
		return verdict{why: "it was there before"}
	case after.Count == before.Count+step, after.Count == before.Count && after.Count > 0 && s.proves && after.State != before.State:
		return verdict{happened: true}
	case after.Count != before.Count:
		return verdict{why: "there are " + strconv.Itoa(after.Count) + " records where there were " + strconv.Itoa(before.Count), early: after.Count < before.Count+step}
	case s.unseen, after.State != before.State:
		return verdict{why: cmp.Or(s.note, "what else there is has changed"), early: true}
	}
	return verdict{absent: true}
}

// scopeOf returns the scope name of the record that a request is about: its first argument,
// or the parameter that names it.
func scopeOf(name string) func(*request) string {
	return func(r *request) string {
		if len(r.args) > 0 {
			return name + " " + r.args[0]
		}
		for _, p := range r.query {
			if p.required && p.name != "webhookUri" {
				return name + " " + p.name + " " + p.value
			}
		}
		return ""
	}
}

// customerOf returns the customer for whom r creates applications. A batch can have
// several, and then has none.
func customerOf(r *request) (id CustomerID, ok bool) {
	switch body := r.body.(type) {
	case ApplicationRequest:
		return body.CustomerID, true
	case batch[ApplicationRequest]:
		for _, application := range body[1:] {
			if application.CustomerID != body[0].CustomerID {
				return CustomerID{}, false
			}
		}
		return body[0].CustomerID, true
	}
	return CustomerID{}, false
}

func scopeOfCustomer(r *request) string {
	id, ok := customerOf(r)
	if !ok {
		return ""
	}
	return "applications " + id.String()
}
