package signin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/simulation"
)

// faultsAt are the faults of a step at the store, and of a request of a sign-in or refresh. A step
// at the store happens if it loses or mutes its answer, and happens late if it lags.
var faultsAt = map[string][]string{
	"store":   {"fails", "loses", "hangs", "mutes", "lags"},
	"sign-in": {"reset before", "reset after", "slow answer", "hangs", "503", "429", "refused"},
}

// process is a session with its way to the store and to the service, which can both fail.
type process struct {
	fleet  *fleet
	id     int
	client *lending.Client
	alive  context.Context // ends with the process
	exit   context.CancelFunc

	// Under the lock of the watch.
	faults map[string]string // during a storm, by place
	count  map[string]int    // of steps, by name
	knowledge
	disturbed time.Time // the last time of a fault
	frozen    time.Time // the end of the last freeze
	refused   map[*issue]bool
	refusals  []*issue // of ended calls, in order
	loads     int
	mustHold  bool
}

// knowledge is the knowledge of a session at a time.
type knowledge struct {
	newest   *issue    // given out
	ends     time.Time // its end, as the session said
	refusals int
}

func newProcess(f *fleet, id int) *process {
	p := &process{fleet: f, id: id, faults: map[string]string{}, count: map[string]int{}, refused: map[*issue]bool{}}
	p.alive, p.exit = context.WithCancel(context.Background())
	p.client = f.clientOf(p)
	return p
}

func (p *process) String() string {
	if p == nil {
		return "-"
	}
	return strconv.Itoa(p.id)
}

// Tune gives the session the random numbers of the process.
func (p *process) Tune(config *signin.Config) {
	var mu sync.Mutex
	random := p.fleet.random(2000 + p.id)
	config.Jitter = func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return below(random, most+1)
	}
}

// turn waits until the process may go on with a step.
func (p *process) turn(name string) { p.fleet.turns.Take(fmt.Sprintf("%d %s", p.id, name)) }

func (p *process) disturb() {
	if now := time.Now(); now.After(p.disturbed) {
		p.disturbed = now
	}
}

func (p *process) watched(change func()) {
	p.fleet.watch.mu.Lock()
	defer p.fleet.watch.mu.Unlock()
	change()
}

// draw returns the fault of a step, "" for none, and its duration. Both follow from the seed and
// from the number of such steps of the process.
func (p *process) draw(place, name string, probable float64) (string, time.Duration) {
	random, _ := p.chance(name)
	long := below(random, 12*time.Second)
	if p.fleet.isOver() {
		return "", long
	}
	if random.Float64() < probable {
		return faultsAt[place][random.IntN(len(faultsAt[place]))], long
	}
	p.fleet.watch.mu.Lock()
	defer p.fleet.watch.mu.Unlock()
	return p.faults[place], long
}

// chance returns the random numbers of the next step with a name, and its number.
func (p *process) chance(name string) (random *rand.Rand, step int) {
	p.watched(func() {
		p.count[name]++
		step = p.count[name]
	})
	sum := fnv.New64a()
	fmt.Fprint(sum, p.id, name, step)
	return rand.New(rand.NewPCG(uint64(p.fleet.seed), sum.Sum64())), step
}

func (f *fleet) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// freeze stops the process from now on.
func (p *process) freeze(long time.Duration) {
	if p.fleet.isOver() {
		return
	}
	p.watched(func() {
		if end := time.Now().Add(long); end.After(p.frozen) {
			p.frozen, p.disturbed = end, end
		}
		p.fleet.watch.counts["frozen"]++
	})
	p.fleet.watch.excuse(p, "is frozen for %v", long)
}

// thaw waits while the process is frozen.
func (p *process) thaw(name string) {
	for {
		var left time.Duration
		p.watched(func() { left = time.Until(p.frozen) })
		if left <= 0 || !p.fleet.wait(fmt.Sprintf("%d %s", p.id, name), left) {
			return
		}
	}
}

// begin begins a step and freezes the process with a small probability. The returned name has the
// number of the step.
func (p *process) begin(name string) (step string) {
	p.turn(name)
	random, number := p.chance("freeze at " + name)
	if random.Float64() < p.fleet.freezing/4 {
		p.freeze(time.Second + below(random, time.Minute))
	}
	step = fmt.Sprintf("%s %06d", name, number)
	p.thaw(step)
	return step
}

