package lending

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// failure is the memory of failures.
type failure struct {
	cause error
	count int // in a row
	last  time.Time
	pause time.Duration
	until time.Time // not tried again by itself before; zero after a success

	learned time.Time // its end as another process has written it
	fence   int64     // what the store held then: who learned of a refused token does not count it again
}

func (f *failure) pausing() bool { return time.Until(f.until) > 0 }

// remember keeps a failure in mind. The caller holds the lock.
func (f *failure) remember(err error, p patience) {
	now := time.Now()
	if (now.Sub(f.last)-time.Minute)/5 > f.pause {
		f.count = 0
	}
	f.cause, f.count, f.last = err, f.count+1, now
	f.pause = p.after(f.count)
	f.until = now.Add(f.pause)
}

// kept is what a session keeps in a store: a token, or the memory of a failed sign-in.
type kept struct {
	Account   string        `json:"account"` // whose it is: see [accountOf]
	Token     string        `json:"token,omitempty"`
	Issued    time.Time     `json:"issued,omitzero"`
	Expires   time.Time     `json:"expires,omitzero"`
	Life      time.Duration `json:"life,omitempty"` // that a refreshed token inherits
	Until     time.Time     `json:"until,omitzero"`
	Pause     time.Duration `json:"pause,omitempty"` // that ends at Until
	Count     int           `json:"count,omitempty"`
	Route     string        `json:"route,omitempty"`  // that has answered
	Status    int           `json:"status,omitempty"` // that it has answered with
	Outcome   Outcome       `json:"outcome,omitempty"`
	Challenge *Challenge    `json:"challenge,omitempty"`
	Person    bool          `json:"person,omitempty"` // the failure is an [ErrSignInRequired]
}

func (f *failure) kept() kept {
	k := kept{Until: f.until, Pause: f.pause, Count: f.count, Person: errors.Is(f.cause, ErrSignInRequired)}
	if required, ok := errors.AsType[*TwoFactorRequiredError](f.cause); ok {
		k.Challenge = &required.Challenge
	}
	if failed, ok := errors.AsType[*Error](f.cause); ok {
		k.Route, k.Status, k.Outcome = failed.Route, failed.StatusCode, failed.Outcome
	}
	return k
}

// cause is what the sessions of other processes get for a failed sign-in.
func (k *kept) cause() error {
	failed := &signInError{text: "it has failed in another process", needsPerson: k.Person}
	switch {
	case k.Challenge != nil:
		return &TwoFactorRequiredError{Challenge: *k.Challenge}
	case k.Status != 0:
		answer := &Error{Method: http.MethodPost, Route: k.Route, StatusCode: k.Status, Outcome: k.Outcome, Attempts: 1}
		failed.text, failed.cause = failed.text+": "+redact.Describe(answer), answer
	}
	return failed
}

// learn takes over a failure in another process. No pause is longer than it was meant to
// be, also if the clock was ahead when its end was written.
func (f *failure) learn(k *kept, fence int64) {
	if !k.Until.After(f.until) || k.Until.Equal(f.learned) {
		return
	}
	now := time.Now()
	pause := min(k.Until.Sub(now), k.Pause)
	*f = failure{cause: k.cause(), count: k.Count, last: now, pause: pause, until: now.Add(pause), learned: k.Until, fence: fence}
}

// grant returns the token that is kept, nil if none is. Its life is no longer than it
// was, also if the clock was ahead when its end was written.
func (k *kept) grant(fence int64) *grant {
	if k.Token == "" {
		return nil
	}
	ahead := max(time.Until(k.Issued), 0)
	g := newGrant(NewSecret(k.Token), k.Issued.Add(-ahead), k.Expires.Add(-ahead))
	g.fence, g.fullLife = fence, max(k.Life, g.fullLife)
	return g
}

// inUse reports whether what another account keeps is of use to it.
func (k *kept) inUse() bool {
	until := k.Until
	if k.Token != "" {
		until = k.Expires
	}
	return k.Account != "" && (time.Until(until) > 0 || k.Token != "" && until.IsZero())
}

// errOtherAccount is a mistake of the set-up: nothing in the store is used or replaced.
var errOtherAccount = redact.Text("lending: what it holds is of another account or service: each needs a store of its own")

// accountOf tells the accounts of services apart, without naming them.
func accountOf(base *url.URL, username string) string {
	port := cmp.Or(base.Port(), map[string]string{"https": "443", "http": "80"}[base.Scheme])
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{base.Scheme, strings.ToLower(base.Hostname()), port, base.Path, username}))
	return hex.EncodeToString(sum[:])
}

