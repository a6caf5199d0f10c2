package signin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/simulation"
)

// watch sees every step of a simulation at the store and at the service, in the order
// in which they take effect, and holds what must hold.
type watch struct {
	sim   *fleet
	mu    sync.Mutex
	trace *simulation.Trace
	store lending.TokenStore // of all processes
	steps int64              // so far

	issued    map[string]*issue
	kept      keptToken // in the store
	keptAt    int64     // step
	keptFence int64
	lease     leaseOfOne
	granted   map[int64]int64 // the step at which a lease was, by fence

	calls, callsFailed, signIns, refreshes, alone, faults, lapses, pauses, revocations, refusals, closed int
	recovery                                                                                             time.Duration
}

// issue is a token that the service has given.
type issue struct {
	number  int
	sent    time.Time // when it was asked for
	expires time.Time
	revoked bool
	led     bool          // whoever asked for it had the lease then
	got     time.Time     // zero if the answer was lost
	life    time.Duration // as the session sees it: less, if the answer was slow
}

// keptToken is what a session saves.
type keptToken struct {
	Token           string
	Issued, Expires time.Time
}

type leaseOfOne struct {
	by    *process
	owner string
	fence int64
	until time.Time
	since int64
}

func newWatch(s *fleet) *watch {
	return &watch{sim: s, issued: map[string]*issue{}, granted: map[int64]int64{}, store: lending.NewMemoryTokenStore()}
}

func (w *watch) begin() { w.trace = simulation.NewTrace() }

func (w *watch) note(p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line(p, format, args...)
}

// line needs w.mu, as what follows does where it does not lock.
func (w *watch) line(p *process, format string, args ...any) {
	w.trace.Line(p.String(), format, args...)
}

func (w *watch) fail(kind string, p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated(kind, p, format, args...)
}

func (w *watch) violated(kind string, p *process, format string, args ...any) {
	w.trace.Violate(kind, p.String(), format, args...)
}

func (i *issue) String() string {
	if i == nil {
		return "no token"
	}
	return fmt.Sprintf("token %d", i.number)
}

// isOlder reports whether i came before j was asked for. Of others nobody can tell.
func (i *issue) isOlder(j *issue) bool {
	return i != nil && j != nil && !i.got.IsZero() && i.got.Before(j.sent)
}

// usable reports whether a session takes what is kept for a valid token.
func (k keptToken) usable() bool {
	life := k.Expires.Sub(k.Issued)
	return k.Token != "" && life > 0 && time.Until(k.Expires) > min(10*time.Second, life/10)
}

// The store.

func (w *watch) load() (lending.StoredToken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	return w.store.Load(context.Background())
}

// save holds that no token replaces a newer one, and that the memory of a failure
// replaces no valid one.
func (w *watch) save(p *process, token lending.StoredToken) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	var next keptToken
	_ = json.Unmarshal([]byte(token.Data.Reveal()), &next)
	err := w.store.Save(context.Background(), token)
	w.line(p, "saves %v, fence %d: %v", w.issued[next.Token], token.Fence%1e6, err)
	if err != nil {
		return err
	}
	was, is := w.issued[w.kept.Token], w.issued[next.Token]
	switch {
	case is.isOlder(was) && (was.led || token.Fence <= w.keptFence):
		// A process that stood still may ask for a token when its lease is another's. The
		// later lease wins: see TestTokenAskedForAfterTheLeaseWasLost.
		w.violated("older token stored", p, "%v replaces %v", is, was)
	case is == nil && was != nil && !was.revoked && w.kept.usable() && !p.refused[was] &&
		(token.Fence == w.keptFence || w.keptAt < w.granted[token.Fence]):
		w.violated("valid token cleared", p, "%v", was)
	}
	w.kept, w.keptAt, w.keptFence = next, w.steps, token.Fence
	return nil
}

func (w *watch) acquire(p *process, owner string, ttl time.Duration) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	fence, err := w.store.Acquire(context.Background(), owner, ttl)
	if err != nil {
		return fence, err
	}
	old := w.lease
	w.lease = leaseOfOne{p, owner, fence, time.Now().Add(ttl), w.steps}
	switch {
	case owner == old.owner:
		w.lease.since = old.since
		return fence, nil
	case old.by != nil && time.Now().Before(old.until):
		w.violated("two leases", p, "process %d has it", old.by.id)
	case fence <= old.fence:
		w.violated("two leases", p, "fence %d after %d", fence, old.fence)
	}
	w.granted[fence] = w.steps
	w.line(p, "has the lease %d for %v", fence%1e6, ttl)
	return fence, nil
}