// delay waits for d, or for the end of ctx, whose error it returns, or of the faults.
func (p *process) delay(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.fleet.over:
	case <-time.After(d):
	}
	return nil
}

// silence waits for the end of ctx or of the faults.
func (p *process) silence(ctx context.Context) error {
	if err := p.delay(ctx, 24*time.Hour); err != nil {
		return err
	}
	return errDown
}

// step takes a step of the store, or has a fault instead.
func step[T any](ctx context.Context, p *process, name string, take func() (T, error)) (result T, err error) {
	step := p.begin(name)
	defer p.thaw(step)
	effect := func() (T, error) {
		p.turn(step)
		return take()
	}
	fault, long := p.draw("store", name, p.fleet.atStore)
	if fault == "" {
		return effect()
	}
	p.fleet.watch.excuse(p, "%s of the store %s", name, fault)
	p.watched(p.disturb)
	defer p.watched(p.disturb)
	switch fault {
	case "loses", "mutes":
		_, _ = effect()
	case "lags":
		p.fleet.working.Go(func() {
			bubble.Elapse(storeLimit + long)
			_, _ = effect()
		})
	}
	if fault == "fails" || fault == "loses" {
		return result, errDown
	}
	return result, p.silence(ctx)
}

func (p *process) Load(ctx context.Context) (lending.StoredToken, error) {
	p.fleet.watch.loading(p, 1)
	defer p.fleet.watch.loading(p, -1)
	return step(ctx, p, "Load", func() (lending.StoredToken, error) { return p.fleet.watch.load() })
}

func (p *process) Save(ctx context.Context, token lending.StoredToken) error {
	return second(step(ctx, p, "Save", func() (any, error) { return nil, p.fleet.watch.save(p, token) }))
}

func (p *process) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	return step(ctx, p, "Acquire", func() (int64, error) { return p.fleet.watch.acquire(p, owner, ttl) })
}

func (p *process) Release(ctx context.Context, owner string) error {
	return second(step(ctx, p, "Release", func() (any, error) { return nil, p.fleet.watch.release(p, owner) }))
}

func second(_ any, err error) error { return err }

// RoundTrip is the session's way to the service.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	token := tokenOf(r)
	if !strings.Contains(r.URL.Path, "/Authenication/") {
		return p.carry(r, token)
	}
	route := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	sent, step := time.Now(), p.begin(route)
	led := p.fleet.watch.signingIn(p, route, token)
	resp, got, err := p.exchange(r, route, step)
	p.thaw(step)
	p.turn(step)
	if err != nil {
		p.fleet.watch.excuse(p, "%s: %T", route, err)
		return nil, err
	}
	p.fleet.watch.received(p, token, got, sent, led)
	return resp, nil
}

// carry brings a read to the service. The way takes almost as long as the margin of a token.
func (p *process) carry(r *http.Request, token string) (*http.Response, error) {
	caller := callOf(r.Context()).caller
	p.turn("sends a read of " + caller)
	p.fleet.watch.sending(r.Context(), p, token)
	random, _ := p.chance("way of " + caller)
	long := below(random, 20*time.Millisecond)
	if random.IntN(3) == 0 {
		long = below(random, signin.Margin(p.fleet.life)*3/4)
	}
	start := time.Now()
	if err := p.delay(r.Context(), long); err != nil {
		return nil, err
	}
	p.thaw("a read of " + caller)
	p.turn("a read of " + caller)
	resp, err := p.fleet.service.Transport().RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		p.fleet.watch.isRefused(r.Context(), p, token, start)
	}
	p.thaw("answer to " + caller)
	return resp, err
}

// exchange brings a request of a sign-in to the service, or has a fault instead.
func (p *process) exchange(r *http.Request, route, step string) (resp *http.Response, got *issue, err error) {
	ctx := r.Context()
	fault, long := p.draw("sign-in", route, p.fleet.atSignIn)
	if fault != "" {
		p.fleet.watch.excuse(p, "%s: %s", route, fault)
	}
	switch fault {
	case "reset before":
		return nil, nil, syscall.ECONNRESET
	case "hangs":
		return nil, nil, p.silence(ctx)
	case "503", "429", "refused":
		status := map[string]int{"503": 503, "429": 429, "refused": 400}[fault]
		return answered(r, status, long), nil, nil
	}
	if err := p.delay(ctx, 5*time.Millisecond); err != nil {
		return nil, nil, err
	}
	p.turn(step)
	if resp, got, err = p.fleet.watch.issue(p, r); err != nil {
		return nil, nil, err
	}
	switch fault {
	case "reset after":
		return nil, nil, syscall.ECONNRESET
	case "slow answer":
		err = p.delay(ctx, 2*long)
	}
	return resp, got, err
}

