// Package jsonsplit finds the parts of a JSON text without building any of them.
//
// It trusts its input: hand it only text that [encoding/json.Valid] has accepted.
package jsonsplit

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
)

// Span is a part of a text: text[From:To].
type Span struct{ From, To int }

// Elements yields where each element of the array in text stands, and nothing
// if text holds another kind of value.
func Elements(text []byte) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		i := Space(text, 0)
		if i == len(text) || text[i] != '[' {
			return
		}
		for i = Space(text, i+1); text[i] != ']'; i = Next(text, i) {
			end := End(text, i)
			if !yield(Span{i, end}) {
				return
			}
			i = end
		}
	}
}

// Members yields the name of each member of the object in text and where its
// value stands, and nothing if text holds another kind of value.
func Members(text []byte) iter.Seq2[[]byte, Span] {
	return func(yield func([]byte, Span) bool) {
		i := Space(text, 0)
		if i == len(text) || text[i] != '{' {
			return
		}
		for i = Space(text, i+1); text[i] != '}'; i = Next(text, i) {
			name, from := Member(text, i)
			i = from
			end := End(text, i)
			if !yield(name, Span{i, end}) {
				return
			}
			i = end
		}
	}
}

// Kind says, with its article, what the value is that text begins with: "an object",
// "an array", "a string", "a boolean", "a number", or "null".
func Kind(text []byte) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Text returns the string that raw holds, which is valid JSON, or an error if raw is no string.
// It copies only a string with escapes or beyond ASCII.
func Text(raw []byte) ([]byte, error) {
	plain := func(c byte) bool { return c != '\\' && c < 0x80 }
	for i, c := range raw {
		if !plain(c) || (c == '"') != (i == 0 || i == len(raw)-1) {
			var text *string
			err := json.Unmarshal(raw, &text)
			if err != nil || text == nil {
				return nil, errors.New("not a string")
			}
			return []byte(*text), nil
		}
	}
	return raw[1 : len(raw)-1], nil
}

// unquote returns the name in a quoted member name, copied only if it is escaped.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // the text is known to be valid
	return []byte(name)
}

// Member returns the name of the member that begins at i and where its value begins.
func Member(text []byte, i int) (name []byte, value int) {
	end := quoted(text, i)
	name = unquote(text[i:end])
	i = Space(text, end)
	return name, Space(text, i+1) // behind the colon
}

// Next moves from the end of a value to the next value or the closing bracket.
func Next(text []byte, i int) int {
	i = Space(text, i)
	if text[i] == ',' {
		i = Space(text, i+1)
	}
	return i
}

// Space returns where, from i on, the first byte stands that is no white space of JSON.
func Space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// End returns where the value that begins at i ends.
func End(text []byte, i int) int {
	switch text[i] {
	case '"':
		return quoted(text, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch text[i] {
			case '"':
				i = quoted(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(text) && text[i] != ',' && text[i] != ']' && text[i] != '}' && text[i] > ' ' {
		i++
	}
	return i
}

// quoted returns where the string that begins at i ends.
func quoted(text []byte, i int) int {
	i++
	if end := i + bytes.IndexByte(text[i:], '"'); text[end-1] != '\\' {
		return end + 1
	}
	for ; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}
