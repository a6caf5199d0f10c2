package shapes

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Shape describes a place of the responses: kinds, names and counts, and never a value.
//
// The kinds are "null", "boolean", "integer", "number", "string", "UUID", "decimal string",
// "date", "time", "time without a zone", "object", "list" and, below the maximum depth, "deep".
type Shape struct {
	Kinds  map[string]int    `json:"kinds"`            // number of values of each kind
	Fields map[string]*Shape `json:"fields,omitempty"` // of an object
	Values *Shape            `json:"values,omitempty"` // of each member of an object whose names are data
	Items  *Shape            `json:"items,omitempty"`  // of a list
}

const maxDepth = 16 // deeper values are not read

// shapeOf returns the shape of raw, which must be valid JSON.
func shapeOf(raw json.RawMessage, depth int) *Shape {
	kind := kindOf(raw)
	var members map[string]json.RawMessage
	var items []json.RawMessage
	switch {
	case (kind == "object" || kind == "list") && depth == maxDepth:
		kind = "deep"
	case kind == "object":
		_ = json.Unmarshal(raw, &members)
	case kind == "list":
		_ = json.Unmarshal(raw, &items)
	}
	s := &Shape{Kinds: map[string]int{kind: 1}, Fields: map[string]*Shape{}}
	for name, member := range members {
		s.Fields[name] = shapeOf(member, depth+1)
	}
	for _, item := range items {
		s.Items = merge(s.Items, shapeOf(item, depth+1))
	}
	return s
}

// merge adds from to into. from does not change, and either may be nil.
func merge(into, from *Shape) *Shape {
	if from == nil {
		return into
	}
	if into == nil {
		into = &Shape{Kinds: map[string]int{}, Fields: map[string]*Shape{}}
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
	if s.Values != nil || s.namesAreData() {
		for _, field := range s.Fields {
			s.Values = merge(s.Values, field)
		}
		s.Fields = map[string]*Shape{}
	}
	s.Values.forgetData()
	s.Items.forgetData()
}

// fieldName matches names of fields, but no identifiers, addresses or dates.
var fieldName = regexp.MustCompile(`^[$@_]?[A-Za-z][A-Za-z_]{0,60}([0-9]{1,4}[A-Za-z_]{0,20})?$`)

// namesAreData reports whether the names of an object are data and not fields: a name cannot be
// a field name, or there are very many names, or all members are alike and none is in more than
// half of the objects.
func (s *Shape) namesAreData() bool {
	rare := len(s.Fields) > 1
	for name, field := range s.Fields {
		if !fieldName.MatchString(name) || len(s.Fields) > 250 {
			return true
		}
		rare = rare && 2*field.Count() <= s.Kinds["object"]
	}
	return rare && s.fieldsAreAlike()
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
	if what == "object" && s.Values != nil {
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

var decimal = regexp.MustCompile(`^-?[0-9]+\.[0-9]+$`)

func kindOf(raw json.RawMessage) string {
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
		var text string
		_ = json.Unmarshal(raw, &text)
		return stringKind(text)
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return "integer"
	}
	return "number"
}

func stringKind(text string) string {
	if len(text) == 36 && uuid.Validate(text) == nil {
		return "UUID"
	}
	if decimal.MatchString(text) {
		return "decimal string"
	}
	for layout, kind := range map[string]string{time.RFC3339: "time", "2006-01-02T15:04:05": "time without a zone", time.DateOnly: "date"} {
		if _, err := time.Parse(layout, text); err == nil {
			return kind
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
