package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// What the simulated way to the service marks a command with, for the service to count by.
const (
	keyHeader  = "X-Simulated-Key"
	callHeader = "X-Simulated-Call"
	another    = " (another request)"
)

// schedule is a service, a store, and the processes that share both.
type schedule struct {
	seed  int
	quiet time.Duration // of all journals
	// How often what happens, once in so many steps. 0 for never.
	crashes, freezes, storeFaults, sendFaults, readFaults int

	lanes     []string // what the processes do
	processes int      // at a time
	person    bool     // is there while the faults are, too
	other     bool     // somebody else books on the loan

	service     *lendingtest.Service
	store       lending.JournalStore // of all processes
	token       string
	application lending.ApplicationID // of which the name is changed
	loan        lendingtest.Loan
	over        *atomic.Bool // no more faults
	late        sync.WaitGroup
	start       time.Time

	mu       sync.Mutex
	commands map[string]*simulated
	members  int
	calls    int
	held     []string // keys with which a caller could not go on
	counted  map[string]int
	lines    []string
	failed   map[string]violation // the first of each kind
}

func newSchedule(seed int) *schedule {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	s := &schedule{
		seed: seed, quiet: time.Duration(pick(20, 60, 300)) * time.Second,
		crashes: pick(0, 30, 80, 200), freezes: pick(0, 20, 60, 200), storeFaults: pick(0, 10, 30, 100),
		sendFaults: pick(2, 3, 6), readFaults: pick(0, 8, 30),
		processes: 1 + random.IntN(3), person: random.IntN(2) == 0, other: random.IntN(8) == 0,
		over: &atomic.Bool{}, commands: map[string]*simulated{}, counted: map[string]int{}, failed: map[string]violation{},
	}
	s.lanes = [][]string{
		{"apply"}, {"apply", "apply again"}, {"apply again", "apply again", "apply"}, {"rename"}, {"rename", "rename"},
		{"withdraw"}, {"withdraw", "withdraw again"}, {"apply", "rename", "withdraw"},
	}[random.IntN(8)]
	return s
}

// rolled returns a random number that belongs to a name.
func (s *schedule) rolled(name string) int {
	sum := fnv.New32a()
	fmt.Fprint(sum, s.seed, name)
	return int(sum.Sum32() >> 1)
}

func (s *schedule) newCaller(p *fleetMember, name string) *caller {
	return &caller{p: p, name: fmt.Sprintf("%d %s", p.id, name), random: rand.New(rand.NewPCG(uint64(s.seed), uint64(s.rolled(fmt.Sprint(p.id, name)))))}
}

func (s *schedule) run() {
	s.service = lendingtest.New(lendingtest.WithTokenLifetime(10_000 * time.Hour))
	defer s.service.Close()
	defer s.service.Watch(s.executes)()
	s.start, s.token, s.store = time.Now(), s.service.Token(lendingtest.Username), lending.NewMemoryJournalStore()
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
			elapse(delay)
			s.keepRunning(id)
		})
	}
	if s.other {
		elapse(time.Duration(random.Int64N(int64(3 * time.Minute))))
		s.service.AddTransactions(s.loan.ID, lendingtest.Transaction{Type: "Repayment", Amount: -100})
	}
	actors.Go(func() {
		select {
		case <-end:
		case <-time.After(10*time.Minute + 6*s.quiet):
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
		elapse(time.Duration(random.Int64N(int64(time.Minute))))
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
				"apply": c.apply, "apply again": c.applyAgain, "rename": c.rename, "withdraw": c.withdraw, "withdraw again": c.withdrawAgain,
			}[lane]()
			c.note("has come to the end")
		})
	}
	lanes.Wait()
}

// finish has everything come to its end without faults: what callers cannot go on with is
// named by Unsettled, and a person settles it. At last all is called once more, and nothing
// may be sent.
func (s *schedule) finish() {
	for round := 0; ; round++ {
		p := s.newMember(1000 + round)
		s.take(p)
		unsettled := s.unsettled(p)
		for _, key := range s.held {
			if len(unsettled) == 0 {
				s.violate("stuck", nil, "nobody can go on with %s, and nothing is unsettled", key)
			}
		}
		if len(unsettled) == 0 || round == 12 {
			break
		}
		s.help(s.newCaller(p, "person"), true)
	}
	sent := s.arrived()
	p := s.newMember(2000)
	s.take(p)
	if n := s.arrived() - sent; n > 0 {
		s.violate("sent what is done", nil, "%d commands", n)
	}
	if left := s.unsettled(p); len(left) > 0 || len(s.held) > 0 {
		s.violate("never settled", nil, "unsettled: %v, stuck: %v", left, s.held)
	}
	elapse(2 * time.Hour)
	s.holds()
}

