// Package catalog has the routes of testdata/routes.tsv, a call for each route and the arguments
// of these calls. Tests use the catalog to check every route.
package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// The arguments of the calls. No two arguments are equal.
var (
	Customer    = lending.CustomerID(uuid.MustParse("c0000000-0000-4000-8000-000000000001"))
	Application = lending.ApplicationID(uuid.MustParse("a0000000-0000-4000-8000-000000000002"))
	Loan        = lending.LoanID(uuid.MustParse("10000000-0000-4000-8000-000000000003"))
	Partner     = lending.PartnerID(uuid.MustParse("b0000000-0000-4000-8000-000000000004"))
	Agent       = lending.AgentID(uuid.MustParse("a9000000-0000-4000-8000-000000000005"))
	Applicant   = lending.ApplicantID(uuid.MustParse("ab000000-0000-4000-8000-000000000006"))
	Requirement = lending.RequirementID(uuid.MustParse("d0000000-0000-4000-8000-000000000007"))

	Born  = time.Date(1990, 1, 2, 0, 0, 0, 0, time.UTC)
	Start = time.Date(2015, 6, 7, 0, 0, 0, 0, time.UTC)
	Date  = time.Date(2026, 3, 4, 6, 6, 7, 0, time.FixedZone("", 3600)) // 05:06:07 UTC
)

// User returns a customer with special characters in every field.
func User() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Zoë", LastName: "O'Hara", Email: "zoe+loans@example.com",
		Password: lending.NewSecret(`p"ss\wörd`), MobileNumber: "(415) 555-0100", Extra: Unpublished{"title": "Dr."},
	}
}

// ApplicationRequest returns an application with every field.
func ApplicationRequest() lending.ApplicationRequest {
	return lending.ApplicationRequest{
		CustomerID: Customer, BusinessName: "Bäckerei & Söhne", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"}, PartnerID: Partner, AgentID: Agent,
		Extra: Unpublished{"channel": "web"},
	}
}

// Calculation returns a calculation whose amounts have many digits.
func Calculation() lending.CalculationRequest {
	return lending.CalculationRequest{
		Amount: "2500.10", PercentOfIncome: "0.125000000000000000001", Terms: 12, FixedRepaymentCalculation: true,
		Extra: Unpublished{"currency": "USD"},
	}
}

// Withdrawal returns a withdrawal to confirm.
func Withdrawal() lending.InvoiceWithdrawal {
	return lending.InvoiceWithdrawal{LoanID: Loan, Amount: "2500.10", AdvanceRate: "0.80"}
}

// Subscription returns a subscription with an event name unknown to this library.
func Subscription() lending.WebhookSubscription {
	return lending.WebhookSubscription{
		WebhookURI: "https://hooks.example.com/lending", IsActive: true,
		Webhooks: []lending.EventName{"WB_Loan_Created", "WB_Of_Tomorrow"},
		Extra:    Unpublished{"headers": Unpublished{}},
	}
}

// File returns a document with special characters in its name.
func File() lending.Document {
	return lending.Document{Name: "März 1+2.pdf", Content: strings.NewReader("%PDF-1.7\x00\xff")}
}

// Unpublished holds fields outside the published interface.
type Unpublished map[string]any

// Identifiers that a test may print.
var (
	OtherApplication = lending.ApplicationID(uuid.MustParse("11111111-2222-4333-8444-555555555555"))
	OtherCustomer    = lending.CustomerID(uuid.MustParse("22222222-2222-4333-8444-555555555555"))
)

// Refused returns the fields and codes of an argument error, in order.
func Refused(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var argument *lending.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	var found []string
	for _, f := range argument.Fields {
		assert.ErrorContains(t, err, f.Field+" "+f.Message)
		found = append(found, f.Field+" "+f.Code)
	}
	return strings.Join(found, ", ")
}
