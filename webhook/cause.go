package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

const (
	maxCause = 500     // bytes of a cause that an inbox keeps
	maxText  = 1 << 20 // bytes of an error's text
)

// Cause returns the text of err for the dead letter of event: a line of at most 500 bytes,
// without control characters. "[redacted]" replaces every string and number of 3 bytes or more
// from the data of the event, also as JSON or Go quote it, and every name of a member that is
// no name of a field: letters of which the first is small.
//
// The errors of this library show no values. The errors of your function may: a value from
// another source, or a part of a value, stays in the cause.
func Cause(event *Event, err error) string {
	if err == nil {
		return ""
	}
	var text string
	if failed := safely.Call[lending.PanicError](func() error {
		text = err.Error()
		return nil
	}); failed != nil {
		text = "an error whose method Error panics"
	}
	if len(text) > maxText { // a cut could leave a part of a value
		text = "an error with a text of more than 1 MiB"
	}
	text = withoutValues(strings.ToValidUTF8(text, ""), event)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause-len("…")], "") + "…"
	}
	return text
}

// withoutValues replaces values of the event's data in text. Values that overlap are replaced
// together: otherwise the rest of one would stay.
func withoutValues(text string, event *Event) string {
	type span struct{ from, to int }
	var spans []span
	for _, value := range slices.Compact(slices.Sorted(formsIn(event.Data.Raw()))) {
		for at := 0; len(value) >= 3; {
			found := strings.Index(text[at:], value)
			if found < 0 {
				break
			}
			at += found + len(value)
			spans = append(spans, span{at - len(value), at})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var shown strings.Builder
	end := 0
	for _, s := range spans {
		if s.from >= end {
			shown.WriteString(text[end:s.from] + redact.Placeholder)
		}
		end = max(end, s.to)
	}
	return shown.String() + text[end:]
}

// formsIn yields the values in data, in each form that an error can show.
func formsIn(data []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		for from := int64(0); ; from = decoder.InputOffset() {
			token, err := decoder.Token()
			if err != nil {
				return
			}
			at := decoder.InputOffset()
			value, isText := token.(string)
			if number, ok := token.(json.Number); ok {
				value = number.String()
			}
			if value == "" || isText && isFieldName(value) && bytes.HasPrefix(bytes.TrimLeft(data[at:], " \t\r\n"), []byte(":")) {
				continue
			}
			source := strings.Trim(string(data[from:at]), "{[,: \t\r\n")
			escaped, _ := json.Marshal(value) // other than in source, for example with < as \u003c
			for _, form := range []string{value, source, strconv.Quote(value), string(escaped)} {
				if !yield(strings.Trim(form, `"`)) {
					return
				}
			}
		}
	}
}

// isFieldName reports whether the name of a member tells nothing of a person, as "loanId".
func isFieldName(name string) bool {
	small := func(c rune) bool { return 'a' <= c && c <= 'z' }
	return small(rune(name[0])) && !strings.ContainsFunc(name, func(c rune) bool { return !small(c) && (c < 'A' || c > 'Z') })
}
