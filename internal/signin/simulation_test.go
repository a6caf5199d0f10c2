package signin_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/internal/test/simulation"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The simulation of sign-in. LENDING_TEST_SESSIONS=2000 makes so many runs, and
// LENDING_TEST_SEED=7 begins with the run of that seed: a failure prints its seed. Callers,
// faults and the jitter of the sessions follow from the seed, and package simulation orders
// the steps of one instant.
const (
	sessionsVariable = "LENDING_TEST_SESSIONS"
	fewSimulations   = 200
	leaseOfASession  = 15 * time.Second // the longest
	limitOfTheStore  = 5 * time.Second  // for each step

	tokensRefusedInARow = 3 // before a pause
)

// TestSessionsSimulation has the sessions of several processes share one store on fake
// time, while the store, the service and the processes fail in every way that we could
// think of, and holds what [watch] says.
//
// A process that stands still is one whose steps at the store and the service block,
// whatever their contexts say, and whose callers begin nothing, while the clock goes on.
// Its timers go off in time all the same, and it gives out tokens to callers who were
// waiting: what a process that was really stopped does first, when it goes on, this
// cannot show. All processes have one clock.
func TestSessionsSimulation(t *testing.T) {
	fake.NeedsControl(t)
	t.Parallel()
	few := fewSimulations
	if race.Enabled || testing.Short() {
		few /= 5
	}
	count, first := seeds.FromEnvironment(t, sessionsVariable, few), seeds.FromEnvironment(t, seeds.Variable, 1)
	all := sessionsTally{}
	failures := map[string][]int{}
	for seed := first; seed < first+count; seed++ {
		s := newSimulation(seed)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("simulation with seed %d: %v", seed, p)
				}
			}()
			synctest.Test(t, func(*testing.T) { s.run() })
		}()
		all.add(s)
		for kind, v := range s.watch.trace.Violated {
			if failures[kind] = append(failures[kind], seed); len(failures[kind]) <= 2 {
				t.Errorf("simulation of %d processes (%s), tokens of %v: %s: %s\nto see it again: %s=1 %s=%d "+
					"go test -run TestSessionsSimulation ./internal/signin\nwhat came before:\n%s",
					s.count, s.profile, s.life, kind, v.Text, sessionsVariable, seeds.Variable, seed,
					strings.Join(v.Before, "\n"))
			}
		}
	}
	for kind, list := range failures {
		t.Errorf("%s: %d of %d seeds: %v", kind, len(list), count, list[:min(len(list), 40)])
	}
	t.Logf("%d simulations from seed %d: %+v", count, first, all)
	if count >= few && !t.Failed() {
		for _, test := range []struct {
			what string
			n    int
		}{
			{"revocations", all.revocations},
			{"closed", all.closed},
			{"pauses", all.pauses},
			{"alone", all.alone},
			{"refusals", all.refusals},
		} {
			assert.Positive(t, test.n, "no simulation had %s", test.what)
		}
	}
}

// sessionsTally counts over all simulations.
type sessionsTally struct {
	calls, failed, signIns, refreshes, alone, faults, pauses, revocations, refusals, closed int
	recovery                                                                                time.Duration // the longest
}

func (y *sessionsTally) add(s *fleet) {
	w := s.watch
	y.calls += w.calls
	y.failed += w.callsFailed
	y.signIns += w.signIns
	y.refreshes += w.refreshes
	y.alone += w.alone
	y.faults += w.faults
	y.pauses += w.pauses
	y.revocations += w.revocations
	y.refusals += w.refusals
	y.closed += w.closed
	y.recovery = max(y.recovery, w.recovery)
}

// fleet is a service, a store, and the processes that share both.
type fleet struct {
	seed int
	// calm: no faults; outage: the store is away for all; patchy: the store is away for some; storm: anything
	profile   string
	count     int // of processes
	life      time.Duration
	keepers   bool // every process has a Keepalive
	twoFactor bool
	person    bool          // somebody signs in by hand when the faults have ended
	skew      time.Duration // of the service's clock
	atStore   float64       // how probable a fault is
	atSignIn  float64
	standing  float64

	service *lendingtest.Service
	turns   *simulation.Turns
	watch   *watch
	over    chan struct{} // closed when the faults end
	late    sync.WaitGroup
	callers sync.WaitGroup
	keeping sync.WaitGroup

	mu        sync.Mutex
	processes []*process // that live
}

func newSimulation(seed int) *fleet {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	pick := func(values ...float64) float64 { return values[random.IntN(len(values))] }
	lives := []time.Duration{
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute,
		10 * time.Minute, time.Hour,
	}
	s := &fleet{
		seed: seed, profile: []string{"calm", "outage", "patchy", "storm", "storm", "storm"}[seed%6],
		count: 2 + random.IntN(3), life: lives[random.IntN(len(lives))],
		keepers: true, person: random.IntN(2) == 0,
	}
	if s.life >= time.Minute {
		s.skew = time.Duration(pick(0, 0, -3, 3)) * time.Hour
	}
	if s.profile == "storm" {
		s.keepers, s.twoFactor = random.IntN(3) > 0, random.IntN(4) == 0
		s.atStore, s.atSignIn, s.standing = pick(0, .02, .1, .3), pick(0, .05, .2, .5), pick(0, 0, .05, .2)
	}
	s.watch = newWatch(s)
	return s
}

