package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const head = `package p

import (
	"os"
	"runtime"
	"testing"
)

var (
	_      = os.Exit
	_      = runtime.GOMAXPROCS
	before = 0
)

func failIf(t *testing.T, fails bool) {
	if fails {
		t.Fail()
	}
}
`

// Flaky finds what depends on order, on the number of processors and on luck, and the command that it prints repeats
// the failure.
func TestFlakyFindsWhatFailsNowAndThen(t *testing.T) {
	program := filepath.Join(t.TempDir(), "flaky")
	if out, err := command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, test := range []struct {
		name, code, only, rest string
		fails                  string // the start of the line that says so, or "" for none
	}{
		{name: "order", rest: "180", fails: " TestSecond failed ", code: `
			func TestFirst(t *testing.T) { before++ }
			func TestSecond(t *testing.T) { failIf(t, before == 0) }`},
		{name: "processors", fails: " TestFour failed 2 of 6 times", code: `
			func TestFour(t *testing.T) { failIf(t, runtime.GOMAXPROCS(0) == 4) }`},
		{name: "repetition", fails: " TestFifth failed 6 of 36 times", code: `
			func TestFifth(t *testing.T) {
				go func() {}()
				before++
				failIf(t, before == 5)
			}`},
		{name: "panic", fails: " TestPanic failed ", code: `
			func TestPanic(t *testing.T) {
				go func() { panic(1) }()
				select {}
			}`},
		{name: "exit", fails: " (exit status 3) failed 3 of 3 times", code: `
			func TestMain(m *testing.M) { os.Exit(m.Run() + 3) }
			func TestFine(t *testing.T) {}`},
		{name: "not chosen", only: "TestFine$", code: `
			func TestFails(t *testing.T) { t.Fail() }
			func TestFine(t *testing.T) {}`},
		{name: "nothing", code: `
			func TestFine(t *testing.T) { t.Run("sub test", func(t *testing.T) {}) }`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", "module example.com/p\n\ngo 1.26\n")
			write(t, dir, "p_test.go", head+test.code+"\n")
			out, err := command(program, "-count=36", "-rest="+cmp.Or(test.rest, "6"), "-only="+test.only,
				"-out="+filepath.Join(dir, "out"), dir).CombinedOutput()
			if test.fails == "" {
				if err != nil || !strings.HasSuffix(string(out), " tests failed\n") {
					t.Errorf("ended with %v:\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), "\n"+dir+test.fails) {
				t.Fatalf("ended with %v, without %q:\n%s", err, test.fails, out)
			}
			repeat := regexp.MustCompile(`(?m)^  repeat: (.*)$`).FindSubmatch(out)
			again, err := command("sh", "-c", string(repeat[1])).CombinedOutput()
			name := strings.Fields(test.fails)[0]
			if err == nil || strings.HasPrefix(name, "Test") && !strings.Contains(string(again), name) {
				t.Errorf("%s\nended with %v:\n%s", repeat[1], err, again)
			}
		})
	}
}

func command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	return command
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
