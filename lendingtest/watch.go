package lendingtest

import (
	"slices"
	"time"
)

// Event is an event for watchers. Exactly one field is set.
type Event struct {
	Request  *Request  // answered, just before the caller receives the response
	Sent     *Sent     // a code or link was sent
	Delivery *Delivery // a webhook was posted, or posting failed
	Late     *Request  // executed after its caller had gone: [Fault].Late
	Failed   error     // a step of a scenario failed
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

// Watch calls f for every event until the caller calls stop. f runs in the goroutine of the
// request or delivery, without a lock, so f may call the service.
func (s *Service) Watch(f func(Event)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastWatcher++
	n := s.lastWatcher
	s.watchers[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, n)
	}
}

func (s *Service) notify(e Event) {
	s.mu.Lock()
	var all []func(Event)
	for n := 1; n <= s.lastWatcher; n++ {
		if f := s.watchers[n]; f != nil {
			all = append(all, f)
		}
	}
	s.mu.Unlock()
	for _, f := range all {
		f(e)
	}
}

// message records a sent message and notifies watchers after the handler.
func (c *call) message(m Sent) Sent {
	m.ID, m.Time = c.newID(kindSent), c.now()
	c.sent.add(m, 0)
	c.events = append(c.events, Event{Sent: &m})
	return m
}

// Sent returns the sent messages, oldest first. The service keeps the last 10,000.
func (s *Service) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.all()
}

// TwoFactorCode returns the last code for a user, or "".
func (s *Service) TwoFactorCode(username string) string {
	return s.lastCode(func(m Sent) bool { return m.Kind == "two-factor" && m.To == username })
}

// OTP returns the last one-time password for a loan, or "".
func (s *Service) OTP(loanID string) string {
	return s.lastCode(func(m Sent) bool { return m.Kind == "loan-otp" && m.LoanID == loanID })
}

func (s *Service) lastCode(fits func(Sent) bool) string {
	for _, m := range slices.Backward(s.Sent()) {
		if fits(m) {
			return m.Code
		}
	}
	return ""
}
