package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/webhook"
)

// reads are the reads of [lending.Error].CheckWith as routes.
var reads = map[string]string{
	"Applications.Get":            "/api/Application/get-application/{applicationId}",
	"Applications.ListByCustomer": "/api/Application/get-customer-applications/{customerId}",
	"Applications.Offer":          "/api/Application/application-offer/{applicationId}",
	"Applications.Status":         "/api/Application/application-status/{applicationId}",
	"Approval.Applicants":         "/api/ApplicationApproval/get-all-applicants/{applicationId}",
	"Approval.BankAccounts":       "/api/ApplicationApproval/get-all-bank-accounts/{applicationId}",
	"Approval.ContractDetails":    "/api/ApplicationApproval/get-contract-details/{applicationId}",
	"Approval.Contracts":          "/api/ApplicationApproval/get-contracts/{applicationId}",
	"Approval.PrimaryBankAccount": "/api/ApplicationApproval/get-primary-bank-account/{applicationId}",
	"Approval.RequiredDocuments":  "/api/ApplicationApproval/get-required-documents/{applicationId}",
	"Communication.Messages":      "/api/Communication/get-all-messages/{applicationId}",
	"Customers.GetByEmail":        "/api/Customer/get-customer-by-email?email={email}",
	"Customers.GetByID":           "/api/Customer/get-customer-by-id/{customerId}",
	"Loans.TotalBalance":          "/api/Loan/get-total-balance/{loanId}",
	"Loans.Withdrawals":           "/api/Loan/get-withdrawals/{loanId}",
	"Webhooks.Subscription":       "/api/Webhook/get-subscription?partnerId={partnerId}",
}

// lookAt returns the reads of a key as requests. An id that the key does not know stays a name in braces.
func lookAt(checkWith string, ids map[string]string) (requests []string) {
	for name := range strings.SplitSeq(checkWith, ", ") {
		route, ok := reads[name]
		if !ok {
			continue
		}
		if ids["customerId"] != "" {
			route = strings.ReplaceAll(route, "partnerId", "customerId")
		}
		for id, value := range ids {
			route = strings.ReplaceAll(route, "{"+id+"}", url.QueryEscape(value))
		}
		requests = append(requests, "GET "+route)
	}
	return requests
}

// curl returns a request of lookAt as a command for a terminal.
func curl(request string) string {
	return `curl -H "Authorization: Bearer $LENDING_TOKEN" "$LENDING_URL` + strings.TrimPrefix(request, "GET ") + `"`
}

// about returns the partner's words for a key, or for a webhook of the records.
func (d *desk) about(ctx context.Context, key string, ids map[string]string) (text string) {
	if d.About == nil {
		return ""
	}
	_ = d.contained(ctx, func() error { text = d.About(ctx, key, ids); return nil })
	return text
}

// aboutLetter returns the partner's words for a dead letter, or else the ids of its records.
func (d *desk) aboutLetter(ctx context.Context, inbox webhook.DeadLetters, id string) string {
	event, err := inbox.DeadLetterEvent(ctx, id)
	if err != nil {
		return "" // the list stays readable
	}
	var data struct{ CustomerID, ApplicationID, LoanID string }
	_ = json.Unmarshal(event.Data.Raw(), &data) // the data is any JSON
	records := map[string]string{}
	for name, id := range map[string]string{"customerId": data.CustomerID, "applicationId": data.ApplicationID, "loanId": data.LoanID} {
		if uuid.Validate(id) == nil {
			records[name] = id
		}
	}
	return cmp.Or(d.about(ctx, "", records), strings.Join(ids(records), ", "))
}
