package record

import "time"

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
