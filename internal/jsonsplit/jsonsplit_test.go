package jsonsplit_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

func FuzzParts(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	for _, text := range []string{
		`[{"a":"}]"},[1,[2]],"\"]","\\",-1.5e3,true,null]`, ` [ 1 , "a" , { } ] `,
		`{"a":1,"b":{"a":[",}"]},"A":"\\\"","a":2}`,
		` { "é" : "\ud83d\ude00" , "" : [ ] } `, `"a string"`, `12`, `["\\\\\\"]`, `{"\\":"\\"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameParts(t, text) })
}

// sameParts compares with what encoding/json finds in text.
func sameParts(t *testing.T, text []byte) {
	t.Helper()
	if !json.Valid(text) {
		return
	}
	var elements []string
	for at := range jsonsplit.Elements(text) {
		elements = append(elements, string(text[at.From:at.To]))
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		raw = nil // not an array
	}
	var want []string
	for _, element := range raw {
		want = append(want, string(element))
	}
	if !reflect.DeepEqual(elements, want) {
		t.Errorf("Elements(%.200q) = %q, want %q", text, elements, want)
	}

	members := map[string]string{}
	for name, at := range jsonsplit.Members(text) {
		valid := string([]rune(string(name)))        // encoding/json replaces what is not UTF-8
		members[valid] = string(text[at.From:at.To]) // the last of a name stays
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		object = nil // not an object
	}
	if len(members) != len(object) {
		t.Errorf("Members(%.200q) = %q, want %q", text, members, object)
	}
	for name, value := range object {
		if members[name] != string(value) {
			t.Errorf("Members(%.200q): %q = %q, want %q", text, name, members[name], value)
		}
	}
}

func TestPartsCanBeBrokenOff(t *testing.T) {
	n := 0
	for range jsonsplit.Elements([]byte(`[1,2,3]`)) {
		n++
		break
	}
	for range jsonsplit.Members([]byte(`{"a":1,"b":2}`)) {
		n++
		break
	}
	if n != 2 {
		t.Error(n)
	}
}

// TestPartsOfALongStringOfEscapes would take for ever if each escape cost a look at the
// rest of the string.
func TestPartsOfALongStringOfEscapes(t *testing.T) {
	text := []byte(`["` + strings.Repeat(`\"`, 4<<20) + `"]`)
	n := 0
	for at := range jsonsplit.Elements(text) {
		n += at.To - at.From
	}
	if n != len(text)-2 {
		t.Error(n)
	}
}

func TestNamed(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{`{"amount":1}`, 10},
		{`{"amount" : 1}`, 12},
		{`{"Amount":1}`, 0},
		{`{"amounts":1}`, 0},
		{`{"amoun":1}`, 0},
		{`{"":1}`, 0},
		{`{"a":""}`, 0},
	} {
		t.Run(test.text, func(t *testing.T) {
			if got := jsonsplit.Named([]byte(test.text), 1, "amount"); got != test.want {
				t.Errorf("%d", got)
			}
		})
	}
}
