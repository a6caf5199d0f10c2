package probe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Seen has the shape of the responses of each route, by method and path template, for example
// "GET /api/Loan/get-loan/{loanId}". Its JSON has only the names and words that pass the rules of
// the package documentation.
type Seen map[string]*Shape

// Shape describes a place of the responses: kinds, names and counts. The only values are the words of a status or a
// type, and the ends of times.
//
// The kinds are "null", "boolean", "integer", "number", "string", "UUID", "decimal string",
// "date", "time", "time without a zone", "object", "list" and, below the maximum depth, "deep".
type Shape struct {
	Kinds  map[string]int    `json:"kinds"`            // number of values of each kind
	Fields map[string]*Shape `json:"fields,omitempty"` // of an object
	Items  *Shape            `json:"items,omitempty"`  // of a list
	// Words has the values of a status, a type or the like: short words, at most 20. It has "" if a value was no word.
	Words map[string]int `json:"words,omitempty"`
	// Times has the ends of times, at most 20: the fraction of a second with 0 for each digit, and the offset, for example
	// ".0000000Z", "+02:00" or, for a whole second without a zone, "".
	Times map[string]int `json:"times,omitempty"`

	records records            // with this field
	words   map[string]records // with each word
}

const (
	maxDepth  = 16 // deeper values are not read
	maxWords  = 20
	maxFields = 2_000 // of a route; later names are not kept
)

// template is a route without a value in its path.
var template = regexp.MustCompile(`^[A-Z]+ (/[A-Za-z][A-Za-z-]*|/\{[A-Za-z]+\})+$`)

// Learn adds the body of a successful response. Learn returns false and adds nothing if the body
// is not JSON or the route is not a template.
func (s Seen) Learn(route string, body []byte) bool { return s.learn(route, body, false) != nil }

// learn returns nil if there was nothing to learn. The program has created the records that are its own.
func (s Seen) learn(route string, body []byte, own bool) *response {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // .NET hosts may send a byte order mark
	if !template.MatchString(route) || !jsonsplit.Valid(body) {
		return nil
	}
	if s[route] == nil {
		s[route] = &Shape{}
	}
	r := &response{text: body, own: own, room: maxFields - s[route].size()}
	r.record = r.identify(0)
	name, _, _ := strings.Cut(route, "/{") // ends with the last word of the route, for example application-status
	r.value(s[route], []byte(name), 0, 0)
	return r
}

// MarshalJSON encodes what is no value of a record.
func (s Seen) MarshalJSON() ([]byte, error) {
	public := map[string]*Shape{}
	for route, shape := range s {
		public[route] = shape.public()
	}
	return json.Marshal(public)
}

type response struct {
	text   []byte
	own    bool
	room   int    // for new fields
	record uint64 // the record that is being read
	news   bool   // whether the public part may have changed
}

// value learns the value at i, and returns the end of the value. It keeps nothing of the text, so it
// needs memory for each place and not for each value.
func (r *response) value(s *Shape, name []byte, i, depth int) (end int) {
	switch c := r.text[i]; {
	case (c == '{' || c == '[') && depth == maxDepth:
		r.count(&s.Kinds, "deep")
		return jsonsplit.End(r.text, i)
	case c == '{':
		return r.object(s, name, i, depth)
	case c == '[':
		return r.list(s, name, i, depth)
	}
	end = jsonsplit.End(r.text, i)
	value := r.text[i:end]
	kind := kindOf(value)
	r.count(&s.Kinds, kind)
	if kind == "time" || kind == "time without a zone" {
		r.time(s, value[len(`"2006-01-02T15:04:05`):len(value)-1])
	}
	if value[0] == '"' && hasWords(name) {
		r.word(s, value[1:len(value)-1])
	}
	return end
}

func (r *response) count(counts *map[string]int, name string) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[name]++
	r.news = r.news || (*counts)[name] == 1
}

