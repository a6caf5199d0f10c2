package lending

import (
	"context"
	"encoding/json"
)

// CalculationService calculates the cost of financing.
//
// The last argument of each method may be nil, which is null on the wire. Some hosts want a request,
// even an empty one.
type CalculationService struct{ client *carrier }

// CalculationRequest is the input of a calculation. The client does not send empty fields,
// except FixedRepaymentCalculation. Numbers are exact: Amount: "2500.00".
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

// number refuses a text that is neither empty nor a JSON number.
func (c *checks) number(field string, n json.Number) {
	_, err := json.Marshal(n)
	c.that(err == nil, field, CodeFormat, "must be a number as JSON writes it")
}

// CalculationResponse is the result of a calculation.
type CalculationResponse struct{ Record }

// SliderRequest is the input of a line of credit's slider, in unpublished fields.
type SliderRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// SliderResult is a position of the slider.
type SliderResult struct{ Record }

// LineOfCreditSlider calculates the positions of a slider for a line of credit. After an unknown
// outcome no read shows the calculation: calculate again. With an idempotency key the call succeeds
// with an empty result if the response is lost and a newer calculation has been made.
//
// Route: POST /api/Calculation/application-loc-calculation-slider
func (s *CalculationService) LineOfCreditSlider(ctx context.Context, id ApplicationID, slider *SliderRequest) ([]SliderResult, error) {
	return post[[]SliderResult](ctx, s.client, route("/api/Calculation/application-loc-calculation-slider").
		where(required("applicationId", id.String())).with(slider))
}

// LineOfCredit calculates a line of credit. After an unknown outcome no read shows the
// calculation: calculate again. With an idempotency key the call succeeds with an empty result if
// the response is lost and a newer calculation has been made.
//
// Route: POST /api/Calculation/application-loc-calculation
func (s *CalculationService) LineOfCredit(ctx context.Context, id ApplicationID, calculation *CalculationRequest) (*CalculationResponse, error) {
	return post[*CalculationResponse](ctx, s.client, route("/api/Calculation/application-loc-calculation").
		where(required("applicationId", id.String())).with(calculation))
}

// Invoice calculates the financing of an invoice. The service stores the result, and compares a
// later [LoansService.WithdrawInvoice] with it. After an unknown outcome no read shows the
// stored result: calculate again before withdrawing. With an idempotency key the call succeeds with
// an empty result if the response is lost and a newer calculation has been made.
//
// Route: POST /api/Calculation/application-invoice-calculation
func (s *CalculationService) Invoice(ctx context.Context, id ApplicationID, calculation *CalculationRequest) (*CalculationResponse, error) {
	return post[*CalculationResponse](ctx, s.client, route("/api/Calculation/application-invoice-calculation").
		where(required("applicationId", id.String())).with(calculation))
}
