package lendingtest

import (
	"encoding/json"
	"maps"
	"slices"
)

// Customer is a customer record. Responses do not contain the fields without a JSON name.
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
	PartnerID   string    `json:"-"` // partner of the account that created the customer
}

// Application is a financing application with all its data.
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
	Offer            *Offer          `json:"-"` // the latest offer
	ProcessRuns      int             `json:"-"` // each run makes a new offer
	Company          json.RawMessage `json:"-"`
	Applicants       []Applicant     `json:"-"`
	ContractID       string          `json:"-"` // empty without a primary applicant
	Requirements     []Requirement   `json:"-"`
	Documents        []Document      `json:"-"`
	Messages         []Message       `json:"-"`
	Calculation      *Calculation    `json:"-"` // of the last invoice calculation
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

// BankTransaction is a transaction of a bank account. Its amount is a string in JSON, as in the
// interface.
type BankTransaction struct {
	Date        string `json:"date"`
	Description string `json:"description"`
	Amount      string `json:"amount"`
}

// Offer is the result of processing.
type Offer struct {
	ID            string    `json:"id"`
	ApplicationID string    `json:"applicationId"`
	Amount        Cents     `json:"amount"`
	Terms         int       `json:"terms"`
	CreatedUTC    Timestamp `json:"createdUTC"`
	ExpiresUTC    Timestamp `json:"expiresUTC"`
}

// Applicant is a person who signs the contract.
type Applicant struct {
	ID        string          `json:"id"`
	FirstName string          `json:"firstName"`
	LastName  string          `json:"lastName"`
	Email     string          `json:"email"`
	IsPrimary bool            `json:"isPrimary"`
	HasSigned bool            `json:"hasSigned"`
	Record    json.RawMessage `json:"record,omitempty"` // as received; not in responses
}

// Requirement is a document that the service asks for.
type Requirement struct {
	ID          string `json:"supportingDocumentId"`
	FileType    string `json:"fileType"`
	Description string `json:"description"`
	IsSubmitted bool   `json:"isSubmitted"`
}

// Document describes an accepted upload. The file itself is not kept.
type Document struct {
	ID            string    `json:"id"`
	Kind          string    `json:"kind"` // "bank-statement", "required" or "supporting"
	RequirementID string    `json:"requirementId"`
	FileName      string    `json:"fileName"`
	FileType      string    `json:"fileType"`
	Size          int64     `json:"size"`   // after decoding
	SHA256        string    `json:"sha256"` // of the decoded bytes, in hex
	CreatedUTC    Timestamp `json:"createdUTC"`
}

// Message is a message of an application's conversation.
type Message struct {
	ID         string    `json:"id"`
	Message    string    `json:"message"`
	Sender     string    `json:"sender"`
	CreatedUTC Timestamp `json:"createdUTC"`
}

// Loan is a loan with its transactions and withdrawals.
type Loan struct {
	ID               string    `json:"id"`
	ApplicationID    string    `json:"applicationId"`
	CustomerID       string    `json:"customerId"`
	Amount           Cents     `json:"amount"`           // the limit
	Balance          Cents     `json:"balance"`          // withdrawn and not repaid
	AvailableBalance Cents     `json:"availableBalance"` // still available
	IsEnabled        bool      `json:"isEnabled"`
	IsClosed         bool      `json:"isClosed"`
	CreatedUTC       Timestamp `json:"createdUTC"`

	Transactions []Transaction `json:"-"`
	Withdrawals  []Withdrawal  `json:"-"`
	pending      *pending
}

// Transaction is a transaction of a loan.
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
	DateUTC     Timestamp `json:"dateUTC"` // as sent by the caller
	CreatedUTC  Timestamp `json:"createdUTC"`
}

// Subscription is the webhook subscription of a partner or a customer.
type Subscription struct {
	ID         string   `json:"id"`
	WebhookURI string   `json:"webhookUri"`
	IsActive   bool     `json:"isActive"`
	Webhooks   []string `json:"webhooks"` // empty means all events
	Secret     string   `json:"secret"`

	PartnerID  string `json:"-"`
	CustomerID string `json:"-"`

	previous string // the secret before
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
	c.Webhooks = append([]string{}, sub.Webhooks...) // an array in JSON, never null
	return c
}
