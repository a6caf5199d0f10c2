package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each command looks at a small module with every mistake that the command must find, and with
// similar text that is no mistake.
func TestEachMistakeIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		command func([]string) ([]string, error)
		args    []string
		files   map[string]string
		want    string
	}{
		"comments": {
			command: comments, args: []string{"."},
			files: map[string]string{"p.go": `// Package p: [A], [T.M], [fmt.Println], [net/http], [redacted],
// [t.f], [Nope], [T.Nope].
//
//	[Code]
package p

import "fmt"

// Both.
const (
	A = 1
	B = 2 // has one
)

// T is [redacted] and [*T].
type T struct {
	F int // [os.Filex]
}

type t struct{ f int }

// M is [fmt.Nope], [net/nope] and [t.f].
func (T) M() { fmt.Println(t{f: 1}) }
`},
			want: `example.com/p/p.go:1: [t.f] names nothing
example.com/p/p.go:1: [Nope] names nothing
example.com/p/p.go:1: [T.Nope] names nothing
example.com/p/p.go:11: A has no comment of its own
example.com/p/p.go:17: [os.Filex] names nothing
example.com/p/p.go:22: [fmt.Nope] names nothing
example.com/p/p.go:22: [net/nope] names nothing
example.com/p/p.go:22: [t.f] names nothing
`,
		},
		// Only a.go and b.go use each other: through a generic method and a field. c.go leads away.
		"cycles": {
			command: cycles, args: []string{"cycles.txt", "./..."},
			files: map[string]string{
				"cycles.txt":  "# allowed\ndefault 1\nexample.com/p/q 2\n",
				"a.go":        "package p\n\nvar a = T[int]{}.M() + c\n\ntype s struct{ f int }\n",
				"b.go":        "package p\n\ntype T[V any] struct{ x s }\n\nfunc (t T[V]) M() int { return t.x.f }\n",
				"c.go":        "package p\n\nvar c = func() int { var f int; return f }()\n",
				"c_test.go":   "package p\n\nvar _ = a\n",
				"q/q.go":      "package q\n\nvar a, b = 1, c\n",
				"q/r.go":      "package q\n\nvar c, d = a, 1\n",
				"alone/p.go":  "package alone\n\nvar a = b\n",
				"alone/q.go":  "package alone\n\nvar b = 1\n",
				"nested/p.go": "package nested\n\nimport \"example.com/p/q\"\n\nvar _ = q.Name\n",
				"q/name.go":   "package q\n\nconst Name = 1\n",
			},
			want: `example.com/p: 2 edges on cycles of files, 1 allowed
  0 without a.go -> b.go: M, T
  0 without b.go -> a.go: f, s
`,
		},
		"links": {
			command: links, args: []string{"README.md", "sub/other.md"},
			files: map[string]string{
				"README.md": "# One\n\n[a](#one) [b](sub/other.md#two-words) [c](sub)\n" +
					"[d](https://example.com/x) `[code](none.md)`\n[e](none.md) [f](#none) [g](sub/other.md#none) [h](../out.md)\n",
				"sub/other.md": "## Two words\n",
			},
			want: `README.md: none.md: no such file
README.md: #none: no such heading
README.md: sub/other.md#none: no such heading
README.md: ../out.md: leads out of the repository
`,
		},
		"words": {
			command: words,
			files: map[string]string{
				"p.go": "// Package p is what one wants.\npackage p\n\n// A says what it is.\nconst A = 1 // that is it\n\n" +
					"//\twhat and what and what\nvar _ = 2\n",
				"README.md":   "Plain words.\n\n```sh\nwhat and what and what\n```\n\nAnd `what and what`.\n",
				"q/q.go":      "// Package q is plain.\npackage q\n",
				"q/q_test.go": "package q\n\nfunc TestWhatOneHas() {\n\t// what is it\n\t_ = what\n}\n",
			},
			want: ".: 14 words, what 2 of 1, it 2 of 1, that 1 of 1, one 1 of 1\n" +
				"tests of q: 7 words, what 2 of 1, it 1 of 1, that 0 of 1, one 1 of 1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("GOFLAGS", "-mod=mod")
			test.files["go.mod"] = "module example.com/p\n\ngo 1.26\n"
			for file, text := range test.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			problems, err := test.command(test.args)
			got := strings.Join(append(problems, ""), "\n")
			if err != nil || got != test.want {
				t.Errorf("%v, got:\n%swant:\n%s", err, got, test.want)
			}
		})
	}
}