func (w *watch) release(p *process, owner string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	if owner == w.lease.owner {
		w.lease.by, w.lease.owner = nil, ""
	}
	w.line(p, "gives the lease back")
	return w.store.Release(context.Background(), owner)
}

// loading holds that callers share what is done at the store.
func (w *watch) loading(p *process, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.loads += change
	if change > 0 && p.loads > 6 && time.Now().After(p.stood) {
		w.violated("everyone at the store", p, "%d at once", p.loads)
	}
}

// Faults: each may be the reason of one sign-in more.

func (w *watch) excuse(p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults++
	w.line(p, format, args...)
}

func (w *watch) disturb(p *process, format string, args ...any) {
	w.excuse(p, format, args...)
	w.disturbed(p)
}

func (w *watch) disturbed(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.After(p.disturbed) {
		p.disturbed = now
	}
}

func (w *watch) stands(p *process, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults++
	w.pauses++
	p.stood, p.disturbed = until, until
	w.line(p, "stands still until %.3f s", w.trace.Since(until).Seconds())
}

func (w *watch) revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revocations++
	w.sim.service.RevokeTokens()
	for _, i := range w.issued {
		i.revoked = true
	}
	w.line(nil, "all tokens are revoked")
}

// The service.

// signingIn holds that who signs in or refreshes has the lease, unless the store failed
// him, and has seen what the store had by then.
func (w *watch) signingIn(p *process, route, token string) (leads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	old, kept := w.issued[token], w.issued[w.kept.Token]
	leads = w.lease.by == p && time.Now().Before(w.lease.until)
	w.line(p, "%s with %v, the store has %v, leads: %t", route, old, kept, leads)
	if route == "login" {
		w.signIns++
		if kept != nil && !kept.revoked && !w.kept.usable() {
			w.lapses++
			if w.sim.profile == "calm" {
				w.violated("expired beside a Keepalive", p, "%v", kept)
			}
		}
	}
	if route == "validate-two-factor" {
		return leads
	}
	if !leads {
		w.alone++
	}
	troubled := time.Since(p.disturbed) <= 4*limitOfTheStore
	seen := leads && w.keptAt < w.lease.since && w.kept.usable() && !p.refused[kept] && !troubled
	switch {
	case !leads && !troubled:
		w.violated("no lease", p, "%s", route)
	case route == "login" && seen:
		w.violated("needless sign-in", p, "the store has %v", kept)
	case route == "refresh-token" && seen && old.isOlder(kept):
		w.violated("needless refresh", p, "of %v, the store has %v", old, kept)
	case route == "refresh-token" && !time.Now().Before(old.expires) && time.Now().After(p.stood):
		w.violated("expired token", p, "%v, to refresh it", old)
	}
	return leads
}

// issue has the service answer a request of a sign-in, and notes the token in it.
func (w *watch) issue(p *process, route string, sent time.Time, led bool, r *http.Request) (*http.Response, *issue,
	error,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	resp, err := w.sim.service.Transport().RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var user struct{ Token string }
	if route == "refresh-token" {
		_ = json.Unmarshal(body, &user.Token)
	} else {
		_ = json.Unmarshal(body, &user)
	}
	if err != nil || resp.StatusCode != http.StatusOK || user.Token == "" {
		w.line(p, "%s is answered with %d", route, resp.StatusCode)
		if old := w.issued[tokenOf(r)]; old != nil && resp.StatusCode == http.StatusUnauthorized {
			p.refused[old] = true
		}
		return resp, nil, err
	}
	i := &issue{number: len(w.issued) + 1, sent: sent, led: led, expires: time.Now().Add(w.sim.life)}
	w.issued[user.Token] = i
	if route == "refresh-token" {
		w.refreshes++
	}
	w.line(p, "%s is answered with %v", route, i)
	return resp, i, nil
}

// received notes when the session has i, which it got for the token, if that is one.
func (w *watch) received(p *process, token string, i *issue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i != nil {
		i.got = time.Now()
		i.life = time.Until(i.expires)
		if old := w.issued[token]; old != nil {
			i.life = old.life
		}
		w.line(p, "has received %v", i)
	}
}

// sending holds that no expired token is sent, and no refused one again.
func (w *watch) sending(ctx context.Context, p *process, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, refused := w.issued[token], refusedIn(ctx)
	switch {
	case i == nil:
		w.violated("unknown token", p, "it is sent")
	case !time.Now().Before(i.expires):
		w.violated("expired token", p, "%v, %v after its end", i, time.Since(i.expires))
	case slices.Contains(*refused, i):
		w.violated("refused token came back", p, "%v, in the same call", i)
	}
}

