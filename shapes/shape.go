package shapes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// Shape describes a place of the responses: kinds, names and counts. The only values are the words of a status or a type.
//
// The kinds are "null", "boolean", "integer", "number", "string", "UUID", "decimal string",
// "date", "time", "time without a zone", "object", "list" and, below the maximum depth, "deep".
type Shape struct {
	Kinds  map[string]int    `json:"kinds"`            // number of values of each kind
	Fields map[string]*Shape `json:"fields,omitempty"` // of an object
	Map    bool              `json:"map,omitempty"`    // whether all names of an object are data
	Values *Shape            `json:"values,omitempty"` // of the members of an object whose names are data
	Items  *Shape            `json:"items,omitempty"`  // of a list
	// Words has the values of a status, a type or the like: short words, at most 20. It is empty if a value was no word.
	Words map[string]int `json:"words,omitempty"`
}

const (
	maxDepth = 16  // deeper values are not read
	maxNames = 250 // of an object; more names are data
	maxWords = 20
)

func newShape() *Shape { return &Shape{Kinds: map[string]int{}, Fields: map[string]*Shape{}} }

// add learns the value at the start of raw, which must be valid JSON without space before the value, and returns the rest.
// It keeps nothing of raw, so it needs memory for each place and not for each value.
func (s *Shape) add(name, raw []byte, depth int) (rest []byte) {
	kind := kindOf(raw)
	if (kind == "object" || kind == "list") && depth == maxDepth {
		kind = "deep"
	}
	s.Kinds[kind]++
	switch kind {
	case "object":
		return s.addMembers(raw[1:], depth)
	case "list":
		for raw = space(raw[1:]); raw[0] != ']'; raw = comma(raw) {
			if s.Items == nil {
				s.Items = newShape()
			}
			raw = s.Items.add(name, raw, depth+1)
		}
		return raw[1:]
	}
	length := valueLength(raw)
	if raw[0] == '"' && hasWords(name) {
		s.addWord(raw[1 : length-1])
	}
	return raw[length:]
}

func (s *Shape) addMembers(raw []byte, depth int) (rest []byte) {
	all, data := 0, 0
	for raw = space(raw); raw[0] != '}'; raw = comma(raw) {
		length := valueLength(raw)
		quoted := raw[:length]
		raw = space(space(raw[length:])[1:]) // behind the colon
		field := s.Fields[string(quoted[1:length-1])]
		if field == nil {
			if field = s.member(quoted); field == s.Values {
				data++
			}
		}
		all++
		raw = field.add(quoted, raw, depth+1)
	}
	s.Map = s.Map || data > 0 && 2*data >= all
	return raw[1:]
}

// member returns the shape of a member whose quoted name is not the name of a known field.
func (s *Shape) member(quoted []byte) *Shape {
	var name string
	_ = json.Unmarshal(quoted, &name)
	if s.Map || isData(name) || s.Fields[name] == nil && len(s.Fields) >= maxNames {
		if s.Values == nil {
			s.Values = newShape()
		}
		return s.Values
	}
	if s.Fields[name] == nil {
		s.Fields[name] = newShape()
	}
	return s.Fields[name]
}

// hasWords reports whether the values of a field with this quoted name are words of the service and never of a person.
func hasWords(quoted []byte) bool {
	name := bytes.Trim(quoted, `"`)
	for _, end := range []string{"status", "type", "kind", "stage", "phase", "frequency", "category"} {
		if len(name) >= len(end) && strings.EqualFold(string(name[len(name)-len(end):]), end) {
			return true
		}
	}
	return false
}

var word = regexp.MustCompile(`^[A-Za-z]+([ _-][A-Za-z]+){0,4}$`)

// addWord learns a word. It learns nothing more after another text, or after too many words.
func (s *Shape) addWord(text []byte) {
	switch n, known := s.Words[string(text)]; {
	case known && n > 0:
	case s.Words[noWords] > 0:
		return
	case len(text) > 40 || len(s.Words) >= maxWords || !word.Match(text):
		s.Words = map[string]int{noWords: 1}
		return
	case s.Words == nil:
		s.Words = map[string]int{}
	}
	s.Words[string(text)]++
}

// noWords stands among the words of a place that has other texts, too.
const noWords = ""

// merge adds from to into. from does not change, and either may be nil.
func merge(into, from *Shape) *Shape {
	if from == nil {
		return into
	}
	if into == nil {
		into = newShape()
	}
	if into.Fields == nil { // read from JSON
		into.Fields = map[string]*Shape{}
	}
	for kind, n := range from.Kinds {
		into.Kinds[kind] += n
	}
	for name, field := range from.Fields {
		into.Fields[name] = merge(into.Fields[name], field)
	}
	for text, n := range from.Words {
		if into.Words == nil {
			into.Words = map[string]int{}
		}
		into.Words[text] += n
	}
	if len(into.Words) > maxWords || into.Words[noWords] > 0 {
		into.Words = map[string]int{noWords: 1}
	}
	into.Map = into.Map || from.Map
	into.Values, into.Items = merge(into.Values, from.Values), merge(into.Items, from.Items)
	return into
}

