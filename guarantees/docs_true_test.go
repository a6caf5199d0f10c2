package guarantees_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/catalog"
)

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

// The comment of each method ends with the route of the ledger.
func TestEveryMethodNamesItsRoute(t *testing.T) {
	comments := map[string]string{}
	files, err := fs.Glob(repository, "*.go")
	require.NoError(t, err)
	for _, name := range files {
		source, err := fs.ReadFile(repository, name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv != nil {
				comments[receiver(string(source), f)+"."+f.Name.Name] = f.Doc.Text()
			}
		}
	}
	for name, r := range catalog.Routes(t) {
		service, method, _ := strings.Cut(name, ".")
		comment := strings.TrimSpace(comments[service+"Service."+method])
		lines := strings.Split(comment, "\n")
		assert.Equal(t, "Route: "+r.Method+" "+r.Path, lines[len(lines)-1], name)
	}
}

// What the documentation shows is code that is compiled: the blocks of Go in Markdown
// files, and those that name something of this library in any file and comment.
func TestCodeBlocksAreCompiled(t *testing.T) {
	if _, err := fs.Stat(repository, "contrib/otel/go.mod"); err != nil {
		t.Skip("the modules under contrib are not here, which hold a part of the code: ", err)
	}
	var source strings.Builder
	blocks := map[string][]string{} // by file
	ofLibrary := regexp.MustCompile(`\blending\w*\.[A-Z]`)
	eachFile(t, func(path, text string) {
		switch filepath.Ext(path) {
		case ".md":
			if strings.Contains(text, "```mermaid") {
				t.Errorf("%s: pkg.go.dev shows a diagram's source as it is", path)
			}
			for i, part := range strings.Split("\n"+text, "\n```") {
				if language, code, _ := strings.Cut(part, "\n"); i%2 == 1 &&
					(language == "go" || ofLibrary.MatchString(code)) {
					blocks[path] = append(blocks[path], code)
				}
			}
		case ".go":
			source.WriteString("\n" + unindented(text))
			file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
			require.NoError(t, err)
			for _, group := range file.Comments {
				for _, part := range new(comment.Parser).Parse(group.Text()).Content {
					if code, ok := part.(*comment.Code); ok && ofLibrary.MatchString(code.Text) {
						blocks[path] = append(blocks[path], code.Text)
					}
				}
			}
		}
	})
	for _, path := range []string{
		"README.md", "doc.go", "lendingtest/doc.go", "contrib/README.md",
		"contrib/otel/doc.go",
	} {
		assert.NotEmpty(t, blocks[path], "no code was found in %s", path)
	}
	for path, all := range blocks {
		for block := range strings.SplitSeq(strings.Join(all, "\n\n"), "\n\n") {
			if strings.Contains(block, "temporal.") { // its SDK would bring 25 modules
				continue
			}
			if !strings.Contains(source.String(), "\n"+unindented(strings.TrimSpace(block)+"\n")) {
				t.Errorf("in %s, compiled nowhere:\n%s", path, block)
			}
		}
	}
}

// The map in docs/architecture.md has a row for every file of the library, and no file or function that does not exist.
func TestTheMapShowsTheHouse(t *testing.T) {
	text, err := fs.ReadFile(repository, "docs/architecture.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "## Files of the root package\n")
	rooms, way, found := strings.Cut(rest, "## The path of a call\n")
	require.True(t, found)
	var patterns []string
	for _, name := range regexp.MustCompile("`[^`]+[.]go`").FindAllString(rooms, -1) {
		patterns = append(patterns, strings.Trim(name, "`"))
	}
	files, err := fs.Glob(repository, "*.go")
	require.NoError(t, err)
	declared, used := map[string]bool{}, map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?(\w+)`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		inRoom := false
		for _, pattern := range patterns {
			if matched, _ := filepath.Match(pattern, name); matched {
				inRoom, used[pattern] = true, true
			}
		}
		assert.True(t, inRoom, "%s has no room", name)
		source, err := fs.ReadFile(repository, name)
		require.NoError(t, err)
		for _, f := range function.FindAllStringSubmatch(string(source), -1) {
			declared[strings.TrimPrefix(f[1]+"."+f[2], ".")] = true
		}
	}
	for _, pattern := range patterns {
		assert.True(t, used[pattern], "no file is in the room %s", pattern)
	}
	steps, _, _ := strings.Cut(way, "\n## ")
	names := regexp.MustCompile("`[A-Za-z.]+`").FindAllString(steps, -1)
	assert.NotEmpty(t, names)
	for _, name := range names {
		assert.True(t, declared[strings.Trim(name, "`")], "there is no function %s", name)
	}
}

