package idempotency_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/seeds"
)

// The simulation of mutations with a key. LENDING_TEST_COMMANDS=20000 makes so many runs, and
// LENDING_TEST_SEED=7 begins with that one: a failure prints its seed. Who calls when, and
// what fails how, follows from the seed. What does not is how long a read waits before it is
// repeated: run a rare failure with -count=20.
const (
	commandsVariable = "LENDING_TEST_COMMANDS"
	fewSchedules     = 300
)

// TestMutationsSimulation has several processes take the same customers through the same
// commands on fake time, with one log, while store, service and processes fail in every
// way that we could think of: at every step a process can be killed, or stand still for
// longer than its lease and MaxLateness. It holds that
//
//   - nothing is executed twice that was not declared repeatable, counted in the service;
//   - nothing is lost: what was returned as done has happened, and who keeps calling comes
//     to an end when the faults have ended;
//   - what is left then is named by InDoubt, and a person can decide it;
//   - a request is in the log before it is sent;
//   - all replays of a key are equal, and the answer of the service or made of its id;
//   - of commands that set a value the newest that was called for is the one that stays;
//   - each error says the truth: not sent, rejected and done are what the service saw.
//
// Reads can lag. A command can be executed late, as long as reads show it within MaxLateness
// after the end of the call that sent it, or of its deadline if its process has died. Beyond that
// it would be done twice, as TestMutationLaterThanMaxLatenessHappensTwice shows.
func TestMutationsSimulation(t *testing.T) {
	few := fewSchedules
	if !longrun.Wanted() {
		few /= 5
	}
	count, first := seeds.FromEnvironment(t, commandsVariable, few), seeds.FromEnvironment(t, seeds.Variable, 1)
	var all schedulesTally
	t.Run("schedules", func(t *testing.T) {
		shards := min(count, runtime.GOMAXPROCS(0))
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := first + shard; seed < first+count; seed += shards {
					s := newSchedule(seed)
					synctest.Test(t, func(*testing.T) { s.run() })
					all.add(t, s)
				}
			})
		}
	})
	for kind, seeds := range all.failed {
		slices.Sort(seeds)
		t.Errorf("%s: %d of %d seeds: %v", kind, len(seeds), count, seeds[:min(len(seeds), 40)])
	}
	t.Logf("%d schedules from seed %d: %v", count, first, all.counted)
	if count >= few && !t.Failed() {
		for _, what := range []string{
			"crash", "freeze", "late execution", "resolved by a person", "rebuilt",
			"replayed", "lock held", "needs review", "in progress", "sent twice, declared",
		} {
			assert.Positive(t, all.counted[what], "no schedule had: %s", what)
		}
	}
}

// schedulesTally counts over all schedules.
type schedulesTally struct {
	mu      sync.Mutex
	counted map[string]int
	failed  map[string][]int // the seeds, by what was violated
}

func (y *schedulesTally) add(t *testing.T, s *schedule) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counted == nil {
		y.counted, y.failed = map[string]int{}, map[string][]int{}
	}
	for what, n := range s.counted {
		y.counted[what] += n
	}
	for _, kind := range slices.Sorted(maps.Keys(s.trace.violated)) {
		if y.failed[kind] = append(y.failed[kind], s.seed); len(y.failed[kind]) <= 2 {
			t.Errorf("schedule with seed %d: %s: %s\nto see it again: %s=1 %s=%d go test -count=20 -run "+
				"TestMutationsSimulation ./idempotency\nwhat came before:\n%s",
				s.seed, kind, s.trace.violated[kind].text, commandsVariable, seeds.Variable, s.seed,
				strings.Join(s.trace.violated[kind].before, "\n"))
		}
	}
}
