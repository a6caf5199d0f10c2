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
)

// recorder takes what a rule says of a store, on fake time.
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

// eachFlaw holds that a store without a flaw keeps every rule, that one with a flaw breaks
// those that are named and no other, and that each rule finds a flaw. With a question mark
// it depends on who comes first.
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
				wait(2 * long) // for calls that nobody waits for any more
				if len(r.said) > 0 {
					broken, found[rule.name] = append(broken, rule.name), true
					t.Logf("%s: %s: %s", flaw, rule.name, r.said[0])
				}
			})
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

// pause lets others go first, where a flaw is that they can.
func pause() { wait(time.Millisecond) }

// The flawed stores of these tests sort what they keep for every page.
func TestMain(m *testing.M) {
	many = 400
	m.Run()
}
