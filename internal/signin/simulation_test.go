package signin_test

import (
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

const (
	sessionsVariable = "LENDING_TEST_SESSIONS" // the number of runs
	longestLease     = 15 * time.Second
	storeLimit       = 5 * time.Second // for each step
	freeRefusals     = 3               // refused tokens in a row before a pause
)

// TestSessionsSimulation has the sessions of several processes share a store on fake time, while
// the store, the service and the processes fail, and holds the rules of [watch].
//
// Callers, faults and the jitter follow from the seed, and package simulation orders the steps of
// an instant. A failure prints its seed: LENDING_TEST_SEED=7 begins with that run.
//
// The steps of a frozen process at the store and the service block, whatever their contexts say,
// and its callers begin nothing. Its timers go off in time, which a real frozen process does not
// do: see TestFrozenProcess. All processes have the same clock.
func TestSessionsSimulation(t *testing.T) {
	t.Parallel()
	few := 240
	if race.Enabled || testing.Short() {
		few /= 5
	}
	runs, first := seeds.FromEnvironment(t, sessionsVariable, few), seeds.FromEnvironment(t, seeds.Variable, 1)
	counts, failures := map[string]int{}, map[string]int{}
	for seed := first; seed < first+runs; seed++ {
		f := newFleet(seed)
		synctest.Test(t, func(*testing.T) { f.run() })
		for name, n := range f.watch.counted() {
			counts[name] += n
		}
		for kind, v := range f.watch.trace.Violated {
			if failures[kind]++; failures[kind] <= 2 {
				t.Errorf("run of %d processes (%s), tokens of %v: %s: %s\nto see it again: %s=1 %s=%d "+
					"go test -run TestSessionsSimulation ./internal/signin\nthe events before:\n%s", f.size, f.profile,
					f.life, kind, v.Text, sessionsVariable, seeds.Variable, seed, strings.Join(v.Before, "\n"))
			}
		}
	}
	for kind, n := range failures {
		t.Errorf("%s: %d of %d seeds", kind, n, runs)
	}
	t.Logf("%d runs from seed %d: %v", runs, first, counts)
	if runs >= few && !t.Failed() {
		for _, name := range []string{
			"login", "refresh-token", "without the lease", "revocation", "refusal", "frozen", "closed",
		} {
			assert.Positive(t, counts[name], name)
		}
	}
}

// fleet is a service, a store, and the processes that share both.
type fleet struct {
	seed     int
	profile  string // calm: no faults; outage: the store is down for all; storm: any fault
	size     int    // number of processes
	life     time.Duration
	keepers  bool    // every process has a Keepalive
	atStore  float64 // probability of a fault
	atSignIn float64
	freezing float64

	service *lendingtest.Service
	turns   *simulation.Turns
	watch   *watch
	over    chan struct{} // closed when the faults end
	working sync.WaitGroup
	keeping sync.WaitGroup

	mu        sync.Mutex
	processes []*process // alive
}

func newFleet(seed int) *fleet {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	lives := []int{5, 10, 30, 60, 180, 600, 3600}
	f := &fleet{
		seed: seed, profile: []string{"calm", "outage", "storm", "storm"}[seed%4], size: 2 + random.IntN(3),
		life: time.Duration(lives[random.IntN(len(lives))]) * time.Second, keepers: true,
	}
	pick := func(values ...float64) float64 { return values[random.IntN(len(values))] }
	if f.profile == "storm" {
		f.keepers = random.IntN(3) > 0
		f.atStore, f.atSignIn, f.freezing = pick(0, .02, .1, .3), pick(0, .05, .2, .5), pick(0, 0, .05, .2)
	}
	f.watch = newWatch(f)
	return f
}

// span is the duration of the faults: some lives of a token, and some pauses of a process.
func (f *fleet) span() time.Duration { return max(8*f.life, 4*time.Minute) }

func (f *fleet) random(actor int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(f.seed), uint64(actor)))
}

// below returns a random time.
func below(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

func (f *fleet) run() {
	f.service = lendingtest.New(lendingtest.WithTokenLifetime(f.life))
	defer f.service.Close()
	f.over = make(chan struct{}) // of this bubble
	f.watch.trace = simulation.NewTrace()
	f.turns = simulation.NewTurns()
	defer f.turns.End()
	var actors sync.WaitGroup
	for id := range f.size {
		f.start(id)
	}
	switch f.profile {
	case "calm":
		actors.Go(func() { f.revoke(f.random(1000)) })
	case "outage":
		actors.Go(func() { f.outage(f.random(1001)) })
	case "storm":
		actors.Go(func() { f.revoke(f.random(1000)) })
		actors.Go(func() { f.replace(f.random(1002)) })
		for i := range 2 {
			actors.Go(func() { f.storm(fmt.Sprintf("storm %d", i), f.random(1003+i)) })
		}
	}
	bubble.Elapse(f.span())
	close(f.over)
	actors.Wait()
	for _, p := range f.living() {
		actors.Go(p.recover)
	}
	actors.Wait()
	f.working.Wait()
	f.settle()
	for _, p := range f.living() {
		p.close()
	}
	f.keeping.Wait()
	f.watch.end()
}

// wait lets time pass for an actor. It returns false if the faults end before.
func (f *fleet) wait(actor string, d time.Duration) bool {
	defer f.turns.Take(actor)
	select {
	case <-f.over:
		return false
	case <-time.After(d):
		return true
	}
}

func (f *fleet) living() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.processes)
}

