package rules

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

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

// userResponse has the id, which the interface names, and the given fields.
type userResponse struct {
	ID           string `json:"id"`
	FirstName    string `json:"firstName"`
	LastName     string `json:"lastName"`
	Email        string `json:"email"`
	MobileNumber string `json:"mobileNumber"`
}

const nameLimit = 50

// check adds the validation errors of u; at is the prefix of the field names.
func (u *userRequest) check(at string, f *failures) {
	for _, text := range []struct{ field, value string }{
		{"firstName", u.FirstName}, {"lastName", u.LastName}, {"email", u.Email},
	} {
		if utf8.RuneCountInString(text.value) > nameLimit {
			f.add(at+text.field, "MaximumLength", "The field is longer than %d characters.", nameLimit)
		}
	}
	if !validEmail(u.Email) {
		f.add(at+"email", "InvalidEmail", "The field is not a valid e-mail address.")
	}
	if !validPassword(u.Password) {
		f.add(at+"password", "PasswordRules", "The password needs eight characters, upper and lower case letters and a digit.")
	}
	if _, ok := tenDigits(u.MobileNumber); !ok {
		f.add(at+"mobileNumber", "InvalidMobileNumber", "The number does not have exactly ten digits.")
	}
}

func validEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

// validPassword is a rule of this model. The interface does not publish the real rule.
func validPassword(s string) bool {
	return utf8.RuneCountInString(s) >= 8 && strings.ContainsFunc(s, unicode.IsUpper) &&
		strings.ContainsFunc(s, unicode.IsLower) && strings.ContainsFunc(s, unicode.IsDigit)
}

// tenDigits removes punctuation and reports whether ten digits remain.
func tenDigits(s string) (string, bool) {
	digits := strings.Map(func(r rune) rune {
		if unicode.IsPunct(r) || unicode.IsSymbol(r) || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	return digits, len(digits) == 10 && strings.Trim(digits, "0123456789") == ""
}

func (c *Call) byEmail(email string) *record.Customer {
	for row := range book.Rows(c.Customers.By(book.OfEmail(email))) {
		return row
	}
	return nil
}

// refuseDuplicate adds an error if a customer already has this e-mail.
func (c *Call) refuseDuplicate(at, email string, f *failures) {
	if c.byEmail(email) != nil {
		f.add(at+"email", "DuplicateEmail", "There is a customer with this e-mail address.")
	}
}

func (c *Call) newCustomer(u userRequest) *record.Customer {
	mobile, _ := tenDigits(u.MobileNumber)
	row := &record.Customer{
		ID: c.NewID(book.Customer), FirstName: u.FirstName, LastName: u.LastName, Email: u.Email,
		MobileNumber: mobile, Password: u.Password, CreatedUTC: c.Stamp(), PartnerID: c.account.PartnerID,
	}
	c.concern(row.ID)
	return c.Customers.Put(row.ID, row)
}

func userOf(row *record.Customer) userResponse {
	return userResponse{ID: row.ID, FirstName: row.FirstName, LastName: row.LastName, Email: row.Email, MobileNumber: row.MobileNumber}
}

func (c *Call) createCustomer() (any, error) {
	var req userRequest
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	req.check("", &c.failed)
	c.refuseDuplicate("", req.Email, &c.failed)
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	row := c.newCustomer(req)
	c.EmitCustomer("WB_Customer_Created", row)
	return userOf(row), nil
}

// customerByEmail answers with 204 if there is no customer: some reads of the service have no
// 404 for a missing record.
func (c *Call) customerByEmail() (any, error) {
	email := c.required("email")
	if row := c.byEmail(email); row != nil && c.mine(row.PartnerID) {
		c.concern(row.ID)
		return plain.Wire(row), nil
	}
	return null{}, nil
}

func (c *Call) customerByID(row *record.Customer) (any, error) { return plain.Wire(row), nil }
