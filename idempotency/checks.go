package idempotency

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/lendingapi/lending-go"
)

// route is the row of a mutation in the table of checks. The zero route leaves the decision to
// a person.
type route struct {
	note      string // why no check tells, for a person
	assumes   string // what the conclusion takes for granted
	others    string // whose effect is taken for that of the mutation
	adds      bool   // records to those that check counts
	ids       bool   // of its answer a later step needs the ids only
	replaces  bool   // perhaps a record that check has counted before
	setsValue bool   // may be sent again, because it sets what it set before

	// check is made before the mutation is sent, and again after a lost answer; compare says
	// what the difference means.
	check   func(context.Context, *target) (snapshot, error)
	compare comparison

	// answer rebuilds the answer of a mutation that has happened; nil if that is not possible.
	answer func(context.Context, *target, *snapshot, snapshot) ([]byte, error)

	// lock is shared by mutations that would hide each other's effect; nil for none.
	lock func(*lending.MutationCall) string
}

// snapshot is what a check has shown.
type snapshot struct {
	Count int      `json:"count"`           // of the records; -1 if the service does not say
	IDs   []string `json:"ids,omitempty"`   // all UUIDs in them
	State string   `json:"state,omitempty"` // what else there is to see, hashed
}

func routeName(call *lending.MutationCall) string { return call.Method() + " " + call.Route() }

// routeOf is the table of checks. The checks and their conclusions use published facts only.
// No absence is absolute: it assumes MaxLateness, and reads that show earlier writes.
//
// Another actor can do the same to the same list without the lock. Exactly one record more is
// taken for ours then: the mutation is never sent twice, but ours may be missing. Two more are
// left to a person.
func routeOf(call *lending.MutationCall, name string) route {
	if call.IsRaw() { // whose body can be anything
		return route{}
	}
	return rowOf(name)
}

