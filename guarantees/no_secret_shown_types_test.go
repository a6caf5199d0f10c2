package guarantees_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// TestNothingLiveIsReachable holds of every type that a caller can have, exported or
// behind an interface, that no lock, no atomic value, no map of its own and
// nothing that a caller has handed over can be reached from it by what fmt, slog,
// reflect.DeepEqual and testify follow: fields of any name, pointers, elements. They
// print and compare without a lock, and "concurrent map iteration and map write" ends
// the process. What is live stands behind a function, which nothing follows.
func TestNothingLiveIsReachable(t *testing.T) {
	checked := 0
	for _, p := range load(t, ".", "github.com/lendingapi/lending-go", "github.com/lendingapi/lending-go/webhook") {
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
				assert.Empty(t, liveIn(object.Type(), p.Name()+"."+name, object.Exported(), map[visit]bool{}))
			}
		}
	}
	assert.Greater(t, checked, 100)
}

// interfacesOf returns the interfaces behind which functions of p return types that are
// not exported.
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

// liveIn is the path to what lives in t, empty if nothing does. What a caller can set in
// an exported field of an exported type is his own.
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
					return inner + " is whatever there is behind " + f.String()
				}
			}
			if live := liveIn(field.Type(), inner, settable, seen); live != "" {
				return live
			}
		}
	}
	return ""
}

// load returns the packages as the compiler has seen them.
func load(t *testing.T, dir string, paths ...string) []*types.Package {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)
	command.Dir = dir
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	require.NoError(t, err, complaints.String())
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
		require.NoError(t, err)
		loaded = append(loaded, p)
	}
	return loaded
}

// TestWhatIsAliveCanBePrinted prints and compares clients, sessions and logs in every way while
// calls use them. Without a lock the race detector reports a data race, or "concurrent map
// iteration and map write" ends the process.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	service := lendingtest.New()
	store, inbox, deduper := lending.NewMemoryTokenStore(), webhook.NewMemoryInbox(), webhook.NewMemoryDeduper(nil)
	client := wire.NewClient(t, "https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}), lending.WithTokenStore(store),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
		}))
	encrypted, err := lending.NewEncryptedTokenStore(store, make([]byte, 32))
	require.NoError(t, err)
	claim, err := deduper.Claim(t.Context(), "key of the claim")
	require.NoError(t, err)
	alive := []any{client, *client, client.Session(), client.Loans, inbox, store, encrypted, deduper, claim}

	text := shown.Beside(t, alive, func(ctx context.Context) {
		if token, err := client.Session().Token(ctx); err == nil && rand.IntN(3) == 0 {
			client.Session().Invalidate(token)
			_ = client.Session().SignIn(ctx)
		}
		_, _ = client.Webhooks.AllSubscriptions(ctx)
		_ = inbox.Put(ctx, &webhook.Event{Name: lending.EventName(uuid.NewString())})
		if claim, err := deduper.Claim(ctx, uuid.NewString()); err == nil {
			_ = claim.Done(ctx)
		}
		_, _ = store.Acquire(ctx, "me", time.Minute)
	})
	for _, hidden := range []string{
		lendingtest.Password, lendingtest.TrustedDeviceToken, lendingtest.Username,
		"key of the claim",
	} {
		assert.NotContains(t, text, hidden)
	}
}

// TestWhatADataStructShows holds what the doc comments of Response and ProblemDetails
// say: they hide what they hold wherever fmt can call their methods, and cannot in an
// unexported field, where a pointer to them does under the verbs that fit it.
func TestWhatADataStructShows(t *testing.T) {
	response := &lending.Response{StatusCode: 200, Body: []byte("hush")}
	problem := problemIn(t, []byte(`{"detail":"hush"}`))
	for _, v := range []any{
		response,
		*response,
		problem,
		*problem,
		[]lending.Response{*response},
		struct{ R lending.Response }{*response},
		struct{ p *lending.Response }{response},
		struct{ p *lending.ProblemDetails }{problem},
	} {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			shown := fmt.Sprintf("%v %+v %#v", v, v, v)
			assert.NotContains(t, shown, "hush")
			assert.NotContains(t, shown, "104 117 115 104")
		})
	}
	assert.Contains(t, fmt.Sprintf("%v", struct{ r lending.Response }{*response}), "104 117 115 104")
	assert.Contains(t, fmt.Sprintf("%v", struct{ p lending.ProblemDetails }{*problem}), "hush")

	var record lending.LoanResponse
	require.NoError(t, json.Unmarshal([]byte(`{"id":"11111111-2222-3333-4444-555555555555","borrower":"hush"}`),
		&record))
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Send_Otp","data":{"code":"hush"}}`))
	require.NoError(t, err)
	logged := func(v any) string {
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		return b.String()
	}
	for _, v := range []any{
		struct{ e webhook.Event }{*event},
		struct{ e *webhook.Event }{event},
		struct{ r []lending.LoanResponse }{[]lending.LoanResponse{record}},
		struct {
			p lending.Page[lending.LoanResponse]
		}{lending.Page[lending.LoanResponse]{Data: []lending.LoanResponse{record}}},
		[]*webhook.Event{event},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			shown := fmt.Sprintf(verb, v)
			for _, form := range []string{"hush", "104 117 115 104", "68757368"} {
				assert.NotContains(t, shown, form, verb)
			}
		}
	}
	assert.NotContains(t, logged(record), "hush")
	assert.NotContains(t, logged(event), "hush")
	assert.Contains(t, logged([]lending.LoanResponse{record}), "hush", "slog's JSON handler asks json.Marshal")
}
