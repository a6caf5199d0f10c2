package lendingtest

import (
	"encoding/json"
	"maps"
	"slices"
)

// Customer is a customer record. Fields without a JSON name never go out.
type Customer struct {
	ID           string    `json:"id"`
	FirstName    string    `json:"firstName"`
	LastName     string    `json:"lastName"`
	Email        string    `json:"email"`
	MobileNumber string    `json:"mobileNumber"`
	Address      string    `json:"address"`
	City         string    `json:"city"`
	State        string    `json:"state"`
	CreatedUTC   Timestamp `json:"createdUTC"`

	Password    string    `json:"-"`
	SSN         string    `json:"-"`
	DateOfBirth Timestamp `json:"-"`
	PartnerID   string    `json:"-"` // of the account that created it
}

// Application is a financing application with everything that hangs on it.
type Application struct {
	ID               string            `json:"id"`
	CustomerID       string            `json:"customerId"`
	PartnerID        string            `json:"partnerId,omitempty"`
	AgentID          string            `json:"agentId,omitempty"`
	BusinessName     string            `json:"businessName"`
	BusinessZip      string            `json:"businessZip"`
	ExtraInformation map[string]string `json:"extraInformation"`
	Status           string            `json:"status"`
	StartDate        Timestamp         `json:"startDate"`
	CreatedUTC       Timestamp         `json:"createdUTC"`

	BankName         string          `json:"-"`
	Accounts         []BankAccount   `json:"-"`
	PrimaryAccountID string          `json:"-"`
	Offer            *Offer          `json:"-"` // the latest
	ProcessRuns      int             `json:"-"` // each makes a new offer
	Company          json.RawMessage `json:"-"`
	Applicants       []Applicant     `json:"-"`
	ContractID       string          `json:"-"` // empty until there is a primary applicant
	Requirements     []Requirement   `json:"-"`
	Documents        []Document      `json:"-"`
	Messages         []Message       `json:"-"`
	Calculation      *Calculation    `json:"-"` // stored by the invoice calculation
	LinksSent        int             `json:"-"`
}

// BankAccount is an account of the banking data.
type BankAccount struct {
	ID            string            `json:"id"`
	AccountName   string            `json:"accountName"`
	AccountNumber string            `json:"accountNumber"`
	RoutingNumber string            `json:"routingNumber"`
	AccountType   string            `json:"accountType"`
	Balance       string            `json:"balance"`
	Transactions  []BankTransaction `json:"transactions"`
}

// BankTransaction is a movement on a bank account. Its amount is a string on
// the wire, as the interface wants it.
type BankTransaction struct {
	Date        string `json:"date"`
	Description string `json:"description"`
	Amount      string `json:"amount"`
}

// Offer is what processing makes.
type Offer struct {
	ID            string    `json:"id"`
	ApplicationID string    `json:"applicationId"`
	Amount        Cents     `json:"amount"`
	Terms         int       `json:"terms"`
	CreatedUTC    Timestamp `json:"createdUTC"`
	ExpiresUTC    Timestamp `json:"expiresUTC"`
}

// Applicant is somebody who has to sign.
type Applicant struct {
	ID        string          `json:"id"`
	FirstName string          `json:"firstName"`
	LastName  string          `json:"lastName"`
	Email     string          `json:"email"`
	IsPrimary bool            `json:"isPrimary"`
	HasSigned bool            `json:"hasSigned"`
	Record    json.RawMessage `json:"record,omitempty"` // as it came; it does not go out
}

// Requirement is a document the service asks for.
type Requirement struct {
	ID          string `json:"supportingDocumentId"`
	FileType    string `json:"fileType"`
	Description string `json:"description"`
	IsSubmitted bool   `json:"isSubmitted"`
}

// Document is an accepted upload: what it was, not its bytes.
type Document struct {
	ID            string    `json:"id"`
	Kind          string    `json:"kind"` // "bank-statement", "required" or "supporting"
	RequirementID string    `json:"requirementId"`
	FileName      string    `json:"fileName"`
	FileType      string    `json:"fileType"`
	Size          int64     `json:"size"`   // decoded
	SHA256        string    `json:"sha256"` // of the decoded bytes, in hex
	CreatedUTC    Timestamp `json:"createdUTC"`
}

// Message is a line in an application's conversation.
type Message struct {
	ID         string    `json:"id"`
	Message    string    `json:"message"`
	Sender     string    `json:"sender"`
	CreatedUTC Timestamp `json:"createdUTC"`
}

// Loan is a loan with its movements.
type Loan struct {
	ID               string    `json:"id"`
	ApplicationID    string    `json:"applicationId"`
	CustomerID       string    `json:"customerId"`
	Amount           Cents     `json:"amount"`           // the limit
	Balance          Cents     `json:"balance"`          // drawn and not repaid
	AvailableBalance Cents     `json:"availableBalance"` // what may still be drawn
	IsEnabled        bool      `json:"isEnabled"`
	IsClosed         bool      `json:"isClosed"`
	CreatedUTC       Timestamp `json:"createdUTC"`

	Transactions []Transaction `json:"-"`
	Withdrawals  []Withdrawal  `json:"-"`
	pending      *pending
}

// Transaction is a movement on a loan.
type Transaction struct {
	ID          string    `json:"id"`
	Type        string    `json:"type"`
	Amount      Cents     `json:"amount"`
	Description string    `json:"description"`
	DateUTC     Timestamp `json:"dateUTC"`
}

// Withdrawal is a completed withdrawal.
type Withdrawal struct {
	ID          string    `json:"id"`
	Amount      Cents     `json:"amount"`
	AdvanceRate float64   `json:"advanceRate"`
	Status      string    `json:"status"`
	DateUTC     Timestamp `json:"dateUTC"` // as requested by the caller
	CreatedUTC  Timestamp `json:"createdUTC"`
}

// Subscription is a webhook subscription of one partner or one customer.
type Subscription struct {
	ID         string   `json:"id"`
	WebhookURI string   `json:"webhookUri"`
	IsActive   bool     `json:"isActive"`
	Webhooks   []string `json:"webhooks"` // empty means all
	Secret     string   `json:"secret"`

	PartnerID  string `json:"-"`
	CustomerID string `json:"-"`

	previous string // secret
}

func (a *Application) clone() Application {
	c := *a
	c.ExtraInformation = maps.Clone(a.ExtraInformation)
	c.Accounts = slices.Clone(a.Accounts)
	for i := range c.Accounts {
		c.Accounts[i].Transactions = slices.Clone(c.Accounts[i].Transactions)
	}
	if a.Offer != nil {
		offer := *a.Offer
		c.Offer = &offer
	}
	if a.Calculation != nil {
		calculation := *a.Calculation
		c.Calculation = &calculation
	}
	c.Applicants = slices.Clone(a.Applicants)
	c.Requirements = slices.Clone(a.Requirements)
	c.Documents = slices.Clone(a.Documents)
	c.Messages = slices.Clone(a.Messages)
	return c
}

func (l *Loan) clone() Loan {
	c := *l
	c.Transactions, c.Withdrawals, c.pending = slices.Clone(l.Transactions), slices.Clone(l.Withdrawals), nil
	return c
}

func (sub *Subscription) clone() Subscription {
	c := *sub
	c.Webhooks = append([]string{}, sub.Webhooks...) // an array on the wire, never null
	return c
}
