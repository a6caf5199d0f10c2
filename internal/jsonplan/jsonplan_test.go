package jsonplan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/jsonplan"
	"github.com/lendingapi/lending-go/internal/test/seeds"
)

type (
	name  string
	seen  struct{ With string }
	texts []string
	read  map[string]int
	label [3]byte

	line struct {
		Count int         `json:"count"`
		Price json.Number `json:"price,omitempty"`
		Note  *string     `json:"note"`
	}
	plain struct {
		ID       string `json:"id"`
		Named    name   `json:"named"`
		Amount   json.Number
		Ok       bool                  `json:"ok"`
		I8       int8                  `json:"i8"`
		I64      int64                 `json:"i64"`
		U16      uint16                `json:"u16"`
		F32      float32               `json:"f32"`
		F64      float64               `json:"f64,omitzero"`
		Lines    []line                `json:"lines"`
		Pointers []*line               `json:"pointers"`
		Deep     ***int                `json:"deep"`
		Lists    [][]string            `json:"lists"`
		Inner    struct{ K, S string } `json:"inner"`
		Next     *plain                `json:"next"`
		Skipped  string                `json:"-"`
		unseen   string                //nolint:unused // reflect sees it
		Any      any                   `json:"any"`
		Map      map[string]line       `json:"map"`
		Array    [2]int                `json:"array"`
		Bytes    []byte                `json:"bytes"`
		Raw      json.RawMessage       `json:"raw"`
		When     time.Time             `json:"when"`
		UUID     uuid.UUID             `json:"uuid"`
		Address  *netip.Addr           `json:"address"`
		Big      *big.Int              `json:"big"`
		Seen     seen                  `json:"seen"`
		Texts    texts                 `json:"texts"`
		Read     read                  `json:"read"`
		Label    label                 `json:"label"`
		Labels   []label               `json:"labels"`
		SeenAll  []*seen               `json:"seenAll"`
		Chan     chan int              `json:"chan"`
	}
	base     struct{ Promoted int }
	embedded struct {
		base
		ID string `json:"id"`
	}
	quoted struct {
		I64 int64  `json:"i64,string"`
		ID  string `json:"id"`
	}
	twins struct {
		ID    string `json:"id"`
		Other string `json:"ID"`
	}
	odd struct {
		ID string `json:"i-d"`
		Ü  string //nolint:asciicheck // what such a field is called is not plain
		K  int    `json:"k!"`
	}
	// promotes has the method of what it embeds, which encoding/json calls only where it
	// is pointed to.
	promotes struct {
		In  struct{ seen } `json:"inner"`
		IDs []struct {
			label
			X int
		} `json:"lists"`
		Ptr *struct{ seen } `json:"next"`
		ID  string          `json:"id"`
	}
	tree     struct{ Lines []tree }
	list     []list
	pointers struct{ ID *name }
	hidden   *seen
	untagged struct {
		Limits []struct{ Count int } `json:"limits"`
		Name   string
	}
	hides struct {
		Next hidden `json:"next"`
		ID   string `json:"id"`
	}
)

var errOdd = errors.New("odd")

// UnmarshalJSON shows what it was given.
func (s *seen) UnmarshalJSON(data []byte) error {
	s.With += string(data)
	if strings.Contains(s.With, "odd") {
		return errOdd
	}
	return nil
}

func (t *texts) UnmarshalText(text []byte) error {
	*t = append(*t, string(text))
	if len(text) > 20 {
		return errOdd
	}
	return nil
}

func (r read) UnmarshalText([]byte) error { return nil }

func (l *label) UnmarshalText(text []byte) error {
	copy(l[:], text)
	return nil
}