// rowOf is routeOf by method and path template.
//
//nolint:funlen // it is a table
func rowOf(name string) route {
	switch name {
	// The e-mail address identifies a customer: two requests for one address need no lock.
	case "POST /api/Application/create-customer":
		return route{
			ids: true, check: checkCustomer, compare: firstOfItsName, answer: rebuiltCustomer,
			others: "who creates a customer with the same e-mail address",
		}
	case "POST /api/ApplicationBulk/create-customers":
		return route{
			ids: true, check: checkCustomers, compare: firstOfItsName,
			others: "who creates all customers with the same e-mail addresses",
		}

	// One more in the customer's list. Its id is the new UUID that Applications.Get accepts.
	case "POST /api/Application/create-application":
		return route{
			adds: true, check: checkApplications, compare: oneMore, answer: rebuiltApplication, lock: lockOfCustomer,
			others: "who creates one application for the customer",
		}
	case "POST /api/ApplicationBulk/create-applications":
		return route{
			adds: true, ids: true, check: checkApplications, compare: oneMore, lock: lockOfCustomer,
			others: "who creates as many applications for the customer",
			note:   "applications of several customers cannot be told apart by reads",
		}

	// The fields of the request are not published: neither customer nor e-mail is known.
	case "POST /api/Application/create-application-and-applicant",
		"POST /api/Application/create-customer-and-application",
		"POST /api/Application/create-customer-and-application-and-applicant":
		return route{ids: true, note: "whose application it is stands in fields that are not published"}

	// An offer where there was none. "Once; do not poll or auto-retry it".
	case "GET /api/Application/process-application/{applicationId}":
		return route{
			adds: true, check: checkOffer, compare: firstSeen, answer: rebuiltOffer, lock: lockOf("offer"),
			others: "who has the application processed",
			note:   "there is no new offer: it was refused, or has not begun, or is under way", // or an old one was not shown before
		}
	case "GET /api/Application/application-offer/{applicationId}":
		return route{lock: lockOf("offer"), note: "what force does is not published"}

	// They set a value: that the same once more changes nothing is assumed.
	case "POST /api/Application/add-or-update-banking-data/{applicationId}":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("bank data")}
	case "GET /api/Application/update-application-name/{applicationId}",
		"GET /api/Application/update-application-name-and-zip-code/{applicationId}",
		"GET /api/Application/update-application-data/{applicationId}":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("business")}
	case "GET /api/Application/update-customer-data/{applicationId}":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("customer data")}
	case "POST /api/Application/cancel-application/{applicationId}":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("cancel")}
	case "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("primary account")}
	case "POST /api/Calculation/application-loc-calculation-slider",
		"POST /api/Calculation/application-loc-calculation",
		"POST /api/Calculation/application-invoice-calculation":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("calculation")}

	// One applicant more. The list is that of all applicants. A primary applicant may replace an
	// earlier one.
	case "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}":
		return route{
			adds: true, replaces: true, check: checkApplicants, compare: firstOfItsName, lock: lockOf("applicants"),
			others: "who adds one applicant", assumes: allApplicants,
		}
	case "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}":
		return route{
			adds: true, check: checkApplicants, compare: oneMore, lock: lockOf("applicants"),
			others: "who adds one applicant", assumes: allApplicants,
		}

	// The record of the very thing says that it is done.
	case "POST /api/ApplicationApproval/submit-required-document/{applicationId}":
		return route{
			adds: true, check: checkRequirement, compare: saidSo, lock: lockOfID("supportingDocumentId"),
			others: "who submits a document for the requirement", assumes: "a member such as isSubmitted says it" + withinLateness,
			note: "the record of the required document does not say whether a document was submitted",
		}
	case "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}":
		return route{
			adds: true, check: checkSignature, compare: saidSo, lock: lockOfID("applicantId"),
			others: "who signs for the applicant", assumes: "a member such as hasSigned says it" + withinLateness,
			note: "the record of the applicant does not say whether he has signed",
		}
	case "POST /api/ApplicationApproval/add-company-details/{applicationId}":
		return route{
			adds: true, check: checkCompany, compare: seenOnly, lock: lockOf("company"),
			others: "who gives the application a company", assumes: "a member such as company says it",
			note: "the application does not say whether it has a company",
		}
	case "POST /api/ApplicationApproval/submit-document/{applicationId}",
		"POST /api/Application/submit-bankstatement-document/{applicationId}":
		return route{note: "no read lists the documents of an application"}

	// Money moves: one withdrawal more. It is absent only if transactions and balance have not
	// changed either.
	case "POST /api/Loan/confirm-withdrawal-invoice/{loanId}":
		return route{
			adds: true, ids: true, check: checkWithdrawals, compare: oneMore, lock: lockOf("withdrawals"),
			others: "who withdraws once from the loan",
			note:   "there is no withdrawal more, but the transactions or the balance have changed",
		}
	// They send a one-time password, and move no money: SafeToRepeat is sensible.
	case "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", "POST /api/Loan/make-withdrawal-invoice/{loanId}":
		return route{lock: lockOf("withdrawals"), note: "no read shows a withdrawal that waits for its password"}

	// "Registering again updates the URI and event list only." Of the address it is assumed.
	case "POST /api/Webhook/register", "POST /api/Webhook/update-webhook-uri":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("subscription")}
	case "POST /api/Webhook/unregister":
		return route{
			check: checkSubscription, compare: oneLess, lock: lockOf("subscription"),
			others: "who removes the subscription",
		}
	case "POST /api/Webhook/update-all":
		return route{lock: lockOf("subscription"), note: "what it changes is not published"}

	case "POST /api/Communication/post-messages/{applicationId}":
		return route{note: "anybody can have written the message"}
	}
	return route{} // nothing published shows whether it has happened
}

const (
	sameAgain      = "the same once more changes nothing"
	allApplicants  = "the list has all applicants"
	withinLateness = ", within MaxLateness"
)

// comparison says what the snapshots before and after a mutation of n records mean.
type comparison func(before, after snapshot, n int) verdict

// oneMore takes n records more for the mutation, and an unchanged list for its absence.
func oneMore(before, after snapshot, n int) verdict { return counted(before, after, n) }

