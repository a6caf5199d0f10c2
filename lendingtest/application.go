package lendingtest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Statuses of this model. The interface does not publish the statuses.
const (
	StatusCreated     = "Application Created"   // after the creation
	StatusBankingData = "Banking Data Received" // after the first banking data
	StatusOfferReady  = "Offer Ready"           // after processing
	StatusInApproval  = "In Approval"           // after the company was added
	StatusLoanOpened  = "Loan Opened"           // after the last signature
	StatusCancelled   = "Cancelled"             // final
)

// zipcodeKey is the name of the zip code in extraInformation. Keys of extraInformation are data,
// so another case makes another key.
const zipcodeKey = "zipcode"

// applicationRequest is the interface's ApplicationRequest. The values of extraInformation have
// any type, so that the errors can name each wrong value.
type applicationRequest struct {
	CustomerID       string         `json:"customerId"`
	BusinessName     string         `json:"businessName"`
	BusinessZip      string         `json:"businessZip"`
	ExtraInformation map[string]any `json:"extraInformation"`
	PartnerID        *string        `json:"partnerId"`
	AgentID          *string        `json:"agentId"`
}

// yearsForm is a number from 0 to 99. Older integrations may have labels of ranges, which the
// interface does not publish; seed such values with AddApplication.
var yearsForm = regexp.MustCompile(`^\d{1,2}$`)

// check adds the validation errors of a.
func (a *applicationRequest) check(c *call, at string, f *failures) {
	zips := 0
	if a.BusinessZip != "" {
		zips++
	}
	for _, key := range slices.Sorted(maps.Keys(a.ExtraInformation)) {
		text, ok := a.ExtraInformation[key].(string)
		field := at + "extraInformation." + key
		switch {
		case !ok:
			f.add(field, "InvalidType", "The value is not a string.")
		case key == "years" && !yearsForm.MatchString(text):
			f.add(field, "InvalidYears", "The value is not a number from 0 to 99.")
		case key == zipcodeKey:
			zips++
		}
	}
	if zips > 1 {
		f.add(at+"businessZip", "DuplicateZipCode", "The zip code is given twice.")
	}
	if id, ok := optionalID(a.PartnerID); !ok {
		f.add(at+"partnerId", "InvalidGuid", "The value is not a valid identifier.")
	} else if id != "" && !c.account.mayUse(id) {
		f.add(at+"partnerId", "PartnerNotAssigned", "The partner is not assigned to this account.")
	}
	if _, ok := optionalID(a.AgentID); !ok {
		f.add(at+"agentId", "InvalidGuid", "The value is not a valid identifier.")
	}
}

// checkCustomer adds an error if the customer is missing or unknown.
func (a *applicationRequest) checkCustomer(c *call, at string, f *failures) {
	if id, ok := parseID(a.CustomerID); !ok {
		f.add(at+"customerId", "InvalidGuid", "The value is not a valid identifier.")
	} else if c.customers.get(id) == nil {
		f.add(at+"customerId", "CustomerNotFound", "There is no such customer.")
	}
}

func optionalID(s *string) (id string, ok bool) {
	if s == nil {
		return "", true
	}
	return parseID(*s)
}

// mayUse reports whether the account may act for a partner.
func (a *Account) mayUse(partnerID string) bool {
	return a.Administrator || a.PartnerID == "" || strings.EqualFold(a.PartnerID, partnerID)
}

func (c *call) newApplication(req applicationRequest, customerID string) *Application {
	partner, _ := optionalID(req.PartnerID)
	agent, _ := optionalID(req.AgentID)
	if partner == "" {
		partner = c.account.PartnerID
	}
	app := &Application{
		ID: c.newID(kindApplication), CustomerID: strings.ToLower(customerID), PartnerID: partner, AgentID: agent,
		BusinessName: req.BusinessName, BusinessZip: req.BusinessZip, ExtraInformation: map[string]string{},
		Status: StatusCreated, CreatedUTC: Timestamp{c.now()},
	}
	for key, value := range req.ExtraInformation {
		app.ExtraInformation[key], _ = value.(string)
		if key == zipcodeKey {
			app.BusinessZip = app.ExtraInformation[key]
		}
	}
	c.concern(app.ID)
	return c.applications.put(app.ID, app)
}

