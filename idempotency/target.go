package idempotency

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// target is what a check reads: the records that a mutation is about. Of a mutation whose entry
// is all that is known there is no body, and so nothing of a person.
type target struct {
	client *lending.Client
	ids    ids
	body   []byte // of the request, without secrets; nil if it is not known
}

// ids are the records that a request names, by the name of each in the interface, for example
// "loanId". An entry keeps them: they say nothing of a person.
type ids map[string]string

// targetOf returns the target of a call.
func targetOf(call *lending.MutationCall) *target {
	return &target{client: call.Client(), ids: idsOf(call), body: call.Body()}
}

// idsOf returns the ids in the path, in the query, and of the one customer in the body.
func idsOf(call *lending.MutationCall) ids {
	named, args := ids{}, call.Args()
	for i, part := range strings.Split(call.Route(), "{")[1:] {
		if name, _, ok := strings.Cut(part, "}"); ok && i < len(args) {
			named[name] = args[i]
		}
	}
	query := call.Query()
	for _, name := range []string{"applicationId", "partnerId", "customerId", "supportingDocumentId"} {
		if query.Has(name) {
			named[name] = query.Get(name)
		}
	}
	if id := customerIn(call.Body()); !id.IsZero() {
		named["customerId"] = id.String()
	}
	return named
}

// customerIn returns the customer for whom the body creates applications. A bulk request can
// have several, and then has none.
func customerIn(body []byte) (id lending.CustomerID) {
	type application struct {
		CustomerID lending.CustomerID `json:"customerId"`
	}
	var applications []application
	if one := (application{}); json.Unmarshal(body, &one) == nil {
		return one.CustomerID
	}
	if json.Unmarshal(body, &applications) != nil || len(applications) == 0 {
		return id
	}
	for _, other := range applications[1:] {
		if other != applications[0] {
			return id
		}
	}
	return applications[0].CustomerID
}

func (t *target) application() (lending.ApplicationID, error) {
	return lending.ParseApplicationID(t.ids["applicationId"])
}

func (t *target) loan() (lending.LoanID, error) { return lending.ParseLoanID(t.ids["loanId"]) }

// webhooks returns whose subscription it is.
func (t *target) webhooks() lending.WebhookTarget {
	if id, err := uuid.Parse(t.ids["partnerId"]); err == nil {
		return lending.ForPartner(lending.PartnerID(id))
	}
	if id, err := uuid.Parse(t.ids["customerId"]); err == nil {
		return lending.ForCustomer(lending.CustomerID(id))
	}
	return lending.WebhookTarget{}
}