// storeLimit is how long a step of the store may take under ctx: a part of what is left,
// so that there is time for an attempt without the store if none of its steps ends.
func storeLimit(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > 0 {
			return min(storeTimeout, left/6)
		}
	}
	return storeTimeout
}

// storeStep makes a step of the store, which is the caller's and may hang or panic, and waits
// for it no longer than limit. Close of the client waits for what goes on after that.
func storeStep[T any](ctx context.Context, s *session, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	ended := make(chan result, 1)
	s.running.Go(func() {
		defer cancel()
		var r result
		r.err = safely.Call[PanicError](func() (err error) {
			r.value, err = do(ctx)
			return err
		})
		if text := interruption(r.err); text != "" {
			r.err = hidden(text, r.err)
		}
		ended <- r
	})
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-late.C:
		var none T
		return none, context.DeadlineExceeded
	}
}

func (s *session) load(ctx context.Context) (k kept, fence int64, err error) {
	stored, err := storeStep(ctx, s, storeLimit(ctx), s.store.Load)
	if err == nil && !stored.Data.IsZero() && json.Unmarshal([]byte(stored.Data.Reveal()), &k) != nil {
		k, err = kept{}, ErrCorruptToken
	}
	if err == nil && !stored.Data.IsZero() && k.Account != s.account {
		if err = errOtherAccount; !k.inUse() {
			k, err = kept{}, ErrCorruptToken
		}
	}
	if errors.Is(err, ErrCorruptToken) {
		s.report("reading the stored token", err)
		err = nil // it will be overwritten
	}
	if err != nil {
		err = &storeError{cause: hide(err)}
	}
	return k, stored.Fence, err
}

func (s *session) save(ctx context.Context, fence int64, k kept) error {
	k.Account = s.account
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	token := StoredToken{fence, NewSecret(string(text)), k.Expires}
	if k.Token == "" {
		token.Expires = k.Until.Add(time.Hour) // until then failures count as in a row
	}
	_, err = storeStep(context.WithoutCancel(ctx), s, storeLimit(ctx), func(ctx context.Context) (any, error) {
		return nil, s.store.Save(ctx, token)
	})
	return err
}

// replace puts k in the place of token if the store still has it. A newer token has a
// higher fence, so that it stays also if it is saved in between.
func (s *session) replace(ctx context.Context, token Secret, k kept) error {
	old, fence, err := s.load(ctx)
	if err == nil && old.Token == token.Reveal() {
		err = s.save(ctx, fence, k)
	}
	if errors.Is(err, ErrFenced) {
		err = nil
	}
	return err
}

// grant is a token and what is known of its life. It does not change, so that it can be
// read without a lock.
type grant struct {
	token    Token
	issued   time.Time
	useUntil time.Time // zero if it is not known
	renewAt  time.Time // no later than useUntil; zero if it is not known
	fence    int64     // of the lease it was got under; 0 if it was got without the store

	fullLife time.Duration // from its issue by the service, which a refreshed token inherits; 0 if it is not known
}

// margin is how long before its expiry a token that lives so long is no longer used, so
// that it does not expire on the way.
func margin(life time.Duration) time.Duration { return min(10*time.Second, life/10) }

// maxRefused is how many refused tokens a session remembers: more than a store that
// could not be reached can bring back.
const maxRefused = 16

// newGrant returns a grant of a token that was issued now and expires at a time that
// is zero, or past, if it is not known.
func newGrant(value Secret, issued, expires time.Time) *grant {
	g := &grant{token: Token{Value: value}, issued: issued}
	if life := expires.Sub(issued); life > 0 {
		use := life - margin(life)
		g.token.Expires, g.fullLife = expires, life
		g.useUntil = onBothClocks(issued.Add(use))
		g.renewAt = onBothClocks(issued.Add(use/3*2 + rand.N(use/6+1)))
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
func (s *session) publish(g *grant) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = slices.DeleteFunc(s.refused, g.holds) // the service may give it again
	s.adopt(g)
	return s.current.Load()
}

// adopt makes g the present grant if it is newer and was not refused, which ends the
// memory of failures. The caller holds the lock.
func (s *session) adopt(g *grant) {
	if slices.ContainsFunc(s.refused, g.holds) || !g.newer(s.current.Load()) {
		return
	}
	s.current.Store(g)
	s.failure.until, s.outage.until = time.Time{}, time.Time{}
}
