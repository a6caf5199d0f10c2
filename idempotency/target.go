package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// target has the input of a check: the ids and the body of the request. A target from an entry
// has no body, because an entry keeps no personal data.
type target struct {
	client *lending.Client
	ids    ids
	body   []byte // the request without secrets; nil if unknown
}

// ids are the ids in a request by name, for example "loanId".
type ids map[string]string

// kept returns the UUIDs. An entry does not keep the id of a bank account, which can be the
// account number.
func (i ids) kept() ids {
	kept := maps.Clone(i)
	maps.DeleteFunc(kept, func(_, id string) bool { return uuid.Validate(id) != nil })
	return kept
}

func (i ids) has(id string) bool {
	for _, own := range i {
		if strings.EqualFold(own, id) {
			return true
		}
	}
	return false
}

// idsOf returns the ids in the path and the query, and the customer id in the body.
func idsOf(call *lending.MutationCall) ids {
	named, rest := ids{}, call.Route()
	for _, arg := range call.Args() {
		_, rest, _ = strings.Cut(rest, "{")
		if name, _, ok := strings.Cut(rest, "}"); ok {
			named[name] = arg
		}
	}
	query := call.Query()
	for _, name := range []string{"applicationId", "partnerId", "customerId", "supportingDocumentId"} {
		if query.Has(name) {
			named[name] = query.Get(name)
		}
	}
	type application struct {
		CustomerID lending.CustomerID `json:"customerId"`
	}
	// A bulk request can have several customers.
	if all := slices.Compact(listed[application](call.Body())); len(all) == 1 && !all[0].CustomerID.IsZero() {
		named["customerId"] = all[0].CustomerID.String()
	}
	return named
}

// listed returns the object in body, or the objects of the list in body.
func listed[T any](body []byte) (all []T) {
	var one T
	if json.Unmarshal(body, &one) == nil {
		return []T{one}
	}
	if json.Unmarshal(body, &all) != nil {
		return nil
	}
	return all
}

// application returns the application of the request, or zero, which the client refuses to read.
func (t *target) application() lending.ApplicationID {
	id, _ := lending.ParseApplicationID(t.ids["applicationId"])
	return id
}

// loan returns the loan of the request, or zero.
func (t *target) loan() lending.LoanID {
	id, _ := lending.ParseLoanID(t.ids["loanId"])
	return id
}

// webhooks returns the owner of the subscription.
func (t *target) webhooks() lending.WebhookTarget {
	if id, err := uuid.Parse(t.ids["partnerId"]); err == nil {
		return lending.ForPartner(lending.PartnerID(id))
	}
	if id, err := uuid.Parse(t.ids["customerId"]); err == nil {
		return lending.ForCustomer(lending.CustomerID(id))
	}
	return lending.WebhookTarget{}
}

// who returns two bytes of a hash of the e-mail addresses in the body, or nil without an
// address. Two bytes are enough to notice another address, and too few to recover an address.
func (t *target) who(salt string) []byte {
	sum, some := hmac.New(sha256.New, []byte(salt)), false
	for _, c := range listed[customer](t.body) {
		some = some || c.Email != ""
		_, _ = io.WriteString(sum, c.Email+"\n")
	}
	if !some {
		return nil
	}
	return sum.Sum(nil)[:2]
}
