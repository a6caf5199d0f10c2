// Package leak fails a test run if goroutines are left.
package leak

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

const waiting = 6 // tests at a time

// Main runs the tests and exits: func TestMain(m *testing.M) { leak.Main(m) }. The run fails if
// goroutines are left a minute after the last test. The goroutine that fuzzing leaves behind is
// allowed. Six tests run at a time, unless the command line says otherwise: they wait for most of
// their time.
func Main(m *testing.M) {
	if runtime.GOMAXPROCS(0) < waiting {
		_ = flag.Set("test.parallel", strconv.Itoa(waiting))
	}
	debug.SetGCPercent(400) // else collecting garbage takes a third of the processor time
	debug.SetMemoryLimit(512 << 20)
	before := runtime.NumGoroutine()
	code := m.Run()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	for start := time.Now(); code == 0 && runtime.NumGoroutine() > before && !fuzzing; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", Goroutines())
			code = 1
		}
	}
	os.Exit(code)
}

// Goroutines returns the stacks of all goroutines.
func Goroutines() string {
	text := make([]byte, 4<<20)
	return string(text[:runtime.Stack(text, true)])
}
