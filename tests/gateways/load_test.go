package gateways_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// setup is a configuration and what is known of the gateway: which mutations it repeats.
type setup struct {
	configuration string
	repeats       string // the methods
	leavesAll     bool   // may take every instance for dead for a while, and then reads fail
}

var setups = []setup{
	{"nginx/default", "GET", true},
	{"nginx/keepalive", "GET", false},
	{"nginx/production", "", false},
	{"haproxy/default", "", false},
	{"haproxy/retries", "GET POST", false},
	{"haproxy/production", "", false},
	{"apache2/default", "", true},
	{"apache2/http2", "GET POST", false},
	{"apache2/production", "", false},
	{"caddy/default", "GET", false},
	{"caddy/retries", "GET", false},
	{"caddy/production", "", false},
}

// faulty is a way in which the service or the gateway fails during a load.
type faulty struct {
	name    string
	isShort bool // part of the short form
	fault   *fault
	idle    time.Duration                             // of the connections of the service
	disturb func(t *testing.T, g *gateway, o *origin) // the load goes on until it returns
}

const killed = "gateway killed"

var faults = []faulty{
	{name: "none"},
	{name: "hangs up after 2 %", isShort: true, fault: &hangUp},
	{name: "1 % above the read timeout", fault: &slow},
	{name: "502 after 2 %", fault: &broken},
	{name: "idle for 10 ms", idle: 10 * time.Millisecond},
	{name: "instances killed", isShort: true, disturb: killInTurn},
	{name: "gateway reloaded", isShort: true, disturb: func(t *testing.T, g *gateway, _ *origin) {
		t.Helper()
		for range 3 {
			<-time.After(200 * time.Millisecond)
			assert.NoError(t, g.reload(g))
		}
	}},
	{name: killed, isShort: true, disturb: func(t *testing.T, g *gateway, _ *origin) {
		t.Helper()
		for range 2 {
			<-time.After(300 * time.Millisecond)
			g.kill()
			g.run()
		}
	}},
}

func killInTurn(t *testing.T, _ *gateway, o *origin) {
	t.Helper()
	for range 2 {
		for _, i := range []*instance{o.a, o.b} {
			<-time.After(150 * time.Millisecond)
			_ = i.server.Close()
			<-time.After(20 * time.Millisecond)
			i.run(t)
		}
	}
}

// tally is the result of a load.
type tally struct {
	mu                            sync.Mutex
	sent, unknown, needless, lost int            // mutations; needless ones had not run, lost ones were not sent
	twice                         map[string]int // mutations that ran twice, by method
	reads, failedReads, wrong     int
	examples                      []string
}

// load makes calls from a number of callers, and more until disturbed is closed: a GET that changes state, a
// POST with a body, a POST without, and a read.
func load(t *testing.T, client *lending.Client, o *origin, callers, calls int, disturbed <-chan struct{}) *tally {
	t.Helper()
	result := &tally{twice: map[string]int{}}
	isOver := func(n int64) bool {
		select {
		case <-disturbed:
			return n > int64(calls)
		default:
			return false
		}
	}
	var next atomic.Int64
	var all sync.WaitGroup
	var counted sync.Map
	for range callers {
		all.Go(func() {
			for n := next.Add(1); !isOver(n); n = next.Add(1) {
				id := lending.ApplicationID(uuid.New())
				counted.Store(id.String(), makeCall(t.Context(), client, id, n%4))
			}
		})
	}
	all.Wait()
	counted.Range(func(id, called any) bool {
		result.judge(o.runs(id.(string)), called.(call))
		return true
	})
	return result
}

// closed is for a load that nothing disturbs.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// call is a call that has ended.
type call struct {
	method string // "" for a read
	err    error
}

func makeCall(ctx context.Context, client *lending.Client, id lending.ApplicationID, kind int64) call {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch kind {
	case 0:
		_, err := client.Applications.Process(ctx, id)
		return call{"GET", err}
	case 1:
		details := lending.CompanyDataRequest{Extra: map[string]any{"a": 1}}
		return call{"POST", client.Approval.AddCompanyDetails(ctx, id, details)}
	case 2:
		return call{"POST", client.Applications.Cancel(ctx, id)}
	}
	_, err := client.Applications.Status(ctx, id)
	return call{"", err}
}

// judge compares what the client told of a call with the executions.
func (r *tally) judge(runs int, c call) {
	if c.method == "" {
		r.reads++
		if c.err != nil {
			r.failedReads++
			r.examples = append(r.examples, c.err.Error())
		}
		return
	}
	r.sent++
	if runs > 1 {
		r.twice[c.method]++
	}
	isWrong := runs == 0
	if c.err != nil {
		switch lending.OutcomeOf(c.err) {
		case lending.OutcomeUnknown:
			isWrong = false
			r.unknown++
			if runs == 0 {
				r.needless++
			}
		case lending.OutcomeNotSent:
			r.lost++
			isWrong = runs > 0
		case lending.OutcomeRejected:
			isWrong = runs > 0
		case lending.OutcomeDone:
		}
		r.examples = append(r.examples, fmt.Sprintf("ran %d times: %v", runs, c.err))
	}
	if isWrong {
		r.wrong++
		r.examples = append([]string{fmt.Sprintf("WRONG: ran %d times: %v", runs, c.err)}, r.examples...)
	}
}

