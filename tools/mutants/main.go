// Mutants, called in the root of the module with a list, an expression that chooses from it and packages, breaks
// the code, one guard at a time, and says which breaks their tests do not see. The code itself is not touched:
// go test -overlay sees the broken file in its place. An entry of the list has a file and the tests that
// should see it, the lines to take out, those to put there instead, and, if it may live, why:
//
//	call_exchange.go TestNothingIsSentTwice
//	- hr = guard(hr)
//	+ _ = guard(hr)
//	= a reason
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

type mutant struct {
	file, tests, reason string
	out, in             string // lines, each with its end
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

// overlay writes the file of m with its lines exchanged, and what tells go test of it, to dir.
func (m *mutant) overlay(dir string) string {
	path, err := filepath.Abs(m.file)
	check(err)
	text, err := os.ReadFile(path)
	check(err)
	code := "\n" + regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(text), "")
	if n := strings.Count(code, "\n"+m.out); n != 1 || m.out == "" {
		check(fmt.Errorf("%s: these lines stand there %d times, not once:\n%s", m.file, n, m.out))
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	check(err)
	check(os.WriteFile(broken, []byte(strings.Replace(code, "\n"+m.out, "\n"+m.in, 1)), 0o600))
	check(os.WriteFile(overlay, replace, 0o600))
	return overlay
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}

func main() {
	dir, err := os.MkdirTemp("", "mutants")
	check(err)
	ran, count := regexp.MustCompile(`(?m)^ok\s+\S+\s+[0-9.]+s$`), map[string]int{}
	for _, m := range read(os.Args[1]) {
		if !regexp.MustCompile(os.Args[2]).MatchString(m.file + " " + m.tests) {
			continue
		}
		args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout=3m", "-overlay", m.overlay(dir), "-run", m.tests}
		out, err := exec.Command("go", append(args, os.Args[3:]...)...).CombinedOutput()
		verdict := "SURVIVES"
		switch {
		case strings.Contains(string(out), "[build failed]") || err == nil && !ran.Match(out):
			check(fmt.Errorf("%s: it does not compile, or no test is called so:\n%s%s", m.file, m.in, out))
		case err != nil:
			verdict = "killed"
		case m.reason != "":
			verdict = "may live: " + m.reason
		}
		count[verdict]++
		fmt.Printf("%-22s %-50.50s  %s\n", m.file, strings.ReplaceAll(m.out, "\n", " "), verdict)
	}
	check(os.RemoveAll(dir))
	fmt.Printf("%d killed, %d survive that should not\n", count["killed"], count["SURVIVES"])
	os.Exit(min(count["SURVIVES"], 1))
}
