package jsonsplit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

var texts = []string{
	``, ` `, `{}`, `[]`, ` { } `, `[ ]`, `null`, `nul`, `nulll`, `true`, `false`, `truefalse`, `t`, `-`, `-0`, `0`,
	`00`, `01`, `-1.5e+10`,
	`1.`, `.5`, `1e`, `1e+`, `1E9`, `+1`, `0x1`, `NaN`, `"`, `""`, `"\`, `"\"`, `"\u12`, `"\u12G4"`, `"\u1aF4"`, `"\x"`,
	`"\n\\\/"`,
	"\"\n\"", "\"\x7f\"", "\"\xff\"", "\ufeff1", `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`,
	`{a:1}`, `{"a" : [1, {"b":null}] }`,
	`[1,]`, `[,1]`, `[1 2]`, `[1}`, `{"a":1]`, `1 2`, `[[[]]]`, `{"a":{"a":{}}}`, `"a" "b"`, "\t[\r\n1 ]\n", "\v1",
	`[1]x`, `1e5x`, `tru`,
}

func TestValidAnswersAsEncodingJSON(t *testing.T) {
	for depth := 9998; depth < 10003; depth++ {
		texts = append(texts, strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat(`{"a":`, depth)+"1"+
			strings.Repeat("}", depth))
	}
	for at := range 20 { // eight bytes are looked at together
		for _, c := range []string{"\x00", "\x1f", " ", "\"", "\\", "\x7f", "\x80", "\xff"} {
			same(t, []byte(`"`+strings.Repeat("a", at)+c+strings.Repeat("\xf0", 20-at)+`"`))
		}
	}
	for _, text := range texts {
		for end := range min(len(text), 64) + 1 {
			same(t, []byte(text[:end]))
		}
		same(t, []byte(text))
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { same(t, text) })
}

func same(t *testing.T, text []byte) {
	t.Helper()
	if got, want := jsonsplit.Valid(text), json.Valid(text); got != want {
		t.Errorf("Valid(%.80q) = %t, encoding/json says %t", text, got, want)
	}
}
