package rules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
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

// checkApplication adds the validation errors of a; at is the prefix of the field names.
func (c *Call) checkApplication(a *applicationRequest, at string) {
	zips := 0
	if a.BusinessZip != "" {
		zips++
	}
	for _, key := range slices.Sorted(maps.Keys(a.ExtraInformation)) {
		text, ok := a.ExtraInformation[key].(string)
		field := at + "extraInformation." + key
		switch {
		case !ok:
			c.failed.add(field, "InvalidType", "The value is not a string.")
		case key == "years" && !yearsForm.MatchString(text):
			c.failed.add(field, "InvalidYears", "The value is not a number from 0 to 99.")
		case key == zipcodeKey:
			zips++
		}
	}
	if zips > 1 {
		c.failed.add(at+"businessZip", "DuplicateZipCode", "The zip code is given twice.")
	}
	if id := c.optionalID(at+"partnerId", a.PartnerID); !c.account.MayUse(id) {
		c.failed.add(at+"partnerId", "PartnerNotAssigned", "The partner is not assigned to this account.")
	}
	if id := c.optionalID(at+"agentId", a.AgentID); !c.account.MayName(id) {
		c.failed.add(at+"agentId", "AgentNotAssigned", "The agent is not assigned to this account.")
	}
}

// checkOwner adds an error if the customer is missing or unknown.
func (c *Call) checkOwner(a *applicationRequest, at string) {
	id := c.failed.identifier(at+"customerId", a.CustomerID)
	if row := book.Get[record.Customer](c.Tables, id); id != "" && (row == nil || !c.mine(row.PartnerID)) {
		c.failed.add(at+"customerId", "CustomerNotFound", "There is no such customer.")
	}
}

func (c *Call) optionalID(field string, text *string) string {
	if text == nil {
		return ""
	}
	return c.failed.identifier(field, *text)
}

func (c *Call) newApplication(req applicationRequest, customerID string) *record.Application {
	app := c.AddApplication(record.Application{
		CustomerID: strings.ToLower(customerID), BusinessName: req.BusinessName, BusinessZip: req.BusinessZip,
		PartnerID: c.optionalID("", req.PartnerID), AgentID: c.optionalID("", req.AgentID),
	}, c.account.PartnerID)
	for key, value := range req.ExtraInformation {
		app.ExtraInformation[key], _ = value.(string)
		if key == zipcodeKey {
			app.BusinessZip = app.ExtraInformation[key]
		}
	}
	c.concern(app.ID)
	return app
}

// createApplication also serves the route with an applicant. Its record is not published; this
// model expects an object named "applicant".
func (c *Call) createApplication() any {
	var req struct {
		applicationRequest
		Applicant json.RawMessage `json:"applicant"`
	}
	c.decodeRequired(&req)
	sendLink := c.flag("sendLink")
	c.checkApplication(&req.applicationRequest, "")
	c.checkOwner(&req.applicationRequest, "")
	c.valid()
	app := c.newApplication(req.applicationRequest, req.CustomerID)
	c.addApplicant(app, req.Applicant)
	c.EmitApplication("WB_Application_Created", app)
	if sendLink {
		c.sendApplicationLink(app)
	}
	return app.ID
}

// createCustomerAndApplication serves both combined routes. Their records are not published;
// this model takes the fields of both requests in a single object, and an "applicant" object.
func (c *Call) createCustomerAndApplication() any {
	var req struct {
		userRequest
		applicationRequest
		Applicant json.RawMessage `json:"applicant"`
	}
	c.decodeRequired(&req)
	sendLink := c.flag("sendLink")
	c.checkUser(&req.userRequest, "")
	c.refuseDuplicate(req.Email)
	c.checkApplication(&req.applicationRequest, "")
	c.valid() // "validates before creating"
	row := c.newCustomer(req.userRequest)
	app := c.newApplication(req.applicationRequest, row.ID)
	created := fields{"customerId": row.ID, "applicationId": app.ID}
	if id := c.addApplicant(app, req.Applicant); id != "" {
		created["applicantId"] = id
	}
	c.EmitApplication("WB_Customer_And_Application_Created", app)
	if sendLink {
		c.sendApplicationLink(app)
	}
	return created
}

func (c *Call) sendApplicationLink(app *record.Application) any {
	c.Send(record.Sent{Kind: "application-link", To: c.customerOf(app).Email, ApplicationID: app.ID})
	c.EmitApplication("WB_Send_Application_Ready", app)
	return nil
}

func (c *Call) customerOf(app *record.Application) *record.Customer {
	return book.Get[record.Customer](c.Tables, app.CustomerID)
}

func (c *Call) customerApplications(row *record.Customer) any {
	return wire(book.Where(c.Tables, func(a *record.Application) bool { return a.CustomerID == row.ID }))
}

func (c *Call) partnerApplications() any {
	partner := c.id("partnerId")
	c.mustUse(partner)
	all := book.Where(c.Tables, func(a *record.Application) bool { return a.PartnerID == partner })
	return wire(page(c, all, 0))
}

// mustUse refuses the partner of another account.
func (c *Call) mustUse(partner string) {
	if !c.account.MayUse(partner) {
		panic(forbidden("The partner is not assigned to this account."))
	}
}

// cancelApplication cancels an application. In this model the status is final.
func (c *Call) cancelApplication(app *record.Application) any {
	c.SetStatus(app, record.StatusCancelled)
	return nil
}

// openApplication returns the application and rejects a cancelled application.
func (c *Call) openApplication() *record.Application {
	app := lookUp[record.Application](c)
	refuseCancelled(app)
	return app
}

func refuseCancelled(a *record.Application) {
	if a.Status == record.StatusCancelled {
		refuse("ApplicationCancelled", "The application is cancelled.")
	}
}

// applicationWithoutLoan also rejects an application that has led to a loan.
func (c *Call) applicationWithoutLoan() *record.Application {
	app := c.openApplication()
	if app.Status == record.StatusLoanOpened {
		refuse("LoanOpened", "The application has become a loan.")
	}
	return app
}

// The four routes below are GETs that change state.

// rename changes the given name and zip code and reports whether any was given. Both parameters
// are optional, and only one of the two routes has a zip code.
func (c *Call) rename(app *record.Application) any {
	name, zip := c.query.Get("name"), ""
	if strings.Contains(c.Route.Pattern, "zip-code") {
		zip = c.query.Get("zipCode")
	}
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

func (c *Call) updateCustomerData(app *record.Application) any {
	row := *c.customerOf(app)
	row.FirstName, row.LastName = c.required("firstname"), c.required("lastname")
	row.Address, row.State, row.City = c.required("address"), c.required("state"), c.required("city")
	row.SSN, row.MobileNumber = c.required("ssn"), c.required("mobile")
	row.DateOfBirth = c.requiredTime("dateOfBirth")
	if row.MobileNumber != "" {
		row.MobileNumber = c.mobileNumber("mobile", row.MobileNumber)
	}
	c.valid()
	*c.customerOf(app) = row
	return true
}

func (c *Call) updateApplicationData(app *record.Application) any {
	name, zip, start := c.required("name"), c.required("zipcode"), c.requiredTime("startDate")
	c.valid()
	app.BusinessName, app.StartDate = name, start
	setZip(app, zip)
	return true
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
