package shapes

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Shape describes a place of the responses: kinds, names and counts. The only values are the words of a status or a
// type,
// and the offsets of times.
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
	// Times has the ends of times, at most 20: the fraction of a second with 0 for each digit, and the offset, for example
	// ".0000000Z", "+02:00" or, for a whole second without a zone, "".
	Times map[string]int `json:"times,omitempty"`
}

const (
	maxDepth = 16  // deeper values are not read
	maxNames = 250 // of an object; more names are data
	maxWords = 20
)

func newShape() *Shape { return &Shape{Kinds: map[string]int{}} }

// add learns the value at i of text, which must be valid JSON, and returns the end of the value.
// It keeps nothing of text, so it needs memory for each place and not for each value.
func (s *Shape) add(name, text []byte, i, depth int) (end int) {
	switch text[i] {
	case '{', '[':
		if depth == maxDepth {
			s.Kinds["deep"]++
			return jsonsplit.End(text, i)
		}
		if text[i] == '{' {
			return s.addMembers(name, text, i, depth)
		}
		s.Kinds["list"]++
		for i = jsonsplit.Space(text, i+1); text[i] != ']'; i = jsonsplit.Next(text, i) {
			if s.Items == nil {
				s.Items = newShape()
			}
			i = s.Items.add(name, text, i, depth+1)
		}
		return i + 1
	}
	end = jsonsplit.End(text, i)
	value := text[i:end]
	kind := kindOf(value)
	s.Kinds[kind]++
	if kind == "time" || kind == "time without a zone" {
		s.addTime(value[len(`"2006-01-02T15:04:05`) : len(value)-1])
	}
	if value[0] == '"' && hasWords(name) {
		s.addWord(value[1 : len(value)-1])
	}
	return end
}

func (s *Shape) addMembers(own, text []byte, i, depth int) (end int) {
	s.Kinds["object"]++
	s.Map = s.Map || string(own) == "extraInformation" // the caller of create-application chooses its names
	all, data := 0, 0
	for i = jsonsplit.Space(text, i+1); text[i] != '}'; i = jsonsplit.Next(text, i) {
		name, value := jsonsplit.Member(text, i)
		field := s.Fields[string(name)]
		if field == nil {
			if field = s.member(string(name)); field == s.Values {
				data++
			}
		}
		all++
		i = field.add(name, text, value, depth+1)
	}
	s.Map = s.Map || data > 0 && 2*data >= all && s.membersAreAlike()
	return i + 1
}

// membersAreAlike reports whether all members have values of one kind, or null: a record has several.
func (s *Shape) membersAreAlike() bool {
	alike := family(s.Values.Class())
	for _, field := range s.Fields {
		class := family(field.Class())
		if alike == "null" {
			alike = class
		}
		if class != alike && class != "null" {
			return false
		}
	}
	return true
}

// isRecord reports whether a field is in most of several objects: an object with odd names does not make them a map.
func (s *Shape) isRecord() bool {
	objects := s.Kinds["object"]
	for _, field := range s.Fields {
		if !s.Map && objects > 1 && 2*field.Count() > objects {
			return true
		}
	}
	return false
}

// member returns the shape of a member with a name that is no known field.
func (s *Shape) member(name string) *Shape {
	if s.Map || isData(name) || len(s.Fields) >= maxNames {
		if s.Values == nil {
			s.Values = newShape()
		}
		return s.Values
	}
	if s.Fields == nil {
		s.Fields = map[string]*Shape{}
	}
	s.Fields[name] = newShape()
	return s.Fields[name]
}

// hasWords reports whether the values of a field with this name are words of the service and never of a person.
func hasWords(name []byte) bool {
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

// addTime learns how a time ends.
func (s *Shape) addTime(end []byte) {
	end = bytes.Clone(end)
	for i := 1; i < len(end) && end[0] == '.' && '0' <= end[i] && end[i] <= '9'; i++ {
		end[i] = '0'
	}
	s.countTime(string(end), 1)
}

func (s *Shape) countTime(end string, n int) {
	if s.Times == nil {
		s.Times = map[string]int{}
	}
	if s.Times[end] > 0 || len(s.Times) < maxWords {
		s.Times[end] += n
	}
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
	if into.Fields == nil && from.Fields != nil {
		into.Fields = map[string]*Shape{}
	}
	into.Map = (into.Map || from.Map) && !into.isRecord() && !from.isRecord()
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
	for end, n := range from.Times {
		into.countTime(end, n)
	}
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
	if what == "object" && s.Map {
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

// kindOf returns the kind of a value that is no object and no list.
func kindOf(value []byte) string {
	switch value[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return stringKind(value[1 : len(value)-1])
	}
	if bytes.ContainsAny(value, ".eE") || len(value) > 18 {
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
	for _, form := range []struct{ end, kind string }{{"", "time"}, {"Z", "time without a zone"}, {"T00:00:00Z", "date"}} {
		if _, err := time.Parse(time.RFC3339, string(text)+form.end); err == nil {
			return form.kind
		}
	}
	return "string"
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
