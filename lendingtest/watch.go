package lendingtest

import (
	"slices"
	"time"
)

// Event is something that watchers are told. One field is set.
type Event struct {
	Request  *Request  // answered, a moment before the caller sees it
	Sent     *Sent     // a code or link went out
	Delivery *Delivery // a webhook was posted, or could not be
	Late     *Request  // taken up after its caller had gone: [Fault].Late
	Failed   error     // a step of a scenario could not be done
}

// Sent is a message that the real service would send by text or mail.
type Sent struct {
	Time time.Time `json:"time"`
	ID   string    `json:"id"`
	// Kind is "two-factor", "loan-otp" or "application-link".
	Kind string `json:"kind"`
	// To is a user name for two-factor codes, else a customer's e-mail.
	To            string `json:"to"`
	Code          string `json:"code,omitempty"`
	ApplicationID string `json:"applicationId,omitempty"`
	LoanID        string `json:"loanId,omitempty"`
}

// Watch calls f for every event until stop is called. It runs in the goroutine
// of the request or delivery, unlocked, so it may call the service.
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

// message notes what goes out, and has watchers told after the handler.
func (c *call) message(m Sent) Sent {
	m.ID, m.Time = c.newID(kindSent), c.now()
	c.sent.add(m, 0)
	c.events = append(c.events, Event{Sent: &m})
	return m
}

// Sent returns what was sent so far, oldest first, of which the service keeps the last
// 10,000.
func (s *Service) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.all()
}

// TwoFactorCode returns the code sent last to a user, or "".
func (s *Service) TwoFactorCode(username string) string {
	return s.lastCode(func(m Sent) bool { return m.Kind == "two-factor" && m.To == username })
}

// OTP returns the one-time password sent last for a loan, or "".
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
