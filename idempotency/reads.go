package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// checks are the reads of a check, and those that rebuild the response of a mutation that happened.
var checks = map[reads]struct {
	read    func(context.Context, *target) (snapshot, error)
	rebuild func(ctx context.Context, t *target, before *snapshot, after snapshot) ([]byte, error) // nil if no read shows it
}{
	readsCustomer:     {checkCustomers, rebuiltCustomer},
	readsCustomers:    {checkCustomers, rebuiltCustomers},
	readsApplications: {checkApplications, rebuiltApplication},
	readsOffer:        {checkProcessing, rebuiltOffer},
	readsApplicants:   {read: checkApplicants},
	readsWithdrawals:  {read: checkWithdrawals},
	readsSubscription: {read: checkSubscription},
}

// seen returns the snapshot of records: the count and the UUIDs.
func seen[T interface{ Raw() json.RawMessage }](records ...T) snapshot {
	ids := map[string]bool{}
	for _, record := range records {
		for _, id := range uuidsIn(string(record.Raw())) {
			ids[id] = true
		}
	}
	return snapshot{Count: len(records), IDs: slices.Sorted(maps.Keys(ids))}
}

// single returns the snapshot of a record that can exist once. An empty object is no record.
func single(record lending.Record) snapshot {
	var members map[string]json.RawMessage
	if json.Unmarshal(record.Raw(), &members) == nil && len(members) == 0 {
		return snapshot{State: "empty"}
	}
	return seen(record)
}

// absence returns the snapshot of a read that finds nothing. State keeps the status, because a
// 400 can also be a failure of the service.
func absence(err error) (snapshot, error) {
	failed, ok := errors.AsType[*lending.Error](err)
	if !ok || !lending.IsNotFound(err) {
		return snapshot{}, err
	}
	return snapshot{State: "absent " + strconv.Itoa(failed.StatusCode)}, nil
}

// absenceBeside is absence for a read of a check with another read that found its record: the service
// has answered, so an empty 404 is of a missing record.
func absenceBeside(err error) (snapshot, error) {
	if errors.Is(err, verdict.ErrEmptyNotFound) {
		return snapshot{State: "absent 404"}, nil
	}
	return absence(err)
}

// noList is absence for a list. An empty list is the normal response without records. A 404
// means that reads do not show the parent yet, which also has no records. A 400 is a failure:
// the count is unknown.
func noList(err error) (snapshot, error) {
	s, err := absence(err)
	if strings.HasSuffix(s.State, " 400") {
		return snapshot{Count: -1}, err
	}
	return snapshot{}, err
}

// errNeedsRequest is the error of a check without the request: no entry keeps an e-mail address.
var errNeedsRequest = redact.Text(prefix + "the check needs the e-mail address in the request; call with the key")

func customerWith(ctx context.Context, t *target, email string) (snapshot, error) {
	record, err := t.client.Customers.GetByEmail(ctx, email)
	if err != nil {
		return absence(err)
	}
	s := single(*record)
	if s.Count > 0 && len(s.IDs) == 0 { // a customer has an id
		s.Count = -1
	}
	return s, nil
}

// checkCustomers counts the customers with the e-mail addresses in the request.
func checkCustomers(ctx context.Context, t *target) (all snapshot, err error) {
	if t.body == nil {
		return snapshot{}, errNeedsRequest
	}
	for _, c := range listed[customer](t.body) {
		one, err := customerWith(ctx, t, c.Email)
		if err != nil || one.Count < 0 {
			return one, err
		}
		all.Count, all.IDs = all.Count+one.Count, append(all.IDs, one.IDs...)
		if one.Count == 0 {
			all.State += one.State + ";"
		}
	}
	return all, nil
}

func checkApplications(ctx context.Context, t *target) (snapshot, error) {
	id, err := lending.ParseCustomerID(t.ids["customerId"])
	if err != nil { // applications of several customers
		return snapshot{Count: -1}, nil //nolint:nilerr // no list has them all
	}
	list, err := t.client.Applications.ListByCustomer(ctx, id)
	if err != nil {
		return noList(err)
	}
	return seen(list...), nil
}

// checkProcessing reads the offer, and the status before it.
func checkProcessing(ctx context.Context, t *target) (snapshot, error) {
	status, noStatus := t.client.Applications.Status(ctx, t.application())
	if noStatus != nil && !lending.IsNotFound(noStatus) {
		return snapshot{}, noStatus
	}
	s, err := offerOf(ctx, t)
	switch {
	case err != nil && noStatus == nil:
		s, err = absenceBeside(err)
	case err != nil:
		s, err = absence(err)
	}
	s.State += hashed(status)
	return s, err
}

func offerOf(ctx context.Context, t *target) (snapshot, error) {
	offer, err := t.client.Applications.Offer(ctx, t.application(), nil)
	if err != nil {
		return snapshot{}, err
	}
	return single(offer.Record), nil
}

func checkApplicants(ctx context.Context, t *target) (snapshot, error) {
	list, err := t.client.Approval.Applicants(ctx, t.application())
	if err != nil {
		return noList(err)
	}
	return snapshot{Count: len(list)}, nil
}

