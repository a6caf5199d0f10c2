package idempotency

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/lendingapi/lending-go"
)

// route is the row of a mutation in the table of checks. The zero route leaves the decision to a
// person.
type route struct {
	note      string // for a person: why no check can tell
	assumes   string // the assumption behind the finding
	others    string // an action of another program with the same effect
	adds      bool   // the mutation adds records to those of check
	ids       bool   // a later step needs only the ids of the response
	listsIDs  bool   // the reads list the ids of the response
	isOne     bool   // the reads show at most one record, which can be missing although the mutation happened
	byEmail   bool   // the check needs the e-mail addresses of the request, which no entry keeps
	optional  bool   // a success needs no response: no later step uses it
	unused    bool   // no later step uses the response: a verdict needs none
	replaces  bool   // the mutation may replace an earlier record
	setsValue bool   // a resend sets the same value again

	// check reads before the send, and again after a lost response. compare returns the finding.
	check   func(context.Context, *target) (snapshot, error)
	compare comparison

	// answer rebuilds the response of a mutation that happened; nil if no read shows the response.
	answer func(context.Context, *target, *snapshot, snapshot) ([]byte, error)

	// lock names the lock of mutations whose effects look alike; nil for no lock.
	lock func(*lending.MutationCall) string
}

// snapshot is the result of a check.
type snapshot struct {
	Count int      `json:"count"`           // the number of records; -1 if unknown
	IDs   []string `json:"ids,omitempty"`   // all UUIDs in the records
	State string   `json:"state,omitempty"` // a hash of other fields
}

func routeName(call *lending.MutationCall) string { return call.Method() + " " + call.Route() }

// routeOf returns the row of a call in the table of checks. The table uses published facts only.
// An absence assumes MaxLateness, and reads that show earlier writes.
//
// Another program can change the same list without the lock. If the list has one new record, the
// check takes that record for the effect of the mutation: the mutation is never sent twice, but
// can be missing. Two new records need a review.
func routeOf(call *lending.MutationCall, name string) route {
	if call.IsRaw() { // the body can be anything
		return route{}
	}
	return rowOf(name)
}

// rowOf returns the row of a method and path template.
//
//nolint:funlen // a table
func rowOf(name string) route {
	switch name {
	// The e-mail address identifies a customer: no lock is needed.
	case "POST /api/Application/create-customer":
		return route{
			ids: true, listsIDs: true, byEmail: true,
			check: checkCustomers, compare: firstOfItsName, answer: rebuiltCustomer,
			others: "creates a customer with the same e-mail address",
		}
	case "POST /api/ApplicationBulk/create-customers":
		return route{
			ids: true, listsIDs: true, byEmail: true,
			check: checkCustomers, compare: firstOfItsName, answer: rebuiltCustomers,
			others: "creates all customers with the same e-mail addresses",
		}

	// The list of the customer has one more application. Applications.Get accepts the new UUID.
	case "POST /api/Application/create-application":
		return route{
			adds: true, listsIDs: true, check: checkApplications, compare: oneMore, answer: rebuiltApplication, lock: lockOfCustomer,
			others: "creates an application for the customer",
		}
	case "POST /api/ApplicationBulk/create-applications":
		return route{
			adds: true, ids: true, listsIDs: true, check: checkApplications, compare: oneMore, lock: lockOfCustomer,
			others: "creates as many applications for the customer",
			note:   "reads cannot distinguish the applications of several customers",
		}

	// The request has no published field for the customer or the e-mail address.
	case "POST /api/Application/create-application-and-applicant",
		"POST /api/Application/create-customer-and-application",
		"POST /api/Application/create-customer-and-application-and-applicant":
		return route{ids: true, note: "the fields that identify the customer are not published"}

	// An offer appears where there was none. The interface says: "The partner triggers processing, which
	// produces an offer", and the response of a success is the id of the offer. The status is a text
	// without published values: the same text and no offer show that nothing was processed. A read
	// of the current process exists only as an event.
	case "GET /api/Application/process-application/{applicationId}":
		return route{
			adds: true, listsIDs: true, isOne: true, unused: true, check: checkProcessing, compare: firstOfItsName, answer: rebuiltOffer,
			lock: lockOf("offer"), others: "processes the application",
			assumes: "a processing leaves an offer or another status",
			note:    "there is no new offer, but the status has changed",
		}
	case "GET /api/Application/application-offer/{applicationId}":
		return route{optional: true, lock: lockOf("offer"), note: "the effect of force is not published"}

	// Routes that set a value. Assumption: setting the same value again changes nothing.
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
		return route{setsValue: true, optional: true, assumes: sameAgain, lock: lockOf("calculation")}

	// The list of all applicants has one more. A primary applicant may replace an earlier one.
	case "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}":
		return route{
			adds: true, replaces: true, check: checkApplicants, compare: firstOfItsName, lock: lockOf("applicants"),
			others: "adds an applicant", assumes: allApplicants,
		}
	case "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}":
		return route{
			adds: true, check: checkApplicants, compare: oneMore, lock: lockOf("applicants"),
			others: "adds an applicant", assumes: allApplicants,
		}

	// No published field shows these. The fields of the records that might are not published.
	case "POST /api/ApplicationApproval/submit-required-document/{applicationId}":
		return route{note: "no published field shows whether a document was submitted"}
	case "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}":
		return route{note: "no published field shows whether the applicant has signed"}
	case "POST /api/ApplicationApproval/add-company-details/{applicationId}":
		return route{note: "no published field shows whether a company was added"}
	case "POST /api/ApplicationApproval/submit-document/{applicationId}",
		"POST /api/Application/submit-bankstatement-document/{applicationId}":
		return route{note: "no read lists the documents of an application"}

	// Money moves: the loan has one more withdrawal. The mutation is absent only if the
	// transactions and the balance have not changed either.
	case "POST /api/Loan/confirm-withdrawal-invoice/{loanId}":
		return route{
			adds: true, ids: true, optional: true, check: checkWithdrawals, compare: oneMore, lock: lockOf("withdrawals"),
			others: "withdraws once from the loan",
			note:   "there is no new withdrawal, but the transactions or the balance have changed",
		}
	// These send a one-time password and move no money. SafeToRepeat is sensible.
	case "POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", "POST /api/Loan/make-withdrawal-invoice/{loanId}":
		return route{lock: lockOf("withdrawals"), note: "no read shows a withdrawal that waits for the one-time password"}

	// The UUID in the response is not the password.
	case "POST /api/Loan/resend-withdrawal-otp/{loanId}":
		return route{optional: true}

	// The interface says: "Registering again updates the URI and event list only." For
	// update-webhook-uri the same is assumed.
	case "POST /api/Webhook/register", "POST /api/Webhook/update-webhook-uri":
		return route{setsValue: true, assumes: sameAgain, lock: lockOf("subscription")}
	case "POST /api/Webhook/unregister":
		return route{
			check: checkSubscription, compare: oneLess, lock: lockOf("subscription"),
			others: "removes the subscription",
		}
	case "POST /api/Webhook/update-all":
		return route{lock: lockOf("subscription"), note: "the effect is not published"}

	case "POST /api/Communication/post-messages/{applicationId}":
		return route{note: "anybody can have posted the message"}
	}
	return route{} // no published field shows whether the mutation happened
}

