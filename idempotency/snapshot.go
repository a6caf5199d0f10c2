package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
)

var quotedUUID = regexp.MustCompile(`"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"`)

// seen returns the snapshot of records: how many there are, and their UUIDs.
func seen(records ...lending.Record) snapshot {
	s := snapshot{Count: len(records)}
	for _, record := range records {
		s.IDs = append(s.IDs, uuidsIn(string(record.Raw()))...)
	}
	slices.Sort(s.IDs)
	s.IDs = slices.Compact(s.IDs)
	return s
}

// uuidsIn returns the UUIDs that stand alone in texts of JSON.
func uuidsIn(text string) (ids []string) {
	for _, quoted := range quotedUUID.FindAllString(text, -1) {
		ids = append(ids, strings.ToLower(strings.Trim(quoted, `"`)))
	}
	return ids
}

// absence is the snapshot where a read says that there is nothing. In which of its ways it
// says so is part of it: 400 can also mean that it failed.
func absence(err error) (snapshot, error) {
	failed, ok := errors.AsType[*lending.Error](err)
	if !ok || !lending.IsNotFound(err) {
		return snapshot{}, err
	}
	return snapshot{State: "absent " + strconv.Itoa(failed.StatusCode)}, nil
}

// noList is absence for a list, whose own way to say that it has nothing is to be empty: a
// parent that reads do not show yet has no records either. A 400 instead of the list is rather a
// failure, and says nothing of what there is.
func noList(err error) (snapshot, error) {
	s, err := absence(err)
	if strings.HasSuffix(s.State, " 400") {
		return snapshot{Count: -1}, err
	}
	return snapshot{}, err
}

// errNeedsRequest is the error of a check that reads by what an entry must not keep.
var errNeedsRequest = redact.Text(prefix + "the e-mail address stands in the request only: call with its key")

// customer is what the body of a request says of one.
type customer struct {
	Email string `json:"email"`
}

func checkCustomer(ctx context.Context, t *target) (snapshot, error) {
	var c customer
	if t.body == nil {
		return snapshot{}, errNeedsRequest
	}
	if err := json.Unmarshal(t.body, &c); err != nil {
		return snapshot{}, err
	}
	return customerWith(ctx, t, c.Email)
}

func customerWith(ctx context.Context, t *target, email string) (snapshot, error) {
	record, err := t.client.Customers.GetByEmail(ctx, email)
	if err != nil {
		return absence(err)
	}
	return seen(*record), nil
}

func checkCustomers(ctx context.Context, t *target) (all snapshot, err error) {
	var customers []customer
	if t.body == nil {
		return snapshot{}, errNeedsRequest
	}
	if err := json.Unmarshal(t.body, &customers); err != nil {
		return snapshot{}, err
	}
	for _, c := range customers {
		one, err := customerWith(ctx, t, c.Email)
		if err != nil {
			return snapshot{}, err
		}
		all.Count += one.Count
		if one.Count == 0 {
			all.State += one.State + ";"
		}
	}
	return all, nil
}

func checkApplications(ctx context.Context, t *target) (snapshot, error) {
	id, err := lending.ParseCustomerID(t.ids["customerId"])
	if err != nil { // they are of several customers
		return snapshot{Count: -1}, nil //nolint:nilerr // it is not counted then
	}
	list, err := t.client.Applications.ListByCustomer(ctx, id)
	if err != nil {
		return noList(err)
	}
	records := make([]lending.Record, 0, len(list))
	for _, application := range list {
		records = append(records, application.Record)
	}
	return seen(records...), nil
}

func checkOffer(ctx context.Context, t *target) (snapshot, error) {
	s, err := offerOf(ctx, t)
	if err != nil {
		return absence(err)
	}
	return s, nil
}

func offerOf(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.application()
	if err != nil {
		return snapshot{}, err
	}
	offer, err := t.client.Applications.Offer(ctx, id, nil)
	if err != nil {
		return snapshot{}, err
	}
	return seen(offer.Record), nil
}

func checkApplicants(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.application()
	if err != nil {
		return snapshot{}, err
	}
	list, err := t.client.Approval.Applicants(ctx, id)
	if err != nil {
		return noList(err)
	}
	return snapshot{Count: len(list)}, nil
}

// checkRequirement asks whether the record of a required document says that the document is there.
func checkRequirement(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.application()
	if err != nil {
		return snapshot{}, err
	}
	list, err := t.client.Approval.RequiredDocuments(ctx, id)
	if err != nil {
		return untold(err)
	}
	return marked(list, t.ids["supportingDocumentId"], "submitted", "uploaded", "received"), nil
}

