package jsonsplit

import (
	"encoding/binary"
	"math/bits"
)

// Valid reports whether text is a JSON value and nothing else. The result is the same as from
// [encoding/json.Valid], which is several times as slow.
func Valid(text []byte) bool {
	end := valid(text, Space(text, 0), 0)
	return end >= 0 && Space(text, end) == len(text)
}

// ValidMembers is [Valid] and [Members] in a single pass over any text: it calls member for each
// member of the object in text, and reports whether text is a valid object. If not, discard the
// members.
func ValidMembers(text []byte, member func(name []byte, value Span)) bool {
	i := Space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	end := validList(text, i, 1, '}', member)
	return end >= 0 && Space(text, end) == len(text)
}

// maxDepth is the limit of encoding/json on nested arrays and objects.
const maxDepth = 10000

// The functions below return the end of the value at i, or -1 if its form is invalid.

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

// validList takes an object or an array with the closing bracket end, and calls member, unless
// nil, for each member.
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
			if name = validName(text, i); name.To == -1 {
				return -1
			}
			if i = Space(text, name.To); i >= len(text) || text[i] != ':' {
				return -1
			}
			i = Space(text, i+1)
		}
		from := i
		if i = valid(text, i, depth); i == -1 {
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
			if i = validEscape(text, i+1); i == -1 {
				return -1
			}
		default:
			return -1
		}
	}
	return -1
}

// plain returns the place of the first special byte of a string, from i on: a quote, a backslash
// or a control character. plain tests eight bytes at once, because most of a text is strings.
func plain(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		// The lowest top bit set marks the first special byte.
		if found := ((w-ones*' ')&^w | equal(w, '"') | equal(w, '\\')) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

const ones, tops = 0x0101010101010101, 0x8080808080808080

// equal sets the top bit of the bytes of w equal to c. Bytes above the lowest such byte may be
// marked too.
func equal(w uint64, c byte) uint64 {
	w ^= ones * uint64(c)
	return (w - ones) &^ w
}

// validEscape takes the bytes after a backslash and returns the place of the last.
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
	} else if i = digits(text, i); i == -1 {
		return -1
	}
	if i < len(text) && text[i] == '.' {
		if i = digits(text, i+1); i == -1 {
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
