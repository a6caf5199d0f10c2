package signin_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/lendingtest"
)

// What can happen to a step of the store.
var storeFaults = []string{
	"fails",  // nothing happened
	"loses",  // it happened, and the answer is an error
	"crawls", // it happens after some seconds, perhaps too late for him who asked
	"hangs",  // nothing happens until the limit
	"mutes",  // it happens at once, and no answer comes
	"lags",   // it happens when he who asked has gone
}

// What can happen to a request of a sign-in or refresh.
var signInFaults = []string{
	"reset before", "reset after", "slow", "slow answer", "hangs", "lags", "503", "429", "refused",
	"cut", "stops before", "stops after",
}

// process is a session with what is its own: it is the session's way to the store and
// to the service, both of which can fail.
type process struct {
	sim    *fleet
	id     int
	client *lending.Client
	alive  context.Context // ends with the process
	exit   context.CancelFunc

	mu      sync.Mutex
	until   time.Time         // it stands still until then
	weather map[string]string // the fault of a spell, by place
	count   map[string]int    // of steps, by name

	// Under the lock of the watch.
	disturbed  time.Time // when a step of the store failed last, or it stood still
	stood      time.Time // when it stood still last
	newest     *issue    // that it has given out
	newestEnds time.Time // as it said
	learned    []*issue  // refused, and it knows
	refused    map[*issue]bool
	loads      int
	mustHold   bool
}

func newProcess(s *fleet, id int) *process {
	p := &process{sim: s, id: id, weather: map[string]string{}, count: map[string]int{}, refused: map[*issue]bool{}}
	p.alive, p.exit = context.WithCancel(context.Background())
	p.client = s.clientOf(p)
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
	random := p.sim.random(2000 + p.id)
	config.Jitter = func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(most) + 1))
	}
}

// turn waits until the process may go on with what is called name.
func (p *process) turn(name string) { p.sim.turns.Take(fmt.Sprintf("%d %s", p.id, name)) }

func (p *process) setWeather(where, fault string) {
	p.mu.Lock()
	p.weather[where] = fault
	p.mu.Unlock()
	p.sim.watch.note(p, "weather at %s: %s", where, fault)
}

func (p *process) watched(change func()) {
	p.sim.watch.mu.Lock()
	defer p.sim.watch.mu.Unlock()
	change()
}

// draw returns the fault of a step, "" for none, and how long it lasts. Both follow from the
// seed and from how many steps of the name the process has made.
func (p *process) draw(place, name string, probable float64, faults []string) (string, time.Duration) {
	random := p.chance(name)
	long := randomly(random, 12*time.Second)
	if p.sim.isOver() {
		return "", long
	}
	if random.Float64() < probable {
		return faults[random.IntN(len(faults))], long
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather[place], long
}

// chance returns the random numbers for the next time that the process does what is called name.
func (p *process) chance(name string) *rand.Rand {
	p.mu.Lock()
	p.count[name]++
	step := p.count[name]
	p.mu.Unlock()
	what := fnv.New64a()
	fmt.Fprint(what, p.id, name, step)
	return rand.New(rand.NewPCG(uint64(p.sim.seed), what.Sum64()))
}

func (s *fleet) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pause has the process stand still from now on.
func (p *process) pause(long time.Duration) {
	if p.sim.isOver() {
		return
	}
	p.mu.Lock()
	if end := time.Now().Add(long); end.After(p.until) {
		p.until = end
	}
	until := p.until
	p.mu.Unlock()
	p.sim.watch.stands(p, until)
}

// stand waits until the process goes on, if it stands still.
func (p *process) stand(name string) {
	for {
		p.mu.Lock()
		left := time.Until(p.until)
		p.mu.Unlock()
		if left <= 0 || !p.sim.wait(fmt.Sprintf("%d %s", p.id, name), left) {
			return
		}
	}
}

// pausing has the process stand still with a small probability. It returns what the step is
// called in turns, in which each has a number of its own.
func (p *process) pausing(name string) (step string) {
	p.turn(name)
	if random := p.chance("pause at " + name); random.Float64() < p.sim.standing/4 {
		p.pause(time.Second + randomly(random, time.Minute))
	}
	p.mu.Lock()
	step = fmt.Sprintf("%s %06d", name, p.count["pause at "+name])
	p.mu.Unlock()
	p.stand(step)
	return step
}

// delay waits for d, or for ctx, whose error it returns, or for the end of the faults.
func (p *process) delay(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.sim.over:
		return nil
	case <-time.After(d):
		return nil
	}
}

