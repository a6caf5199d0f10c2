package record

import (
	"errors"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// Statuses of an application in this model. The interface does not publish the statuses.
const (
	StatusCreated     = "Application Created"   // after the creation
	StatusBankingData = "Banking Data Received" // after the first banking data
	StatusUnderReview = "Under Review"          // until the decision, under a Decision
	StatusDeclined    = "Declined"              // after a negative decision
	StatusOfferReady  = "Offer Ready"           // after processing
	StatusInApproval  = "In Approval"           // after the company was added
	StatusLoanOpened  = "Loan Opened"           // after the last signature
	StatusCancelled   = "Cancelled"             // final
)

// Decision sets how the service decides about applications. The zero Decision makes an offer at
// once.
type Decision struct {
	// After is the duration of the review, by the service's clock. Processing returns the id of
	// the offer at once; the offer exists after the review.
	After time.Duration `json:"after,omitempty"`
	// Declined ends the review without an offer.
	Declined bool `json:"declined,omitempty"`
}

// Check returns an error for a decision that cannot be made.
func (d Decision) Check() error {
	if d.After < 0 {
		return errors.New("after is negative")
	}
	return nil
}

// Delivery is a webhook that was posted to its receiver.
type Delivery struct {
	Number    int       `json:"number"` // order of delivery, from 1
	Time      time.Time `json:"time"`   // when the event was created, by the service's clock
	Event     string    `json:"event"`
	URI       string    `json:"uri"`
	Body      []byte    `json:"body"`
	Signature string    `json:"signature"`       // value of the header
	Status    int       `json:"status"`          // status of the receiver's response, 0 without a response
	Err       string    `json:"error,omitempty"` // why there is no response
}

// MarshalJSON encodes a delivery for another process, with the body as text.
func (d Delivery) MarshalJSON() ([]byte, error) { return plain.Marshal(d) }

// UnmarshalJSON decodes the JSON of MarshalJSON.
func (d *Delivery) UnmarshalJSON(b []byte) error { return plain.Unmarshal(b, d) }

// DeliveryMode makes deliveries misbehave. The zero value is the normal mode.
type DeliveryMode struct {
	// Copies posts each delivery this number of additional times, byte for byte.
	Copies int `json:"copies,omitempty"`
	// Hold holds deliveries until another mode posts them.
	Hold bool `json:"hold,omitempty"`
	// Reverse posts the last of the waiting deliveries first. Use Hold before, so that several
	// deliveries wait.
	Reverse bool `json:"reverse,omitempty"`
	// Delay delays each delivery, in real time or the time of a bubble.
	Delay time.Duration `json:"delay,omitempty"`
	// Secret signs with this secret instead of the subscription's, like a forger, or like the service
	// before a rotation.
	Secret string `json:"secret,omitempty"`
	// Retries delivers a delivery again after a response other than 2xx, up to this number of times: the
	// same event with a new creation time.
	Retries int `json:"retries,omitempty"`
}

// Check returns an error for a mode that cannot be.
func (m DeliveryMode) Check() error {
	if m.Copies < 0 || m.Delay < 0 || m.Retries < 0 {
		return errors.New("copies, delay and retries cannot be negative")
	}
	return nil
}