// oneLess is oneMore for a mutation that removes a record.
func oneLess(before, after snapshot, n int) verdict { return counted(before, after, -n) }

// firstOfItsName is oneMore for a record that can be there once: an earlier one hides it.
func firstOfItsName(before, after snapshot, n int) verdict {
	if before.Count > 0 {
		return verdict{why: "it was there before"}
	}
	return counted(before, after, n)
}

// seenOnly takes a new record for the mutation. That none is seen proves little.
func seenOnly(before, after snapshot, n int) verdict {
	v := counted(before, after, n)
	if v.absent {
		return verdict{early: true}
	}
	return v
}

// saidSo takes the service's own word for the mutation, and for its absence: the record has not
// changed, and says that it is not done.
func saidSo(before, after snapshot, _ int) verdict {
	switch {
	case before.Count > 0:
		return verdict{why: "it was said before"}
	case after.Count > 0:
		return verdict{happened: true}
	case after.State == unseen || after.State == silent:
		return verdict{early: true}
	case before.State == unseen || before.State == after.State:
		return verdict{absent: true}
	}
	return verdict{early: true}
}

// firstSeen is seenOnly for a record that can be there once, without a published field that
// tells one from the next: a difference between two reads of it proves nothing.
func firstSeen(before, after snapshot, n int) verdict {
	if before.Count > 0 {
		return verdict{why: "there was an offer before, and no published field tells it from a new one"}
	}
	return seenOnly(before, after, n)
}

func counted(before, after snapshot, step int) verdict {
	switch want := before.Count + step; {
	case after.Count == want:
		return verdict{happened: true}
	case after.Count != before.Count:
		return verdict{why: fmt.Sprintf("there are %d records where there were %d", after.Count, before.Count), early: after.Count < want}
	case after.State != before.State:
		return verdict{early: true}
	}
	return verdict{absent: true}
}

// judge returns what a check after the mutation of n records says of it, with the one before.
func (r route) judge(before *snapshot, after snapshot, n int) verdict {
	if before == nil || before.Count < 0 {
		return verdict{why: notCounted}
	}
	if after.Count < 0 {
		return verdict{why: "what is there now is not known", early: true}
	}
	v := r.compare(*before, after, n)
	v.why = cmp.Or(v.why, r.note, "what else there is has changed")
	return v
}

// reason is why a person decides where there is no check.
func (r route) reason() string { return cmp.Or(r.note, nothingShows) }

const (
	nothingShows = "no published field shows it"
	notCounted   = "what was there before is not known"
)

// records returns how many records the request creates: those of a bulk route, else one.
func records(call *lending.MutationCall) int {
	var bulk []json.RawMessage
	if json.Unmarshal(call.Body(), &bulk) != nil {
		return 1
	}
	return max(1, len(bulk))
}

// leaves returns how many records more there are after the mutation, -1 if that cannot be said.
func (r route) leaves(call *lending.MutationCall, before *snapshot) int {
	if r.replaces && before != nil && before.Count > 0 {
		return -1
	}
	return records(call)
}

// lockOf returns the name of the lock on the record that a request is about: its first
// argument, or the parameter that names it.
func lockOf(name string) func(*lending.MutationCall) string {
	return func(call *lending.MutationCall) string {
		if args := call.Args(); len(args) > 0 {
			return name + " " + args[0]
		}
		ids := idsOf(call)
		for _, param := range []string{"applicationId", "partnerId", "customerId"} {
			if ids[param] != "" {
				return name + " " + param + " " + ids[param]
			}
		}
		return ""
	}
}

// lockOfID is lockOf for the record that id names.
func lockOfID(id string) func(*lending.MutationCall) string {
	return func(call *lending.MutationCall) string { return id + " " + idsOf(call)[id] }
}

func lockOfCustomer(call *lending.MutationCall) string {
	id := customerIn(call.Body())
	if id.IsZero() {
		return ""
	}
	return "applications " + id.String()
}
