package lending

import (
	"context"
	"encoding/json"
)

// CalculationService calculates what financing costs.
type CalculationService struct{ client *carrier }

// CalculationRequest is what a calculation starts from. A field that is left empty
// is not sent, except FixedRepaymentCalculation.
//
// Numbers are exact: json.Number takes a literal, as in Amount: "2500.00".
type CalculationRequest struct {
	Amount                    json.Number `json:"amount,omitzero"`
	PercentOfIncome           json.Number `json:"percentOfIncome,omitzero"`
	Terms                     int         `json:"terms,omitzero"`
	FixedRepaymentCalculation bool        `json:"fixedRepaymentCalculation"`
	Extra                     any         `json:"-"` // further fields: marshals to a JSON object
}

func (r CalculationRequest) check(c *checks) {
	c.number("amount", r.Amount)
	c.number("percentOfIncome", r.PercentOfIncome)
}

// number refuses what is not written as a JSON number. It may be empty.
func (c *checks) number(field string, n json.Number) {
	_, err := json.Marshal(n)
	c.that(err == nil, field, CodeFormat, "must be a number as JSON writes it")
}

// CalculationResponse is the result of a calculation. Its fields are not published.
type CalculationResponse struct{ Record }

// SliderRequest is what the slider of a line of credit starts from. Its fields are
// not published: Extra holds them.
type SliderRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// SliderResult is one position of the slider. Its fields are not published.
type SliderResult struct{ Record }

// LineOfCreditSlider calculates the positions of a slider for a line of credit.
//
// slider may be nil: the route accepts a call without a body. After an unknown
// outcome nothing shows what was calculated: calculate again.
//
// Route: POST /api/Calculation/application-loc-calculation-slider
func (s *CalculationService) LineOfCreditSlider(ctx context.Context, id ApplicationID, slider *SliderRequest) ([]SliderResult, error) {
	return post[[]SliderResult](ctx, s.client, request{
		path:  "/api/Calculation/application-loc-calculation-slider",
		query: []param{{"applicationId", id.String(), true}},
		body:  slider,
	})
}

// LineOfCredit calculates a line of credit.
//
// calculation may be nil: the route accepts a call without a body. After an unknown
// outcome nothing shows what was calculated: calculate again.
//
// Route: POST /api/Calculation/application-loc-calculation
func (s *CalculationService) LineOfCredit(ctx context.Context, id ApplicationID, calculation *CalculationRequest) (*CalculationResponse, error) {
	return post[*CalculationResponse](ctx, s.client, request{
		path:  "/api/Calculation/application-loc-calculation",
		query: []param{{"applicationId", id.String(), true}},
		body:  calculation,
	})
}

// Invoice calculates the financing of an invoice. The service stores the result and
// checks [LoansService.WithdrawInvoice] against it, which takes the same calculation.
//
// calculation may be nil: the route accepts a call without a body. After an unknown
// outcome nothing shows what is stored: calculate again before withdrawing.
//
// Route: POST /api/Calculation/application-invoice-calculation
func (s *CalculationService) Invoice(ctx context.Context, id ApplicationID, calculation *CalculationRequest) (*CalculationResponse, error) {
	return post[*CalculationResponse](ctx, s.client, request{
		path:  "/api/Calculation/application-invoice-calculation",
		query: []param{{"applicationId", id.String(), true}},
		body:  calculation,
	})
}
