package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/lendingtest"
)

// What the simulated way to the service marks a command with, for the service to count by.
const (
	keyHeader  = "X-Simulated-Key"
	callHeader = "X-Simulated-Call"
)

// schedule is a service, a store, and the processes that share both.
type schedule struct {
	seed        int
	maxLateness time.Duration // of all logs
	readLag     time.Duration // of the service
	// How often what happens, once in so many steps. 0 for never.
	crashes, freezes, storeFaults, sendFaults, readFaults int

	lanes     []string // what the processes do
	processes int      // at a time
	person    bool     // is there while the faults are, too
	other     bool     // somebody else books on the loan

	service     *lendingtest.Service
	entries     store.Store // of all processes
	token       string
	application lending.ApplicationID // of which the name is changed
	loan        lendingtest.Loan
	over        *atomic.Bool // no more faults
	late        sync.WaitGroup

	mu       sync.Mutex
	commands map[string]*simulated
	calls    int
	held     []string // keys with which a caller could not go on

	traced  sync.Mutex
	counted map[string]int
	trace   *trace
}

func newSchedule(seed int) *schedule {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	s := &schedule{
		seed: seed, maxLateness: time.Duration(pick(20, 60, 300)) * time.Second,
		crashes: pick(0, 30, 80, 200), freezes: pick(0, 20, 60, 200), storeFaults: pick(0, 10, 30, 100),
		sendFaults: pick(2, 3, 6), readFaults: pick(0, 8, 30),
		processes: 1 + random.IntN(3), person: random.IntN(2) == 0, other: random.IntN(8) == 0,
		over: &atomic.Bool{}, commands: map[string]*simulated{}, counted: map[string]int{},
	}
	s.readLag = []time.Duration{0, 0, 500 * time.Millisecond, 5 * time.Second}[random.IntN(4)]
	s.lanes = [][]string{
		{"apply"},
		{"apply", "apply again"},
		{"apply again", "apply again", "apply"},
		{"rename"},
		{"rename", "rename"},
		{"withdraw"},
		{"withdraw", "withdraw again"},
		{"apply", "rename", "withdraw"},
	}[random.IntN(8)]
	return s
}

// lateness is how late a mutation can be executed: reads show it within maxLateness.
func (s *schedule) lateness() time.Duration { return s.maxLateness - s.readLag }

// rolled returns a random number that belongs to a name.
func (s *schedule) rolled(name string) int {
	sum := fnv.New32a()
	fmt.Fprint(sum, s.seed, name)
	return int(sum.Sum32() >> 1)
}

func (s *schedule) newCaller(p *fleetMember, name string) *caller {
	return &caller{
		p: p, name: fmt.Sprintf("%d %s", p.id, name),
		random: rand.New(rand.NewPCG(uint64(s.seed), uint64(s.rolled(fmt.Sprint(p.id, name))))),
	}
}

func (s *schedule) run() {
	s.service = lendingtest.New(lendingtest.WithTokenLifetime(10_000*time.Hour),
		lendingtest.WithReadLag(s.readLag), lendingtest.WithWatcher(s.executes))
	defer s.service.Close()
	s.trace, s.token, s.entries = newTrace(), s.service.Token(lendingtest.Username), store.NewMemory()
	s.loan = s.service.AddLoan(lendingtest.Loan{})
	s.application = lending.ApplicationID(uuid.MustParse(s.service.AddApplication(lendingtest.Application{}).ID))
	var actors, fleet sync.WaitGroup
	end := make(chan struct{})
	if s.person {
		actors.Go(func() { s.helpNowAndThen(end) })
	}
	random := rand.New(rand.NewPCG(uint64(s.seed), 2))
	for id := range s.processes {
		delay := time.Duration(random.Int64N(int64(time.Minute)))
		fleet.Go(func() {
			bubble.Elapse(delay)
			s.keepRunning(id)
		})
	}
	if s.other {
		bubble.Elapse(time.Duration(random.Int64N(int64(3 * time.Minute))))
		s.service.AddTransactions(s.loan.ID, lendingtest.Transaction{Type: "Repayment", Amount: -100})
	}
	actors.Go(func() {
		select {
		case <-end:
		case <-time.After(10*time.Minute + 6*s.maxLateness):
		}
		s.over.Store(true)
	})
	fleet.Wait()
	close(end)
	actors.Wait()
	s.late.Wait()
	s.finish()
}