func answered(r *http.Request, status int, retryAfter time.Duration) *http.Response {
	answer := httptest.NewRecorder()
	if status == http.StatusTooManyRequests {
		answer.Header().Set("Retry-After", fmt.Sprint(1+int(retryAfter.Seconds())))
	}
	answer.WriteHeader(status)
	resp := answer.Result()
	resp.Request = r
	return resp
}

// callNowAndThen is a caller.
func (p *process) callNowAndThen(name string, random *rand.Rand) {
	var last lending.Token
	for p.alive.Err() == nil {
		p.thaw(name)
		p.turn(name)
		long := time.Duration([]int{50, 1000, 5000, 20_000, 30_000}[random.IntN(5)])*time.Millisecond +
			below(random, time.Millisecond) // ends together with nothing else
		switch n := random.IntN(100); {
		case n < 4:
			var burst sync.WaitGroup
			for i := range 12 {
				burst.Go(func() {
					p.turn(fmt.Sprintf("%s in a burst: %02d", name, i))
					_, _ = p.take(long)
				})
			}
			burst.Wait()
		case n < 8:
			ctx, cancel := context.WithTimeout(p.alive, long)
			_ = p.client.Session().SignIn(ctx)
			cancel()
		case n < 45:
			_ = p.read(name, long)
		default:
			if token, err := p.take(long); err == nil {
				last = token
			}
		}
		pause := time.Duration(random.ExpFloat64() * float64(p.fleet.span()/60))
		if left := time.Until(last.Expires); left > 0 && random.IntN(4) == 0 {
			pause = max(0, left-below(random, signin.Margin(p.fleet.life)*3/2)) // at the last moment
		}
		if !p.fleet.wait(fmt.Sprintf("%d %s", p.id, name), pause) {
			return
		}
	}
}

// take asks for a token.
func (p *process) take(long time.Duration) (lending.Token, error) {
	ctx, cancel := context.WithTimeout(p.alive, long)
	defer cancel()
	var known knowledge
	p.watched(func() { known = knowledge{p.newest, p.ends, len(p.refusals)} })
	token, err := p.client.Session().Token(ctx)
	p.fleet.watch.took(p, known, token, err, long)
	return token, err
}

// call is a read of a caller.
type call struct {
	caller  string
	refused []*issue
}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// read makes a call.
func (p *process) read(caller string, long time.Duration) error {
	c := &call{caller: caller}
	ctx, cancel := context.WithTimeout(context.WithValue(p.alive, callKey{}, c), long)
	defer cancel()
	err := read(ctx, p.client)
	p.watched(func() { p.refusals = append(p.refusals, c.refused...) })
	return err
}

type callKey struct{}

// close ends the process.
func (p *process) close() {
	p.client.Close()
	if !p.fleet.isOver() {
		p.watched(func() { p.fleet.watch.counts["closed"]++ })
		p.fleet.watch.excuse(p, "is closed")
	}
	p.exit()
}

// watch sees each step at the store and at the service, in the order of their effects, and holds
// the rules of sign-in: each call of violated is a rule.
type watch struct {
	fleet  *fleet
	mu     sync.Mutex
	trace  *simulation.Trace
	counts map[string]int
	store  lending.TokenStore // of all processes
	steps  int64              // so far

	issued  map[string]*issue
	kept    keptToken // in the store
	lease   heldLease
	granted map[int64]int64 // the step of a lease, by fence
}

// issue is a token of the service.
type issue struct {
	number  int
	sent    time.Time // of the request
	expires time.Time
	revoked bool
	led     bool          // the process had the lease when it asked
	got     time.Time     // zero if the answer was lost
	life    time.Duration // as the session sees it: less after a slow answer
}

// keptToken is the content of the store.
type keptToken struct {
	Token           string
	Issued, Expires time.Time
	step, fence     int64
}

type heldLease struct {
	by    *process
	owner string
	fence int64
	until time.Time
	since int64 // step
}