// span is how long the faults last: some lives of a token, and some pauses of a process.
func (s *fleet) span() time.Duration { return max(8*s.life, 4*time.Minute) }

// margin is how long before its expiry a token is not given out any more.
func (s *fleet) margin() time.Duration { return min(10*time.Second, s.life/10) }

func (s *fleet) random(actor int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(s.seed), uint64(actor)))
}

// randomly returns a time below most.
func randomly(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

func (s *fleet) run() {
	s.service = lendingtest.New(lendingtest.WithTokenLifetime(s.life))
	defer s.service.Close()
	s.service.Advance(s.skew)
	s.over = make(chan struct{}) // of this bubble
	s.watch.begin()
	s.turns = simulation.NewTurns()
	defer s.turns.End()
	var actors sync.WaitGroup
	for id := range s.count {
		s.start(id)
	}
	actors.Go(func() { s.revoke(s.random(1000)) })
	switch s.profile {
	case "outage":
		actors.Go(func() { s.outage(s.random(1001)) })
	case "patchy":
		actors.Go(func() { s.patches(s.random(1001)) })
	case "storm":
		actors.Go(func() { s.replace(s.random(1002)) })
		for i := range 2 {
			actors.Go(func() { s.storm(fmt.Sprintf("storm %d", i), s.random(1003+i)) })
		}
	}
	bubble.Elapse(s.span())
	close(s.over)
	actors.Wait()
	s.recover()
	s.callers.Wait()
	s.late.Wait()
	s.settle()
	for _, p := range s.living() {
		p.close()
	}
	s.keeping.Wait()
	s.watch.end()
}

// wait lets d go by for an actor. It returns false if the faults end before.
func (s *fleet) wait(actor string, d time.Duration) bool {
	defer s.turns.Take(actor)
	select {
	case <-s.over:
		return false
	case <-time.After(d):
		return true
	}
}

func (s *fleet) living() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// start begins a process with its callers.
func (s *fleet) start(id int) {
	p := newProcess(s, id)
	s.mu.Lock()
	s.processes = append(s.processes, p)
	s.mu.Unlock()
	for i := range 2 {
		s.callers.Go(func() { p.callNowAndThen(fmt.Sprintf("caller %d", i), s.random(10*id+i+1)) })
	}
	if s.keepers {
		s.keeping.Go(func() { _ = p.client.Session().Keepalive(p.alive) })
	}
}

// revoke has the service forget all tokens, now and then.
func (s *fleet) revoke(random *rand.Rand) {
	if s.profile == "outage" {
		return
	}
	for s.wait("revoke", s.span()/8+randomly(random, s.span())) {
		s.watch.revoke()
	}
}

// replace ends a process midway, and begins another.
func (s *fleet) replace(random *rand.Rand) {
	for id := s.count; s.wait("replace", s.span()/4+randomly(random, s.span())); id++ {
		s.mu.Lock()
		p := s.processes[1]
		s.processes = slices.Delete(s.processes, 1, 2)
		s.mu.Unlock()
		p.close()
		s.start(id)
	}
}

// outage takes the store away from all.
func (s *fleet) outage(random *rand.Rand) {
	fault := []string{"fails", "hangs", "crawls"}[random.IntN(3)]
	if !s.wait("outage", max(s.life, 20*time.Second)+randomly(random, s.life)) {
		return
	}
	for _, p := range s.living() {
		token, err := p.take(time.Second)
		fresh := err == nil && time.Until(token.Expires) > s.life/3
		p.watched(func() { p.mustHold = fresh })
	}
	for _, p := range s.living() {
		p.setWeather("store", fault)
	}
	s.watch.note(nil, "the store %s for all", fault)
	s.wait("outage", s.life/2+randomly(random, 4*s.life))
	for _, p := range s.living() {
		p.setWeather("store", "")
	}
	s.watch.note(nil, "the store is back")
}

// patches takes the store away from one process at a time.
func (s *fleet) patches(random *rand.Rand) {
	for s.wait("patches", randomly(random, s.life/2)) {
		p := s.living()[random.IntN(s.count)]
		p.setWeather("store", storeFaults[random.IntN(len(storeFaults))])
		s.wait("patches", randomly(random, s.life))
		p.setWeather("store", "")
	}
}

// storm makes spells of trouble, for one process or for all.
func (s *fleet) storm(name string, random *rand.Rand) {
	for s.wait(name, randomly(random, s.span()/3)) {
		struck := s.living()
		if random.IntN(2) == 0 {
			struck = struck[:1]
		} else if random.IntN(2) == 0 {
			struck = struck[len(struck)-1:]
		}
		where, long := []string{"store", "sign-in", "process"}[random.IntN(3)], time.Second+randomly(random,
			max(time.Minute, s.life))
		faults := storeFaults
		if where == "sign-in" {
			faults = signInFaults
		}
		fault := faults[random.IntN(len(faults))]
		if where == "process" {
			fault = ""
			if s.standing == 0 {
				continue
			}
			if random.IntN(4) > 0 {
				long = min(long, time.Minute)
			}
		}
		for _, p := range struck {
			if where == "process" {
				p.pause(long)
				continue
			}
			p.setWeather(where, fault)
		}
		s.wait(name, long)
		for _, p := range struck {
			p.setWeather(where, "")
		}
	}
}

// recover holds that everyone is well again soon after the faults. Somebody who signs
// in by hand ends the pause after refusals, which are long; else they are waited for.
func (s *fleet) recover() {
	bound := 2 * time.Hour
	if s.person {
		bound = time.Minute + s.life // a token that was got without the store is shared when it is refreshed
		first, start := s.living()[0], time.Now()
		for {
			ctx, cancel := context.WithTimeout(first.alive, time.Minute)
			err := first.client.Session().SignIn(ctx)
			cancel()
			if err == nil && first.read("person", 30*time.Second) == nil {
				break
			}
			if time.Since(start) > bound {
				s.watch.fail("no recovery", first, "nobody can sign in %v after the faults: %v", time.Since(start), err)
				return
			}
			bubble.Elapse(time.Second)
		}
	}
	var all sync.WaitGroup
	for _, p := range s.living() {
		all.Go(func() { p.recover(bound) })
	}
	well := make(chan struct{})
	go func() {
		all.Wait()
		close(well)
	}()
	for s.person { // and goes on calling, so that the token is refreshed while the others come back
		_, _ = s.living()[0].take(time.Second)
		select {
		case <-well:
			return
		case <-time.After(max(s.life/20, time.Second/2)):
		}
	}
	<-well
}

func (p *process) recover(bound time.Duration) {
	for start := time.Now(); ; {
		err := p.read("recovery", 30*time.Second)
		if err == nil {
			p.sim.watch.recovered(time.Since(start))
			return
		}
		if time.Since(start) > bound {
			p.sim.watch.fail("no recovery", p, "fails %v after the faults: %v", time.Since(start), err)
			return
		}
		pause := time.Second
		if failed, ok := errors.AsType[*lending.Error](err); ok && !p.sim.person {
			pause += failed.RetryAfter
		}
		bubble.Elapse(pause)
	}
}

// settle holds that all is quiet at last: no sign-in, and one token for all.
func (s *fleet) settle() {
	if !s.keepers {
		return
	}
	bubble.Elapse(2 * leaseOfASession) // of those that nobody gives back
	for _, p := range s.living() {
		_ = p.read("quiet", time.Minute)
	}
	s.quiet(8) // those who refreshed without the store meet again
	signIns, refreshes := s.watch.counted()
	s.quiet(16)
	nowSignIns, nowRefreshes := s.watch.counted()
	if n := nowSignIns - signIns; n > 0 {
		s.watch.fail("needless sign-in", nil, "%d in quiet times", n)
	}
	if n := nowRefreshes - refreshes; n > s.watch.refreshesIn(2*s.life) {
		s.watch.fail("needless refresh", nil, "%d in quiet times", n)
	}
}

// quiet lets eighths of a token's life go by in which everyone calls.
func (s *fleet) quiet(eighths int) {
	for range eighths {
		for _, p := range s.living() {
			if err := p.read("quiet", time.Minute); err != nil {
				s.watch.fail("no recovery", p, "failed again: %v", err)
			}
		}
		bubble.Elapse(s.life / 8)
	}
}

// clientOf returns the client of a process.
func (s *fleet) clientOf(p *process) *lending.Client {
	credentials := lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
	}
	if s.twoFactor {
		credentials.TwoFactor = p.typeCode
	} else {
		credentials.TrustedDeviceToken = lending.NewSecret(lendingtest.TrustedDeviceToken)
	}
	client, err := lending.New("http://127.0.0.1", lending.WithCredentials(credentials), lending.WithTokenStore(p),
		lending.WithHTTPClient(&http.Client{Transport: p}))
	if err != nil {
		panic(err)
	}
	return client
}

// A seed means one run, so that a failure can be seen again. Go promises no order of what
// becomes ready in one instant inside of a session: a few seeds in a hundred may differ.
func TestSessionsSimulationIsRepeatable(t *testing.T) {
	fake.NeedsControl(t)
	const count = 20
	var differ []int
	for seed := 1; seed <= count; seed++ {
		var sums []uint64
		for range 2 {
			s := newSimulation(seed)
			synctest.Test(t, func(*testing.T) { s.run() })
			sums = append(sums, s.watch.trace.Sum())
		}
		if len(slices.Compact(sums)) > 1 {
			differ = append(differ, seed)
		}
	}
	assert.LessOrEqual(t, len(differ), count/10, "seeds with several runs: %v", differ)
}
