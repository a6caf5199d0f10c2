package tools

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// fmt, slog, reflect.DeepEqual and testify follow fields, pointers and elements without a lock, and
// "concurrent map iteration and map write" ends the process. No type of a caller, exported or behind
// an interface, leads them to a lock, an atomic value, a private map or a value of the caller. Such
// state is behind a function.
func TestPrintingReachesNoSharedState(t *testing.T) {
	checked := 0
	for folder, names := range map[string][]string{
		"..":                  {"", "/webhook", "/idempotency", "/idempotency/store", "/ops"},
		"../contrib/bolt":     {"/contrib/bolt"},
		"../contrib/postgres": {"/contrib/postgres"},
		"../contrib/redis":    {"/contrib/redis"},
	} {
		for _, p := range load(t, folder, names...) {
			checked += check(t, p)
		}
	}
	if checked <= 100 {
		t.Errorf("%d types", checked)
	}
}

// check returns the number of the types of p that a caller can print.
func check(t *testing.T, p *types.Package) (checked int) {
	t.Helper()
	handed := interfacesOf(p)
	for _, name := range p.Scope().Names() {
		object, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		given := slices.ContainsFunc(handed,
			func(i *types.Interface) bool { return types.Implements(types.NewPointer(object.Type()), i) })
		if object.Exported() || given {
			checked++
			if live := liveIn(object.Type(), p.Name()+"."+name, object.Exported(), map[visit]bool{}); live != "" {
				t.Error(live)
			}
		}
	}
	return checked
}

// interfacesOf returns the interfaces behind which functions of p return unexported types.
func interfacesOf(p *types.Package) (handed []*types.Interface) {
	results := func(f types.Object) {
		signature, ok := f.Type().(*types.Signature)
		for i := 0; ok && f.Exported() && i < signature.Results().Len(); i++ {
			result := signature.Results().At(i).Type()
			if face, ok := result.Underlying().(*types.Interface); ok && face.NumMethods() > 0 &&
				result.String() != "error" {
				handed = append(handed, face)
			}
		}
	}
	for _, name := range p.Scope().Names() {
		results(p.Scope().Lookup(name))
		methods := types.NewMethodSet(types.NewPointer(p.Scope().Lookup(name).Type()))
		if types.IsInterface(p.Scope().Lookup(name).Type()) {
			methods = types.NewMethodSet(p.Scope().Lookup(name).Type())
		}
		for method := range methods.Methods() {
			results(method.Obj())
		}
	}
	return handed
}

type visit struct {
	t        types.Type
	exported bool
}

// liveIn returns the path to shared state in t, or "". The value of an exported field of an exported
// type belongs to the caller.
func liveIn(t types.Type, path string, exported bool, seen map[visit]bool) string {
	if seen[visit{t, exported}] {
		return ""
	}
	seen[visit{t, exported}] = true
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
		switch named.Obj().Pkg().Path() {
		case "sync", "sync/atomic":
			return path + " is a " + named.String()
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return liveIn(u.Elem(), path, exported, seen)
	case *types.Slice:
		return liveIn(u.Elem(), path+"[]", exported, seen)
	case *types.Array:
		return liveIn(u.Elem(), path+"[]", exported, seen)
	case *types.Map:
		return liveIn(u.Elem(), path+"[]", exported, seen)
	case *types.Struct:
		for field := range u.Fields() {
			inner, settable := path+"."+field.Name(), exported && field.Exported()
			if settable && field.Type().String() == "*log/slog.Logger" {
				continue // the caller's own logger in the caller's own options
			}
			switch f := field.Type().Underlying().(type) {
			case *types.Map:
				if !settable {
					return inner + " is a map"
				}
			case *types.Interface:
				if !settable && field.Type().String() != "error" {
					return inner + " holds any value behind " + f.String()
				}
			}
			if live := liveIn(field.Type(), inner, settable, seen); live != "" {
				return live
			}
		}
	}
	return ""
}

// load returns packages of the module in folder, by the end of their paths, as the compiler has seen them.
func load(t *testing.T, folder string, names ...string) []*types.Package {
	t.Helper()
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = "github.com/lendingapi/lending-go" + name
	}
	command := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)
	command.Dir = folder
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatal(err, complaints.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(files[path])
	})
	var loaded []*types.Package
	for _, path := range paths {
		p, err := compiled.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, p)
	}
	return loaded
}