// The table of guarantees has one row for each suite, no suite that is not there, and no guard that the code does not
// declare.
func TestEverySuiteHasAGuarantee(t *testing.T) {
	text, err := fs.ReadFile(repository, "guarantees/README.md")
	require.NoError(t, err)
	suites, names := []string{"fuzz", "bench", "main"}, declarations(t)
	row := regexp.MustCompile("(?m)^\\|[^|]+\\| `(\\w+)` \\| ([^|:]+)")
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		assert.NotContains(t, suites, found[1], "two rows")
		suites = append(suites, found[1])
		for _, guard := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(found[2], -1) {
			assert.True(t, names[guard[1]], "there is no %s, the guard of %s", guard[1], found[1])
		}
	}
	files, err := fs.Glob(repository, "guarantees/*_test.go")
	require.NoError(t, err)
	has := func(suite, file string) bool { return strings.HasPrefix(file, "guarantees/"+suite+"_") }
	for _, suite := range suites {
		assert.True(t, slices.ContainsFunc(files, func(file string) bool { return has(suite, file) }), suite)
	}
	for _, file := range files {
		assert.True(t, slices.ContainsFunc(suites, func(suite string) bool { return has(suite, file) }), file)
	}
}

// receiver returns the type of the method f. Its file is the only one of its set.
func receiver(source string, f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	return strings.TrimPrefix(source[of.Pos()-1:of.End()-1], "*")
}

// declarations returns what the library declares: functions, methods, fields and package-level names.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	eachFile(t, func(path, text string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "contrib/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(text, d) + "." + name
				}
				names[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[name.Name] = true
						}
					case *ast.TypeSpec:
						fields, _ := spec.Type.(*ast.StructType)
						for i := 0; fields != nil && i < len(fields.Fields.List); i++ {
							for _, name := range fields.Fields.List[i].Names {
								names[spec.Name.Name+"."+name.Name] = true
							}
						}
					}
				}
			}
		}
	})
	return names
}

// eachFile calls f for the Go and Markdown files of the tree, those of the modules under contrib included.
func eachFile(t *testing.T, f func(path, text string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(repository, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if name := entry.Name(); name != "." && strings.HasPrefix(name, ".") || name == "testdata" {
				return filepath.SkipDir
			}
			return err
		}
		if extension := filepath.Ext(path); extension != ".go" && extension != ".md" {
			return nil
		}
		text, err := fs.ReadFile(repository, path)
		f(path, string(text))
		return err
	}))
}

// Every service has an example at its name or at that of a method, so has every method
// of the journey, and every program that is mentioned exists.
func TestExamplesAreThere(t *testing.T) {
	var tests strings.Builder
	program := regexp.MustCompile(`(?:-C (\S+) run |[^.])\./examples/(\w+)`) // and no link, ../examples
	eachFile(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			tests.WriteString(text)
		}
		for _, found := range program.FindAllStringSubmatch(text, -1) {
			directory := filepath.Join("..", found[1], "examples", found[2])
			assert.FileExists(t, directory+"/main.go", "as %s says", path)
			assert.FileExists(t, directory+"/main_test.go", "what it prints is not tested")
		}
	})
	for name := range catalog.Routes(t) {
		service, _, _ := strings.Cut(name, ".")
		if !strings.Contains(tests.String(), "\nfunc Example"+service+"Service") {
			t.Errorf("%s has no example", service)
		}
	}
	for firstDay := range strings.FieldsSeq(`
		ApplicationsService_CreateCustomer ApplicationsService_Create ApplicationsService_AddOrUpdateBankingData
		ApplicationsService_Process ApplicationsService_Offer ApprovalService_AddCompanyDetails
		ApprovalService_AddPrimaryApplicantDetails ApprovalService_SubmitRequiredDocument ApprovalService_SignContract
		CalculationService_Invoice LoansService_ListByCustomer LoansService_WithdrawInvoice
		LoansService_ConfirmInvoiceWithdrawal LoansService_AllTransactions`) {
		if !strings.Contains(tests.String(), "\nfunc Example"+firstDay+"() {") {
			t.Errorf("%s has no example", firstDay)
		}
	}
}