var types = []reflect.Type{
	reflect.TypeFor[plain](), reflect.TypeFor[*plain](), reflect.TypeFor[[]plain](), reflect.TypeFor[embedded](),
	reflect.TypeFor[quoted](),
	reflect.TypeFor[twins](), reflect.TypeFor[odd](), reflect.TypeFor[promotes](), reflect.TypeFor[tree](),
	reflect.TypeFor[list](),
	reflect.TypeFor[pointers](), reflect.TypeFor[hides](), reflect.TypeFor[seen](), reflect.TypeFor[texts](),
	reflect.TypeFor[string](),
	reflect.TypeFor[json.Number](), reflect.TypeFor[float32](), reflect.TypeFor[uint8](), reflect.TypeFor[*bool](),
	reflect.TypeFor[any](),
	reflect.TypeFor[map[string]line](), reflect.TypeFor[struct{ seen }](), reflect.TypeFor[hidden](),
	reflect.TypeFor[[]string](),
	reflect.TypeFor[[]struct{ seen }](), reflect.TypeFor[untagged](),
}

var plans = map[reflect.Type]*jsonplan.Plan{}

func init() { //nolint:gochecknoinits // for the fuzzing, which makes no plans
	for _, t := range types {
		plans[t] = jsonplan.For(t)
	}
}

// same holds that a plan decodes text as encoding/json does, into zero values and into values that
// hold something, and that the place of a misfit shows no name of text.
func same(t *testing.T, into reflect.Type, text []byte) {
	t.Helper()
	got, want := reflect.New(into), reflect.New(into)
	for _, round := range []string{"zero", "again"} {
		misfit, refused := plans[into].Unmarshal(text, got.Interface()), json.Unmarshal(text, want.Interface())
		var failed error
		if misfit != nil {
			failed = misfit.Err
			require.NotContains(t, misfit.Path, "hush", "%s from %.300q", into, text)
		}
		require.Equal(t, fmt.Sprint(refused), fmt.Sprint(failed), "%s, %s, from %.300q", into, round, text)
		if !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Fatalf("%s, %s, from %.300q: %+v, encoding/json has %+v", into, round, text, got.Elem(), want.Elem())
		}
	}
}

// TestRandomTextsDecodeAsInEncodingJSON makes texts for each type, with the odd names of other
// systems: empty, with spaces, dots and signs, very long, folding to a field.
// LENDING_TEST_TEXTS=60000 makes so many for each type, LENDING_TEST_SEED=7 begins with that seed.
func TestRandomTextsDecodeAsInEncodingJSON(t *testing.T) {
	first := seeds.FromEnvironment(t, seeds.Variable, rand.IntN(1<<30))
	t.Log("the first seed is", first)
	for n := range seeds.FromEnvironment(t, "LENDING_TEST_TEXTS", 200) {
		g := generator{rand.New(rand.NewPCG(uint64(first+n), 0))}
		for _, into := range types {
			text := []byte(g.text(into, 0))
			require.True(t, json.Valid(text), "%.300q", text)
			same(t, into, text)
			if t.Failed() {
				t.Fatal("the seed is", first+n)
			}
		}
	}
}

type generator struct{ *rand.Rand }

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

// text returns a text that mostly fits t.
func (g generator) text(t reflect.Type, depth int) string {
	var parts []string
	switch {
	case depth > 6 || g.IntN(16) == 0:
		return g.pick(scalars)
	case t.Kind() == reflect.Pointer:
		return g.text(t.Elem(), depth)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		for range g.IntN(4) {
			parts = append(parts, g.text(t.Elem(), depth+1))
		}
		return "[" + strings.Join(parts, " ,") + "]"
	case t.Kind() == reflect.Map:
		parts = append(parts, g.pick(oddNames)+":"+g.text(t.Elem(), depth+1))
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if g.IntN(3) == 0 {
				parts = append(parts, g.name(f)+": "+g.text(f.Type, depth+1))
			}
		}
	case t.Kind() == reflect.Bool:
		return g.pick([]string{"true", "false"})
	case t.Kind() == reflect.String && t != reflect.TypeFor[json.Number]():
		return g.pick([]string{`"a"`, `""`, `"a\u00e9\n"`, "\"\xff\"", `"12"`})
	default:
		return g.pick([]string{"0", "-1", "12", "127", "128", "1e2", "12.50"})
	}
	for range g.IntN(3) {
		parts = append(parts, g.pick(oddNames)+":"+g.pick(scalars))
	}
	g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + strings.Join(parts, ", ") + "}"
}

