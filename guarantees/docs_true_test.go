package guarantees_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/catalog"
)

// Each block of Go in a Markdown file, and each block of a comment that names this library, stands
// in code that is compiled.
func TestCodeBlocksAreCompiled(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	blocks := map[string][]string{} // by file
	ofLibrary := regexp.MustCompile(`\blending\w*\.[A-Z]`)
	eachFile(t, func(name, text string) {
		if path.Ext(name) == ".md" {
			assert.NotContains(t, text, "```mermaid", "pkg.go.dev shows the source of a diagram in %s", name)
			for i, part := range strings.Split("\n"+text, "\n```") {
				language, code, _ := strings.Cut(part, "\n")
				if i%2 == 1 && (language == "go" || ofLibrary.MatchString(code)) {
					blocks[name] = append(blocks[name], code)
				}
			}
			return
		}
		source.WriteString("\n" + unindented(text))
		for _, group := range parsed(t, name, text).Comments {
			for _, part := range new(comment.Parser).Parse(group.Text()).Content {
				if code, ok := part.(*comment.Code); ok && ofLibrary.MatchString(code.Text) {
					blocks[name] = append(blocks[name], code.Text)
				}
			}
		}
	})
	require.NotEmpty(t, blocks["README.md"])
	require.NotEmpty(t, blocks["doc.go"])
	for name, all := range blocks {
		for block := range strings.SplitSeq(strings.Join(all, "\n\n"), "\n\n") {
			if strings.Contains(block, "temporal.") { // its SDK would bring 25 modules
				continue
			}
			compiled := strings.Contains(source.String(), "\n"+unindented(strings.TrimSpace(block)+"\n"))
			assert.True(t, compiled, "in %s, compiled nowhere:\n%s", name, block)
		}
	}
}

func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line, _, directive := strings.Cut(strings.TrimLeft(line, " \t"), " //nolint")
		b.WriteString(line)
		if directive {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Each test, make target and program that a Markdown file names exists, and each program has a
// test of its output.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	var tests, makefile string
	eachFile(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			tests += text
		}
	})
	text, err := fs.ReadFile(repository, "Makefile")
	require.NoError(t, err)
	makefile = string(text)
	for form, exists := range map[string]func(name string) bool{
		"`(Test[A-Z]\\w+)`":                   func(name string) bool { return strings.Contains(tests, "\nfunc "+name+"(") },
		`go test [^\n]*-run '?(Test\w+)`:      func(name string) bool { return strings.Contains(tests, "\nfunc "+name) },
		"(?m)(?:`|^)make ([a-z][a-z-]*)":      func(name string) bool { return strings.Contains(makefile, "\n"+name+":") },
		`go run \./((?:examples|cmd)/[\w-]+)`: isProgram,
		"go test[^\\n]* \\./([a-z/]+)[\\s`]":  func(name string) bool { return hasFile(name + "/*_test.go") },
	} {
		found := regexp.MustCompile(form)
		eachFile(t, func(name, text string) {
			for _, match := range found.FindAllStringSubmatch(text, -1) {
				if path.Ext(name) == ".md" {
					assert.True(t, exists(match[1]), "%s names %s", name, match[1])
				}
			}
		})
	}
}

func isProgram(folder string) bool {
	return hasFile(folder+"/main.go") && hasFile(folder+"/*_test.go")
}

func hasFile(pattern string) bool {
	files, _ := fs.Glob(repository, pattern)
	return len(files) > 0
}

// Every service has an example on its page.
func TestEveryServiceHasAnExample(t *testing.T) {
	var examples string
	eachFile(t, func(name, text string) {
		if path.Dir(name) == "." && strings.HasSuffix(name, "_test.go") {
			examples += text
		}
	})
	for name := range catalog.Routes(t) {
		service, _, _ := strings.Cut(name, ".")
		if !strings.Contains(examples, "\nfunc Example"+service+"Service") {
			t.Errorf("%s has no example", service)
		}
	}
}

func parsed(t *testing.T, name, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	return file
}

// eachFile calls f for the Go and Markdown files of the repository, in all modules.
func eachFile(t *testing.T, f func(name, text string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if base := entry.Name(); base != "." && strings.HasPrefix(base, ".") || base == "testdata" {
				return fs.SkipDir
			}
			return err
		}
		if path.Ext(name) != ".go" && path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		f(name, string(text))
		return err
	}))
}