func (s *schedule) take(p *fleetMember) {
	s.held = nil
	s.runLanes(p)
}

func (s *schedule) arrived() (n int) {
	for _, r := range s.service.Requests() {
		if r.Header.Get(keyHeader) != "" {
			n++
		}
	}
	return n
}

func (s *schedule) unsettled(p *fleetMember) (keys []string) {
	ctx := context.WithValue(context.Background(), callerKey{}, s.newCaller(p, "unsettled"))
	list, err := p.journal.Unsettled(ctx, 1000)
	if err != nil {
		s.violate("Unsettled", nil, "%v", err)
	}
	for _, u := range list {
		keys = append(keys, u.Key)
		if u.Route == "" || u.State == lending.CommandUndecided && u.Why == "" {
			s.violate("Unsettled", nil, "says nothing of %+v", u)
		}
	}
	return keys
}

// helpNowAndThen is a person who looks after what is unsettled while the faults go on.
func (s *schedule) helpNowAndThen(end <-chan struct{}) {
	c := s.newCaller(s.newMember(500), "person")
	for {
		select {
		case <-end:
			return
		case <-time.After(10*time.Second + time.Duration(c.random.Int64N(int64(2*s.quiet)))):
		}
		if !s.over.Load() {
			s.help(c, false)
		}
	}
}

// help resolves what is unsettled: all, or what is undecided and some of the rest.
func (s *schedule) help(c *caller, all bool) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), callerKey{}, c), time.Minute)
	defer cancel()
	list, _ := c.p.journal.Unsettled(ctx, 1000)
	for _, u := range list {
		if !all && u.State != lending.CommandUndecided && c.random.IntN(3) > 0 {
			continue
		}
		for {
			s.mu.Lock()
			m := s.commands[u.Key]
			s.mu.Unlock()
			err := c.p.journal.Resolve(ctx, u.Key, lending.Resolution{By: "Grace", Why: "looked it up", Verdict: s.verdict(c, m)})
			c.note("resolves %s: %v", u.Key, err)
			if err == nil {
				s.count("resolved by a person")
			}
			if !all || !errors.Is(err, lending.ErrInProgress) && !errors.Is(err, lending.ErrUnsettled) {
				break
			}
			elapse(time.Minute)
		}
		if all {
			cancel()
			ctx, cancel = context.WithTimeout(context.WithValue(context.Background(), callerKey{}, c), 24*time.Hour)
			defer cancel()
		}
	}
}

// The watch: what must hold.

func (s *schedule) note(c *caller, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(c, format, args...)
}

func (s *schedule) line(c *caller, format string, args ...any) {
	if len(s.lines) > 600 {
		s.lines = slices.Clone(s.lines[400:])
	}
	name := "-"
	if c != nil {
		name = c.name
	}
	s.lines = append(s.lines, fmt.Sprintf("%10.3f s  %-8s ", time.Since(s.start).Seconds(), name)+fmt.Sprintf(format, args...))
}

func (s *schedule) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[what]++
}

func (s *schedule) violate(kind string, c *caller, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violated(kind, c, format, args...)
}

// violated needs s.mu.
func (s *schedule) violated(kind string, c *caller, format string, args ...any) {
	s.line(c, "VIOLATED: %s: %s", kind, fmt.Sprintf(format, args...))
	if _, known := s.failed[kind]; !known {
		s.failed[kind] = violation{fmt.Sprintf(format, args...), slices.Clone(s.lines[max(0, len(s.lines)-160):])}
	}
}

func (s *schedule) stuck(key string, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, key)
}

func (s *schedule) executions(m *simulated) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.executed
}

// begin notes that a caller begins a call.
func (c *caller) begin(m *simulated) {
	s := c.p.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	c.key, c.number, c.sends, c.reached, c.action = m.key, fmt.Sprint(s.calls), 0, false, ""
	if m.begun.IsZero() {
		m.begun = time.Now()
	}
}

// leaves holds that what is sent has been written down.
func (s *schedule) leaves(c *caller) {
	entry, err := s.store.Load(context.Background(), ":"+c.key)
	if c.sends++; c.sends > 1 {
		s.violate("sent twice in one call", c, "%s", c.key)
	}
	switch {
	case strings.HasSuffix(c.key, another):
		s.violate("another request under the key", c, "%s", c.key)
	case err != nil || entry == nil || entry.State != lending.CommandSent:
		s.violate("sent and not written down", c, "%s: %+v %v", c.key, entry, err)
	}
}

