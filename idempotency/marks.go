package idempotency

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// marked searches the records of a read for objects that contain id, and these objects for a
// member whose name contains one of words: hasSigned and signedUtc contain "signed". The names
// are not published. If the member is set after the mutation and was not set before, the
// mutation happened. Any other difference proves nothing.
//
// Count is 1 if such a member is set. If a member is not set, State is a hash of the objects.
// Otherwise State is unseen or silent.
func marked[R interface{ Raw() json.RawMessage }](records []R, id string, words ...string) snapshot {
	m := marks{id: id, words: words}
	for _, record := range records {
		decoder := json.NewDecoder(bytes.NewReader(record.Raw()))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) == nil {
			m.search(value)
		}
	}
	switch {
	case m.set:
		return snapshot{Count: 1}
	case m.unset:
		text, _ := json.Marshal(m.objects) //nolint:errchkjson // the objects were decoded from JSON
		return snapshot{State: hashed(string(text))}
	case len(m.objects) == 0:
		return snapshot{State: unseen}
	}
	return snapshot{State: silent}
}

// The states of a record without such a member.
const (
	unseen = "unseen" // no read shows the record, perhaps not yet
	silent = "silent" // the record has no such member
)

// marks is a search for the members whose names contain one of words.
type marks struct {
	id         string
	words      []string
	objects    []any // the objects with id
	set, unset bool  // whether a member is set, and whether a member is not set
}

func (m *marks) search(value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			m.search(one)
		}
	case map[string]any:
		if m.carriesID(value) {
			m.objects = append(m.objects, value)
			for name, member := range value {
				m.read(name, member)
			}
		}
		for _, member := range value {
			m.search(member)
		}
	}
}

func (m *marks) carriesID(object map[string]any) bool {
	for _, member := range object {
		if text, ok := member.(string); ok && strings.EqualFold(text, m.id) {
			return true
		}
	}
	return false
}

// conditional are words of names that do not describe a fact, for example mustBeSigned.
var conditional = []string{"not", "no", "un", "must", "needs", "required", "requires", "can", "may", "should", "to"}

func (m *marks) read(name string, value any) {
	said := wordsOf(name)
	says := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(m.words, w) })
	}
	switch text, _ := value.(string); {
	case slices.ContainsFunc(said, func(w string) bool { return slices.Contains(conditional, w) }):
	case says(said) && isEmpty(value):
		m.unset = true
	case says(said), slices.Contains(said, "status") && slices.Contains(m.words, strings.ToLower(text)):
		m.set = true
	}
}

// isEmpty reports whether a JSON value is null, false, zero or empty.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case string:
		return value == "" || strings.EqualFold(value, "false") || strings.HasPrefix(value, "0001-01-01T")
	case json.Number:
		return value == "0"
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// wordsOf splits the name of a member at each change of case, and returns lower-case words.
func wordsOf(name string) []string {
	var words []string
	var word strings.Builder
	next := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	for i, r := range name {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			next()
		}
		if unicode.IsLetter(r) {
			word.WriteRune(r)
		}
	}
	next()
	return words
}
