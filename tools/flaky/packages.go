package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is a package with tests.
type pkg struct {
	module, path         string
	dir, pattern         string   // the folder for make, and for the go command in module
	binary               string   // path of the test binary
	all, tests, suspects []string // all tests; the tests chosen by -only; the suspects among them
}

// find returns the packages of a module with at least a test whose name matches chosen.
func find(module string, chosen *regexp.Regexp) (packages []*pkg, err error) {
	p := &pkg{module: module}
	list, err := p.gotool("list", "-json=Dir,TestGoFiles,XTestGoFiles", "./...").Output()
	if err != nil {
		return nil, errors.Join(err, stderr(err))
	}
	root, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(strings.NewReader(string(list))); ; {
		var listed struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		below, err := filepath.Rel(root, listed.Dir)
		if err != nil {
			return nil, err
		}
		p := &pkg{module: module, path: listed.Dir, dir: local(filepath.Join(module, below)), pattern: local(below)}
		if err := p.read(append(listed.TestGoFiles, listed.XTestGoFiles...), chosen); err != nil {
			return nil, err
		}
		if len(p.tests) > 0 {
			packages = append(packages, p)
		}
	}
}

func local(path string) string {
	if path = filepath.ToSlash(path); path == "." || filepath.IsAbs(path) {
		return path
	}
	return "./" + path
}

// compile builds the package's test binary in a folder.
func (p *pkg) compile(folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	name := strings.NewReplacer("./", "", "/", "-").Replace(p.dir)
	if p.dir == "." {
		name = "root"
	}
	p.binary = filepath.Join(folder, name+".test")
	text, err := p.gotool("test", "-c", "-o", p.binary, p.pattern).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile %s: %w\n%s", p.dir, err, text)
	}
	return nil
}

// gotool returns a go command in the package's module.
func (p *pkg) gotool(arguments ...string) *exec.Cmd {
	command := exec.Command("go", arguments...)
	command.Dir = p.module
	return command
}

func stderr(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(string(exit.Stderr))
	}
	return nil
}

// others returns the chosen tests except the suspects.
func (p *pkg) others() (others []string) {
	for _, test := range p.tests {
		if !slices.Contains(p.suspects, test) {
			others = append(others, test)
		}
	}
	return others
}

var (
	isTest = regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)

	// A test is a suspect if its name matches named. A test is also a suspect if its code, or a
	// called function of the test files, starts goroutines or processes, waits for a clock, or
	// uses a harness with such code.
	named      = regexp.MustCompile(`Simulation|Journeys|Fleet|Failover|Kill|Crash|Concurrent`)
	suspicious = regexp.MustCompile(`^(testing/synctest|os/exec|os/signal|syscall|golang\.org/x/sync/.*)\.|^sync\.WaitGroup$|` +
		`^time\.(After|AfterFunc|NewTicker|NewTimer|Tick)$|/internal/(test/)?[a-z]+test\.|/internal/test/bubble\.`)
)

// read finds the tests in the files of a package, and the suspects among them.
func (p *pkg) read(files []string, chosen *regexp.Regexp) error {
	suspect := map[string]bool{}   // by function
	calls := map[string][]string{} // by function: the functions of the package that the function names
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.path, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		imports := importsOf(file)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Body == nil {
				continue
			}
			name := f.Name.Name
			if isTest.MatchString(name) && name != "TestMain" {
				p.all = append(p.all, name)
			}
			suspect[name] = named.MatchString(name)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					suspect[name] = true
				case *ast.Ident:
					calls[name] = append(calls[name], n.Name)
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok {
						suspect[name] = suspect[name] || suspicious.MatchString(imports[of.Name]+"."+n.Sel.Name)
						return false
					}
				}
				return true
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for name, others := range calls {
			if !suspect[name] && slices.ContainsFunc(others, func(other string) bool { return suspect[other] }) {
				suspect[name], changed = true, true
			}
		}
	}
	for _, name := range p.all {
		if chosen.MatchString(p.dir + " " + name) {
			p.tests = append(p.tests, name)
			if suspect[name] {
				p.suspects = append(p.suspects, name)
			}
		}
	}
	return nil
}

// importsOf returns the import paths of a file by their names in the file.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = path
	}
	return imports
}