// sendLate has a command executed within most from now.
func (s *schedule) sendLate(c *caller, what string, most time.Duration, send func(context.Context) (*http.Response, error)) {
	late := time.Duration(c.random.Int64N(int64(max(most, 1))))
	c.note("%s will arrive %v later", what, late.Round(time.Millisecond))
	s.count("late execution")
	s.late.Go(func() {
		elapse(late)
		_, _ = send(context.Background()) //nolint:bodyclose // it is in memory
	})
}

// executes holds what must hold when the service executes a command.
func (s *schedule) executes(e lendingtest.Event) {
	if e.Request == nil || !e.Request.Executed {
		return
	}
	key := e.Request.Header.Get(keyHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.commands[key]
	if m == nil {
		return
	}
	m.executed++
	m.sent[e.Request.Header.Get(callHeader)] = true
	s.line(nil, "%s is executed", key)
	switch {
	case m.executed > 1 && !m.repeats:
		s.violated("done twice", nil, "%s", key)
	case m.executed > 1:
		s.counted["sent twice, declared"]++
	}
	for _, newer := range s.commands {
		if m.group != "" && newer.group == m.group && newer.executed > 0 && !m.returned.IsZero() && m.returned.Before(newer.begun) {
			s.violated("older value over a newer", nil, "%s after %s", key, newer.key)
		}
	}
}

// answered notes an answer of the service to a command.
func (s *schedule) answered(key, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.commands[key]; m != nil {
		m.answers[body] = struct{}{}
	}
}

// returned holds that what a call has returned is the truth.
func (s *schedule) returned(c *caller, m *simulated, body, id string, err error) {
	_, truth := m.done(s.service.Snapshot())
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[error]string{
		lending.ErrInProgress: "in progress", lending.ErrUnsettled: "unsettled", lending.ErrUndecided: "undecided",
		lending.ErrScopeHeld: "scope held", lending.ErrAnswerLost: "answer lost", lending.ErrJournal: "journal failed",
	}
	for kind, name := range kinds {
		if errors.Is(err, kind) {
			s.counted[name]++
		}
	}
	var refused *lending.KeyError
	outcome, executed := lending.OutcomeOf(err), m.executed > 0
	switch {
	case outcome == lending.OutcomeDone && !executed:
		s.violated("done and has not happened", c, "%s: %v", m.key, err)
	case outcome == lending.OutcomeNotSent && c.reached:
		s.violated("not sent and was", c, "%s: %v", m.key, err)
	case outcome == lending.OutcomeRejected && m.sent[c.number]:
		s.violated("rejected and has happened", c, "%s: %v", m.key, err)
	case errors.As(err, &refused) && !errors.Is(err, lending.ErrJournal) && c.sends > 0:
		s.violated("refused and was sent", c, "%s: %v", m.key, err)
	}
	if err != nil {
		return
	}
	if m.returned.IsZero() {
		m.returned = time.Now()
	}
	s.counted[string(c.action)]++
	if want := idIn(truth); id != "" && id != want {
		s.violated("another answer", c, "%s: %s, and it is %s", m.key, id, want)
	}
	if c.action == lending.JournalSent {
		return
	}
	_, known := m.answers[body]
	if !known && body != asJSON(truth) && body != "" {
		s.violated("another answer", c, "%s: %s", m.key, body)
	}
	if m.replay == nil {
		m.replay = &body
	}
	if *m.replay != body {
		s.violated("another answer", c, "%s: %q after %q", m.key, body, *m.replay)
	}
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func (s *schedule) refused(c *caller, m *simulated, err error) {
	if argument, ok := errors.AsType[*lending.ArgumentError](err); ok && argument.Fields[0].Field == "key" {
		s.count("refused other request")
		return
	}
	if err == nil {
		s.violate("another request under the key", c, "%s", m.key)
	}
}

// holds holds what must hold at the end.
func (s *schedule) holds() {
	world := s.service.Snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.commands {
		if strings.HasPrefix(key, "withdraw") {
			continue
		}
		n := m.executed
		s.mu.Unlock()
		if there, _ := m.done(world); m.group == "" && key != "bank" && there != n {
			s.violate("the simulation itself", nil, "%s: counted %d times, and is there %d times", key, n, there)
		}
		s.mu.Lock()
		if n == 0 {
			s.violated("lost", nil, "%s", key)
		}
	}
	if s.commands["name-2"] != nil {
		i := slices.IndexFunc(world.Applications, func(a lendingtest.Application) bool { return a.ID == s.application.String() })
		if name := world.Applications[i].BusinessName; name != "Name 2" {
			s.violated("older value over a newer", nil, "the business is called %q", name)
		}
	}
	for _, line := range s.lines {
		if strings.Contains(line, "!(") {
			s.violated("the simulation itself", nil, "%s", line)
		}
	}
}