func newWatch(f *fleet) *watch {
	return &watch{
		fleet: f, counts: map[string]int{}, issued: map[string]*issue{}, granted: map[int64]int64{},
		store: lending.NewMemoryTokenStore(),
	}
}

// line and violated need w.mu.
func (w *watch) line(p *process, format string, args ...any) {
	w.trace.Line(p.String(), format, args...)
}

func (w *watch) violated(kind string, p *process, format string, args ...any) {
	w.trace.Violate(kind, p.String(), format, args...)
}

func (w *watch) fail(kind string, p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated(kind, p, format, args...)
}

func (i *issue) String() string {
	if i == nil {
		return "no token"
	}
	return fmt.Sprintf("token %d", i.number)
}

// isOlder reports whether i arrived before the request for j. Of others nobody can tell.
func (i *issue) isOlder(j *issue) bool {
	return i != nil && j != nil && !i.got.IsZero() && i.got.Before(j.sent)
}

// usable reports whether a session takes the content of the store for a valid token.
func (k keptToken) usable() bool {
	life := k.Expires.Sub(k.Issued)
	return k.Token != "" && life > 0 && time.Until(k.Expires) > signin.Margin(life)
}

func (w *watch) load() (lending.StoredToken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	return w.store.Load(context.Background())
}

func (w *watch) save(p *process, token lending.StoredToken) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	next := keptToken{step: w.steps, fence: token.Fence}
	_ = json.Unmarshal([]byte(token.Data.Reveal()), &next)
	err := w.store.Save(context.Background(), token)
	w.line(p, "saves %v, fence %d: %v", w.issued[next.Token], token.Fence%1e6, err)
	if err != nil {
		return err
	}
	was, is := w.issued[w.kept.Token], w.issued[next.Token]
	switch {
	case is.isOlder(was) && (was.led || token.Fence <= w.kept.fence):
		// A frozen process may ask for a token without its lease: the later lease wins then.
		w.violated("older token stored", p, "%v replaces %v", is, was)
	case is == nil && was != nil && !was.revoked && w.kept.usable() && !p.refused[was] &&
		(token.Fence == w.kept.fence || w.kept.step < w.granted[token.Fence]):
		w.violated("valid token cleared", p, "%v", was)
	}
	w.kept = next
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
	w.lease = heldLease{p, owner, fence, time.Now().Add(ttl), w.steps}
	switch {
	case owner == old.owner:
		w.lease.since = old.since
		return fence, nil
	case old.by != nil && time.Now().Before(old.until), fence <= old.fence:
		w.violated("two leases", p, "fence %d after %d of process %v", fence, old.fence, old.by)
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

// loading holds that the callers of a process share its steps at the store.
func (w *watch) loading(p *process, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.loads += change
	if change > 0 && p.loads > 6 && time.Now().After(p.frozen) {
		w.violated("everyone at the store", p, "%d at once", p.loads)
	}
}

// excuse notes a fault: each may be the reason of one more sign-in.
func (w *watch) excuse(p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["fault"]++
	w.line(p, format, args...)
}

// counted returns a copy of the counts.
func (w *watch) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

func (w *watch) revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["revocation"]++
	w.fleet.service.RevokeTokens()
	for _, i := range w.issued {
		i.revoked = true
	}
	w.line(nil, "all tokens are revoked")
}

// signingIn holds that a process signs in or refreshes under the lease, unless the store failed,
// and after it has seen the content of the store.
func (w *watch) signingIn(p *process, route, token string) (leads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	w.counts[route]++
	old, kept := w.issued[token], w.issued[w.kept.Token]
	leads = w.lease.by == p && time.Now().Before(w.lease.until)
	w.line(p, "%s with %v, the store has %v, leads: %t", route, old, kept, leads)
	lapsed := kept != nil && !kept.revoked && !w.kept.usable()
	if route == "login" && lapsed {
		w.counts["lapse"]++
	}
	if !leads {
		w.counts["without the lease"]++
	}
	troubled := time.Since(p.disturbed) <= 4*storeLimit
	seen := leads && w.kept.step < w.lease.since && w.kept.usable() && !p.refused[kept] && !troubled
	switch {
	case route == "login" && lapsed && w.fleet.profile == "calm":
		w.violated("expired beside a Keepalive", p, "%v", kept)
	case !leads && !troubled:
		w.violated("no lease", p, "%s", route)
	case route == "login" && seen, route == "refresh-token" && seen && old.isOlder(kept):
		w.violated("needless "+route, p, "with %v, the store has %v", old, kept)
	case route == "refresh-token" && !time.Now().Before(old.expires) && time.Now().After(p.frozen):
		w.violated("expired token", p, "%v, to refresh it", old)
	}
	return leads
}