const (
	sameAgain     = "setting the same value again changes nothing"
	allApplicants = "the list has all applicants"
)

// comparison returns the finding on a mutation of n records, from the snapshots before and after.
type comparison func(before, after snapshot, n int) finding

// oneMore takes n new records for a success, and an unchanged list for an absence.
func oneMore(before, after snapshot, n int) finding { return counted(before, after, n) }

// oneLess is oneMore for mutations that remove a record.
func oneLess(before, after snapshot, n int) finding { return counted(before, after, -n) }

// firstOfItsName is oneMore for a record that can exist only once: an earlier record hides the
// mutation.
func firstOfItsName(before, after snapshot, n int) finding {
	if before.Count > 0 {
		return finding{why: "the record existed before, and no published field identifies a new one"}
	}
	return counted(before, after, n)
}

func counted(before, after snapshot, step int) finding {
	switch want := before.Count + step; {
	case after.Count == want:
		return finding{evidence: happened}
	case after.Count != before.Count:
		f := finding{why: fmt.Sprintf("there are %d records where there were %d", after.Count, before.Count)}
		if after.Count < want {
			f.evidence = unclear
		}
		return f
	case after.State != before.State:
		return finding{evidence: unclear}
	}
	return finding{evidence: absent}
}

// judge returns the finding on a mutation of n records, from the snapshots before and after.
func (r route) judge(before *snapshot, after snapshot, n int) finding {
	if before == nil || before.Count < 0 {
		return finding{why: notCounted}
	}
	if after.Count < 0 {
		return finding{why: "the present count of records is not known", evidence: unclear}
	}
	f := r.compare(*before, after, n)
	if f.evidence == silent || f.evidence == unclear {
		f.why = cmp.Or(f.why, r.note, "other fields have changed")
	}
	return f
}

// reason tells a person why there is no check.
func (r route) reason() string { return cmp.Or(r.note, nothingShows) }

const (
	nothingShows = "no published field shows it"
	notCounted   = "the count of records before the send is not known"
)

// records returns the number of records in the request: 1, or the length of a bulk request.
func records(call *lending.MutationCall) int {
	var bulk []json.RawMessage
	if json.Unmarshal(call.Body(), &bulk) != nil {
		return 1
	}
	return max(1, len(bulk))
}

// added returns the number of new records after the mutation, or -1 if unknown.
func (r route) added(call *lending.MutationCall, before *snapshot) int {
	if r.replaces && before != nil && before.Count > 0 {
		return -1
	}
	return records(call)
}

// lockOf returns the name of the lock on the record of a request: the first argument, or else
// the parameter with the id.
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

func lockOfCustomer(call *lending.MutationCall) string {
	id := customerIn(call.Body())
	if id.IsZero() {
		return ""
	}
	return "applications " + id.String()
}
