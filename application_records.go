package lending

import (
	"net/mail"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// UserRequest describes a customer to be created.
type UserRequest struct {
	FirstName    string `json:"firstName"`    // at most 50 characters
	LastName     string `json:"lastName"`     // at most 50 characters
	Email        string `json:"email"`        // an e-mail address of at most 50 characters
	Password     Secret `json:"password"`     // required; the service's further rules are not published
	MobileNumber string `json:"mobileNumber"` // ten digits, and any punctuation
	Extra        any    `json:"-"`            // further fields: marshals to a JSON object
}

func (r UserRequest) check(c *checks) {
	c.maxLength("firstName", r.FirstName, 50)
	c.maxLength("lastName", r.LastName, 50)
	c.maxLength("email", r.Email, 50)
	address, err := mail.ParseAddress(r.Email)
	c.that(err == nil && address.Address == r.Email, "email", CodeFormat, "must be an e-mail address")
	c.secret(!r.Password.IsZero(), "password")
	c.that(hasTenDigits(r.MobileNumber), "mobileNumber", CodeFormat, "must hold exactly ten digits beside punctuation")
}

func (c *checks) maxLength(field, value string, limit int) {
	if utf8.RuneCountInString(value) > limit {
		c.add(field, CodeLength, "must have at most "+strconv.Itoa(limit)+" characters")
	}
}

func hasTenDigits(number string) bool {
	digits := 0
	for _, r := range number {
		switch {
		case '0' <= r && r <= '9':
			digits++
		case !unicode.IsPunct(r) && !unicode.IsSymbol(r) && !unicode.IsSpace(r):
			return false
		}
	}
	return digits == 10
}

// UserResponse is a new customer.
type UserResponse struct {
	Record
	ID CustomerID `json:"id"`
}

// UnmarshalJSON keeps data as the [Record].
func (u *UserResponse) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, u) }

// MarshalJSON writes the record as it was received.
func (u UserResponse) MarshalJSON() ([]byte, error) { return marshalRecord(u.Record, u) }

// ApplicationRequest describes an application to be created.
//
// Give the zip code in BusinessZip or in ExtraInformation["zipcode"], never in both.
type ApplicationRequest struct {
	CustomerID       CustomerID        `json:"customerId"`                 // required
	BusinessName     string            `json:"businessName"`               // name of the business
	BusinessZip      string            `json:"businessZip,omitzero"`       // zip code
	ExtraInformation map[string]string `json:"extraInformation,omitempty"` // "years": years in business, "0" to "99"
	PartnerID        PartnerID         `json:"partnerId,omitzero"`         // optional: only an assigned id
	AgentID          AgentID           `json:"agentId,omitzero"`           // optional: only an assigned id
	Extra            any               `json:"-"`                          // further fields: marshals to a JSON object
}

func (r ApplicationRequest) check(c *checks) {
	c.that(!r.CustomerID.IsZero(), "customerId", CodeRequired, "must not be the zero UUID")
	_, zip := r.ExtraInformation["zipcode"]
	c.that(r.BusinessZip == "" || !zip, "businessZip", CodeConflict, "must not be given together with extraInformation.zipcode")
	if years, ok := r.ExtraInformation["years"]; ok {
		_, err := strconv.ParseUint(years, 10, 8)
		c.that(err == nil && len(years) <= 2, "extraInformation.years", CodeRange, `must be a number from "0" to "99"`)
	}
}

// ApplicationAndApplicantRequest describes an application and its applicant, in unpublished
// fields.
type ApplicationAndApplicantRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// ApplicationAndCustomerRequest describes a customer and an application, in unpublished fields.
type ApplicationAndCustomerRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// ApplicationAndCustomerAndApplicantRequest describes a customer, an application and its
// applicant, in unpublished fields.
type ApplicationAndCustomerAndApplicantRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// ApplicationCustomerResponse is a new customer with an application.
type ApplicationCustomerResponse struct{ Record }

// Application is an application for financing.
type Application struct{ Record }

// OfferResponse is the offer for an application.
type OfferResponse struct{ Record }

// BankingDataRequest is the bank data of an application, in unpublished fields: at least an
// account with the required details, and its transaction history. Account balances and
// transaction amounts are strings.
type BankingDataRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// CustomerData is the new data for UpdateCustomerData. Every field is required.
type CustomerData struct {
	FirstName   string
	LastName    string
	Address     string
	State       string
	City        string
	SSN         Secret
	Mobile      string
	DateOfBirth time.Time // only the date counts, in the time's own location
}

func (d CustomerData) query() []param {
	return []param{
		{"firstname", d.FirstName, true},
		{"lastname", d.LastName, true},
		{"address", d.Address, true},
		{"state", d.State, true},
		{"city", d.City, true},
		{secretParam, d.SSN.Reveal(), true},
		{"mobile", d.Mobile, true},
		dateParam("dateOfBirth", d.DateOfBirth),
	}
}

// ApplicationData is the new data for UpdateData. Every field is required.
type ApplicationData struct {
	Name      string
	ZipCode   string
	StartDate time.Time // only the date counts, in the time's own location
}

func (d ApplicationData) query() []param {
	return []param{{"name", d.Name, true}, {"zipcode", d.ZipCode, true}, dateParam("startDate", d.StartDate)}
}

// midnight ends a day in a query. ASP.NET Core before 5.0 converts a time with a zone to the local
// time of its host, where midnight UTC can be the day before.
const midnight = "T00:00:00"

// dateParam is a required day.
func dateParam(name string, t time.Time) param {
	if t.IsZero() {
		return param{name, "", true}
	}
	return param{name, t.Format(time.DateOnly) + midnight, true}
}

// boolParam is a parameter whose default is false.
func boolParam(name string, value bool) param {
	if !value {
		return param{name: name}
	}
	return param{name, "true", false}
}

func (u *UserResponse) missing() *shapeError { return u.missingID("id", u.ID.IsZero()) }
