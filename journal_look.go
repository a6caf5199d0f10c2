package lending

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// hashed is a text of which only equality is of interest.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

var quotedUUID = regexp.MustCompile(`"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"`)

// seen returns the sight of records: how many there are, and their UUIDs.
func seen(records ...Record) sight {
	s := sight{Count: len(records)}
	for _, record := range records {
		for _, quoted := range quotedUUID.FindAllString(string(record.Raw()), -1) {
			s.IDs = append(s.IDs, strings.ToLower(strings.Trim(quoted, `"`)))
		}
	}
	slices.Sort(s.IDs)
	s.IDs = slices.Compact(s.IDs)
	return s
}

// absence is the sight where a read says that there is nothing. In which of its ways it
// says so is part of it: 400 can also mean that it failed.
func absence(err error) (sight, error) {
	failed, ok := errors.AsType[*Error](err)
	if !ok || !IsNotFound(err) {
		return sight{}, err
	}
	return sight{State: "absent " + strconv.Itoa(failed.StatusCode)}, nil
}

// noList is absence for a list, whose own way to say that it has nothing is to be empty. A
// 400 instead of it is rather a failure, and says nothing of what there is.
func noList(err error) (sight, error) {
	s, err := absence(err)
	if strings.HasSuffix(s.State, " 400") {
		s.Count = -1
	}
	return s, err
}

func lookCustomer(ctx context.Context, c *Client, r *request) (sight, error) {
	return customerWith(ctx, c, r.body.(UserRequest).Email)
}

func customerWith(ctx context.Context, c *Client, email string) (sight, error) {
	record, err := c.Customers.GetByEmail(ctx, email)
	if err != nil {
		return absence(err)
	}
	return seen(*record), nil
}

func lookCustomers(ctx context.Context, c *Client, r *request) (all sight, err error) {
	for _, customer := range r.body.(batch[UserRequest]) {
		one, err := customerWith(ctx, c, customer.Email)
		if err != nil {
			return sight{}, err
		}
		all.Count += one.Count
		if one.Count == 0 {
			all.State += one.State + ";"
		}
	}
	return all, nil
}

func lookApplications(ctx context.Context, c *Client, r *request) (sight, error) {
	id, ok := customerOf(r)
	if !ok {
		return sight{Count: -1}, nil
	}
	list, err := c.Applications.ListByCustomer(ctx, id)
	if err != nil {
		return noList(err)
	}
	records := make([]Record, 0, len(list))
	for _, application := range list {
		records = append(records, application.Record)
	}
	return seen(records...), nil
}

func lookOffer(ctx context.Context, c *Client, r *request) (sight, error) {
	id, err := ParseApplicationID(r.args[0])
	if err != nil {
		return sight{}, err
	}
	offer, err := c.Applications.Offer(ctx, id, nil)
	if err != nil {
		return absence(err)
	}
	s := seen(offer.Record)
	s.State = strings.Join(s.IDs, " ")
	return s, nil
}

func lookApplicants(ctx context.Context, c *Client, r *request) (sight, error) {
	id, err := ParseApplicationID(r.args[0])
	if err != nil {
		return sight{}, err
	}
	list, err := c.Approval.Applicants(ctx, id)
	if err != nil {
		return noList(err)
	}
	return sight{Count: len(list)}, nil
}

// lookWithdrawals counts the withdrawals last: one that is executed between the reads is
// counted then, whatever the others have shown.
func lookWithdrawals(ctx context.Context, c *Client, r *request) (sight, error) {
	id, err := ParseLoanID(r.args[0])
	if err != nil {
		return sight{}, err
	}
	transactions, err := c.Loans.TransactionsPaged(ctx, id, &PagedOptions{Take: 1})
	if err != nil {
		return sight{}, err
	}
	balance, err := c.Loans.TotalBalance(ctx, id)
	if err != nil {
		return sight{}, err
	}
	withdrawals, err := c.Loans.Withdrawals(ctx, id, &PagedOptions{Take: 1})
	if err != nil {
		return sight{}, err
	}
	state := strconv.Itoa(transactions.total()) + " " + string(balance.Raw())
	return sight{Count: withdrawals.total(), State: hashed(state)}, nil
}

func lookSubscription(ctx context.Context, c *Client, r *request) (sight, error) {
	subscription, err := c.Webhooks.Subscription(ctx, targetOf(r))
	if err != nil {
		return absence(err)
	}
	return seen(subscription.Record), nil
}

// targetOf returns the target in the query of r, which came from one.
func targetOf(r *request) WebhookTarget {
	for _, p := range r.query {
		switch id, _ := uuid.Parse(p.value); p.name {
		case "partnerId":
			return ForPartner(PartnerID(id))
		case "customerId":
			return ForCustomer(CustomerID(id))
		}
	}
	return WebhookTarget{}
}

// customerSeen is the customer that the e-mail address led to.
func customerSeen(ctx context.Context, c *Client, _ *request, _ *sight, after sight) ([]byte, error) {
	id, err := theOne(after.IDs, func(id string) error {
		customer, err := ParseCustomerID(id)
		if err == nil {
			_, err = c.Customers.GetByID(ctx, customer)
		}
		return err
	})
	if id == "" {
		return nil, err
	}
	return json.Marshal(map[string]string{"id": id})
}

// applicationSeen is the application whose id was not there before.
func applicationSeen(ctx context.Context, c *Client, _ *request, before *sight, after sight) ([]byte, error) {
	fresh := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool { return slices.Contains(before.IDs, id) })
	id, err := theOne(fresh, func(id string) error {
		application, err := ParseApplicationID(id)
		if err == nil {
			_, err = c.Applications.Get(ctx, application)
		}
		return err
	})
	if id == "" {
		return nil, err
	}
	return json.Marshal(id)
}

// offerSeen is the only UUID in the offer that is new, and not that of the application.
func offerSeen(_ context.Context, _ *Client, r *request, before *sight, after sight) ([]byte, error) {
	others := slices.DeleteFunc(slices.Clone(after.IDs), func(id string) bool {
		return strings.EqualFold(id, r.args[0]) || slices.Contains(before.IDs, id)
	})
	if len(others) != 1 {
		return nil, nil
	}
	return json.Marshal(others[0])
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
		case !IsNotFound(err):
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