// TestLoad holds, for each configuration and each fault, that the client sends once, that no outcome is
// false, that reads succeed, and that no gateway repeats more than its row allows.
func TestLoad(t *testing.T) {
	results := map[[2]string]*tally{} // by configuration and fault
	t.Cleanup(func() {
		var rows []string
		for _, s := range setups {
			rows = append(rows, s.configuration)
		}
		write(t, "ran twice", grid("configuration", rows, results, (*tally).ranTwice))
		write(t, "unknown", grid("configuration", rows, results, (*tally).perTenThousand))
	})
	for _, s := range setups {
		for _, f := range faults {
			sum := &tally{twice: map[string]int{}}
			for _, callers := range sizes(16, 1, 48) {
				if document == "" && !f.isShort {
					continue
				}
				results[[2]string{s.configuration, f.name}] = sum
				t.Run(fmt.Sprintf("%s/%s/%d callers", s.configuration, f.name, callers), func(t *testing.T) {
					t.Parallel()
					sum.add(s.suffer(t, f, callers))
				})
			}
		}
	}
}

func (s setup) suffer(t *testing.T, f faulty, callers int) *tally {
	t.Helper()
	o := newOrigin(t, f.idle)
	g := start(t, s.configuration, o, func(g *gateway) { g.Seconds = 1 })
	r := f.load(t, g, o, g.client(), callers)
	arrivals := g.arrivals()
	assert.NotEmpty(t, arrivals)
	for _, lines := range arrivals {
		require.Len(t, lines, 1, "the client sends once")
	}
	for method, n := range r.twice {
		assert.Contains(t, s.repeats, method, "%d ran twice", n)
	}
	if s.configuration == "haproxy/retries" && f.fault == &hangUp {
		assert.NotEmpty(t, r.twice, "the ledger has the repetitions of a gateway that repeats everything")
	}
	if f.name == "none" {
		assert.Zero(t, r.unknown+r.lost, "%s", r.examples)
	}
	if s.configuration != "apache2/http2" { // the copy of a POST has no body
		assert.Zero(t, r.wrong, "false outcomes: %s", r.examples)
	}
	if !s.leavesAll && f.name != killed { // through a killed gateway nobody can read
		assert.Zero(t, r.failedReads, "%s", r.examples)
	}
	return r
}

// load makes calls, and has the fault meanwhile.
func (f faulty) load(t *testing.T, g *gateway, o *origin, client *lending.Client, callers int) *tally {
	t.Helper()
	disturbed := make(chan struct{})
	_, err := client.Applications.Status(t.Context(), lending.ApplicationID(uuid.New())) // connects
	require.NoError(t, err)
	o.fault.Store(f.fault)
	go func() {
		defer close(disturbed)
		if f.disturb != nil {
			f.disturb(t, g, o)
		}
	}()
	calls := 400
	if document != "" {
		calls = 100 * min(callers, 20)
	}
	r := load(t, client, o, callers, calls, disturbed)
	t.Logf("%s: %s", t.Name(), r)
	return r
}

func (r *tally) String() string {
	return fmt.Sprintf("%d mutations: %d unknown (%d had not run), %d not sent, ran twice %s, %d false; "+
		"%d reads: %d failed", r.sent, r.unknown, r.needless, r.lost, r.ranTwice(), r.wrong, r.reads, r.failedReads)
}

func (r *tally) add(other *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent += other.sent
	r.unknown += other.unknown
	r.needless += other.needless
	r.lost += other.lost
	r.wrong += other.wrong
	for method, n := range other.twice {
		r.twice[method] += n
	}
}

func (r *tally) ranTwice() string {
	if len(r.twice) == 0 {
		return "0"
	}
	var parts []string
	for _, method := range slices.Sorted(maps.Keys(r.twice)) {
		parts = append(parts, fmt.Sprint(r.twice[method], " ", method))
	}
	return strings.Join(parts, ", ")
}

// perTenThousand returns the unknown mutations, and in parentheses those that had not run.
func (r *tally) perTenThousand() string {
	per := func(n int) int { return (n*10_000 + r.sent/2) / max(r.sent, 1) }
	text := fmt.Sprintf("%d (%d)", per(r.unknown), per(r.needless))
	if r.wrong > 0 {
		text += fmt.Sprintf(", %d **false**", per(r.wrong))
	}
	return text
}

// grid returns a table with a column for each fault.
func grid(title string, rows []string, results map[[2]string]*tally, cell func(*tally) string) string {
	head, rule, sent := "| "+title+" |", "|---|", 0
	for _, f := range faults {
		head += " " + f.name + " |"
		rule += "--:|"
	}
	text := head + "\n" + rule + "\n"
	for _, row := range rows {
		text += "| " + row + " |"
		for _, f := range faults {
			r := results[[2]string{row, f.name}]
			if r == nil || r.sent == 0 {
				text += " left out |"
				continue
			}
			if sent == 0 || r.sent < sent {
				sent = r.sent
			}
			text += " " + cell(r) + " |"
		}
		text += "\n"
	}
	return text + fmt.Sprintf("\nEach cell: at least %d mutations of 1, 16 and 48 callers, a third of them GETs.\n", sent)
}
