package recordjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/recordjson"
)

type (
	secret struct{ text string }
	record struct{ raw json.RawMessage }
	order  struct {
		Name  string `json:"name"`
		Pass  secret `json:"pass"`
		Open  bool   `json:"open,omitzero"`
		Extra any    `json:"-"`
	}
	answer struct {
		record
		N     int       `json:"n"`
		At    time.Time `json:"at"`
		Items []answer  `json:"items"`
		Loose int       `json:"loose" decode:"if-it-fits"`
	}
	keeper struct{ text []byte }
)

func (s secret) Reveal() string               { return s.text }
func (s secret) String() string               { return "hidden" }
func (s secret) MarshalJSON() ([]byte, error) { return []byte(`"hidden"`), nil }
func (r record) Raw() json.RawMessage         { return r.raw }

func (k keeper) Keep(v reflect.Value, from, to int) {
	reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(*record).raw = k.text[from:to]
}

var types = recordjson.Types{
	Secret: reflect.TypeFor[secret](), Record: reflect.TypeFor[record](), MaxSize: 1 << 20, Page: 10,
}

func TestValue(t *testing.T) {
	itself := map[string]any{}
	itself["next"] = itself
	for _, tt := range []struct {
		name  string
		value any
		want  string
		err   recordjson.Error
	}{
		{
			"fields, the secret and Extra",
			order{Name: "é", Pass: secret{"s"}, Extra: map[string]int{"n": 1}},
			`{"name":"é","pass":"s","n":1}`,
			recordjson.Error{},
		},
		{"nothing in a list", []any{nil, 1}, `[null,1]`, recordjson.Error{}},
		{"in lists and maps", []map[string]secret{{"a": {"s"}}}, `[{"a":"s"}]`, recordjson.Error{}},
		{
			"a member twice",
			order{Extra: map[string]int{"NAME": 1}},
			"",
			recordjson.Error{Path: "Extra.name", Kind: recordjson.Conflict, Message: "stands in a field of its own"},
		},
		{"itself", itself, "", recordjson.Error{Path: "next.next.next.next", Message: "is nested too deep, or holds itself"}},
		{"not UTF-8", order{Name: "\xff"}, "", recordjson.Error{Path: "name", Message: "must be valid UTF-8"}},
		{
			"a name not UTF-8",
			map[string]any{"a": map[string]any{"\xff": 1}},
			"",
			recordjson.Error{Path: "a", Message: "must be valid UTF-8"},
		},
		{
			"too large", strings.Split(strings.Repeat("12345678,", 1<<17), ","), "",
			recordjson.Error{Message: "is larger than 1 MiB as JSON"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := types.Value(tt.value)
			if refused, ok := errors.AsType[*recordjson.Error](err); ok {
				require.Equal(t, tt.err, *refused)
				return
			}
			require.NoError(t, err)
			require.Empty(t, tt.err.Message)
			require.Equal(t, tt.want, string(got))
		})
	}
	got, err := types.WithoutSecrets(order{Pass: secret{"s"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"","pass":"[redacted]"}`, string(got))
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *recordjson.Misshape
	}{
		{"fits", `{"N":3.0,"at":"2026-03-04T05:06:07","items":[{"n":1},null],"loose":"x"}`, nil},
		{
			"a string for a number", `{"items":[{},{"n":"x"}]}`,
			&recordjson.Misshape{Path: "items.[1].n", Want: "an integer", Got: "a string"},
		},
		{"an object for a list", `{"items":{}}`, &recordjson.Misshape{
			Path: "items", Want: "an array",
			Got: "an object",
		}},
		{"no time", `{"at":"soon"}`, &recordjson.Misshape{Path: "at", Want: "a time", Got: "a string"}},
		{"no object", `[]`, &recordjson.Misshape{Want: "an object", Got: "an array"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got answer
			text := []byte(tt.text)
			require.Equal(t, tt.want, types.Decode(text, 0, reflect.ValueOf(&got).Elem(), keeper{text}))
			if tt.want != nil {
				return
			}
			require.Equal(t, tt.text, string(got.Raw()))
			require.Equal(t, 3, got.N)
			require.Equal(t, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), got.At)
			require.Len(t, got.Items, 2)
			require.JSONEq(t, `{"n":1}`, string(got.Items[0].Raw()))
			require.JSONEq(t, `null`, string(got.Items[1].Raw()))
		})
	}
}
