package lending

import (
	"database/sql/driver"

	"github.com/google/uuid"
)

// ID identifies a record of a kind. The kinds do not mix: code with a [LoanID] in place of an
// [ApplicationID] does not compile. Functions read an ID from text:
//
//	id, err := lending.ParseCustomerID("3fa85f64-5717-4562-b3fc-2c963f66afa6")
//
// A uuid.UUID converts directly: CustomerID(u). A database stores an ID as text: see [ID.Value]
// and [ID.Scan].
type ID[Kind any] uuid.UUID

// The kinds of identifiers.
type (
	customer    struct{}
	application struct{}
	offer       struct{}
	loan        struct{}
	partner     struct{}
	agent       struct{}
	applicant   struct{}
	requirement struct{}

	// CustomerID identifies a customer.
	CustomerID = ID[customer]
	// ApplicationID identifies an application for financing.
	ApplicationID = ID[application]
	// OfferID identifies an offer. [ApplicationsService.Process] returns it.
	OfferID = ID[offer]
	// LoanID identifies a loan: see [LoansService.ListByCustomer]. Application and offer have
	// other ids.
	LoanID = ID[loan]
	// PartnerID identifies a partner. The service assigns it.
	PartnerID = ID[partner]
	// AgentID identifies an agent of a partner. The service assigns it.
	AgentID = ID[agent]
	// ApplicantID identifies a person who applies and signs.
	ApplicantID = ID[applicant]
	// RequirementID identifies a required document.
	RequirementID = ID[requirement]
)

// String returns the identifier as the service writes it.
func (id ID[Kind]) String() string { return uuid.UUID(id).String() }

// UUID returns the identifier as a plain UUID.
func (id ID[Kind]) UUID() uuid.UUID { return uuid.UUID(id) }

// IsZero reports whether the identifier is the all-zero UUID.
func (id ID[Kind]) IsZero() bool { return id == ID[Kind]{} }

// MarshalText writes the identifier as the service does.
func (id ID[Kind]) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText reads a UUID in upper or lower case, with hyphens and without braces.
func (id *ID[Kind]) UnmarshalText(text []byte) error {
	parsed, err := parseID[Kind]("id", string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// Value returns the text of the identifier for database/sql, for a column of text or of UUIDs.
// The zero identifier is NULL.
func (id ID[Kind]) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}

// Scan reads an identifier from text, from 16 bytes, or from NULL, which is the zero identifier.
// The error does not quote src.
func (id *ID[Kind]) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		*id = ID[Kind]{}
		return nil
	case string:
		return id.UnmarshalText([]byte(src))
	case []byte:
		if len(src) == len(id) {
			*id = ID[Kind](src)
			return nil
		}
		return id.UnmarshalText(src)
	}
	return argumentError("id", CodeFormat, "must be a UUID, as text or as 16 bytes")
}

// ParseCustomerID reads a customer's id, for example from a database or a URL. The error is an
// [*ArgumentError] and does not quote s.
func ParseCustomerID(s string) (CustomerID, error) { return parseID[customer]("customerId", s) }

// ParseApplicationID reads an application's id. The error is an [*ArgumentError] and does not
// quote s.
func ParseApplicationID(s string) (ApplicationID, error) {
	return parseID[application]("applicationId", s)
}

// ParseLoanID reads a loan's id. The error is an [*ArgumentError] and does not quote s.
func ParseLoanID(s string) (LoanID, error) { return parseID[loan]("loanId", s) }

// ParsePartnerID reads a partner's id. The error is an [*ArgumentError] and does not quote s.
func ParsePartnerID(s string) (PartnerID, error) { return parseID[partner]("partnerId", s) }

func parseID[Kind any](field, s string) (ID[Kind], error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != len(zeroUUID) { // uuid also reads braces, quotes and URNs
		return ID[Kind]{}, &ArgumentError{Fields: []FieldError{{field, "must be a UUID", CodeFormat}}}
	}
	return ID[Kind](id), nil
}

const zeroUUID = "00000000-0000-0000-0000-000000000000"
