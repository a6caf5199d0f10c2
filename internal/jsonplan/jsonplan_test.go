package jsonplan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/jsonplan"
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
	hides    struct {
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
	reflect.TypeFor[[]struct{ seen }](),
}

func harmless(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[uuid.UUID]() ||
		t == reflect.TypeFor[json.RawMessage]()
}

var plans = map[reflect.Type]*jsonplan.Plan{}

func init() { //nolint:gochecknoinits // for the fuzzing, which makes no plans
	for _, t := range types {
		plans[t] = jsonplan.For(t, harmless)
	}
}

// same holds that a plan does what encoding/json does, with fresh values and with those
// that hold something.
func same(t *testing.T, text []byte) {
	t.Helper()
	if !json.Valid(text) {
		return
	}
	for _, into := range types {
		got, want := reflect.New(into), reflect.New(into)
		for _, round := range []string{"fresh", "again"} {
			misfit, refused := plans[into].Unmarshal(text, got.Interface()), json.Unmarshal(text, want.Interface())
			var failed error
			if misfit != nil {
				failed = misfit.Err
			}
			if fmt.Sprint(failed) != fmt.Sprint(refused) {
				t.Errorf("%s, %s, from %.300q: %v, encoding/json says %v", into, round, text, failed, refused)
			}
			if !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s, %s, from %.300q: %+v, encoding/json has %+v", into, round, text, got.Elem(), want.Elem())
			}
		}
	}
}

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
	f.Fuzz(same)
}

// TestPlainRecordsTakeThePlan holds that what should be fast is: encoding/json takes an
// allocation for each string, and several to begin with.
func TestPlainRecordsTakeThePlan(t *testing.T) {
	type ordinary struct {
		ID      string `json:"id"`
		Named   name   `json:"named"`
		Amount  json.Number
		Ok      bool                  `json:"ok"`
		I64     int64                 `json:"i64"`
		U16     uint16                `json:"u16"`
		F64     float64               `json:"f64,omitzero"`
		Inner   struct{ K, S string } `json:"inner"`
		Skipped string                `json:"-"`
		unseen  string
		When    time.Time `json:"when"`
		UUID    uuid.UUID `json:"uuid"`
	}
	type withMethods struct {
		ordinary2 ordinary
		ID        string `json:"id"`
		Named     name   `json:"named"`
		Amount    json.Number
		Ok        bool                  `json:"ok"`
		I64       int64                 `json:"i64"`
		Inner     struct{ K, S string } `json:"inner"`
		When      time.Time             `json:"when"`
		UUID      label                 `json:"uuid"`
	}
	const text = `{"id":"a","named":"b","Amount":12.50,"ok":true,"i64":7,"u16":65535,"f64":-1e-7,"extra":{"a":["}"]},` +
		`"inner":{"K":"a","S":"b"},"when":"2024-01-02T03:04:05Z","uuid":"3fa85f64-5717-4562-b3fc-2c963f66afa6"}`
	var plain ordinary
	require.LessOrEqual(t, allocations(t, text, &plain), 1.0)
	require.Equal(t, json.Number("12.50"), plain.Amount)
	require.Equal(t, "b", plain.Inner.S)
	require.Empty(t, plain.unseen)
	var methods withMethods
	require.LessOrEqual(t, allocations(t, text, &methods), 2.0,
		"the text is looked at before a method of the caller's is called")
	require.Equal(t, "b", methods.Inner.S)
	require.Empty(t, methods.ordinary2)
}

func allocations(t *testing.T, text string, into any) float64 {
	t.Helper()
	data, v := []byte(text), reflect.ValueOf(into).Elem()
	plan := jsonplan.For(v.Type(), harmless)
	return testing.AllocsPerRun(100, func() {
		v.SetZero()
		if misfit := plan.Unmarshal(data, into); misfit != nil {
			t.Fatal(misfit.Err)
		}
	})
}

// TestStringsShareLittle holds that a string does not keep a long record from being freed,
// and that the strings of one do not run into each other.
func TestStringsShareLittle(t *testing.T) {
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
	if err := jsonplan.For(reflect.TypeOf(into), harmless).Unmarshal(text, &into); err != nil {
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
