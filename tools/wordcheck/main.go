// Command wordcheck counts four pronouns that make prose hard to read, in the doc comments of
// each package and in each Markdown file below the working directory. It fails if a count is
// above its limit.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// limits are per 1,000 words. Each limit is rounded up to whole words.
var limits = []struct {
	word  string
	limit int
}{{"what", 2}, {"it", 14}, {"that", 14}, {"one", 3}}

var (
	words      = regexp.MustCompile(`[\pL\d']+`)
	codeBlocks = regexp.MustCompile("(?s)\n```.*?\n```")
	codeSpans  = regexp.MustCompile("`[^`\n]*`")
	targets    = regexp.MustCompile(`\]\([^)]*\)`)
	indented   = regexp.MustCompile(`(?m)^(?:\t|    ).*$`)
)

func main() {
	texts, err := collect(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcheck:", err)
		os.Exit(1)
	}
	failed := false
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		line, bad := check(texts[name])
		if failed = failed || bad; bad || len(os.Args) > 1 && os.Args[1] == "-v" {
			fmt.Printf("%s: %s\n", name, line)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// collect returns the prose by package and by Markdown file.
func collect(root fs.FS) (map[string]string, error) {
	texts := map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if hidden := name != "." && strings.HasPrefix(entry.Name(), "."); entry.IsDir() && (hidden || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		switch {
		case path.Ext(name) == ".md":
			text, err := fs.ReadFile(root, name)
			texts[name] = targets.ReplaceAllString(codeBlocks.ReplaceAllString(string(text), ""), "]")
			return err
		case path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			comments, err := documentation(name, text)
			texts[path.Dir(name)] += comments
			return err
		}
		return nil
	})
	return texts, err
}

// documentation returns the doc comments of a file, without their blocks of code.
func documentation(name string, source []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	add := func(comment *ast.CommentGroup) {
		text.WriteString(indented.ReplaceAllString(comment.Text(), "") + "\n")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			add(n.Doc)
		case *ast.FuncDecl:
			add(n.Doc)
		case *ast.GenDecl:
			add(n.Doc)
		case *ast.TypeSpec:
			add(n.Doc)
			add(n.Comment)
		case *ast.ValueSpec:
			add(n.Doc)
			add(n.Comment)
		case *ast.Field:
			add(n.Doc)
			add(n.Comment)
		}
		return true
	})
	return text.String(), nil
}

// check counts, and says whether a limit is exceeded.
func check(text string) (line string, bad bool) {
	counts, total := map[string]int{}, 0
	for _, word := range words.FindAllString(strings.ToLower(codeSpans.ReplaceAllString(text, "")), -1) {
		counts[word]++
		total++
	}
	line = fmt.Sprintf("%d words", total)
	for _, l := range limits {
		allowed := (l.limit*total + 999) / 1000
		line += fmt.Sprintf(", %s %d of %d", l.word, counts[l.word], allowed)
		bad = bad || counts[l.word] > allowed
	}
	return line, bad
}
