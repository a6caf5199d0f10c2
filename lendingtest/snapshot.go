package lendingtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Snapshot is a deep copy of the state, with lists in order of creation. Its JSON is the whole
// state: attach it to a bug report, and load it with [Restore]. The JSON contains passwords,
// tokens, codes and the data of the records in clear text. It does not contain the request log,
// counters, faults, deliveries or options.
type Snapshot struct {
	Time          time.Time // by the service's clock
	Customers     []Customer
	Applications  []Application
	Loans         []Loan
	Subscriptions []Subscription
	// Payloads has the bodies received by the service's own webhook handler: the last 10,000 or
	// 32 MiB.
	Payloads [][]byte
	// Sent is the result of [Service.Sent]: codes, one-time passwords and links.
	Sent []Sent

	memory memory
}

// memory is the state besides the records.
type memory struct {
	Seed      uint32                 `json:"seed"`
	Sequences map[idKind]int         `json:"sequences"` // last identifier of each kind
	Codes     int                    `json:"codes"`     // number of codes, tokens and secrets so far
	Accounts  []Account              `json:"accounts"`
	Tokens    []session              `json:"tokens"`
	TwoFactor map[string]oneTimeCode `json:"twoFactor"` // by user name
	Pending   map[string]pending     `json:"pending"`   // unconfirmed withdrawals by loan
}

// Snapshot returns the current state.
func (s *Service) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.snapshot()
	snap.Time = s.now()
	return snap
}

// snapshot returns the state without the time. It needs s.mu.
func (s *Service) snapshot() Snapshot {
	snap := Snapshot{Payloads: s.payloads.all(), Sent: s.sent.all(), memory: s.memory()}
	for c := range s.customers.all() {
		snap.Customers = append(snap.Customers, *c)
	}
	for a := range s.applications.all() {
		snap.Applications = append(snap.Applications, a.clone())
	}
	for l := range s.loans.all() {
		snap.Loans = append(snap.Loans, l.clone())
	}
	for sub := range s.subscriptions.all() {
		snap.Subscriptions = append(snap.Subscriptions, sub.clone())
	}
	return snap
}

// memory needs s.mu.
func (s *Service) memory() memory {
	m := memory{
		Seed: s.cfg.seed, Sequences: maps.Clone(s.sequences), Codes: s.codes,
		TwoFactor: map[string]oneTimeCode{}, Pending: map[string]pending{},
	}
	for _, name := range slices.Sorted(maps.Keys(s.accounts)) {
		m.Accounts = append(m.Accounts, *s.accounts[name])
	}
	for _, token := range slices.Sorted(maps.Keys(s.tokens)) {
		m.Tokens = append(m.Tokens, *s.tokens[token])
	}
	for name, code := range s.twoFactor {
		m.TwoFactor[name] = *code
	}
	for loan := range s.loans.all() {
		if loan.pending != nil {
			m.Pending[loan.ID] = loan.pending.clone()
		}
	}
	return m
}