func refusedIn(ctx context.Context) *[]*issue {
	refused, _ := ctx.Value(refusedKey{}).(*[]*issue)
	return refused
}

// isRefused holds that tokens do not expire on the way.
func (w *watch) isRefused(ctx context.Context, p *process, token string, start time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, refused := w.issued[token], refusedIn(ctx)
	w.refusals++
	w.line(p, "%v is refused", i)
	p.refused[i] = true
	*refused = append(*refused, i)
	margin := min(10*time.Second, i.life/10)
	if w.sim.skew != 0 {
		margin -= time.Second // a Date tells no less
	}
	if !i.revoked && p.stood.Before(start) && start.Before(i.expires) && time.Since(start) < margin {
		w.violated("expired on the way", p, "%v, sent %v before its end", i, i.expires.Sub(start))
	}
}

func tokenOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// The callers.

// moment is what a process knew when a call began.
type moment struct {
	process *process
	newest  *issue
	ends    time.Time
	learned int
}

func (w *watch) before(p *process) moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return moment{p, p.newest, p.newestEnds, len(p.learned)}
}

// took holds what a caller was given against what had been given before.
func (w *watch) took(m moment, token lending.Token, err error, waited, long time.Duration) {
	p := m.process
	w.waited(p, "Token", err, waited, long)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.sim.profile == "calm" && long >= limitOfTheStore && w.revocations <= tokensRefusedInARow {
			w.violated("failure without a fault", p, "after %v: %v", waited, err)
		}
		if p.mustHold {
			w.violated("token lost with the store", p, "after %v: %v", waited, err)
		}
		return
	}
	i, now := w.issued[token.Value.Reveal()], time.Now()
	switch {
	case i == nil:
		w.violated("unknown token", p, "it is given out")
		return
	case !now.Before(i.expires):
		w.violated("expired token", p, "%v, %v after its end", i, now.Sub(i.expires))
	case slices.Contains(p.learned[:m.learned], i):
		w.violated("refused token came back", p, "%v", i)
	case i.isOlder(m.newest) && !p.lost(m.newest) && now.Before(m.ends.Add(-w.sim.margin())):
		w.violated("older token given out", p, "%v after %v", i, m.newest)
	}
	if p.newest == nil || p.newest.number < i.number || i.isOlder(p.newest) {
		p.newest, p.newestEnds = i, token.Expires
		w.line(p, "gives out %v", i)
	}
}

// lost reports whether the service has refused i, or a token that came after it.
func (p *process) lost(i *issue) bool {
	for refused := range p.refused {
		if refused == i || i.isOlder(refused) {
			return true
		}
	}
	return false
}

// waited holds that nobody waits beyond his context.
func (w *watch) waited(p *process, what string, err error, waited, long time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if err != nil {
		w.callsFailed++
	}
	if waited > long {
		w.violated("waited too long", p, "%s: %v instead of %v: %v", what, waited, long, err)
	}
}

// hasRead notes which tokens the session knows to be refused. It waits up to a second
// for the store to hear of it.
func (w *watch) hasRead(p *process, refused []*issue, err error, start time.Time, long time.Duration) {
	waited := time.Since(start)
	if len(refused) > 0 {
		long += time.Duration(len(refused)) * time.Second
	}
	w.mu.Lock()
	stood := p.stood.After(start)
	p.learned = append(p.learned, refused...)
	w.mu.Unlock()
	if stood {
		waited = 0
	}
	w.waited(p, "a call", err, waited, long)
}

func (w *watch) hasClosed(p *process, start time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sim.isOver() {
		w.closed++
		w.faults++
	}
	w.line(p, "is closed")
	if d := time.Since(start); d > 3*limitOfTheStore && p.stood.Before(start) {
		w.violated("Close", p, "it took %v", d)
	}
}

func (w *watch) recovered(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sim.person {
		w.recovery = max(w.recovery, after)
	}
}

func (w *watch) counted() (signIns, refreshes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.signIns, w.refreshes
}

// refreshesIn is how often a token is refreshed in d, by all together.
func (w *watch) refreshesIn(d time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 2 + int(d*10/max(6*w.kept.Expires.Sub(w.kept.Issued), time.Second))
}

// end holds that there was a reason for each sign-in: the first, a revocation, a fault,
// or a token that expired while nobody called.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if most := 1 + w.revocations + w.faults + w.lapses; w.signIns > most {
		w.violated("too many sign-ins", nil, "%d, with %d revocations, %d faults, %d lapses", w.signIns, w.revocations,
			w.faults, w.lapses)
	}
}
