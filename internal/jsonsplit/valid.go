package jsonsplit

import (
	"encoding/binary"
	"math/bits"
)

// Valid reports whether text is one JSON value and nothing else, with the same answer
// as [encoding/json.Valid], which is several times as slow.
func Valid(text []byte) bool {
	end := valid(text, Space(text, 0), 0)
	return end >= 0 && Space(text, end) == len(text)
}

// ValidMembers is [Valid] and [Members] in one pass over a text that is not known to
// be valid: it calls member for each member of the object in text, and reports
// whether text is one valid object. Only then is anything true of what member saw.
func ValidMembers(text []byte, member func(name []byte, value Span)) bool {
	i := Space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	end := validList(text, i, 1, '}', member)
	return end >= 0 && Space(text, end) == len(text)
}

// maxDepth is how deep encoding/json lets arrays and objects nest.
const maxDepth = 10000

// The functions below return where the thing that begins at i ends, or -1 if it is
// not of that form.

func valid(text []byte, i, depth int) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case '"':
		return validString(text, i)
	case '{':
		return validList(text, i, depth+1, '}', nil)
	case '[':
		return validList(text, i, depth+1, ']', nil)
	case 't':
		return validWord(text, i, "true")
	case 'f':
		return validWord(text, i, "false")
	case 'n':
		return validWord(text, i, "null")
	}
	return validNumber(text, i)
}

// validList takes an object or an array, whose closing bracket is end, and shows the
// members to member, if it is not nil.
func validList(text []byte, i, depth int, end byte, member func([]byte, Span)) int {
	if i = Space(text, i+1); depth > maxDepth || i >= len(text) {
		return -1
	}
	if text[i] == end {
		return i + 1
	}
	for {
		var name Span
		if end == '}' {
			if name = validName(text, i); name.To < 0 {
				return -1
			}
			if i = Space(text, name.To); i >= len(text) || text[i] != ':' {
				return -1
			}
			i = Space(text, i+1)
		}
		from := i
		if i = valid(text, i, depth); i < 0 {
			return -1
		}
		if member != nil {
			member(unquote(text[name.From:name.To]), Span{from, i})
		}
		if i = Space(text, i); i >= len(text) {
			return -1
		}
		if text[i] == end {
			return i + 1
		}
		if text[i] != ',' {
			return -1
		}
		i = Space(text, i+1)
	}
}

func validName(text []byte, i int) Span {
	if i >= len(text) || text[i] != '"' {
		return Span{i, -1}
	}
	return Span{i, validString(text, i)}
}

func validString(text []byte, i int) int {
	for i = plain(text, i+1); i < len(text); i = plain(text, i+1) {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			if i = validEscape(text, i+1); i < 0 {
				return -1
			}
		default:
			return -1
		}
	}
	return -1
}

// plain returns where, from i on, the first byte stands that means more than itself
// in a string: a quote, a backslash or a control character. It looks at eight bytes at
// once, as long as there are eight: most of a text is strings.
func plain(text []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, backslash := w^ones*'"', w^ones*'\\'
		// The lowest top bit that is set marks the first byte that is meant.
		found := ((w-ones*' ')&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

// validEscape takes what follows a backslash and returns where its last byte is.
func validEscape(text []byte, i int) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range 4 {
			if i++; i >= len(text) || !isHex(text[i]) {
				return -1
			}
		}
		return i
	}
	return -1
}

func validWord(text []byte, i int, word string) int {
	if len(text)-i < len(word) || string(text[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func validNumber(text []byte, i int) int {
	if i < len(text) && text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else if i = digits(text, i); i < 0 {
		return -1
	}
	if i < len(text) && text[i] == '.' {
		if i = digits(text, i+1); i < 0 {
			return -1
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return digits(text, i)
	}
	return i
}

// digits takes at least one digit.
func digits(text []byte, i int) int {
	from := i
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