// step takes a step of the store, or what a fault makes of it.
func step[T any](ctx context.Context, p *process, name string, effect func() (T, error)) (result T, err error) {
	step := p.pausing(name)
	defer p.stand(step)
	takesEffect := effect
	effect = func() (T, error) {
		p.turn(step)
		return takesEffect()
	}
	fault, long := p.draw("store", name, p.sim.atStore, storeFaults)
	if fault != "" {
		p.sim.watch.disturb(p, "%s of the store %s", name, fault)
		defer func() { p.sim.watch.disturbed(p) }()
	}
	switch fault {
	case "fails":
		return result, errDown
	case "loses":
		_, _ = effect()
		return result, errDown
	case "crawls":
		if err := p.delay(ctx, long/2); err != nil {
			return result, err
		}
	case "mutes":
		_, _ = effect()
		return result, p.silence(ctx)
	case "hangs":
		return result, p.silence(ctx)
	case "lags":
		p.sim.late.Go(func() {
			bubble.Elapse(limitOfTheStore + long)
			_, _ = effect()
		})
		return result, p.silence(ctx)
	}
	return effect()
}

// silence waits until ctx ends, or the faults.
func (p *process) silence(ctx context.Context) error {
	if err := p.delay(ctx, 24*time.Hour); err != nil {
		return err
	}
	return errDown
}

type none struct{}

// Load is the session's way to the store, as are the next three.
func (p *process) Load(ctx context.Context) (lending.StoredToken, error) {
	p.sim.watch.loading(p, 1)
	defer p.sim.watch.loading(p, -1)
	return step(ctx, p, "Load", func() (lending.StoredToken, error) { return p.sim.watch.load() })
}

func (p *process) Save(ctx context.Context, token lending.StoredToken) error {
	_, err := step(ctx, p, "Save", func() (none, error) { return none{}, p.sim.watch.save(p, token) })
	return err
}

func (p *process) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	return step(ctx, p, "Acquire", func() (int64, error) { return p.sim.watch.acquire(p, owner, ttl) })
}

func (p *process) Release(ctx context.Context, owner string) error {
	_, err := step(ctx, p, "Release", func() (none, error) { return none{}, p.sim.watch.release(p, owner) })
	return err
}

// typeCode is the person with the telephone.
func (p *process) typeCode(ctx context.Context, _ lending.Challenge) (string, error) {
	if err := p.delay(ctx, randomly(p.chance("code"), 20*time.Second)); err != nil {
		p.sim.watch.excuse(p, "the person was not waited for")
		return "", err
	}
	return p.sim.service.TwoFactorCode(lendingtest.Username), nil
}

// RoundTrip is the session's way to the service.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	token := tokenOf(r)
	route := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if !strings.Contains(r.URL.Path, "/Authenication/") {
		return p.carry(r, token)
	}
	sent := time.Now()
	step := p.pausing(route)
	led := p.sim.watch.signingIn(p, route, token)
	fault, long := p.draw("sign-in", route, p.sim.atSignIn, signInFaults)
	if fault != "" {
		p.sim.watch.excuse(p, "%s: %s", route, fault)
	}
	resp, got, err := p.exchange(r, route, step, sent, led, fault, long)
	p.stand(step)
	p.turn(step)
	if err != nil {
		p.sim.watch.excuse(p, "%s: %T", route, err)
		return nil, err
	}
	p.sim.watch.received(p, token, got)
	return resp, nil
}

// carry brings a read to the service, which may take almost as long as tokens are not
// used before they expire.
func (p *process) carry(r *http.Request, token string) (*http.Response, error) {
	caller, _ := r.Context().Value(callerName{}).(string)
	p.turn("sends a read of " + caller)
	p.sim.watch.sending(r.Context(), p, token)
	random := p.chance("way of " + caller)
	long := randomly(random, 20*time.Millisecond)
	if random.IntN(3) == 0 {
		long = randomly(random, p.sim.margin()*3/4)
	}
	start := time.Now()
	if err := p.delay(r.Context(), long); err != nil {
		return nil, err
	}
	p.stand("a read of " + caller)
	p.turn("a read of " + caller)
	resp, err := p.sim.service.Transport().RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		p.sim.watch.isRefused(r.Context(), p, token, start)
	}
	p.stand("answer to " + caller)
	return resp, err
}

