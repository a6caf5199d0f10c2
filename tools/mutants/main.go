// Mutants draws places of a module at random, breaks the code at each place, and lists the breaks without a failing test:
//
//	mutants [-n number] [-seed number] [-only regexp] folder
//
// A break is another operator in a comparison, && for ||, || for &&, a lost !, or a statement left out. The folder has a
// copy of the module: mutants rewrites the code for a single build with all breaks.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/packages"
)

func main() {
	n := flag.Int("n", 170, "how many places to draw")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the draw")
	only := flag.String("only", "", "draw among places like ^webhook/ or ^loan.go:240:")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, flag.Arg(0), *n, *seed, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, dir string, n int, seed uint64, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	places, err := rewrite(dir)
	if err != nil {
		return err
	}
	tests, err := build(ctx, dir)
	if err != nil {
		return err
	}
	total := len(places)
	places = slices.DeleteFunc(places, func(p place) bool { return !chosen.MatchString(p.String()) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	drawn := places[:min(n, len(places))]
	fmt.Fprintf(out, "%d of %d places, seed %d\n", len(drawn), total, seed)
	results := make([]result, len(drawn))
	err = each(len(drawn), func(i int) error {
		results[i] = try(ctx, tests, drawn[i])
		fmt.Fprintf(out, "%s: %s\n", results[i], drawn[i])
		return ctx.Err()
	})
	if err == nil {
		report(out, drawn, results)
	}
	return err
}

// each calls f for 0 to n-1, on as many goroutines as there are processors.
func each(n int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// test has the tests of a package, built once.
type test struct {
	dir, binary string
	runs        map[string]bool // the packages in the binary
	took        time.Duration   // without a break
}

// build compiles the tests of each package, and runs them without a break: they must pass.
func build(ctx context.Context, dir string) (tests []*test, err error) {
	loaded, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Tests: true, Mode: packages.NeedName |
		packages.NeedFiles | packages.NeedImports | packages.NeedDeps}, "./...")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, pkg := range loaded {
		dirs[pkg.ID] = pkg.Dir
	}
	for _, pkg := range loaded {
		if tested, isTest := strings.CutSuffix(pkg.ID, ".test"); isTest {
			t := &test{dir: dirs[tested], binary: filepath.Join(dir, fmt.Sprintf("%d.test", len(tests))), runs: map[string]bool{}}
			packages.Visit([]*packages.Package{pkg}, nil, func(p *packages.Package) { t.runs[p.PkgPath] = true })
			tests = append(tests, t)
		}
	}
	return tests, each(len(tests), func(i int) error {
		t := tests[i]
		compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", t.binary, ".")
		compile.Dir = t.dir
		if out, err := compile.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", t.dir, err, out)
		}
		began := time.Now()
		if !t.passes(ctx, 0, 20*time.Minute) {
			printed, _ := os.ReadFile(t.binary + ".log")
			return fmt.Errorf("%s: the tests fail without a break:\n%s", t.dir, printed)
		}
		t.took = time.Since(began)
		return nil
	})
}

// passes runs the tests while the code is broken at the place with this number. Neither a test nor a program of the
// tests outlives the timeout.
func (t *test) passes(ctx context.Context, number int, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	log := os.DevNull
	if number == 0 {
		log = t.binary + ".log"
	}
	out, err := os.Create(log)
	if err != nil {
		return false
	}
	defer out.Close()
	run := exec.CommandContext(ctx, t.binary, "-test.failfast", "-test.parallel=6", "-test.timeout=0")
	run.Dir, run.Stdout, run.Stderr = t.dir, out, out
	run.Env = append(os.Environ(), fmt.Sprintf("MUTANT=%d", number))
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	if err := run.Start(); err != nil {
		return false
	}
	err = run.Wait()
	_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
	return err == nil
}

// result says which tests passed in spite of a break.
type result string

const (
	killed    result = "killed by the nearest tests"
	killedFar result = "killed by other tests"
	alive     result = "ALIVE"
)

// try runs the nearest tests, those in the folder of the place or else in the first folder above with tests, and then
// all others: those with the package in their binary first, and among them the quick ones.
func try(ctx context.Context, tests []*test, p place) result {
	near := p.dir
	distance := func(t *test) int {
		switch {
		case t.dir == near:
			return 0
		case t.runs[p.pkg]:
			return 1
		}
		return 2
	}
	for !slices.ContainsFunc(tests, func(t *test) bool { return t.dir == near }) && filepath.Dir(near) != near {
		near = filepath.Dir(near)
	}
	tests = slices.SortedFunc(slices.Values(tests), func(a, b *test) int {
		return cmp.Or(distance(a)-distance(b), cmp.Compare(a.took, b.took))
	})
	for i, t := range tests {
		if !t.passes(ctx, p.number, 3*t.took+30*time.Second) {
			if i == 0 {
				return killed
			}
			return killedFar
		}
	}
	return alive
}

// report prints the shares of each package with a place in the draw.
func report(out io.Writer, drawn []place, results []result) {
	type count struct{ drawn, near, all int }
	counts := map[string]count{}
	for i, p := range drawn {
		for _, name := range []string{p.pkg, "all"} {
			c := counts[name]
			c.drawn++
			if results[i] != killed {
				c.near++
			}
			if results[i] == alive {
				c.all++
			}
			counts[name] = c
		}
	}
	fmt.Fprintln(out, "\n| package | drawn | alive in the nearest tests | alive in all tests |\n|---|--:|--:|--:|")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c := counts[name]
		fmt.Fprintf(out, "| %s | %d | %d (%d %%) | %d (%d %%) |\n", name, c.drawn, c.near, 100*c.near/c.drawn, c.all, 100*c.all/c.drawn)
	}
}