// issue has the service answer a request of a sign-in, and notes the token.
func (w *watch) issue(p *process, r *http.Request) (*http.Response, *issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	resp, err := w.fleet.service.Transport().RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var user struct{ Token string }
	if json.Unmarshal(body, &user.Token) != nil { // of a refresh
		_ = json.Unmarshal(body, &user)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		w.line(p, "the answer is %d", resp.StatusCode)
		if old := w.issued[tokenOf(r)]; old != nil && resp.StatusCode == http.StatusUnauthorized {
			p.refused[old] = true
		}
		return resp, nil, err
	}
	i := &issue{number: len(w.issued) + 1, expires: time.Now().Add(w.fleet.life)}
	w.issued[user.Token] = i
	w.line(p, "the answer is %v", i)
	return resp, i, nil
}

// received notes when the session has i, which it got for the token, if that is one.
func (w *watch) received(p *process, token string, i *issue, sent time.Time, led bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i != nil {
		i.sent, i.led, i.got, i.life = sent, led, time.Now(), time.Until(i.expires)
		if old := w.issued[token]; old != nil {
			i.life = old.life
		}
		w.line(p, "has received %v", i)
	}
}

// sending holds that no expired token is sent, and no refused token again.
func (w *watch) sending(ctx context.Context, p *process, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch i := w.issued[token]; {
	case i == nil || !time.Now().Before(i.expires):
		w.violated("expired token", p, "%v is sent", i)
	case slices.Contains(callOf(ctx).refused, i):
		w.violated("refused token came back", p, "%v, in the same call", i)
	}
}

// isRefused holds that tokens do not expire on the way.
func (w *watch) isRefused(ctx context.Context, p *process, token string, start time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, call := w.issued[token], callOf(ctx)
	w.counts["refusal"]++
	w.line(p, "%v is refused", i)
	p.refused[i], call.refused = true, append(call.refused, i)
	if !i.revoked && p.frozen.Before(start) && start.Before(i.expires) && time.Since(start) < signin.Margin(i.life) {
		w.violated("expired on the way", p, "%v, sent %v before its end", i, i.expires.Sub(start))
	}
}

func tokenOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// took holds that a caller gets a valid token: not refused, and not older than the last one that the
// process knew when the call began.
func (w *watch) took(p *process, known knowledge, token lending.Token, err error, long time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.fleet.profile == "calm" && long >= storeLimit && w.counts["revocation"] <= freeRefusals {
			w.violated("failure without a fault", p, "%v", err)
		}
		if p.mustHold {
			w.violated("token lost with the store", p, "%v", err)
		}
		return
	}
	i, now := w.issued[token.Value.Reveal()], time.Now()
	switch {
	case i == nil || !now.Before(i.expires):
		w.violated("expired token", p, "%v is given out", i)
		return
	case slices.Contains(p.refusals[:known.refusals], i):
		w.violated("refused token came back", p, "%v", i)
	case i.isOlder(known.newest) && !p.lost(known.newest) && now.Before(known.ends.Add(-signin.Margin(w.fleet.life))):
		w.violated("older token given out", p, "%v after %v", i, known.newest)
	}
	if p.newest == nil || p.newest.number < i.number || i.isOlder(p.newest) {
		p.newest, p.ends = i, token.Expires
		w.line(p, "gives out %v", i)
	}
}

// lost reports whether the service has refused i, or a later token.
func (p *process) lost(i *issue) bool {
	for refused := range p.refused {
		if refused == i || i.isOlder(refused) {
			return true
		}
	}
	return false
}

// end holds that each sign-in had a reason: the first, a revocation, a fault, or a token that
// expired while nobody called.
func (w *watch) end() {
	most := 1 + w.counts["revocation"] + w.counts["fault"] + w.counts["lapse"]
	if n := w.counts["login"]; n > most {
		w.fail("too many sign-ins", nil, "%d: %v", n, w.counts)
	}
}
