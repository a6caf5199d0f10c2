// Flaky repeats the tests of modules to find flaky tests: flaky [flags] module...
//
// Flaky compiles each package once. It runs the binary with GOMAXPROCS 1, 2 and 4, in random
// order, and keeps the processors busy meanwhile. Tests with a dependence on time, order or
// other processes run -count times, divided among the values of GOMAXPROCS; other tests run -rest
// times. At the end Flaky lists the failed tests, the number of their failures and the command to
// repeat the failing run.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A process repeats its tests at most batch times: enough to be worth its start, few enough to
// show progress.
const batch = 5

var (
	count = flag.Int("count", 50, "how often to run a test that can depend on time, order or other processes")
	rest  = flag.Int("rest", 5, "how often every other test runs")
	procs = flag.String("procs", "1,2,4", "the values of GOMAXPROCS")
	only  = flag.String("only", "", "a regexp of folder and test, as in './webhook TestWork'")
	busy  = flag.Bool("load", true, "keep the processors busy; false beside another flaky")
	out   = flag.String("out", "", "the folder for test binaries and for the output of failed runs; a temporary one by default")
)

func main() {
	flag.Parse()
	all, err := flaky(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
		os.Exit(2)
	}
	all.report()
	os.Exit(min(len(all.failures), 1))
}

// flaky runs the tests of the modules.
func flaky(modules []string) (*result, error) {
	runs, err := prepare(modules)
	if err != nil {
		return nil, err
	}
	if *busy {
		defer load()()
	}
	all := &result{ran: map[string]int{}, failures: map[string][]failure{}}
	for i, r := range runs {
		began := time.Now()
		failures, err := r.start()
		if err != nil {
			return nil, err
		}
		all.add(r, failures)
		fmt.Printf("%*d/%d  %6.1f s  %s: %d tests, %d times, GOMAXPROCS %d: %s\n", len(strconv.Itoa(len(runs))), i+1, len(runs),
			time.Since(began).Seconds(), r.of.dir, len(r.tests), r.count, r.procs, verdict(failures))
	}
	return all, nil
}

func verdict(failures []failure) string {
	if len(failures) == 0 {
		return "ok"
	}
	tests := make([]string, len(failures))
	for i, f := range failures {
		tests[i] = f.test
	}
	return "FAILED " + strings.Join(tests, " ")
}

// prepare compiles the packages with chosen tests and plans their runs.
func prepare(modules []string) (runs []run, err error) {
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	if *out == "" {
		if *out, err = os.MkdirTemp("", "flaky"); err != nil {
			return nil, err
		}
	}
	if *out, err = filepath.Abs(*out); err != nil {
		return nil, err
	}
	for _, module := range modules {
		packages, err := find(module, chosen)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			fmt.Println("compile", p.dir)
			if err := p.compile(*out); err != nil {
				return nil, err
			}
			planned, err := plan(p)
			if err != nil {
				return nil, err
			}
			runs = append(runs, planned...)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no test matches %q", *only)
	}
	return runs, nil
}

// A run is a process of a test binary.
type run struct {
	of           *pkg
	tests        []string
	count, procs int
	seed         uint64
}

// plan spreads the repetitions of a package's tests over processes and over the values of
// GOMAXPROCS: first all tests together, then the suspects.
func plan(p *pkg) (runs []run, err error) {
	values := strings.Split(*procs, ",")
	together := min(*rest, *count)
	for _, phase := range []struct {
		tests []string
		count int
	}{{p.tests, together}, {p.suspects, *count - together}, {p.others(), *rest - together}} {
		for i, text := range values {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			share := phase.count*(i+1)/len(values) - phase.count*i/len(values)
			for left := share; left > 0 && len(phase.tests) > 0; left -= batch {
				runs = append(runs, run{of: p, tests: phase.tests, count: min(left, batch), procs: n, seed: 1 + rand.Uint64N(1_000_000)})
			}
		}
	}
	return runs, nil
}

// A failure is a test that failed in a run, once or more.
type failure struct {
	run
	test   string
	failed int
	output string // path of a file
}

// start runs the tests and returns the tests that failed or were running when the process ended.
func (r run) start() ([]failure, error) {
	// test2json makes the binary mark its own lines with ^V, so that no output of a test looks
	// like them.
	command := exec.Command(r.of.binary, append(r.flags("-test."), "-test.v=test2json", "-test.paniconexit0")...)
	command.Dir = r.of.path
	command.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(r.procs))
	text, err := command.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	output := strings.TrimSuffix(r.of.binary, ".test") + fmt.Sprintf("-%d-%d.txt", r.procs, r.seed)
	if err := os.WriteFile(output, text, 0o600); err != nil {
		return nil, err
	}
	var failures []failure
	for test, failed := range failuresIn(string(text)) {
		failures = append(failures, failure{run: r, test: test, failed: failed, output: output})
	}
	if len(failures) == 0 {
		failures = append(failures, failure{run: r, test: "(" + err.Error() + ")", failed: 1, output: output})
	}
	return failures, nil
}

var marked = regexp.MustCompile(`(?m)\x16(=== RUN  |--- (?:PASS|FAIL|SKIP):) ([^/\s]+)(?: \(|$)`)

// failuresIn returns how often each test failed, or was running when the process ended.
func failuresIn(output string) map[string]int {
	failed := map[string]int{}
	for _, found := range marked.FindAllStringSubmatch(output, -1) {
		switch found[1] {
		case "=== RUN  ":
			failed[found[2]]++
		case "--- PASS:", "--- SKIP:":
			failed[found[2]]--
		}
	}
	maps.DeleteFunc(failed, func(_ string, times int) bool { return times == 0 })
	return failed
}

// flags returns the flags to repeat the run.
func (r run) flags(prefix string) []string {
	flags := []string{"count=" + strconv.Itoa(r.count), "shuffle=" + strconv.FormatUint(r.seed, 10), "parallel=6", "timeout=30m"}
	if len(r.tests) < len(r.of.all) {
		flags = append(flags, "run=^("+strings.Join(r.tests, "|")+")$")
	}
	for i, flag := range flags {
		flags[i] = "-" + prefix + flag
	}
	return flags
}

// command returns the shell command to repeat the run.
func (r run) command() string {
	words := append([]string{"GOMAXPROCS=" + strconv.Itoa(r.procs), "go"}, "-C", r.of.module, "test", r.of.pattern)
	if r.of.module == "." {
		words = slices.Delete(words, 2, 4)
	}
	for _, flag := range r.flags("") {
		if strings.ContainsAny(flag, "|^$()") {
			flag = "'" + flag + "'"
		}
		words = append(words, flag)
	}
	return strings.Join(words, " ")
}
