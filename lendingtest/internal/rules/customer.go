package rules

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// userRequest is the interface's UserRequest.
type userRequest struct {
	FirstName    string `json:"firstName"`
	LastName     string `json:"lastName"`
	Email        string `json:"email"`
	Password     string `json:"password"`
	MobileNumber string `json:"mobileNumber"`
}

const nameLimit = 50

// checkUser adds the validation errors of u; at is the prefix of the field names.
func (c *Call) checkUser(u *userRequest, at string) {
	for _, text := range []struct{ field, value string }{
		{"firstName", u.FirstName}, {"lastName", u.LastName}, {"email", u.Email},
	} {
		if utf8.RuneCountInString(text.value) > nameLimit {
			c.failed.add(at+text.field, "MaximumLength", "The field is longer than %d characters.", nameLimit)
		}
	}
	if a, err := mail.ParseAddress(u.Email); err != nil || a.Address != u.Email {
		c.failed.add(at+"email", "InvalidEmail", "The field is not a valid e-mail address.")
	}
	if !validPassword(u.Password) {
		c.failed.add(at+"password", "PasswordRules", "The password needs eight characters, upper and lower case letters and a digit.")
	}
	c.mobileNumber(at+"mobileNumber", u.MobileNumber)
}

// validPassword is a rule of this model. The interface does not publish the real rule.
func validPassword(s string) bool {
	return utf8.RuneCountInString(s) >= 8 && strings.ContainsFunc(s, unicode.IsUpper) &&
		strings.ContainsFunc(s, unicode.IsLower) && strings.ContainsFunc(s, unicode.IsDigit)
}

// mobileNumber returns the ten digits of a number without its punctuation, or adds an error.
func (c *Call) mobileNumber(field, text string) string {
	digits := strings.Map(func(r rune) rune {
		if unicode.IsPunct(r) || unicode.IsSymbol(r) || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	if len(digits) != 10 || strings.Trim(digits, "0123456789") != "" {
		c.failed.add(field, "InvalidMobileNumber", "The number does not have exactly ten digits.")
	}
	return digits
}

// refuseDuplicate adds an error if a customer already has this e-mail.
func (c *Call) refuseDuplicate(email string) {
	if c.ByEmail(email) != nil && !c.learned(assumption.DuplicateCustomer, assumption.SecondRecord) {
		c.failed.add("email", "DuplicateEmail", "There is a customer with this e-mail address.")
	}
}

func (c *Call) newCustomer(u userRequest) *record.Customer {
	row := c.AddCustomer(record.Customer{
		FirstName: u.FirstName, LastName: u.LastName, Email: u.Email, MobileNumber: c.mobileNumber("", u.MobileNumber),
		Password: u.Password, PartnerID: c.account.PartnerID,
	})
	c.concern(row.ID)
	return row
}

// userOf returns a UserResponse: the id, which the interface names, and the given fields.
func userOf(row *record.Customer) fields {
	return fields{
		"id": row.ID, "firstName": row.FirstName, "lastName": row.LastName, "email": row.Email,
		"mobileNumber": row.MobileNumber,
	}
}

func (c *Call) createCustomer() any {
	var req userRequest
	c.decodeRequired(&req)
	c.checkUser(&req, "")
	c.refuseDuplicate(req.Email)
	c.valid()
	row := c.newCustomer(req)
	c.EmitCustomer("WB_Customer_Created", row)
	return userOf(row)
}

// customerByEmail answers with 204 if there is no customer: some reads of the service have no
// 404 for a missing record.
func (c *Call) customerByEmail() any {
	row := c.ByEmail(c.required("email"))
	if row == nil || !c.mine(row.PartnerID) {
		return null{}
	}
	c.concern(row.ID)
	shown := *row
	shown.ID = c.otherID(assumption.EmailIdentifies, row.ID)
	return plain.Wire(&shown)
}

// Both bulk routes are all or nothing in this model. The interface does not say.

// at is the prefix of the field names of a record in a list.
func at(i int) string { return fmt.Sprintf("[%d].", i) }

func (c *Call) createCustomers() any {
	var users []userRequest
	c.decodeRequired(&users)
	taken := map[string]bool{} // 10,000 lookups in 10,000 customers would hold up all other requests for seconds
	for _, row := range book.All[record.Customer](c.Tables) {
		taken[strings.ToLower(row.Email)] = true
	}
	for i, u := range users {
		c.checkUser(&u, at(i))
		email := strings.ToLower(u.Email)
		if taken[email] {
			c.failed.add(at(i)+"email", "DuplicateEmail", "Another customer has this e-mail address.")
		}
		taken[email] = true
	}
	c.valid()
	all := []fields{}
	for _, u := range users {
		row := c.newCustomer(u)
		c.EmitCustomer("WB_Customer_Created", row)
		all = append(all, userOf(row))
	}
	return all
}

func (c *Call) createApplications() any {
	var requests []applicationRequest
	c.decodeRequired(&requests)
	for i, a := range requests {
		c.checkApplication(&a, at(i))
		c.checkOwner(&a, at(i))
	}
	c.valid()
	all := []any{}
	for _, a := range requests {
		app := c.newApplication(a, a.CustomerID)
		c.EmitApplication("WB_Application_Created", app)
		all = append(all, plain.Wire(app))
	}
	return all
}