// exchange brings a request of a sign-in to the service, or does what a fault makes of it.
func (p *process) exchange(r *http.Request, route, step string, sent time.Time, led bool, fault string,
	long time.Duration,
) (resp *http.Response, got *issue, err error) {
	ctx := r.Context()
	body := []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	send := func(ctx context.Context) (*http.Response, *issue, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		p.turn(step)
		return p.sim.watch.issue(p, route, sent, led, again)
	}
	wait := 5 * time.Millisecond
	switch fault {
	case "reset before":
		return nil, nil, syscall.ECONNRESET
	case "hangs":
		return nil, nil, p.silence(ctx)
	case "lags":
		p.sim.late.Go(func() {
			bubble.Elapse(2 * long)
			_, _, _ = send(context.WithoutCancel(ctx)) //nolint:bodyclose // it is in memory
		})
		return nil, nil, p.silence(ctx)
	case "503":
		return answered(r, http.StatusServiceUnavailable, 0), nil, nil
	case "429":
		return answered(r, http.StatusTooManyRequests, long), nil, nil
	case "refused":
		return answered(r, http.StatusBadRequest, 0), nil, nil
	case "slow":
		wait = 2 * long
	case "stops before":
		p.pause(5 * long)
		p.stand(step)
	}
	if err := p.delay(ctx, wait); err != nil {
		return nil, nil, err
	}
	if resp, got, err = send(ctx); err != nil {
		return nil, nil, err
	}
	switch fault {
	case "reset after":
		return nil, nil, syscall.ECONNRESET
	case "slow answer":
		err = p.delay(ctx, 2*long)
	case "stops after":
		p.pause(5 * long)
	case "cut":
		resp.Body, got = io.NopCloser(strings.NewReader(`{"tok`)), nil
	}
	return resp, got, err
}

func answered(r *http.Request, status int, retryAfter time.Duration) *http.Response {
	resp := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body:   io.NopCloser(strings.NewReader(`{"title":"no"}`)),
	}
	if retryAfter > 0 {
		resp.Header.Set("Retry-After", fmt.Sprint(1+int(retryAfter.Seconds())))
	}
	return resp
}

// callNowAndThen is a caller.
func (p *process) callNowAndThen(name string, random *rand.Rand) {
	s := p.sim
	var last lending.Token
	for p.alive.Err() == nil {
		p.stand(name)
		p.turn(name)
		long := []time.Duration{
			50 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second,
			30 * time.Second,
		}[random.IntN(5)]
		long += randomly(random, time.Millisecond) // ends with nothing else
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
			p.signIn(long)
		case n < 45:
			_ = p.read(name, long)
		default:
			if token, err := p.take(long); err == nil {
				last = token
			}
		}
		pause := time.Duration(random.ExpFloat64() * float64(s.span()/60))
		if left := time.Until(last.Expires); left > 0 && random.IntN(4) == 0 {
			pause = max(0, left-randomly(random, s.margin()*3/2)) // at the last moment
		}
		if !s.wait(fmt.Sprintf("%d %s", p.id, name), pause) {
			return
		}
	}
}

type (
	refusedKey struct{}
	callerName struct{}
)

// take asks for a token, and waits so long.
func (p *process) take(long time.Duration) (lending.Token, error) {
	ctx, cancel := context.WithTimeout(p.alive, long)
	defer cancel()
	before, start := p.sim.watch.before(p), time.Now()
	token, err := p.client.Session().Token(ctx)
	p.sim.watch.took(before, token, err, time.Since(start), long)
	return token, err
}

// read makes a call, and waits so long.
func (p *process) read(caller string, long time.Duration) error {
	var refused []*issue
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithValue(p.alive, refusedKey{}, &refused),
		callerName{}, caller), long)
	defer cancel()
	start := time.Now()
	err := read(ctx, p.client)
	p.sim.watch.hasRead(p, refused, err, start, long)
	return err
}

func (p *process) signIn(long time.Duration) {
	ctx, cancel := context.WithTimeout(p.alive, long)
	defer cancel()
	start := time.Now()
	err := p.client.Session().SignIn(ctx)
	p.sim.watch.waited(p, "SignIn", err, time.Since(start), long)
}

// close ends the process.
func (p *process) close() {
	start := time.Now()
	p.client.Close()
	p.sim.watch.hasClosed(p, start)
	p.exit()
}