func (r *response) list(s *Shape, name []byte, i, depth int) (end int) {
	defer func(outer uint64) { r.record = outer }(r.record)
	r.count(&s.Kinds, "list")
	for i = jsonsplit.Space(r.text, i+1); r.text[i] != ']'; i = jsonsplit.Next(r.text, i) {
		if s.Items == nil {
			s.Items = &Shape{}
		}
		if depth == 0 || depth == 1 && string(name) == "data" { // a list of records
			r.record = r.identify(i)
		}
		i = r.value(s.Items, name, i, depth+1)
	}
	return i + 1
}

func (r *response) object(s *Shape, own []byte, i, depth int) (end int) {
	r.count(&s.Kinds, "object")
	known := 0
	for i = jsonsplit.Space(r.text, i+1); r.text[i] != '}'; i = jsonsplit.Next(r.text, i) {
		name, value := jsonsplit.Member(r.text, i)
		field := s.Fields[string(name)]
		if field == nil {
			// The caller of create-application chooses the names in extraInformation.
			if string(own) == "extraInformation" || isValue(string(name)) || r.room <= 0 {
				i = jsonsplit.End(r.text, value)
				continue
			}
			if s.Fields == nil {
				s.Fields = map[string]*Shape{}
			}
			field, r.room, r.news = &Shape{}, r.room-1, true
			s.Fields[string(name)] = field
		}
		known++
		r.enough(&field.records, field.Count() == 0)
		i = r.value(field, name, value, depth+1)
	}
	if known < len(s.Fields) && !r.news {
		for _, field := range s.Fields { // is one missing for the first time?
			r.news = r.news || field.Count() == s.Kinds["object"]-1
		}
	}
	return i + 1
}

// enough adds the record of a name or a word, which is new or known.
func (r *response) enough(to *records, isNew bool) {
	if *to == nil && !isNew {
		return // a file has it
	}
	before := to.few()
	*to = to.with(r.record)
	r.news = r.news || before && !to.few()
}

func hasWords(name []byte) bool {
	for _, end := range []string{"status", "type", "kind", "stage", "phase", "frequency", "category"} {
		if len(name) >= len(end) && strings.EqualFold(string(name[len(name)-len(end):]), end) {
			return true
		}
	}
	return false
}

var word = regexp.MustCompile(`^[A-Za-z]+([ _-][A-Za-z]+){0,4}$`)

// noWords stands among the words of a place that has other texts, too.
const noWords = ""

// word learns a word. It learns nothing more after another text, or after too many words.
func (r *response) word(s *Shape, text []byte) {
	n := s.Words[string(text)]
	switch {
	case s.Words[noWords] > 0:
		return
	case n == 0 && (len(text) > 40 || len(s.Words) >= maxWords || !word.Match(text)):
		s.Words, s.words, r.news = map[string]int{noWords: 1}, nil, true
		return
	case s.words == nil:
		s.words = map[string]records{}
	}
	of := s.words[string(text)]
	r.enough(&of, n == 0)
	s.words[string(text)] = of
	r.count(&s.Words, string(text))
}

func (r *response) time(s *Shape, end []byte) {
	end = bytes.Clone(end)
	for i := 1; i < len(end) && end[0] == '.' && '0' <= end[i] && end[i] <= '9'; i++ {
		end[i] = '0'
	}
	if s.Times[string(end)] > 0 || len(s.Times) < maxWords {
		r.count(&s.Times, string(end))
	}
}

// Count returns the number of values, including null.
func (s *Shape) Count() (n int) {
	for _, times := range s.Kinds {
		n += times
	}
	return n
}

func (s *Shape) size() int {
	if s == nil {
		return 0
	}
	n := len(s.Fields) + s.Items.size()
	for _, field := range s.Fields {
		n += field.size()
	}
	return n
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

// Class returns the kinds of all values except null, joined with "or": "null" if there are no others. A kind that another
// includes is left out.
func (s *Shape) Class() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
		if wider := family(kind); kind != "null" && (wider == kind || s.Kinds[wider] == 0) {
			kinds = append(kinds, kind)
		}
	}
	return cmp.Or(strings.Join(kinds, " or "), "null")
}
