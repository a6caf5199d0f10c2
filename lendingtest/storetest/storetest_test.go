package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
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

func (*recorder) Helper()             {}
func (*recorder) Log(...any)          {}
func (*recorder) Logf(string, ...any) {}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, arguments...))
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

// eachFlaw fails unless a store without a flaw keeps every rule, a store with a flaw breaks
// exactly the listed rules, and each rule finds at least one flaw. A question mark marks a rule
// that a flaw breaks only in some interleavings. The tests of the stores run the suites in real
// time.
func eachFlaw[P any](t *testing.T, rules []rule[P], place func(flaw string) P, flaws map[string][]string) {
	t.Helper()
	found := map[string]bool{}
	flaws["has none"] = nil
	for flaw, want := range flaws {
		var broken []string
		for _, rule := range rules {
			synctest.Test(t, func(t *testing.T) {
				r, ended := &recorder{TB: t}, make(chan struct{})
				go func() {
					defer close(ended)
					rule.check(r, place(flaw))
				}()
				<-ended
				wait(2 * long) // for calls that nobody waits for
				if len(r.said) > 0 {
					broken, found[rule.name] = append(broken, rule.name), true
					t.Logf("%s: %s: %s", flaw, rule.name, r.said[0])
				}
			})
		}
		for _, name := range want {
			exists := slices.ContainsFunc(rules, func(r rule[P]) bool { return r.name == strings.TrimSuffix(name, "?") })
			assert.True(t, exists, "there is no rule %q", name)
		}
		for _, rule := range want {
			assert.True(t, strings.HasSuffix(rule, "?") || slices.Contains(broken, rule), "a store that %s keeps: %s",
				flaw, rule)
		}
		for _, rule := range broken {
			assert.True(t, slices.Contains(want, rule) || slices.Contains(want, rule+"?"), "a store that %s breaks: %s",
				flaw, rule)
		}
	}
	for _, rule := range rules {
		assert.True(t, found[rule.name], "no store breaks %q", rule.name)
	}
}

// pause gives other goroutines the time to run, for flaws that are races.
func pause() { wait(time.Millisecond) }

// The flawed stores of these tests sort all their entries for every page.
func TestMain(m *testing.M) {
	many = 400
	leak.Main(m)
}