// checkSignature asks whether the record of an applicant says that he has signed.
func checkSignature(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.application()
	if err != nil {
		return snapshot{}, err
	}
	list, err := t.client.Approval.Applicants(ctx, id)
	if err != nil {
		return untold(err)
	}
	return marked(list, t.ids["applicantId"], "signed"), nil
}

// checkCompany asks whether the application has a company by now.
func checkCompany(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.application()
	if err != nil {
		return snapshot{}, err
	}
	application, err := t.client.Applications.Get(ctx, id)
	if err != nil {
		return untold(err)
	}
	return marked([]*lending.Application{application}, id.String(), "company"), nil
}

// untold is the snapshot where the service refuses a read without which the mutation can be sent
// too. What reads do not show yet has no mark; after another refusal nothing is known.
func untold(err error) (snapshot, error) {
	switch failed, _ := errors.AsType[*lending.Error](err); {
	case failed != nil && failed.StatusCode == http.StatusNotFound:
		return snapshot{State: unseen}, nil
	case failed != nil && (failed.StatusCode == http.StatusBadRequest || failed.StatusCode == http.StatusForbidden):
		return snapshot{Count: -1}, nil
	}
	return snapshot{}, err
}

// checkWithdrawals counts the withdrawals last: one that is executed between the reads is
// counted then, whatever the others have shown.
func checkWithdrawals(ctx context.Context, t *target) (snapshot, error) {
	id, err := t.loan()
	if err != nil {
		return snapshot{}, err
	}
	transactions, err := t.client.Loans.TransactionsPaged(ctx, id, &lending.PagedOptions{Take: 1})
	if err != nil {
		return snapshot{}, err
	}
	balance, err := t.client.Loans.TotalBalance(ctx, id)
	if err != nil {
		return snapshot{}, err
	}
	withdrawals, err := t.client.Loans.Withdrawals(ctx, id, &lending.PagedOptions{Take: 1})
	if err != nil {
		return snapshot{}, err
	}
	state := strconv.Itoa(totalOf(transactions.Record)) + " " + string(balance.Raw())
	return snapshot{Count: totalOf(withdrawals.Record), State: hashed(state)}, nil
}

func checkSubscription(ctx context.Context, t *target) (snapshot, error) {
	subscription, err := t.client.Webhooks.Subscription(ctx, t.webhooks())
	if err != nil {
		return absence(err)
	}
	return seen(subscription.Record), nil
}

// totalOf is the total that the service said, -1 if it said none.
func totalOf(page lending.Record) int {
	var said struct {
		TotalCount *int `json:"totalCount"`
	}
	if page.Decode(&said) != nil || said.TotalCount == nil || *said.TotalCount < 0 {
		return -1
	}
	return *said.TotalCount
}

// rebuiltCustomer is the customer that the e-mail address led to.
func rebuiltCustomer(ctx context.Context, t *target, _ *snapshot, after snapshot) ([]byte, error) {
	id, err := theOne(after.IDs, func(id string) error {
		customer, err := lending.ParseCustomerID(id)
		if err == nil {
			_, err = t.client.Customers.GetByID(ctx, customer)
		}
		return err
	})
	if id == "" {
		return nil, err
	}
	return json.Marshal(map[string]string{"id": id})
}

// rebuiltApplication is the application whose id was not there before.
func rebuiltApplication(ctx context.Context, t *target, before *snapshot, after snapshot) ([]byte, error) {
	fresh := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool { return slices.Contains(before.IDs, id) })
	id, err := theOne(fresh, func(id string) error {
		application, err := lending.ParseApplicationID(id)
		if err == nil {
			_, err = t.client.Applications.Get(ctx, application)
		}
		return err
	})
	if id == "" {
		return nil, err
	}
	return json.Marshal(id)
}

// rebuiltOffer is the only UUID of the offer that is not the application's, and that a second
// read shows too.
func rebuiltOffer(ctx context.Context, t *target, _ *snapshot, after snapshot) ([]byte, error) {
	again, err := offerOf(ctx, t)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool {
		return strings.EqualFold(id, t.ids["applicationId"]) || !slices.Contains(again.IDs, id)
	})
	if len(ids) != 1 {
		return nil, nil
	}
	return json.Marshal(ids[0])
}

// maxTried bounds how many UUIDs of a record are tried.
const maxTried = 16

// theOne returns the only one of ids that a read accepts, "" if there is none or several.
func theOne(ids []string, read func(id string) error) (string, error) {
	var accepted []string
	var failed error // as it may for what is of another kind, for ever
	if len(ids) > maxTried {
		return "", nil
	}
	for _, id := range ids {
		switch err := read(id); {
		case err == nil:
			accepted = append(accepted, id)
		case !lending.IsNotFound(err):
			failed = err
		}
	}
	switch len(accepted) {
	case 0:
		return "", failed
	case 1:
		return accepted[0], nil
	}
	return "", nil
}
