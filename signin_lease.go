package lending

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	leaseTTL     = 15 * time.Second
	renewTimeout = 30 * time.Second
	storeTimeout = 5 * time.Second       // for each step of the store
	minPoll      = 50 * time.Millisecond // of the store while another process signs in
	maxPoll      = time.Second
)

// work gets a new token from the service, under the lease with the fence.
type work func(ctx context.Context, fence int64) (*grant, error)

// obtain signs in, or takes the token of another process that does.
func (s *session) obtain(ctx context.Context, forced bool) (*grant, error) {
	g, err := s.inTurn(ctx, forced, s.trySignIn)
	if isStoreError(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outage.remember(err, afterOutage)
	}
	return g, err
}

// trySignIn signs in and remembers a failure, here and in the store.
func (s *session) trySignIn(ctx context.Context, fence int64) (*grant, error) {
	codeSent := false
	login := func(ctx context.Context) (*grant, error) { return s.login(ctx, &codeSent) }
	g, err := protect(login)(ctx, fence)
	if err == nil || errors.Is(context.Cause(ctx), ErrLeaseHeld) {
		return g, err
	}
	s.mu.Lock()
	s.failure.remember(err, pauseAfter(err, codeSent))
	failed := s.failure
	s.mu.Unlock()
	if failed.pause > 0 {
		s.report("keeping the failure", s.save(ctx, fence, failed.kept()))
	}
	return nil, err
}

// inTurn does the work when no other process does.
func (s *session) inTurn(ctx context.Context, forced bool, do work) (*grant, error) {
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		g, err := s.lead(ctx, leaseTTL, 0, forced, do)
		if forced && isStoreError(err) && !errors.Is(err, errOtherAccount) {
			return s.alone(ctx, 0, do)
		}
		if !errors.Is(err, ErrLeaseHeld) {
			return g, err
		}
		if err := sleep(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, err
		}
	}
}

// startRenewal refreshes g in the background if it is time, and puts the next attempt
// off before it begins this one.
func (s *session) startRenewal(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.current.Load() != g || g.renewAt.IsZero() || time.Until(g.renewAt) > 0 {
		return
	}
	life, left := g.token.Expires.Sub(g.issued), max(time.Until(g.useUntil), 0)
	g = g.postponed(max(left/8+rand.N(left/4+1), min(time.Second, life/50)))
	s.put(g)
	if s.renewal == nil {
		s.renewal = s.launch(func(ctx context.Context) (*grant, error) { return s.renew(ctx, g) })
	}
}

// renew refreshes g, or takes the token of another process that has. Without the store
// it waits for the last twentieth of the token's life, because every process does.
func (s *session) renew(ctx context.Context, g *grant) (*grant, error) {
	life, left := g.token.Expires.Sub(g.issued), max(time.Until(g.useUntil), 0)
	ctx, cancel := context.WithTimeout(ctx, min(renewTimeout, left))
	defer cancel()
	refresh := protect(func(ctx context.Context) (*grant, error) { return s.refresh(ctx, g) })
	newer, err := s.lead(ctx, min(leaseTTL, left/4), g.fence, true, refresh)
	if isStoreError(err) && left < life/20 {
		newer, err = s.alone(ctx, g.fence, refresh)
	}
	if !errors.Is(err, ErrLeaseHeld) {
		s.report("refreshing the token", err)
	}
	if failed, ok := errors.AsType[*Error](err); ok && failed.RetryAfter > 0 {
		s.postpone(g, failed.RetryAfter)
	}
	return newer, err
}

// postpone puts off the next attempt to refresh g.
func (s *session) postpone(g *grant, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.current.Load(); now != nil && now.fence == g.fence && time.Until(now.renewAt) < wait {
		s.put(now.postponed(wait))
	}
}

// lead takes the lease, does the work and shares the token. If another process has
// been faster it returns the token of that one, whose fence is above the given one.
// It fails with [ErrLeaseHeld] while another process is at work.
func (s *session) lead(ctx context.Context, ttl time.Duration, above int64, forced bool, do work) (*grant, error) {
	if g, err := s.look(ctx, above, forced); g != nil || err != nil {
		return g, err
	}
	l := &lease{store: s.store, owner: uuid.NewString(), ttl: ttl, ended: make(chan struct{})}
	ctx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer l.end()
	// Again, because another process may have been at work before this one had the
	// lease, or after, if this one stood still.
	if g, err := s.look(ctx, above, forced); g != nil || err != nil {
		return g, err
	}
	g, err := do(ctx, l.fence)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), ErrLeaseHeld):
		return nil, ErrLeaseHeld
	case err != nil:
		return nil, err
	}
	g.fence = l.fence
	return s.share(ctx, s.publish(g)), nil
}

// alone does the work without the store.
func (s *session) alone(ctx context.Context, fence int64, do work) (*grant, error) {
	g, err := do(ctx, fence)
	if err != nil {
		return nil, err
	}
	g.fence = fence
	return s.publish(g), nil
}

