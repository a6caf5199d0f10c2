package book

import (
	"maps"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Catalogue returns the interface's event names.
func Catalogue() []string {
	return []string{
		"WB_Partner_Request", "WB_Application_Created", "WB_Customer_Created", "WB_Customer_And_Application_Created",
		"WB_Application_Current_Process", "WB_Application_Status_Changed", "WB_Loan_Created", "WB_Bank_Transactions_Refresh",
		"WB_Communication_Sent", "WB_Loan_Withdrawal_Completed", "WB_Send_Secondary_Applicant_Notice", "WB_Under_Review",
		"WB_Send_Sms", "WB_Send_Otp", "WB_Send_Loan_Otp", "WB_Application_Cancelled", "WB_Send_Two_Factor_Code",
		"WB_Send_Application_Ready", "WB_Application_Ready", "WB_Loan_Enabled_Or_Disabled", "WB_Loan_Closed", "WB_Loan_Opened",
	}
}

// Wants reports whether a subscription has an event.
func Wants(sub *record.Subscription, event string) bool {
	return len(sub.Webhooks) == 0 || slices.Contains(sub.Webhooks, event)
}

// Emit posts an event to all its subscribers. The id of the envelope is the id of the record, so
// several events have the same id; the interface warns of such publishers.
func (s *State) Emit(t Target, event, id string, data map[string]any) {
	for _, sub := range s.SubscriptionsOf(t) {
		if sub.IsActive && Wants(sub, event) {
			s.Post(sub, event, id, data)
		}
	}
}

// TargetOf returns the partner and the customer of a customer, application or loan.
func (s *State) TargetOf(id string) Target {
	switch row := s.rows[id].(type) {
	case *record.Customer:
		return Target{row.PartnerID, row.ID}
	case *record.Application:
		return Target{row.PartnerID, row.CustomerID}
	case *record.Loan:
		return s.TargetOf(row.ApplicationID)
	}
	return Target{}
}

// EmitCustomer posts an event about a customer.
func (s *State) EmitCustomer(event string, row *record.Customer) {
	s.Emit(s.TargetOf(row.ID), event, row.ID, map[string]any{"customerId": row.ID})
}

// EmitApplication posts an event about an application.
func (s *State) EmitApplication(event string, app *record.Application) {
	s.Emit(s.TargetOf(app.ID), event, app.ID, map[string]any{
		"applicationId": app.ID, "customerId": app.CustomerID, "status": app.Status,
		"extraInformation": maps.Clone(app.ExtraInformation),
	})
}

// EmitLoan posts an event about a loan.
func (s *State) EmitLoan(event string, loan *record.Loan, more map[string]any) {
	data := map[string]any{"loanId": loan.ID, "applicationId": loan.ApplicationID, "customerId": loan.CustomerID}
	maps.Copy(data, more)
	s.Emit(s.TargetOf(loan.ID), event, loan.ID, data)
}

// SetStatus changes the status of an application and posts the events.
func (s *State) SetStatus(app *record.Application, status string) {
	if app.Status == status {
		return
	}
	app.Status = status
	s.EmitApplication("WB_Application_Status_Changed", app)
	if status == record.StatusCancelled {
		s.EmitApplication("WB_Application_Cancelled", app)
	}
}

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
		s.lag.seeded(s.Tables, id)
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
