package probe

import (
	"bytes"
	"hash/maphash"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// enough is the number of different records after which a name or a word belongs to the service and
// to no record.
const enough = 3

// records are up to three different records, as hashes. Nil means that a file has the name or the word.
type records []uint64

// ownRecord is a record of the walk: its values are those of the probe.
const ownRecord = 1

func (r records) with(record uint64) records {
	if len(r) >= enough || slices.Contains(r, record) {
		return r
	}
	return append(r, record)
}

// few reports whether the name or the word may be a value.
func (r records) few() bool { return r != nil && len(r) < enough }

// salt makes the hashes of records useless outside of this process.
var salt = maphash.MakeSeed()

// identify hashes the identity of the record at i: its id, else the members that end with Id, or else all of it.
func (r *response) identify(i int) (record uint64) {
	if r.own {
		return ownRecord
	}
	text := r.text[i:jsonsplit.End(r.text, i)]
	for name, value := range jsonsplit.Members(text) {
		switch id := text[value.From:value.To]; {
		case id[0] == 'n': // null
		case bytes.EqualFold(name, []byte("id")):
			return maphash.Bytes(salt, id)
		case bytes.HasSuffix(name, []byte("Id")) || bytes.HasSuffix(name, []byte("ID")):
			record = record*31 + maphash.Bytes(salt, id)
		}
	}
	if record == 0 {
		record = maphash.Bytes(salt, text)
	}
	return record
}

// public returns a copy without the names and words that may be values. The package documentation has the rules.
func (s *Shape) public() *Shape {
	if s == nil {
		return nil
	}
	p := &Shape{
		Kinds: maps.Clone(s.Kinds), Times: maps.Clone(s.Times), Items: s.Items.public(), Fields: map[string]*Shape{},
		Words: maps.Clone(s.Words),
	}
	maps.DeleteFunc(p.Words, func(text string, _ int) bool { return s.words[text].few() })
	alike := s.alike()
	for name, field := range s.Fields {
		if field.records == nil || assumedNames()[name] || s.isName(name, field, alike) {
			p.Fields[name] = field.public()
		}
	}
	return p
}

// isName reports whether a name belongs to the service.
func (s *Shape) isName(name string, field *Shape, alike bool) bool {
	count, objects := field.Count(), s.Kinds["object"]
	switch {
	case slices.Contains(field.records, ownRecord) && !alike:
		return !looksLikeText(name)
	case alike && 2*count <= objects, looksLikeText(name) && count < objects:
		return false
	}
	return !field.records.few()
}

// alike reports whether all fields of an object have values of one kind, as in a map.
func (s *Shape) alike() bool {
	classes := map[string]bool{}
	for _, field := range s.Fields {
		class := field.Class()
		if class == "integer" {
			class = "number"
		}
		classes[class] = true
	}
	delete(classes, "null")
	return len(classes) <= 1
}

// assumedNames are the names of fields that this project knows without a service.
var assumedNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	var add func(*Shape)
	add = func(s *Shape) {
		if s == nil {
			return
		}
		for name, field := range s.Fields {
			names[name] = true
			add(field)
		}
		add(s.Items)
	}
	for _, shape := range Assumed().Shapes {
		add(shape)
	}
	return names
})

var address = regexp.MustCompile(`^[^@]+@[^@]+\.[^@]+$`)

// isValue reports whether a name is no name of a field: an e-mail address, an identifier, a date, a number of a person
// or an account.
func isValue(name string) bool {
	digits := 0
	for _, c := range name {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits > 5 || len(name) > 100 || address.MatchString(name) || strings.ContainsFunc(name, unicode.IsControl)
}

// looksLikeText reports whether a name is rather a text, such as a person's name: no letters, or words of which the
// first has a capital letter.
func looksLikeText(name string) bool {
	return !strings.ContainsFunc(name, unicode.IsLetter) ||
		strings.Contains(name, " ") && strings.IndexFunc(name, unicode.IsUpper) == 0
}
