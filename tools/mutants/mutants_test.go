package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The code has what is hard to rewrite: constants, a type of its own for truth, type parameters, labels, missing
// returns, init statements, operands with effects, and recover.
const code = `package p

type truth bool

const small = 1 < 2

func both[T ~bool](a, b T) T { return a && !b }

func Find[T comparable](list []T, want T) (at int, ok bool) {
	var steps [3]bool
	_ = steps
loop:
	for i := range list {
		switch {
		case i > len(steps) && small:
			break loop
		case list[i] ==
			want: // found
			return i, true
		default:
			continue
		}
	}
	return
}

func Count(next func() bool, most int) (n int) {
	for {
		if more := next(); !more || n >= most {
			return n
		}
		n++
	}
}

func Safely(f func()) (failed truth) {
	defer func() { failed = recover() != nil }()
	f()
	if both(failed, false) {
		panic("never")
	}
	return
}
`

const codeTest = `package p

import "testing"

func Test(t *testing.T) {
	if at, ok := Find([]int{1, 2, 3}, 2); at != 1 || !ok {
		t.Fatal(at, ok)
	}
	left := 2
	if n := Count(func() bool { left--; return left >= 0 }, 5); n != 2 || left != -1 {
		t.Fatal(n, left)
	}
	if n := Count(func() bool { return true }, 5); n != 5 {
		t.Fatal(n)
	}
	if !Safely(func() { panic(1) }) || Safely(func() {}) {
		t.Fatal()
	}
}
`

// The tests of the small module notice some breaks, its other package notices one, and no test notices the rest.
func TestBreaksWithoutATestAreFound(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.com/p\n\ngo 1.26\n", "p.go": code, "p_test.go": codeTest,
		"q/q.go": "package q\n\nfunc Less(a, b int) bool { return a < b }\n",
		"r/r_test.go": "package r\n\nimport (\n\t\"example.com/p/q\"\n\t\"testing\"\n)\n\n" +
			"func Test(t *testing.T) {\n\tif q.Less(1, 1) {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	err := run(t.Context(), &out, dir, 100, 1, "")
	head, rest, _ := strings.Cut(out.String(), "\n")
	lines := strings.Split(rest, "\n")
	slices.Sort(lines)
	const want = `14 of 14 places, seed 1


ALIVE: p.go:15: >= for >: i > len(steps)
ALIVE: p.go:16: left out: break loop
ALIVE: p.go:21: left out: continue
killed by other tests: q/q.go:3: <= for <: a < b
killed by the nearest tests: p.go:15: || for &&: i > len(steps) && small
killed by the nearest tests: p.go:17: != for ==: list[i] == want
killed by the nearest tests: p.go:29: && for ||: !more || n >= most
killed by the nearest tests: p.go:29: > for >=: n >= most
killed by the nearest tests: p.go:29: no !: !more
killed by the nearest tests: p.go:32: left out: n++
killed by the nearest tests: p.go:37: == for !=: recover() != nil
killed by the nearest tests: p.go:37: left out: defer func() { failed = recover() != nil }()
killed by the nearest tests: p.go:37: left out: failed = recover() != nil
killed by the nearest tests: p.go:38: left out: f()
| all | 14 | 4 (28 %) | 3 (21 %) |
| example.com/p | 13 | 3 (23 %) | 3 (23 %) |
| example.com/p/q | 1 | 1 (100 %) | 0 (0 %) |
| package | drawn | alive in the nearest tests | alive in all tests |
|---|--:|--:|--:|`
	if got := head + "\n" + strings.Join(lines, "\n"); err != nil || got != want {
		rewritten, _ := os.ReadFile(filepath.Join(dir, "p.go"))
		t.Errorf("%v, got:\n%s\n%s", err, got, rewritten)
	}
}
