package rules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
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
func (a *applicationRequest) check(c *Call, at string, f *failures) {
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
	} else if id != "" && !c.account.MayUse(id) {
		f.add(at+"partnerId", "PartnerNotAssigned", "The partner is not assigned to this account.")
	}
	if _, ok := optionalID(a.AgentID); !ok {
		f.add(at+"agentId", "InvalidGuid", "The value is not a valid identifier.")
	}
}

// checkCustomer adds an error if the customer is missing or unknown.
func (a *applicationRequest) checkCustomer(c *Call, at string, f *failures) {
	if id, ok := record.ParseID(a.CustomerID); !ok {
		f.add(at+"customerId", "InvalidGuid", "The value is not a valid identifier.")
	} else if row := c.Customers.Get(id); row == nil || !c.mine(row.PartnerID) {
		f.add(at+"customerId", "CustomerNotFound", "There is no such customer.")
	}
}

func optionalID(s *string) (id string, ok bool) {
	if s == nil {
		return "", true
	}
	return record.ParseID(*s)
}

func (c *Call) newApplication(req applicationRequest, customerID string) *record.Application {
	partner, _ := optionalID(req.PartnerID)
	agent, _ := optionalID(req.AgentID)
	if partner == "" {
		partner = c.account.PartnerID
	}
	app := &record.Application{
		ID: c.NewID(book.Application), CustomerID: strings.ToLower(customerID), PartnerID: partner, AgentID: agent,
		BusinessName: req.BusinessName, BusinessZip: req.BusinessZip, ExtraInformation: map[string]string{},
		Status: record.StatusCreated, CreatedUTC: c.Stamp(),
	}
	for key, value := range req.ExtraInformation {
		app.ExtraInformation[key], _ = value.(string)
		if key == zipcodeKey {
			app.BusinessZip = app.ExtraInformation[key]
		}
	}
	c.concern(app.ID)
	return c.Applications.Put(app.ID, app)
}

// createApplication also serves the route with an applicant. Its record is not published; this
// model expects an object named "applicant".
func (c *Call) createApplication() (any, error) {
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
	c.EmitApplication("WB_Application_Created", app)
	c.sendLink(app, sendLink)
	return app.ID, nil
}

// createCustomerAndApplication serves both combined routes. Their records are not published;
// this model takes the fields of both requests in a single object, and an "applicant" object.
func (c *Call) createCustomerAndApplication() (any, error) {
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
	c.EmitApplication("WB_Customer_And_Application_Created", app)
	c.sendLink(app, sendLink)
	return struct {
		CustomerID    string `json:"customerId"`
		ApplicationID string `json:"applicationId"`
		ApplicantID   string `json:"applicantId,omitempty"`
	}{row.ID, app.ID, applicantID}, nil
}

func (c *Call) sendApplicationLink(app *record.Application) (any, error) {
	c.sendLink(app, true)
	return nil, nil
}

func (c *Call) sendLink(app *record.Application, wanted bool) {
	if !wanted {
		return
	}
	app.LinksSent++
	c.Send(record.Sent{Kind: "application-link", To: c.Customers.Get(app.CustomerID).Email, ApplicationID: app.ID})
	c.EmitApplication("WB_Send_Application_Ready", app)
}

func (c *Call) applicationStatus(app *record.Application) (any, error) {
	return app.Status, nil
}

func (c *Call) getApplication(row *record.Application) (any, error) { return plain.Wire(row), nil }

func (c *Call) customerApplications(row *record.Customer) (any, error) {
	return wire(book.Rows(c.Applications.By(book.OfCustomer(row.ID)))), nil
}

func (c *Call) partnerApplications() (any, error) {
	partner, err := c.id("partnerId")
	if err != nil {
		return nil, err
	}
	if !c.account.MayUse(partner) {
		return nil, forbidden("The partner is not assigned to this account.")
	}
	return wire(book.Rows(page(c, c.Applications.By(book.OfPartner(partner)), 0))), nil
}

// cancelApplication cancels an application. In this model the status is final.
func (c *Call) cancelApplication(app *record.Application) (any, error) {
	c.SetStatus(app, record.StatusCancelled)
	c.EmitApplication("WB_Application_Cancelled", app)
	return nil, nil
}

// openApplication returns the application and rejects a cancelled application.
func (c *Call) openApplication() (*record.Application, error) {
	app, err := c.application()
	if err == nil {
		err = refuseCancelled(app)
	}
	if err != nil {
		return nil, err
	}
	return app, nil
}

func refuseCancelled(a *record.Application) error {
	if a.Status == record.StatusCancelled {
		return refuse("ApplicationCancelled", "The application is cancelled.")
	}
	return nil
}

// applicationWithoutLoan also rejects an application that has led to a loan.
func (c *Call) applicationWithoutLoan() (*record.Application, error) {
	app, err := c.openApplication()
	if err == nil && app.Status == record.StatusLoanOpened {
		return nil, refuse("LoanOpened", "The application has become a loan.")
	}
	return app, err
}

// The four routes below are GETs that change state.

func (c *Call) updateName(app *record.Application) (any, error) {
	return rename(app, c.query.Get("name"), ""), nil
}

func (c *Call) updateNameAndZip(app *record.Application) (any, error) {
	return rename(app, c.query.Get("name"), c.query.Get("zipCode")), nil
}

// rename changes the given fields and reports whether any was given. Both parameters are
// optional.
func rename(app *record.Application, name, zip string) bool {
	if name != "" {
		app.BusinessName = name
	}
	if zip != "" {
		setZip(app, zip)
	}
	return name != "" || zip != ""
}

// setZip keeps the zip code in a single place.
func setZip(a *record.Application, zip string) {
	a.BusinessZip = zip
	if _, ok := a.ExtraInformation[zipcodeKey]; ok {
		a.ExtraInformation[zipcodeKey] = zip
	}
}

func (c *Call) updateCustomerData(app *record.Application) (any, error) {
	row := *c.Customers.Get(app.CustomerID)
	row.FirstName, row.LastName = c.required("firstname"), c.required("lastname")
	row.Address, row.State, row.City = c.required("address"), c.required("state"), c.required("city")
	row.SSN, row.MobileNumber = c.required("ssn"), c.required("mobile")
	row.DateOfBirth = c.requiredTime("dateOfBirth")
	if row.MobileNumber != "" {
		mobile, ok := tenDigits(row.MobileNumber)
		if !ok {
			c.failed.add("mobile", "InvalidMobileNumber", "The number does not have exactly ten digits.")
		}
		row.MobileNumber = mobile
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	*c.Customers.Get(app.CustomerID) = row
	return true, nil
}

func (c *Call) updateApplicationData(app *record.Application) (any, error) {
	name, zip, start := c.required("name"), c.required("zipcode"), c.requiredTime("startDate")
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	app.BusinessName, app.StartDate = name, start
	setZip(app, zip)
	return true, nil
}

// addApplicant adds a signer. The first signer is the primary applicant.
func (c *Call) addApplicant(app *record.Application, text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	a := record.Applicant{ID: c.NewID(book.Applicant), IsPrimary: len(app.Applicants) == 0}
	readApplicant(&a, text)
	app.Applicants = append(app.Applicants, a)
	return a.ID
}

// readApplicant stores a record, which may be any object, and its three fields that this model
// returns later.
func readApplicant(a *record.Applicant, text json.RawMessage) {
	var who struct{ FirstName, LastName, Email string }
	_ = json.Unmarshal(text, &who) // other objects are allowed
	a.FirstName, a.LastName, a.Email, a.Record = who.FirstName, who.LastName, who.Email, text
}
