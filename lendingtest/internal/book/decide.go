package book

import (
	"time"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Decide makes an offer, or schedules the decision about the application.
func (s *State) Decide(app *record.Application, offer *record.Offer) {
	if s.Decision == (record.Decision{}) {
		s.accept(app, offer)
		return
	}
	s.SetStatus(app, record.StatusUnderReview)
	s.EmitApplication("WB_Under_Review", app)
	declined, id := s.Decision.Declined, app.ID
	decide := func(s *State, at time.Time) {
		app := s.Applications.Get(id)
		switch {
		case app == nil || app.Status != record.StatusUnderReview: // cancelled meanwhile
		case declined:
			s.SetStatus(app, record.StatusDeclined)
		default:
			offer.CreatedUTC, offer.ExpiresUTC = record.Timestamp{Time: at}, record.Timestamp{Time: at.Add(OfferLifetime)}
			s.accept(app, offer)
		}
		s.Seeded(id)
	}
	if s.Decision.After <= 0 {
		decide(s, s.Now())
		return
	}
	s.later(s.Now().Add(s.Decision.After), decide)
}

func (s *State) accept(app *record.Application, offer *record.Offer) {
	app.Offer = offer
	if app.ContractID == "" {
		app.ContractID = s.NewID(Contract)
		app.Requirements = []record.Requirement{
			{ID: s.NewID(Requirement), FileType: "VoidedCheck", Description: "A voided check of the primary account"},
			{ID: s.NewID(Requirement), FileType: "DriversLicense", Description: "The primary applicant's driver's license"},
		}
	}
	switch app.Status {
	case record.StatusCreated, record.StatusBankingData, record.StatusUnderReview:
		s.SetStatus(app, record.StatusOfferReady)
	}
	s.EmitApplication("WB_Application_Ready", app)
}

// Repay makes repayments of a loan as the clock advances. It panics if there is no such loan, or
// if a number is negative.
func (s *State) Repay(r record.Repayment) {
	if err := r.Check(); err != nil {
		panic("lendingtest: " + err.Error())
	}
	if s.Loans.Get(r.LoanID) == nil {
		panic("lendingtest: no loan " + r.LoanID)
	}
	if r.Every == 0 {
		s.pay(r, s.Now())
		return
	}
	var next func(*State, time.Time)
	next = func(s *State, at time.Time) {
		if s.pay(r, at) {
			s.later(at.Add(r.Every), next)
		}
	}
	s.later(s.Now().Add(r.Every), next)
}

// pay makes a payment and reports whether a balance remains.
func (s *State) pay(r record.Repayment, at time.Time) (more bool) {
	loan := s.Loans.Get(r.LoanID)
	if loan == nil || loan.IsClosed || loan.Balance == 0 {
		return false
	}
	post := func(kind string, amount record.Cents) {
		loan.Transactions = append(loan.Transactions, record.Transaction{
			ID: s.NewID(Transaction), Type: kind, Amount: amount, Description: kind, DateUTC: record.Timestamp{Time: at},
		})
	}
	if interest := record.Cents(float64(loan.Balance) * r.Interest / 100); interest != 0 {
		loan.Balance += interest
		post("Interest", interest)
	}
	if paid := min(r.Amount, loan.Balance); paid > 0 {
		loan.Balance -= paid
		loan.AvailableBalance = min(loan.AvailableBalance+paid, loan.Amount)
		post("Repayment", paid)
	}
	s.Seeded(loan.ID)
	return loan.Balance > 0
}
