package lendingtest

// Calculation is what an invoice calculation leaves behind for the withdrawal.
type Calculation struct {
	Amount                    Cents   `json:"amount"`
	PercentOfIncome           float64 `json:"percentOfIncome"`
	Terms                     int     `json:"terms"`
	FixedRepaymentCalculation bool    `json:"fixedRepaymentCalculation"`
}