// createApplication also serves the route with an applicant. Its record is not published; this
// model expects an object named "applicant".
func (c *call) createApplication() (any, error) {
	var req struct {
		applicationRequest
		Applicant json.RawMessage `json:"applicant"`
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	sendLink := c.flag("sendLink")
	req.check(c, "", &c.failed)
	req.checkCustomer(c, "", &c.failed)
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	app := c.newApplication(req.applicationRequest, req.CustomerID)
	c.addApplicant(app, req.Applicant)
	c.emitApplication("WB_Application_Created", app)
	c.sendLink(app, sendLink)
	return app.ID, nil
}

// createCustomerAndApplication serves both combined routes. Their records are not published;
// this model takes the fields of both requests in a single object, and an "applicant" object.
func (c *call) createCustomerAndApplication() (any, error) {
	var req struct {
		userRequest
		applicationRequest
		Applicant json.RawMessage `json:"applicant"`
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	sendLink := c.flag("sendLink")
	req.userRequest.check("", &c.failed)
	c.refuseDuplicate("", req.Email, &c.failed)
	req.applicationRequest.check(c, "", &c.failed)
	if len(c.failed) > 0 { // "validates before creating"
		return nil, c.failed.err()
	}
	row := c.newCustomer(req.userRequest)
	app := c.newApplication(req.applicationRequest, row.ID)
	applicantID := c.addApplicant(app, req.Applicant)
	c.emitApplication("WB_Customer_And_Application_Created", app)
	c.sendLink(app, sendLink)
	return struct {
		CustomerID    string `json:"customerId"`
		ApplicationID string `json:"applicationId"`
		ApplicantID   string `json:"applicantId,omitempty"`
	}{row.ID, app.ID, applicantID}, nil
}

func (c *call) sendApplicationLink(app *Application) (any, error) {
	c.sendLink(app, true)
	return nil, nil
}

func (c *call) sendLink(app *Application, wanted bool) {
	if !wanted {
		return
	}
	app.LinksSent++
	c.message(Sent{Kind: "application-link", To: c.customers.get(app.CustomerID).Email, ApplicationID: app.ID})
	c.emitApplication("WB_Send_Application_Ready", app)
}

func (c *call) applicationStatus(app *Application) (any, error) {
	return app.Status, nil
}

func (c *call) getApplication(row *Application) (any, error) { return row, nil }

func (c *call) customerApplications(row *Customer) (any, error) {
	return slices.AppendSeq([]*Application{}, rowsOf(c.applications.by(ofCustomer(row.ID)))), nil
}

func (c *call) partnerApplications() (any, error) {
	partner, err := c.id("partnerId")
	if err != nil {
		return nil, err
	}
	if !c.account.mayUse(partner) {
		return nil, forbidden("The partner is not assigned to this account.")
	}
	return slices.AppendSeq([]*Application{}, rowsOf(page(c, c.applications.by(ofPartner(partner)), 0))), nil
}

// setStatus changes the status and posts the event.
func (s *Service) setStatus(app *Application, status string) {
	if app.Status != status {
		app.Status = status
		s.emitApplication("WB_Application_Status_Changed", app)
	}
}

// cancelApplication cancels an application. In this model the status is final.
func (c *call) cancelApplication(app *Application) (any, error) {
	c.setStatus(app, StatusCancelled)
	c.emitApplication("WB_Application_Cancelled", app)
	return nil, nil
}

// openApplication returns the application and rejects a cancelled application.
func (c *call) openApplication() (*Application, error) {
	app, err := c.application()
	if err == nil {
		err = app.refuseCancelled()
	}
	if err != nil {
		return nil, err
	}
	return app, nil
}

func (a *Application) refuseCancelled() error {
	if a.Status == StatusCancelled {
		return refuse("ApplicationCancelled", "The application is cancelled.")
	}
	return nil
}

// applicationWithoutLoan also rejects an application that has led to a loan.
func (c *call) applicationWithoutLoan() (*Application, error) {
	app, err := c.openApplication()
	if err == nil && app.Status == StatusLoanOpened {
		return nil, refuse("LoanOpened", "The application has become a loan.")
	}
	return app, err
}
