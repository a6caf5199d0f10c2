package lendingtest

// Calculation is the interface's CalculationRequest. The last invoice calculation is stored for
// the withdrawal.
type Calculation struct {
	Amount                    Cents   `json:"amount"`
	PercentOfIncome           float64 `json:"percentOfIncome"`
	Terms                     int     `json:"terms"`
	FixedRepaymentCalculation bool    `json:"fixedRepaymentCalculation"`
}

// calculated is this model's CalculationResponse: two percent for each term.
type calculated struct {
	Calculation
	ApplicationID   string  `json:"applicationId"`
	AdvanceRate     float64 `json:"advanceRate"`
	Fee             Cents   `json:"fee"`
	TotalRepayment  Cents   `json:"totalRepayment"`
	RepaymentAmount Cents   `json:"repaymentAmount"`
}

func calculate(app *Application, k Calculation) calculated {
	fee := k.Amount * Cents(k.Terms) / 50
	total := k.Amount + fee
	return calculated{
		Calculation: k, ApplicationID: app.ID, AdvanceRate: advanceRate,
		Fee: fee, TotalRepayment: total, RepaymentAmount: total / Cents(max(k.Terms, 1)),
	}
}

// readCalculation reads the body. Without a body it uses the offer.
func (c *call) readCalculation() (*Application, Calculation, error) {
	var k Calculation
	app, err := c.openApplication()
	if err != nil {
		return nil, k, err
	}
	present, err := c.decode(&k)
	if err != nil {
		return nil, k, err
	}
	if !present {
		if app.Offer == nil {
			return nil, k, refuse("OfferNotFound", "The application has no offer to calculate with.")
		}
		k = Calculation{Amount: app.Offer.Amount, Terms: app.Offer.Terms}
	}
	if k.Amount <= 0 {
		c.failed.add("amount", "InvalidAmount", "The amount is not above zero.")
	}
	if k.PercentOfIncome < 0 || k.PercentOfIncome > 100 {
		c.failed.add("percentOfIncome", "InvalidPercentage", "The percentage is not from 0 to 100.")
	}
	if k.Terms < 0 || k.Terms > 120 {
		c.failed.add("terms", "InvalidTerms", "The number of terms is not from 0 to 120.")
	}
	return app, k, c.failed.err()
}

func (c *call) lineOfCreditCalculation() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	return calculate(app, k), nil
}

// invoiceCalculation stores the inputs, which an invoice withdrawal must repeat.
func (c *call) invoiceCalculation() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	app.Calculation = &k
	return calculate(app, k), nil
}

// calculationSlider calculates for three, six and twelve terms.
func (c *call) calculationSlider() (any, error) {
	app, k, err := c.readCalculation()
	if err != nil {
		return nil, err
	}
	all := []calculated{}
	for _, terms := range []int{3, 6, 12} {
		k.Terms = terms
		all = append(all, calculate(app, k))
	}
	return all, nil
}