// forgetData removes names that are data. It must run before a shape is shown or saved.
func (s *Shape) forgetData() {
	if s == nil {
		return
	}
	for _, field := range s.Fields {
		field.forgetData()
	}
	s.Map = s.Map || s.namesAreData()
	for name, field := range s.Fields {
		if s.Map || isData(name) {
			s.Values = merge(s.Values, field)
			delete(s.Fields, name)
		}
	}
	s.Values.forgetData()
	s.Items.forgetData()
}

// isData reports whether a name cannot be the name of a field: it is an address, an identifier, a date, a number, or words
// that begin with a capital letter, like a person's name.
func isData(name string) bool {
	digits := 0
	for _, c := range name {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return strings.Index(name, "@") > 0 || digits > 5 || len(name) > 64 || !strings.ContainsFunc(name, unicode.IsLetter) ||
		strings.ContainsAny(name, "\"\\`,<>\r\n\t") || strings.Contains(name, " ") && strings.IndexFunc(name, unicode.IsUpper) == 0
}

// namesAreData reports whether all names of an object are data: there are very many names, or all members are alike and
// none is in more than half of the objects.
func (s *Shape) namesAreData() bool {
	if len(s.Fields) >= maxNames {
		return true
	}
	for _, field := range s.Fields {
		if 2*field.Count() > s.Kinds["object"] {
			return false
		}
	}
	return len(s.Fields) > 1 && s.fieldsAreAlike()
}

func (s *Shape) fieldsAreAlike() bool {
	alike := ""
	for _, field := range s.Fields {
		about := fmt.Sprint(field.places("", false)) // sorted
		if alike != "" && alike != about {
			return false
		}
		alike = about
	}
	return true
}

// Count returns the number of values, including null.
func (s *Shape) Count() (n int) {
	if s == nil {
		return 0
	}
	for _, times := range s.Kinds {
		n += times
	}
	return n
}

// places returns the kinds of each place below path, without counts.
func (s *Shape) places(path string, optional bool) map[string]string {
	if s == nil {
		return nil
	}
	what := s.Class()
	if what == "object" && s.Values != nil && len(s.Fields) == 0 {
		what = "map"
	}
	if s.Kinds["null"] > 0 && what != "null" {
		what += " or null"
	}
	if optional {
		what += ", optional"
	}
	all := map[string]string{path: what}
	for name, field := range s.Fields {
		maps.Copy(all, field.places(path+"."+name, field.Count() < s.Kinds["object"]))
	}
	maps.Copy(all, s.Values.places(path+".*", false))
	maps.Copy(all, s.Items.places(path+"[]", false))
	return all
}

// kindOf returns the kind of the value at the start of raw.
func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "list"
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return stringKind(raw[1 : valueLength(raw)-1])
	}
	if number := raw[:valueLength(raw)]; bytes.ContainsAny(number, ".eE") || len(number) > 18 {
		return "number"
	}
	return "integer"
}

// isDecimal reports whether a text is digits, a point and digits. A regular expression would cost more than all the rest.
func isDecimal(text []byte) bool {
	whole, part, point := bytes.Cut(bytes.TrimPrefix(text, []byte("-")), []byte("."))
	const digits = "0123456789"
	return point && len(whole) > 0 && len(part) > 0 && len(bytes.Trim(whole, digits)) == 0 && len(bytes.Trim(part, digits)) == 0
}

func stringKind(text []byte) string {
	switch {
	case len(text) == 36 && uuid.Validate(string(text)) == nil:
		return "UUID"
	case isDecimal(text):
		return "decimal string"
	case len(text) < 10 || len(text) > 40 || text[4] != '-' || text[7] != '-':
		return "string"
	}
	for _, form := range []struct{ layout, kind string }{
		{time.RFC3339, "time"}, {"2006-01-02T15:04:05", "time without a zone"}, {time.DateOnly, "date"},
	} {
		if _, err := time.Parse(form.layout, string(text)); err == nil {
			return form.kind
		}
	}
	return "string"
}

// valueLength returns the length of the value at the start of raw.
func valueLength(raw []byte) int {
	switch raw[0] {
	case '"':
		for i := 1; ; i++ {
			switch raw[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	case '{', '[':
		for i, open := 1, 1; ; i++ {
			switch raw[i] {
			case '"':
				i += valueLength(raw[i:]) - 1
			case '{', '[':
				open++
			case '}', ']':
				if open--; open == 0 {
					return i + 1
				}
			}
		}
	}
	if end := bytes.IndexAny(raw, ",]} \t\r\n"); end >= 0 {
		return end
	}
	return len(raw)
}

// space returns raw behind white space.
func space(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n") }

// comma returns raw behind white space and a comma, or at the closing bracket.
func comma(raw []byte) []byte {
	if raw = space(raw); raw[0] == ',' {
		raw = space(raw[1:])
	}
	return raw
}

// family returns the wider kind that includes a kind.
func family(kind string) string {
	switch kind {
	case "integer":
		return "number"
	case "UUID", "decimal string", "date", "time", "time without a zone":
		return "string"
	}
	return kind
}

// Class returns the narrowest kind that includes all values except null: "null" if there are no
// other values, "mixed" if no kind includes all values.
func (s *Shape) Class() string {
	class := "null"
	for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
		switch {
		case kind == "null":
		case class == "null" || class == "time" && kind == "time without a zone":
			class = kind
		case family(class) == family(kind):
			class = family(kind)
		default:
			return "mixed"
		}
	}
	return class
}