// look takes over a token that the store has, if its fence is above the given one and
// it may be used. Unless forced it fails while a failed sign-in is not to be repeated.
func (s *session) look(ctx context.Context, above int64, forced bool) (*grant, error) {
	k, fence, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	g := newGrant(NewSecret(k.Token), k.Issued, k.Expires)
	g.fence = fence
	s.mu.Lock()
	refused := s.refused.Reveal() == k.Token
	if k.Until.After(s.failure.until) {
		s.failure = failure{cause: k.cause(), count: k.Count, last: time.Now(), pause: time.Until(k.Until), until: k.Until}
	}
	paused := !forced && s.failure.pausing()
	failed := s.failure
	s.mu.Unlock()
	switch {
	case k.Token != "" && !refused && g.usable() && fence > above:
		return s.publish(g), nil
	case paused:
		return nil, &pausedError{failed.cause, failed.until}
	}
	return nil, nil
}

// kept is what a session keeps in a store: a token, or the memory of a failed sign-in.
type kept struct {
	Account   string     `json:"account"` // whose it is: see [accountOf]
	Token     string     `json:"token,omitempty"`
	Issued    time.Time  `json:"issued,omitzero"`
	Expires   time.Time  `json:"expires,omitzero"`
	Until     time.Time  `json:"until,omitzero"`
	Count     int        `json:"count,omitempty"`
	Challenge *Challenge `json:"challenge,omitempty"`
}

func (f *failure) kept() kept {
	k := kept{Until: f.until, Count: f.count}
	if required, ok := errors.AsType[*TwoFactorRequiredError](f.cause); ok {
		k.Challenge = &required.Challenge
	}
	return k
}

func (k *kept) cause() error {
	if k.Challenge != nil {
		return &TwoFactorRequiredError{*k.Challenge}
	}
	return &signInError{text: "it has failed in another process"}
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
var errOtherAccount = storeAnswer("what it holds is of another account or service: each needs a store of its own")

// accountOf tells the accounts of services apart, without naming them.
func accountOf(base *url.URL, username string) string {
	port := cmp.Or(base.Port(), map[string]string{"https": "443", "http": "80"}[base.Scheme])
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{base.Scheme, strings.ToLower(base.Hostname()), port, base.Path, username}))
	return hex.EncodeToString(sum[:])
}

func (s *session) load(ctx context.Context) (k kept, fence int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, err := s.store.Load(ctx)
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
		err = &storeError{err}
	}
	return k, stored.Fence, err
}

func (s *session) save(ctx context.Context, fence int64, k kept) error {
	k.Account = s.account
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	expires := k.Expires
	if k.Token == "" {
		expires = k.Until.Add(time.Hour) // until then failures count as in a row
	}
	return s.store.Save(ctx, StoredToken{fence, NewSecret(string(text)), expires})
}

// share saves g, and returns the newer token if the store has one by now.
func (s *session) share(ctx context.Context, g *grant) *grant {
	err := s.save(ctx, g.fence, kept{Token: g.token.Value.Reveal(), Issued: g.issued, Expires: g.token.Expires})
	if errors.Is(err, ErrFenced) {
		if newer, _ := s.look(context.WithoutCancel(ctx), g.fence, true); newer != nil {
			g = newer
		}
	}
	s.report("keeping the token", err)
	return g
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

// remember keeps a failure in mind. The caller holds the lock.
func (f *failure) remember(err error, p patience) {
	now := time.Now()
	if now.Sub(f.last) > time.Minute+5*f.pause {
		f.count = 0
	}
	f.cause, f.count, f.last = err, f.count+1, now
	f.pause = p.after(f.count)
	f.until = now.Add(f.pause)
}

// report logs what callers do not see.
func (s *session) report(what string, err error) {
	if err != nil && s.logger != nil {
		s.logger.LogAttrs(context.Background(), slog.LevelWarn, "lending session: "+what, slog.String("error", describe(err)))
	}
}

// lease is the right to do the work, renewed until it ends.
type lease struct {
	store  TokenStore
	owner  string
	ttl    time.Duration
	fence  int64
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

// begin takes the lease. The context it returns ends when another process takes it.
func (l *lease) begin(ctx context.Context) (context.Context, error) {
	var err error
	if l.fence, err = l.acquire(ctx); err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(l.ended)
		for sleep(ctx, l.ttl/3) == nil {
			if errors.Is(l.renew(ctx), ErrLeaseHeld) {
				l.cancel(ErrLeaseHeld)
			}
		}
	}()
	return ctx, nil
}

func (l *lease) acquire(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	fence, err := l.store.Acquire(ctx, l.owner, l.ttl)
	if err != nil && !errors.Is(err, ErrLeaseHeld) {
		err = &storeError{err}
	}
	return fence, err
}

// renew fails with [ErrLeaseHeld] also if another process has had the lease in between.
func (l *lease) renew(ctx context.Context) error {
	fence, err := l.acquire(ctx)
	if err == nil && fence != l.fence {
		err = ErrLeaseHeld
	}
	return err
}

func (l *lease) end() {
	l.cancel(nil)
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_ = l.store.Release(ctx, l.owner) // it ends by itself too
}

// protect turns a panic of a caller's function into an error: it runs in a goroutine
// that the caller does not know.
func protect(do func(context.Context) (*grant, error)) work {
	return func(ctx context.Context, _ int64) (g *grant, err error) {
		defer func() {
			if p := recover(); p != nil {
				g, err = nil, &signInError{text: fmt.Sprintf("panic with a %T", p), mild: true}
			}
		}()
		return do(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