// name returns the name of the member for f, or a name that folds to it.
func (g generator) name(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		name = f.Name
	}
	switch g.IntN(8) {
	case 0:
		name = strings.ToUpper(name)
	case 1:
		name = strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(name)
	}
	text, _ := json.Marshal(name) //nolint:errchkjson // a string
	return string(text)
}

var (
	scalars  = []string{"null", "true", "12", "-0", "300", "1e999", `"hush"`, `"12"`, `"odd"`, "{}", "[]", `[["hush"]]`}
	oddNames = []string{
		`""`, `" "`, `"hush name"`, `"hush.name"`, `"@hush.type"`, `"hush-1"`, `"\u0000"`, `"."`, `"[0]"`, `"*"`,
		`"` + strings.Repeat("hush", 10) + `"`, `"` + strings.Repeat("hush", 2000) + `"`, "\"hush\xff\"", `"1"`,
	}
)

func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`null`, `true`, `"a"`, `"a\u00e9"`, "\"\xff\"", `"é"`, `12`, `-0`, `1e3`, `1e999`, `300`, `[]`, `{}`, ` [ ] `,
		` { } `, `[[],[[]]]`, `[null]`, `["a",null]`,
		`{"id":"a","named":"b","Amount":12.50,"ok":true,"i8":-128,"i64":9223372036854775807,"u16":65535,"f32":0.1,` +
			`"f64":-1e-7}`,
		`{"id":1}`, `{"named":true}`, `{"Amount":"12"}`, `{"Amount":"x"}`, `{"Amount":{}}`, `{"ok":"true"}`,
		`{"i8":128}`, `{"i8":1.0}`, `{"i64":"1"}`, `{"u16":-0}`,
		`{"u16":-1}`, `{"f32":1e39}`, `{"f64":"1"}`, `{"f64":12345678901234567890123456789012345678901234567890e-20}`,
		`{"lines":[{"count":1,"price":2.50,"note":"x"},{"note":null},null,{"extra":[1,{"a":"}"}]}],"pointers":[{},` +
			`null],"deep":5,"lists":[["a","b"],[],null]}`,
		`{"lines":{}}`, `{"lines":[],"pointers":null,"deep":null,"lists":[null]}`, `{"inner":{"K":"a","s":"b"}}`,
		`{"next":{"next":{"id":"deep","next":null}}}`,
		`{"ID":"other case"}`, `{"iD":"a","Id":"b"}`, `{"id":"a","id":"b"}`,
		`{"lines":[{"count":1},{"count":2}],"lines":[{"price":3}]}`, `{"inner":{"K":"a"},"INNER":{"S":"b"}}`,
		`{"\u0069d":"escaped"}`, "{\"inner\":{\"\u017f\":\"long s\",\"\u212a\":\"kelvin\"}}", "{\"i\xffd\":\"a\"}",
		`{"-":"a","Skipped":"b","unseen":"c"}`,
		`{"any":[1,"a",{"b":null}],"map":{"a":{"count":1},"b":null},"array":[1,2,3],"bytes":"aGk=","raw":{"a": [1, ` +
			`2]},"when":"2024-01-02T03:04:05Z"}`,
		`{"raw":null,"when":null,"seen":null,"texts":null,"read":null,"label":null,"uuid":null,"address":null,` +
			`"big":null,"chan":null}`,
		`{"uuid":"3fa85f64-5717-4562-b3fc-2c963f66afa6","address":"127.0.0.1","big":123456789012345678901234567890,` +
			`"label":"abc","labels":["a","b\n",null]}`,
		`{"uuid":"x"}`, `{"uuid":1}`, `{"seen": [1, {"a" : 2}] ,"seenAll":[ "x" ,null,true]}`, `{"seen":"odd"}`,
		`{"texts":"a","read":"b"}`, `{"texts":"longer than twenty bytes"}`,
		`{"texts":"esc\u0061ped"}`, `{"texts":["a"]}`, `{"label":5}`, `{"chan":1}`, `{"bytes":[1,2],"array":[1]}`,
		`{"bytes":"!"}`,
		`{"inner":{"With":"x"},"lists":["abc"],"next":{"With":"y"}}`, `{"inner":"x","lists":[{"X":1}],"next":"y"}`,
		`{"Promoted":1,"id":"a"}`, `{"i64":"5","id":"a"}`,
		`{"Lines":[{"Lines":[]},{"Lines":null},{}]}`, `{"i-d":"a","Ü":"b","ü":"c","k!":1}`, `{"next":null,"id":"a"}`,
		`{"id":"` + strings.Repeat("long ", 500) + `","named":"x"}`,
		strings.Repeat(`{"next":`, 50) + `{"id":"deep"}` + strings.Repeat(`}`, 50),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		for _, into := range types {
			same(t, into, text)
		}
	})
}

