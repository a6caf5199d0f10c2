package tools

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each tool looks at a small repository with every mistake that it must find, and with
// what resembles one.
func TestTools(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./doccheck", "./linkcheck",
		"./mutants", "./wordcheck").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	for _, test := range []struct {
		name string

		files map[string]string
		args  []string
		want  []string // lines of the output
		fails bool
	}{
		{
			name: "doccheck",
			files: map[string]string{"p.go": "// Package p: [A], [T.M], [fmt.Println], [Nope], " +
				"[T.Nope].\n//\n//\t[Code]\npackage p\n\nimport \"fmt\"\n\n" +
				"// Both.\nconst (\n\tA = 1\n\tB = 2 // has one\n)\n\n// T is [redacted] and [*T].\ntype T struct {\n\tF int // " +
				"[os.Filex]\n}\n\n" +
				"// M is [fmt.Nope].\nfunc (T) M() { fmt.Println() }\n"},
			args: []string{"./..."},
			want: []string{
				"p.go:1:1: [Nope] names nothing", "p.go:1:1: [T.Nope] names nothing", "p.go:10:2: A has no comment of its own",
				"p.go:16:8: [os.Filex] names nothing", "p.go:19:1: [fmt.Nope] names nothing",
			},
			fails: true,
		},
		{
			name:  "doccheck finds nothing",
			files: map[string]string{"p.go": "// Package p has [A].\npackage p\n\n// A is 1.\nconst A = 1\n"},
			args:  []string{"./..."},
		},
		{
			name: "linkcheck",
			files: map[string]string{
				"README.md": "# One\n\n[a](#one) [b](sub/other.md#two-words) [c](sub) " +
					"[d](https://example.com/x)\n`[code](none.md)`\n" +
					"[e](none.md) [f](#none) [g](sub/other.md#none) [h](../out.md)\n",
				"sub/other.md": "## Two words\n",
			},
			args: []string{"README.md", "sub/other.md"},
			want: []string{
				"README.md: none.md: no such file", "README.md: #none: no such heading",
				"README.md: sub/other.md#none: no such heading", "README.md: ../out.md: leads out of the repository",
			},
			fails: true,
		},
		{
			name: "wordcheck",
			files: map[string]string{
				"p.go": "// Package p is what one wants.\npackage p\n\n// A says what it is.\nconst A = 1 // that is it\n\n" +
					"//\twhat and what and what\nvar _ = 2\n",
				"README.md": "Plain words.\n\n```sh\nwhat and what and what\n```\n\nAnd `what and what`.\n",
				"q/q.go":    "// Package q is plain.\npackage q\n",
			},
			want:  []string{".: 14 words, what 2 of 1, it 2 of 1, that 1 of 1, one 1 of 1"},
			fails: true,
		},
		{
			name: "mutants",
			files: map[string]string{
				"p.go": "package p\n\nfunc Small(n int) bool {\n\tif n < 0 {\n\t\treturn false\n\t}\n\treturn n < 10\n}\n",
				"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestSmall(t *testing.T) {\n\tif !Small(9) || Small(10) " +
					"{\n\t\tt.Fail()\n\t}\n}\n",
				"list.txt": "# comment\n\np.go TestSmall\n- return n < 10\n+ return n < 11\n\np.go TestSmall\n- return false\n+ " +
					"return true\n\n" +
					"p.go TestSmall\n- if n < 0 {\n+ if n <= -1 {\n= the same\n\np.go TestNothing\n- not chosen\n",
			},
			args: []string{"list.txt", "TestSmall"},
			want: []string{
				"p.go                   return n < 10                                       killed",
				"p.go                   return false                                        SURVIVES",
				"p.go                   if n < 0 {                                          may live: the same",
				"1 killed, 1 survive that should not",
			},
			fails: true,
		},
		{
			name: "mutants that are out of date",
			files: map[string]string{
				"p.go":        "package p\n\nvar A = 1\n",
				"q/p_test.go": "package q\n\nfunc TestA(t *testing.T) {}\n",
				"list.txt": "p.go TestA\n- return n < 10\n\np.go TestA|TestB\n- var A = 1\n\np.go TestA\n- var A = 1\n\nq.go " +
					"TestA\n- var A = 1\n",
			},
			args: []string{"-check", "list.txt"},
			want: []string{
				"p.go TestA: these lines stand there 0 times, not once:", "return n < 10",
				"p.go TestA|TestB: no test is called TestB:",
				"var A = 1", "q.go TestA: no such file:", "var A = 1",
			},
			fails: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.files["go.mod"] = "module example.com/p\n\ngo 1.26\n"
			for file, text := range test.files {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			tool, _, _ := strings.Cut(test.name, " ")
			run := exec.Command(filepath.Join(bin, tool), test.args...)
			run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
			out, err := run.Output()
			if got := strings.TrimSpace(string(out)); got != strings.Join(test.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(test.want, "\n"))
			}
			if (err != nil) != test.fails {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
