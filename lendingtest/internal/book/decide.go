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
		app := Get[record.Application](s.Tables, id)
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
	s.Clock.At(s.Now().Add(s.Decision.After), func(at time.Time) { s.book.Do(func(s *State) { decide(s, at) }) })
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