// A plain struct is left neither to encoding/json, which takes an allocation for each string, nor
// to reflection.
func TestPlainRecordsAllocateOnce(t *testing.T) {
	type ordinary struct {
		ID      string `json:"id"`
		Named   name   `json:"named"`
		Amount  json.Number
		Ok      bool                  `json:"ok"`
		I64     int64                 `json:"i64"`
		F64     float64               `json:"f64,omitzero"`
		Inner   struct{ K, S string } `json:"inner"`
		Skipped string                `json:"-"`
		When    time.Time             `json:"when"`
		UUID    uuid.UUID             `json:"uuid"`
		Label   label                 `json:"label"`
	}
	text := []byte(`{"id":"a","named":"b","Amount":12.50,"ok":true,"i64":7,"f64":-1e-7,"extra":{"a":["}"]},` +
		`"inner":{"K":"a","S":"b"},"when":"2024-01-02T03:04:05Z","uuid":"3fa85f64-5717-4562-b3fc-2c963f66afa6",` +
		`"label":"abc"}`)
	var into ordinary
	plan := jsonplan.For(reflect.TypeOf(into))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		into = ordinary{}
		if misfit := plan.Unmarshal(text, &into); misfit != nil {
			t.Fatal(misfit.Err)
		}
	}), 1.0)
	require.Equal(t, json.Number("12.50"), into.Amount)
	require.Equal(t, "b", into.Inner.S)
}

// TestLongAndManyStringsStayApart, though short strings share an allocation.
func TestLongAndManyStringsStayApart(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	parts := make([]string, 400)
	for i := range parts {
		parts[i] = fmt.Sprint("part", i)
	}
	text, err := json.Marshal(map[string]any{"extra": long, "parts": parts, "id": long})
	if err != nil {
		t.Fatal(err)
	}
	var into struct {
		ID    string   `json:"id"`
		Parts []string `json:"parts"`
	}
	if err := jsonplan.For(reflect.TypeOf(into)).Unmarshal(text, &into); err != nil {
		t.Fatal(err.Err)
	}
	if into.ID != long || !reflect.DeepEqual(into.Parts, parts) {
		t.Error("other strings than were sent")
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	text := []byte(`{"id":"00000000-0000-4000-8000-000000000001","named":"Repayment","Amount":1234.56,"ok":true,` +
		`"i64":17,` +
		`"unknown":"11111111-2222-3333-4444-555555555555","lines":[{"count":1,"price":2.50}],` +
		`"when":"2024-01-02T03:04:05Z"}`)
	plan := plans[reflect.TypeFor[plain]()]
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			_ = plan.Unmarshal(text, new(plain))
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			_ = json.Unmarshal(text, new(plain))
		}
	})
}
