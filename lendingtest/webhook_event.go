package lendingtest

import (
	"maps"
	"slices"
)

// catalogue returns the interface's event names.
func catalogue() []string {
	return []string{
		"WB_Partner_Request", "WB_Application_Created", "WB_Customer_Created", "WB_Customer_And_Application_Created",
		"WB_Application_Current_Process", "WB_Application_Status_Changed", "WB_Loan_Created", "WB_Bank_Transactions_Refresh",
		"WB_Communication_Sent", "WB_Loan_Withdrawal_Completed", "WB_Send_Secondary_Applicant_Notice", "WB_Under_Review",
		"WB_Send_Sms", "WB_Send_Otp", "WB_Send_Loan_Otp", "WB_Application_Cancelled", "WB_Send_Two_Factor_Code",
		"WB_Send_Application_Ready", "WB_Application_Ready", "WB_Loan_Enabled_Or_Disabled", "WB_Loan_Closed", "WB_Loan_Opened",
	}
}

// target names the partner and the customer of an event. The subscriptions of both receive the
// event.
type target struct{ partnerID, customerID string }

// emit posts an event to all its subscribers. The id of the envelope is the id of the record, so
// several events have the same id; the interface warns of such publishers. It needs s.mu.
func (s *Service) emit(t target, event, id string, data map[string]any) {
	for sub := range rowsOf(s.subscriptionsOf(t)) {
		if sub.IsActive && sub.wants(event) {
			s.enqueue(sub, event, id, data)
		}
	}
}

// subscriptionsOf returns the subscriptions of the partner and of the customer.
func (t *tables) subscriptionsOf(of target) (all []*tableRow[Subscription]) {
	if of.partnerID != "" {
		all = slices.Clone(t.subscriptions.by(ofPartner(of.partnerID)))
	}
	if of.customerID != "" {
		for _, at := range t.subscriptions.by(ofCustomer(of.customerID)) {
			if i, found := placeIn(all, at); !found {
				all = slices.Insert(all, i, at)
			}
		}
	}
	return all
}

func (sub *Subscription) wants(event string) bool {
	return len(sub.Webhooks) == 0 || slices.Contains(sub.Webhooks, event)
}

func (s *Service) emitCustomer(event string, row *Customer) {
	s.emit(target{row.PartnerID, row.ID}, event, row.ID, map[string]any{"customerId": row.ID})
}

func (s *Service) emitApplication(event string, app *Application) {
	s.emit(target{app.PartnerID, app.CustomerID}, event, app.ID, map[string]any{
		"applicationId": app.ID, "customerId": app.CustomerID, "status": app.Status,
		"extraInformation": app.clone().ExtraInformation,
	})
}

func (s *Service) emitLoan(event string, loan *Loan, more map[string]any) {
	data := map[string]any{"loanId": loan.ID, "applicationId": loan.ApplicationID, "customerId": loan.CustomerID}
	maps.Copy(data, more)
	t := target{customerID: loan.CustomerID}
	if app := s.applications.get(loan.ApplicationID); app != nil {
		t.partnerID = app.PartnerID
	}
	s.emit(t, event, loan.ID, data)
}
