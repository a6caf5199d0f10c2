package lending

import (
	"math/rand/v2"
	"slices"
	"time"
)

// grant is a token and what is known of its life. It does not change, so that it can be
// read without a lock.
type grant struct {
	token    Token
	issued   time.Time
	useUntil time.Time // zero if it is not known
	renewAt  time.Time // no later than useUntil; zero if it is not known
	fence    int64     // of the lease it was got under; 0 if it was got without the store
}

// expiryMargin is how long before its expiry a token is no longer used, so that it
// does not expire on the way: at most a tenth of its life.
const expiryMargin = 10 * time.Second

// maxRefused is how many refused tokens a session remembers: more than a store that
// could not be reached can bring back.
const maxRefused = 16

// newGrant returns a grant of a token that was issued now and expires at a time that
// is zero, or past, if it is not known.
func newGrant(value Secret, issued, expires time.Time) *grant {
	g := &grant{token: Token{Value: value}, issued: issued}
	if life := expires.Sub(issued); life > 0 {
		use := life - min(expiryMargin, life/10)
		g.token.Expires = expires
		g.useUntil = onBothClocks(issued.Add(use))
		g.renewAt = onBothClocks(issued.Add(use*2/3 + rand.N(use/6+1)))
	}
	return g
}

// onBothClocks gives t a reading of the monotonic clock, which a time that was sent or
// stored does not have.
func onBothClocks(t time.Time) time.Time {
	now := time.Now()
	return now.Add(t.Sub(now))
}

// until returns how long it is until t by the clock that says less: the monotonic one
// stands still while a machine sleeps, and the other may be set back.
func until(t time.Time) time.Duration {
	now := time.Now()
	return min(t.Sub(now), t.Sub(now.Round(0)))
}

// fresh reports whether g can be given out and need not be refreshed yet.
func (g *grant) fresh() bool {
	return g != nil && (g.renewAt.IsZero() || until(g.renewAt) > 0)
}

func (g *grant) usable() bool {
	return g != nil && (g.useUntil.IsZero() || until(g.useUntil) > 0)
}

// life is for how long g may be used in all.
func (g *grant) life() time.Duration { return g.useUntil.Sub(g.issued) }

// postponed returns a copy that is to be renewed after wait.
func (g *grant) postponed(wait time.Duration) *grant {
	later := *g
	later.renewAt = time.Now().Add(min(wait, until(g.useUntil)))
	return &later
}

// holds reports whether g is of this token.
func (g *grant) holds(token Secret) bool {
	return g != nil && g.token.Value.Reveal() == token.Reveal()
}

// newer reports whether g is to be used rather than old: the one rule for that. A fence
// tells the order whatever the clocks say. A token that was got without the store has
// none, and may be older or newer than what the store holds: by the time of issue.
func (g *grant) newer(old *grant) bool {
	switch {
	case !old.usable():
		return true
	case g.fence > 0 && old.fence > 0:
		return g.fence > old.fence
	}
	return g.issued.After(old.issued)
}

// publish makes g, which the service has just given, the present grant unless that is
// newer, and returns the present one.
func (s *Session) publish(g *grant) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = slices.DeleteFunc(s.refused, g.holds) // the service may give it again
	s.adopt(g)
	return s.current.Load()
}

// adopt makes g the present grant if it is newer and was not refused, which ends the
// memory of failures. The caller holds the lock.
func (s *Session) adopt(g *grant) {
	if slices.ContainsFunc(s.refused, g.holds) || !g.newer(s.current.Load()) {
		return
	}
	s.current.Store(g)
	s.failure.until, s.outage.until = time.Time{}, time.Time{}
}