// start begins a process with its callers.
func (f *fleet) start(id int) {
	p := newProcess(f, id)
	f.mu.Lock()
	f.processes = append(f.processes, p)
	f.mu.Unlock()
	for i := range 2 {
		f.working.Go(func() { p.callNowAndThen(fmt.Sprintf("caller %d", i), f.random(10*id+i+1)) })
	}
	if f.keepers {
		f.keeping.Go(func() { _ = p.client.Session().Keepalive(p.alive) })
	}
}

// revoke has the service forget all tokens, now and then.
func (f *fleet) revoke(random *rand.Rand) {
	for f.wait("revoke", f.span()/8+below(random, f.span())) {
		f.watch.revoke()
	}
}

// replace ends a process in the middle of its work, and begins another.
func (f *fleet) replace(random *rand.Rand) {
	for id := f.size; f.wait("replace", f.span()/4+below(random, f.span())); id++ {
		f.mu.Lock()
		p := f.processes[1]
		f.processes = slices.Delete(f.processes, 1, 2)
		f.mu.Unlock()
		p.close()
		f.start(id)
	}
}

// outage takes the store away from all. Nobody who has a token may lose it.
func (f *fleet) outage(random *rand.Rand) {
	fault := []string{"fails", "hangs"}[random.IntN(2)]
	if !f.wait("outage", max(f.life, 20*time.Second)+below(random, f.life)) {
		return
	}
	for _, p := range f.living() {
		token, err := p.take(time.Second)
		fresh := err == nil && time.Until(token.Expires) > f.life/3
		p.watched(func() { p.mustHold = fresh })
	}
	f.strike(f.living(), "store", fault)
	f.wait("outage", f.life/2+below(random, 4*f.life))
	f.strike(f.living(), "store", "")
}

// strike begins or ends a fault at a place.
func (f *fleet) strike(struck []*process, place, fault string) {
	for _, p := range struck {
		p.watched(func() {
			p.faults[place] = fault
			f.watch.line(p, "fault at the %s: %q", place, fault)
		})
	}
}

// storm makes spells of trouble, for one process or for all.
func (f *fleet) storm(name string, random *rand.Rand) {
	for f.wait(name, below(random, f.span()/3)) {
		struck, long := f.living(), time.Second+below(random, max(time.Minute, f.life))
		if random.IntN(4) > 0 {
			struck = struck[:1]
		}
		place := []string{"store", "sign-in", "process"}[random.IntN(3)]
		if faults := faultsAt[place]; faults != nil {
			f.strike(struck, place, faults[random.IntN(len(faults))])
		} else if f.freezing > 0 {
			for _, p := range struck {
				p.freeze(long)
			}
		}
		f.wait(name, long)
		f.strike(struck, place, "")
	}
}

// recover holds that a process is well again after the faults and the pauses.
func (p *process) recover() {
	for start := time.Now(); ; {
		err := p.read("recovery", 30*time.Second)
		if err == nil {
			return
		}
		if time.Since(start) > 2*time.Hour {
			p.fleet.watch.fail("no recovery", p, "fails %v after the faults: %v", time.Since(start), err)
			return
		}
		pause := time.Second
		if failed, ok := errors.AsType[*lending.Error](err); ok {
			pause += failed.RetryAfter
		}
		bubble.Elapse(pause)
	}
}

// settle holds that all is quiet at last: no sign-in, and one token for all.
func (f *fleet) settle() {
	if !f.keepers {
		return
	}
	bubble.Elapse(2 * longestLease) // of those that nobody gives back
	var before map[string]int
	for eighth := range 24 { // of a token's life
		if eighth == 8 { // processes that refreshed without the store have met again
			before = f.watch.counted()
		}
		for _, p := range f.living() {
			if err := p.read("quiet", time.Minute); err != nil {
				f.watch.fail("no recovery", p, "failed again: %v", err)
			}
		}
		bubble.Elapse(f.life / 8)
	}
	after := f.watch.counted()
	for route, most := range map[string]int{"login": 0, "refresh-token": 2 + 20/6} {
		if n := after[route] - before[route]; n > most {
			f.watch.fail("needless "+route, nil, "%d in quiet times", n)
		}
	}
}

// clientOf returns the client of a process.
func (f *fleet) clientOf(p *process) *lending.Client {
	return fake.Must(lending.New("http://127.0.0.1", lending.WithTokenStore(p),
		lending.WithHTTPClient(&http.Client{Transport: p}),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
		})))
}
