// Package jsonsplit finds the parts of a JSON text without building any of them.
//
// The functions trust their input: give them only text accepted by [encoding/json.Valid].
package jsonsplit

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
)

// Span is a part of a text: text[From:To].
type Span struct{ From, To int }

// Elements yields the place of each element of the array in text, and nothing for another kind
// of value.
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

// Members yields the name of each member of the object in text and the place of its value, and
// nothing for another kind of value.
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

// Kind returns the kind of the first value in text, with its article: "an object", "an array",
// "a string", "a boolean", "a number", or "null".
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

// Text returns the string in raw, valid JSON, or an error if raw is no string. Text copies only
// strings with escapes or beyond ASCII.
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

// unquote returns the text of a quoted member name, copied only if escaped.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // cannot fail: the text is valid
	return []byte(name)
}

// Member returns the name of the member at i and the start of its value.
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

// Space returns the place of the first byte, from i on, other than JSON's white space.
func Space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// End returns the end of the value at i.
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

// Named returns the start of the value of the member at i if the member has the given name, else 0.
func Named(text []byte, i int, name string) int {
	end := i + 1 + len(name)
	if end+1 >= len(text) || text[end] != '"' || string(text[i+1:end]) != name {
		return 0
	}
	if text[end+1] != ':' {
		return Space(text, Space(text, end+1)+1)
	}
	return Space(text, end+2)
}

// quoted returns the end of the string at i.
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
