package record

import "time"

// Snapshot is a deep copy of the state, with lists in order of creation. Its JSON is the whole
// state: attach it to a bug report, and load it with Service.Restore. The JSON contains
// passwords, tokens, codes and the data of the records in clear text. It does not contain the
// request log, counters, faults, deliveries or options.
type Snapshot struct {
	Time          time.Time      `json:"time"` // by the service's clock
	Customers     []Customer     `json:"customers"`
	Applications  []Application  `json:"applications"`
	Loans         []Loan         `json:"loans"`
	Subscriptions []Subscription `json:"subscriptions"`
	// Payloads has the bodies received by the service's own webhook handler: the last 10,000 or
	// 32 MiB.
	Payloads [][]byte `json:"payloads"`
	// Sent has the sent codes, one-time passwords and links.
	Sent []Sent `json:"sent"`

	Seed       uint32                 `json:"seed"`
	Sequences  map[int]int            `json:"sequences"` // last identifier of each kind
	Codes      int                    `json:"codes"`     // number of codes, tokens and secrets so far
	Accounts   []Account              `json:"accounts"`
	Tokens     []Token                `json:"tokens"`
	TwoFactor  map[string]OneTimeCode `json:"twoFactor"`            // by user name
	Pending    map[string]Pending     `json:"pending"`              // unconfirmed withdrawals by loan
	OldSecrets map[string]string      `json:"oldSecrets,omitempty"` // of subscriptions, before the last change
}

// Token is the meaning of a bearer token.
type Token struct {
	Token    string    `json:"token"`
	Username string    `json:"username"`
	Expires  time.Time `json:"expires"`
	Revoked  bool      `json:"revoked"`
}

// OneTimeCode is a code that was sent.
type OneTimeCode struct {
	Value   string    `json:"value"`
	Expires time.Time `json:"expires"`
	Tries   int       `json:"tries"` // remaining tries
}

// Pending is a withdrawal that waits for its one-time password. A loan has at most a single
// pending withdrawal; starting another replaces it.
type Pending struct {
	Invoice bool        `json:"invoice"` // only invoice withdrawals can be confirmed
	Amount  Cents       `json:"amount"`
	Code    OneTimeCode `json:"code"`
}
