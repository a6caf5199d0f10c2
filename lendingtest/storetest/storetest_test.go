package storetest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/leak"
)

// recorder records the failures of a rule.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (*recorder) Helper()     {}
func (*recorder) Log(...any)  {}
func (*recorder) Skip(...any) { runtime.Goexit() }

func (r *recorder) Errorf(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, arguments...))
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

// eachFlaw fails unless each rule finds its flaws, and a store that has none, or only does what sound
// says, keeps every rule. The tests of the stores run the suites in real time.
func eachFlaw[S any](
	t *testing.T, rules []rule[S], open func(tb testing.TB, flaw string) S, flaws map[string][]string, sound ...string,
) {
	t.Helper()
	found := func(t *testing.T, rule rule[S], flaw string) (said []string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r, ended := &recorder{TB: t}, make(chan struct{})
			go func() {
				defer close(ended)
				rule.check(open(r, flaw))
			}()
			<-ended
			wait(2 * long) // for calls that nobody waits for
			said = r.said
		})
		return said
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, store := range append(sound, "has no flaw") {
				assert.Empty(t, found(t, rule, store), "a store that %s", store)
			}
			assert.NotEmpty(t, flaws[rule.name], "no store breaks the rule")
			for _, flaw := range flaws[rule.name] {
				assert.NotEmpty(t, found(t, rule, flaw), "a store that %s", flaw)
			}
		})
		delete(flaws, rule.name)
	}
	assert.Empty(t, flaws, "there are no such rules")
}

// pause gives other goroutines the time to run, for flaws that are races.
func pause() { wait(time.Millisecond) }

// The flawed stores of these tests sort all their entries for every page.
func TestMain(m *testing.M) {
	many = 400
	leak.Main(m)
}
