// Mutants runs in the root of the repository and breaks the code at each line of a list: mutants
// [-check] list [regexp]. It prints the mutants that no test detects. The files do not change,
// because go test -overlay replaces them. With -check, Mutants only reports entries whose lines
// or tests do not exist.
//
// An entry has a file and its tests, the lines to remove, the lines to add and, if the mutant
// may survive, the reason. The tests may be in any package of the file's module:
//
//	call_send.go TestNothingIsSentTwice|TestGuardHolds
//	- hr = guard(hr)
//	+ _ = guard(hr)
//	= a reason
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type mutant struct {
	file, tests, reason string
	out, in             string // lines, each with its newline

	module   string
	packages []string // the packages with at least one of the tests
	broken   string   // the file's text with the mutation
}

// read returns the mutants of a list, in order.
func read(list string) (mutants []*mutant) {
	text, err := os.ReadFile(list)
	check(err)
	m := &mutant{}
	for line := range strings.Lines(string(text)) {
		mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "", "#":
		case "-":
			m.out += rest + "\n"
		case "+":
			m.in += rest + "\n"
		case "=":
			m.reason = rest
		default:
			m = &mutant{file: mark, tests: rest}
			mutants = append(mutants, m)
		}
	}
	return mutants
}

// resolve finds the packages of the tests and the lines to replace. It returns the missing part,
// or "".
func (m *mutant) resolve(tests map[string][]test) string {
	for m.module = filepath.Dir(m.file); !exists(filepath.Join(m.module, "go.mod")); m.module = filepath.Dir(m.module) {
		if m.module == "." {
			return "no module"
		}
	}
	if tests[m.module] == nil {
		tests[m.module] = testsOf(m.module)
	}
	for name := range strings.SplitSeq(m.tests, "|") {
		pattern, err := regexp.Compile(strings.Split(name, "/")[0])
		if err != nil {
			return err.Error()
		}
		found := false
		for _, t := range tests[m.module] {
			if pattern.MatchString(t.name) {
				found = true
				m.packages = append(m.packages, t.pkg)
			}
		}
		if !found {
			return "no test is called " + name
		}
	}
	slices.Sort(m.packages)
	m.packages = slices.Compact(m.packages)
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "no such file"
	}
	code := "\n" + regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(text), "")
	if n := strings.Count(code, "\n"+m.out); n != 1 || m.out == "" {
		return fmt.Sprintf("these lines stand there %d times, not once", n)
	}
	m.broken = strings.Replace(code, "\n"+m.out, "\n"+m.in, 1)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type test struct{ name, pkg string }

// testsOf returns the tests of a module and their packages.
func testsOf(module string) (tests []test) {
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	check(filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != module && (strings.HasPrefix(entry.Name(), ".") || exists(filepath.Join(path, "go.mod"))):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		below, err := filepath.Rel(module, filepath.Dir(path))
		check(err)
		text, err := os.ReadFile(path)
		for _, found := range name.FindAllSubmatch(text, -1) {
			tests = append(tests, test{string(found[1]), "./" + filepath.ToSlash(below)})
		}
		return err
	}))
	return tests
}

// run runs the tests against the mutant and returns the verdict.
func (m *mutant) run(dir string) string {
	path, err := filepath.Abs(m.file)
	check(err)
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	check(err)
	check(os.WriteFile(broken, []byte(m.broken), 0o600))
	check(os.WriteFile(overlay, replace, 0o600))
	args := []string{"-C", m.module, "test", "-count=1", "-vet=off", "-failfast", "-timeout=3m", "-overlay", overlay, "-run", m.tests}
	out, err := exec.Command("go", append(args, m.packages...)...).CombinedOutput()
	switch ran := regexp.MustCompile(`(?m)^ok\s+\S+\s+[0-9.]+s$`); {
	case strings.Contains(string(out), "[build failed]") || err == nil && !ran.Match(out):
		check(fmt.Errorf("%s: does not compile, or runs no test:\n%s%s", m.file, m.in, out))
	case err != nil:
		return "killed"
	case m.reason != "":
		return "may live: " + m.reason
	}
	return "SURVIVES"
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}

func main() {
	only := flag.Bool("check", false, "report the entries that are out of date, and run nothing")
	flag.Parse()
	chosen, err := regexp.Compile(flag.Arg(1))
	check(err)
	mutants := slices.DeleteFunc(read(flag.Arg(0)), func(m *mutant) bool { return !chosen.MatchString(m.file + " " + m.tests) })
	tests, stale := map[string][]test{}, 0
	for _, m := range mutants {
		if problem := m.resolve(tests); problem != "" {
			stale++
			fmt.Printf("%s %s: %s:\n%s", m.file, m.tests, problem, m.out)
		}
	}
	if stale > 0 {
		check(fmt.Errorf("%d of %d entries are out of date", stale, len(mutants)))
	}
	if *only {
		return
	}
	dir, err := os.MkdirTemp("", "mutants")
	check(err)
	count := map[string]int{}
	for _, m := range mutants {
		verdict := m.run(dir)
		count[verdict]++
		fmt.Printf("%-22s %-50.50s  %s\n", m.file, strings.ReplaceAll(m.out, "\n", " "), verdict)
	}
	check(os.RemoveAll(dir))
	fmt.Printf("%d killed, %d survive that should not\n", count["killed"], count["SURVIVES"])
	os.Exit(min(count["SURVIVES"], 1))
}