// The forms of records in the JSON of a snapshot, in which every field has a name. Go converts a
// record to its form, so a record with a field that is missing in its form does not compile.
type (
	snapshotForm struct {
		Time          time.Time          `json:"time"`
		Customers     []customerForm     `json:"customers"`
		Applications  []applicationForm  `json:"applications"`
		Loans         []loanForm         `json:"loans"`
		Subscriptions []subscriptionForm `json:"subscriptions"`
		Payloads      [][]byte           `json:"payloads"`
		Sent          []Sent             `json:"sent"`
		memory
	}

	customerForm struct {
		ID           string    `json:"id"`
		FirstName    string    `json:"firstName"`
		LastName     string    `json:"lastName"`
		Email        string    `json:"email"`
		MobileNumber string    `json:"mobileNumber"`
		Address      string    `json:"address"`
		City         string    `json:"city"`
		State        string    `json:"state"`
		CreatedUTC   Timestamp `json:"createdUTC"`
		Password     string    `json:"password"`
		SSN          string    `json:"ssn"`
		DateOfBirth  Timestamp `json:"dateOfBirth"`
		PartnerID    string    `json:"partnerId"`
	}

	applicationForm struct {
		ID               string            `json:"id"`
		CustomerID       string            `json:"customerId"`
		PartnerID        string            `json:"partnerId"`
		AgentID          string            `json:"agentId"`
		BusinessName     string            `json:"businessName"`
		BusinessZip      string            `json:"businessZip"`
		ExtraInformation map[string]string `json:"extraInformation"`
		Status           string            `json:"status"`
		StartDate        Timestamp         `json:"startDate"`
		CreatedUTC       Timestamp         `json:"createdUTC"`
		BankName         string            `json:"bankName"`
		Accounts         []BankAccount     `json:"accounts"`
		PrimaryAccountID string            `json:"primaryAccountId"`
		Offer            *Offer            `json:"offer"`
		ProcessRuns      int               `json:"processRuns"`
		Company          json.RawMessage   `json:"company,omitempty"`
		Applicants       []Applicant       `json:"applicants"`
		ContractID       string            `json:"contractId"`
		Requirements     []Requirement     `json:"requirements"`
		Documents        []Document        `json:"documents"`
		Messages         []Message         `json:"messages"`
		Calculation      *Calculation      `json:"calculation"`
		LinksSent        int               `json:"linksSent"`
	}

	loanForm struct {
		ID               string        `json:"id"`
		ApplicationID    string        `json:"applicationId"`
		CustomerID       string        `json:"customerId"`
		Amount           Cents         `json:"amount"`
		Balance          Cents         `json:"balance"`
		AvailableBalance Cents         `json:"availableBalance"`
		IsEnabled        bool          `json:"isEnabled"`
		IsClosed         bool          `json:"isClosed"`
		CreatedUTC       Timestamp     `json:"createdUTC"`
		Transactions     []Transaction `json:"transactions"`
		Withdrawals      []Withdrawal  `json:"withdrawals"`
		pending          *pending      // in memory
	}

	subscriptionForm struct {
		ID         string   `json:"id"`
		WebhookURI string   `json:"webhookUri"`
		IsActive   bool     `json:"isActive"`
		Webhooks   []string `json:"webhooks"`
		Secret     string   `json:"secret"`
		PartnerID  string   `json:"partnerId"`
		CustomerID string   `json:"customerId"`
		previous   string   // in memory
	}
)

// MarshalJSON encodes the whole state.
func (snap Snapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(snapshotForm{
		Time:          snap.Time,
		Customers:     each(snap.Customers, func(c Customer) customerForm { return customerForm(c) }),
		Applications:  each(snap.Applications, func(a Application) applicationForm { return applicationForm(a) }),
		Loans:         each(snap.Loans, func(l Loan) loanForm { return loanForm(l) }),
		Subscriptions: each(snap.Subscriptions, func(sub Subscription) subscriptionForm { return subscriptionForm(sub) }),
		Payloads:      snap.Payloads,
		Sent:          snap.Sent,
		memory:        snap.memory,
	})
}

// UnmarshalJSON decodes the JSON of MarshalJSON.
func (snap *Snapshot) UnmarshalJSON(b []byte) error {
	var form snapshotForm
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields() // otherwise a misspelled list would be empty
	if err := d.Decode(&form); err != nil {
		return err
	}
	*snap = Snapshot{
		Time:          form.Time,
		Customers:     each(form.Customers, func(c customerForm) Customer { return Customer(c) }),
		Applications:  each(form.Applications, func(a applicationForm) Application { return Application(a) }),
		Loans:         each(form.Loans, func(l loanForm) Loan { return Loan(l) }),
		Subscriptions: each(form.Subscriptions, func(sub subscriptionForm) Subscription { return Subscription(sub) }),
		Payloads:      form.Payloads,
		Sent:          form.Sent,
		memory:        form.memory,
	}
	return nil
}

func each[A, B any](rows []A, form func(A) B) []B {
	all := make([]B, 0, len(rows)) // an array in JSON, never null
	for _, row := range rows {
		all = append(all, form(row))
	}
	return all
}