// keepRunning starts a process, and another one when that has been killed, until one has come
// to the end.
func (s *schedule) keepRunning(id int) {
	random := rand.New(rand.NewPCG(uint64(s.seed), uint64(100+id)))
	for {
		p := s.newMember(id)
		s.runLanes(p)
		if !p.dead.Load() {
			return
		}
		bubble.Elapse(time.Duration(random.Int64N(int64(time.Minute))))
		id += 10
	}
}

// runLanes has the callers of p do their work, or die.
func (s *schedule) runLanes(p *fleetMember) {
	var lanes sync.WaitGroup
	for i, lane := range s.lanes {
		lanes.Go(func() {
			c := s.newCaller(p, fmt.Sprintf("%c", 'a'+i))
			map[string]func(){
				"apply": c.apply, "apply again": c.applyAgain, "rename": c.rename, "withdraw": c.withdraw,
				"withdraw again": c.withdrawAgain,
			}[lane]()
			c.note("has come to the end")
		})
	}
	lanes.Wait()
}

// finish has everything come to its end without faults: what callers cannot go on with is
// named by InDoubt, and a person decides it. At last all is called once more, and nothing
// may be sent.
func (s *schedule) finish() {
	for round := range 12 {
		p := s.newMember(1000 + round)
		s.runLanes(p)
		if s.help(s.newCaller(p, "person"), true) == 0 {
			break
		}
	}
	sent := s.arrived()
	p := s.newMember(2000)
	s.held = nil
	s.runLanes(p)
	if n := s.arrived() - sent; n > 0 {
		s.violate("sent what is done", nil, "%d commands", n)
	}
	if left := s.help(s.newCaller(p, "person"), true); left > 0 || len(s.held) > 0 {
		s.violate("never ended", nil, "in doubt: %d, stuck: %v", left, s.held)
	}
	bubble.Elapse(2 * time.Hour)
	s.holds()
}

func (s *schedule) arrived() (n int) {
	for _, r := range s.service.Requests() {
		if r.Header.Get(keyHeader) != "" {
			n++
		}
	}
	return n
}

// helpNowAndThen is a person who looks after what is inDoubt while the faults go on.
func (s *schedule) helpNowAndThen(end <-chan struct{}) {
	c := s.newCaller(s.newMember(500), "person")
	for {
		select {
		case <-end:
			return
		case <-time.After(10*time.Second + time.Duration(c.random.Int64N(int64(2*s.maxLateness)))):
		}
		if !s.over.Load() {
			s.help(c, false)
		}
	}
}

// help resolves the mutations in doubt: all, or those that need a review and some of the rest. It
// returns how many were in doubt.
func (s *schedule) help(c *caller, all bool) int {
	limit := time.Minute
	if all {
		limit = 24 * time.Hour
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), callerKey{}, c), limit)
	defer cancel()
	list, _ := c.p.log.Keys(ctx, doubtful)
	for _, u := range list {
		if !all && u.State != store.NeedsReview && c.random.IntN(3) > 0 {
			continue
		}
		for {
			s.mu.Lock()
			m := s.commands[u.Key]
			s.mu.Unlock()
			err := c.p.log.Resolve(ctx, u.Key, idempotency.Resolution{
				By: "Grace", Why: "looked it up", Sends: u.Sends, Verdict: s.verdict(c, m, false),
			})
			c.note("resolves %s: %v", u.Key, err)
			if err == nil {
				s.count("resolved by a person")
			}
			if !all || !errors.Is(err, idempotency.ErrInProgress) && !errors.Is(err, idempotency.ErrInDoubt) {
				break
			}
			bubble.Elapse(time.Minute)
		}
	}
	return len(list)
}
