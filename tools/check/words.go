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

// limits are per 1,000 words. Each limit is rounded up to whole words. The tests of a few folders
// are older than the limits. They may not get worse.
var limits = []struct {
	word         string
	limit, older int
}{{"what", 2, 12}, {"it", 14, 18}, {"that", 14, 21}, {"one", 3, 9}}

var older = []string{"tests of .", "tests of internal", "tests of lendingtest"}

var (
	word       = regexp.MustCompile(`[\pL\d'][\pL\d'-]*`)
	codeBlocks = regexp.MustCompile("(?s)\n```.*?\n```")
	targets    = regexp.MustCompile(`\]\([^)]*\)`)
	indented   = regexp.MustCompile(`(?m)^(?:\t|    ).*$`)
	capital    = regexp.MustCompile(`[A-Z]`)
)

// words counts vague words in each Markdown file, in the doc comments of each package, and in the
// comments and names of the tests in each top folder. It returns the counts above a limit, or all with -v.
func words(arguments []string) (lines []string, err error) {
	texts, files := map[string]string{}, token.NewFileSet()
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if path.Base(name) == "testdata" || name == "dist" || strings.HasPrefix(name, ".") && name != "." {
				return fs.SkipDir
			}
			return err
		}
		if path.Ext(name) == ".md" {
			text, err := os.ReadFile(name)
			texts[name] = targets.ReplaceAllString(codeBlocks.ReplaceAllString(string(text), ""), "]")
			return err
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			folder, _, _ := strings.Cut(path.Dir(name), "/")
			texts["tests of "+folder] += testWords(file)
			return nil
		}
		docComments(file, func(_ ast.Node, _ bool, docs ...*ast.CommentGroup) {
			for _, doc := range docs {
				texts[path.Dir(name)] += indented.ReplaceAllString(doc.Text(), "") + "\n"
			}
		})
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if line, bad := count(texts[name], slices.Contains(older, name)); bad || len(arguments) > 0 {
			lines = append(lines, name+": "+line)
		}
	}
	return lines, err
}

// testWords returns the comments of a test file, and the names of its functions as words.
func testWords(file *ast.File) (text string) {
	for _, c := range file.Comments {
		text += indented.ReplaceAllString(c.Text(), "") + "\n"
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			text += capital.ReplaceAllString(f.Name.Name, " $0") + "\n"
		}
	}
	return text
}

func count(text string, old bool) (line string, bad bool) {
	counts, total := map[string]int{}, 0
	for _, word := range word.FindAllString(strings.ToLower(span.ReplaceAllString(text, "")), -1) {
		counts[word]++
		total++
	}
	line = fmt.Sprintf("%d words", total)
	for _, l := range limits {
		limit := l.limit
		if old {
			limit = l.older
		}
		allowed := (limit*total + 999) / 1000
		line += fmt.Sprintf(", %s %d of %d", l.word, counts[l.word], allowed)
		bad = bad || counts[l.word] > allowed
	}
	return line, bad
}
