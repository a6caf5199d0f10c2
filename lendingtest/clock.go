package lendingtest

import (
	"slices"
	"time"
)

// job is something that happens when the service's clock gets there.
type job struct {
	at    time.Time
	run   func(at time.Time) // without s.mu
	timer *time.Timer
}

// at has run called once the service's clock shows t: by a timer, and by whatever moves or
// reads the clock before that. It needs s.mu.
func (s *Service) at(t time.Time, run func(at time.Time)) {
	if s.closed {
		return
	}
	j := &job{at: t, run: run}
	j.timer = time.AfterFunc(t.Sub(s.base()), s.catchUpJobs)
	i, _ := slices.BinarySearchFunc(s.jobs, t, func(other *job, t time.Time) int {
		return max(other.at.Compare(t), -1)*2 - 1 // after those of the same time
	})
	s.jobs = slices.Insert(s.jobs, i, j)
}

// catchUpJobs runs all that is due, in order. It must not hold s.mu.
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

// dropJobs forgets what has not happened yet. It needs s.mu.
func (s *Service) dropJobs() {
	for _, j := range s.jobs {
		j.timer.Stop()
	}
	s.jobs = nil
}

// Decision is how the service decides about applications from now on. The zero Decision
// makes an offer at once.
type Decision struct {
	// After is how long an application is under review, by the service's clock. Processing
	// answers with the id of the offer at once; the offer is not found before.
	After time.Duration
	// Declined ends the review without an offer.
	Declined bool
}

// The statuses of applications that a [Decision] makes.
const (
	StatusUnderReview = "Under Review" // until the decision
	StatusDeclined    = "Declined"     // by the decision
)

// SetDecision changes how the service decides about applications that are processed from now on.
func (s *Service) SetDecision(d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decision = d
}

// review has the decision about an application come later. It needs s.mu.
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

// Repayment is money that a customer pays back.
type Repayment struct {
	LoanID string
	// Amount of each payment. The last one pays the balance.
	Amount Cents
	// Every repeats the payment, by the service's clock, until the balance is zero or the
	// loan is closed. Zero is one payment, now.
	Every time.Duration
	// Interest in percent of the balance is added before each payment.
	Interest float64
}

// Repay has a loan repaid: transactions and balances change as the service's clock moves.
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

// pay makes a payment and returns whether something is left to pay. It needs s.mu.
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
