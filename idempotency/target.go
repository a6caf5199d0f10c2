package idempotency

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
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

	isConfirmed func(lending.AdvanceProjection) bool // see [Options]
}

func (s *settings) targetOf(client *lending.Client, ids ids) *target {
	return &target{client: client, ids: ids, isConfirmed: s.IsConfirmed}
}

// idsOf returns the ids in the path and the query, and the customer id in the body.
func idsOf(call *lending.MutationCall, body []byte) ids {
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
	if all := slices.Compact(listed[application](body)); len(all) == 1 && !all[0].CustomerID.IsZero() {
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

// records returns the number of records in a request: 1, or the length of a bulk request.
func records(body []byte) int { return max(1, len(listed[map[string]any](body))) }

type customer struct {
	Email string `json:"email"`
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

// owner returns the id of the application or the customer of the request, or "".
func (t *target) owner(ctx context.Context) (string, error) {
	loan := t.loan()
	if loan.IsZero() {
		return cmp.Or(t.ids["applicationId"], t.ids["customerId"]), nil
	}
	record, err := t.client.Loans.Get(ctx, loan)
	if lending.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return record.ApplicationID.String(), nil
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

// hashed returns a hash of text, for comparisons only.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
