package lendingtest

import (
	"slices"
	"time"
)

// job runs when the service's clock reaches its time.
type job struct {
	at    time.Time
	run   func(at time.Time) // called without s.mu
	timer *time.Timer
}

// at runs a function once the service's clock reaches t. A timer runs the function, or an
// earlier call that moves or reads the clock. It needs s.mu.
func (s *Service) at(t time.Time, run func(at time.Time)) {
	if s.closed {
		return
	}
	j := &job{at: t, run: run}
	j.timer = time.AfterFunc(t.Sub(s.base()), s.catchUpJobs)
	i, _ := slices.BinarySearchFunc(s.jobs, t, func(other *job, t time.Time) int {
		return max(other.at.Compare(t), -1)*2 - 1 // after jobs of the same time
	})
	s.jobs = slices.Insert(s.jobs, i, j)
}

// catchUpJobs runs all due jobs in order. The caller must not hold s.mu.
func (s *Service) catchUpJobs() {
	for {
		s.mu.Lock()
		if len(s.jobs) == 0 || s.jobs[0].at.After(s.base()) {
			s.mu.Unlock()
			return
		}
		j := s.jobs[0]
		s.jobs = s.jobs[1:]
		j.timer.Stop()
		s.mu.Unlock()
		j.run(j.at)
	}
}

// dropJobs deletes all jobs that have not run. It needs s.mu.
func (s *Service) dropJobs() {
	for _, j := range s.jobs {
		j.timer.Stop()
	}
	s.jobs = nil
}

// Decision sets how the service decides about applications. The zero Decision makes an offer at
// once.
type Decision struct {
	// After is the duration of the review, by the service's clock. Processing returns the id of
	// the offer at once; the offer exists after the review.
	After time.Duration
	// Declined ends the review without an offer.
	Declined bool
}

// Statuses of an application under a [Decision].
const (
	StatusUnderReview = "Under Review" // until the decision
	StatusDeclined    = "Declined"     // after the decision
)

// SetDecision sets how the service decides about applications that are processed from now on.
func (s *Service) SetDecision(d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decision = d
}

// review schedules the decision about an application. It needs s.mu.
func (s *Service) review(app *Application, offer *Offer) {
	s.setStatus(app, StatusUnderReview)
	s.emitApplication("WB_Under_Review", app)
	declined, id, shift := s.decision.Declined, app.ID, s.shift
	decide := func(at time.Time) {
		app := s.applications.get(id)
		switch {
		case app == nil || app.Status != StatusUnderReview: // cancelled meanwhile
		case declined:
			s.setStatus(app, StatusDeclined)
		default:
			at = at.Add(shift)
			offer.CreatedUTC, offer.ExpiresUTC = Timestamp{at}, Timestamp{at.Add(s.cfg.offerLifetime)}
			s.accept(app, offer)
		}
		s.seeded(id)
	}
	if s.decision.After <= 0 {
		decide(s.base())
		return
	}
	s.at(s.base().Add(s.decision.After), func(at time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		decide(at)
	})
}

// Repayment describes the repayments of a loan.
type Repayment struct {
	LoanID string
	// Amount is the amount of each payment. The last payment pays the remaining balance.
	Amount Cents
	// Every repeats the payment, by the service's clock, until the balance is zero or the loan
	// is closed. Zero means a single payment now.
	Every time.Duration
	// Interest, in percent of the balance, is added before each payment.
	Interest float64
}

// Repay makes repayments of a loan. Transactions and balances change as the service's clock
// advances.
func (s *Service) Repay(r Repayment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loans.get(r.LoanID) == nil {
		panic("lendingtest: no loan " + r.LoanID)
	}
	if r.Every <= 0 {
		s.pay(r, s.base())
		return
	}
	var next func(time.Time)
	next = func(at time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pay(r, at) {
			s.at(at.Add(r.Every), next)
		}
	}
	s.at(s.base().Add(r.Every), next)
}

// pay makes a payment and reports whether a balance remains. It needs s.mu.
func (s *Service) pay(r Repayment, at time.Time) (more bool) {
	loan := s.loans.get(r.LoanID)
	if loan == nil || loan.IsClosed || loan.Balance == 0 {
		return false
	}
	post := func(kind string, amount Cents) {
		loan.Transactions = append(loan.Transactions, Transaction{
			ID: s.newID(kindTransaction), Type: kind, Amount: amount, Description: kind, DateUTC: Timestamp{at},
		})
	}
	if interest := Cents(float64(loan.Balance) * r.Interest / 100); interest != 0 {
		loan.Balance += interest
		post("Interest", interest)
	}
	if paid := min(r.Amount, loan.Balance); paid > 0 {
		loan.Balance -= paid
		loan.AvailableBalance = min(loan.AvailableBalance+paid, loan.Amount)
		post("Repayment", paid)
	}
	s.seeded(loan.ID)
	return loan.Balance > 0
}