// checkWithdrawals counts the withdrawals in the last read. So the count includes a withdrawal
// between the reads.
func checkWithdrawals(ctx context.Context, t *target) (snapshot, error) {
	loan := t.loan()
	transactions, err := t.client.Loans.TransactionsPaged(ctx, loan, &lending.PagedOptions{Take: 1})
	if err != nil {
		return snapshot{}, err
	}
	balance, err := t.client.Loans.TotalBalance(ctx, loan)
	if err != nil {
		return snapshot{}, err
	}
	state := hashed(strconv.Itoa(totalOf(transactions.Record)) + " " + string(balance.Raw()))
	if t.isConfirmed != nil {
		count, err := t.confirmed(ctx)
		return snapshot{Count: count, State: state}, err
	}
	withdrawals, err := t.client.Loans.Withdrawals(ctx, loan, &lending.PagedOptions{Take: 1})
	if err != nil {
		return snapshot{}, err
	}
	return snapshot{Count: totalOf(withdrawals.Record), State: state}, nil
}

// confirmed counts the withdrawals for [Options].IsConfirmed.
func (t *target) confirmed(ctx context.Context) (n int, err error) {
	for withdrawal, err := range t.client.Loans.AllWithdrawals(ctx, t.loan(), nil) {
		if err != nil {
			return 0, err
		}
		if t.isConfirmed(withdrawal) {
			n++
		}
	}
	return n, nil
}

func checkSubscription(ctx context.Context, t *target) (snapshot, error) {
	subscription, err := t.client.Webhooks.Subscription(ctx, t.webhooks())
	if err != nil {
		return absence(err)
	}
	return single(subscription.Record), nil
}

// totalOf returns the totalCount of a page, or -1 without one.
func totalOf(page lending.Record) int {
	var said struct {
		TotalCount *int `json:"totalCount"`
	}
	if page.Decode(&said) != nil || said.TotalCount == nil || *said.TotalCount < 0 {
		return -1
	}
	return *said.TotalCount
}

func rebuiltCustomer(ctx context.Context, t *target, _ *snapshot, after snapshot) ([]byte, error) {
	id, err := theOne(after.IDs, func(id string) error {
		customer, _ := lending.ParseCustomerID(id) // a UUID
		_, err := t.client.Customers.GetByID(ctx, customer)
		return err
	})
	if id == "" {
		return nil, err
	}
	return json.Marshal(map[string]string{"id": id})
}

// rebuiltCustomers returns the customers with the e-mail addresses of a batch.
func rebuiltCustomers(ctx context.Context, t *target, before *snapshot, _ snapshot) ([]byte, error) {
	customers := listed[customer](t.body)
	rebuilt := make([]json.RawMessage, len(customers))
	for i, c := range customers {
		after, err := customerWith(ctx, t, c.Email)
		if err == nil {
			rebuilt[i], err = rebuiltCustomer(ctx, t, before, after)
		}
		if err != nil || rebuilt[i] == nil {
			return nil, err
		}
	}
	return json.Marshal(rebuilt)
}

// rebuiltApplication returns the id of the application that the check before did not show.
func rebuiltApplication(ctx context.Context, t *target, before *snapshot, after snapshot) ([]byte, error) {
	ids, err := newApplications(ctx, t, before, after)
	if len(ids) != 1 {
		return nil, err
	}
	return json.Marshal(ids[0])
}

// newApplications returns the ids of the applications that the check before did not show.
func newApplications(ctx context.Context, t *target, before *snapshot, after snapshot) ([]string, error) {
	fresh := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool { return slices.Contains(before.IDs, id) })
	return those(fresh, func(id string) error {
		application, _ := lending.ParseApplicationID(id) // a UUID
		_, err := t.client.Applications.Get(ctx, application)
		return err
	})
}

// rebuiltOffer returns the UUID of the offer: the only UUID, except the id of the application,
// that two reads show.
func rebuiltOffer(ctx context.Context, t *target, _ *snapshot, after snapshot) ([]byte, error) {
	again, err := offerOf(ctx, t)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool {
		return t.ids.has(id) || !slices.Contains(again.IDs, id)
	})
	if len(ids) != 1 {
		return nil, nil
	}
	return json.Marshal(ids[0])
}

// maxTried is the largest number of reads of those.
const maxTried = 16

// theOne returns the only id that read accepts, or "" if read accepts none or several.
func theOne(ids []string, read func(id string) error) (string, error) {
	accepted, err := those(ids, read)
	if len(accepted) != 1 {
		return "", err
	}
	return accepted[0], nil
}

// those returns the ids that read accepts. It is nil for too many ids. The error is nil if read accepts any.
func those(ids []string, read func(id string) error) (accepted []string, failed error) {
	if len(ids) > maxTried {
		return nil, nil
	}
	for _, id := range ids {
		switch err := read(id); {
		case err == nil:
			accepted = append(accepted, id)
		case !lending.IsNotFound(err):
			failed = err // a read with the id of another kind of record may always fail
		}
	}
	if len(accepted) > 0 {
		return accepted, nil
	}
	return nil, failed
}
