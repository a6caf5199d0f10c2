// Package record has the records of the service for tests, as tests seed, read and change them. The JSON names are those
// of a snapshot. Package lendingtest has the same names.
package record

import (
	"encoding/json"
	"strings"
	"time"
)

// Customer is a customer record. Responses omit the fields that are tagged with wire:"-", here and in the other records.
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

	Password    string    `json:"password" wire:"-"`
	SSN         string    `json:"ssn" wire:"-"`
	DateOfBirth Timestamp `json:"dateOfBirth" wire:"-"`
	PartnerID   string    `json:"partnerId" wire:"-"` // partner of the account that created the customer
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

	BankName         string          `json:"bankName" wire:"-"`
	Accounts         []BankAccount   `json:"accounts" wire:"-"`
	PrimaryAccountID string          `json:"primaryAccountId" wire:"-"`
	Offer            *Offer          `json:"offer" wire:"-"`       // the latest offer
	ProcessRuns      int             `json:"processRuns" wire:"-"` // each run makes a new offer
	Company          json.RawMessage `json:"company,omitempty" wire:"-"`
	Applicants       []Applicant     `json:"applicants" wire:"-"`
	ContractID       string          `json:"contractId" wire:"-"` // empty without a primary applicant
	Requirements     []Requirement   `json:"requirements" wire:"-"`
	Documents        []Document      `json:"documents" wire:"-"`
	Messages         []Message       `json:"messages" wire:"-"`
	Calculation      *Calculation    `json:"calculation" wire:"-"` // of the last invoice calculation
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
	Record    json.RawMessage `json:"record,omitempty" wire:"-"` // as received
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

	Transactions []Transaction `json:"transactions" wire:"-"`
	Withdrawals  []Withdrawal  `json:"withdrawals" wire:"-"`
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
	Secret     string   `json:"secret,omitempty"`

	PartnerID  string `json:"partnerId,omitempty" wire:"-"`
	CustomerID string `json:"customerId,omitempty" wire:"-"`
}

// Calculation is the interface's CalculationRequest. The last invoice calculation is stored for
// the withdrawal.
type Calculation struct {
	Amount                    Cents   `json:"amount"`
	PercentOfIncome           float64 `json:"percentOfIncome"`
	Terms                     int     `json:"terms"`
	FixedRepaymentCalculation bool    `json:"fixedRepaymentCalculation"`
}

// Account is an account for signing in.
type Account struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// TwoFactor makes a login send a code instead of returning a token.
	TwoFactor bool `json:"twoFactor"`
	// TrustedDeviceToken lets a login with this token skip the second factor.
	TrustedDeviceToken string `json:"trustedDeviceToken"`
	// Administrator gives access to the administrators' routes and to the records of all
	// partners.
	Administrator bool `json:"administrator"`
	// PartnerID is the partner of the account. The account can use no other partner, and no record
	// of another partner.
	PartnerID string `json:"partnerId"`
	// AgentID is the agent of the account. The account can name no other agent in an application.
	AgentID string `json:"agentId"`
}

// MayUse reports whether the account may act for a partner. Records without a partner are everybody's.
func (a *Account) MayUse(partnerID string) bool {
	return a.Administrator || a.PartnerID == "" || partnerID == "" || strings.EqualFold(a.PartnerID, partnerID)
}

// MayName reports whether the account may name an agent.
func (a *Account) MayName(agentID string) bool {
	return a.Administrator || agentID == "" || strings.EqualFold(a.AgentID, agentID)
}

// Sent is a message that the real service sends by text message or e-mail.
type Sent struct {
	Time time.Time `json:"time"`
	ID   string    `json:"id"`
	// Kind is "two-factor", "loan-otp" or "application-link".
	Kind string `json:"kind"`
	// To is a user name for two-factor codes, otherwise a customer's e-mail.
	To            string `json:"to"`
	Code          string `json:"code,omitempty"`
	ApplicationID string `json:"applicationId,omitempty"`
	LoanID        string `json:"loanId,omitempty"`
}

// Snapshot is a deep copy of the records, with lists in order of creation. Attach its JSON to a bug
// report: it contains the passwords, codes and data of the records in clear text. It does not
// contain tokens, the request log, counters, faults, deliveries or options.
type Snapshot struct {
	Time          time.Time      `json:"time"` // by the service's clock
	Customers     []Customer     `json:"customers"`
	Applications  []Application  `json:"applications"`
	Loans         []Loan         `json:"loans"`
	Subscriptions []Subscription `json:"subscriptions"`
	Accounts      []Account      `json:"accounts"` // by user name
	// Sent has the sent codes, one-time passwords and links.
	Sent []Sent `json:"sent"`
}
