package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

const (
	maxCause  = 500  // bytes of a cause that an inbox keeps
	readCause = 8192 // bytes of an error's text that Cause reads
)

// Cause returns the text of err for the dead letter of event: a line of at most 500 bytes,
// without control characters. "[redacted]" replaces every string and number of 3 bytes or more
// from the data of the event.
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
	text = strings.ToValidUTF8(text[:min(len(text), readCause)], "")
	text = withoutValues(text, event)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause-len("…")], "") + "…"
	}
	return text
}

// withoutValues replaces values of the event's data in text, the longest first: otherwise the
// rest of a longer value would stay.
func withoutValues(text string, event *Event) string {
	var found []string
	look := func(value string) {
		for _, form := range []string{value, strings.Trim(strconv.Quote(value), `"`)} {
			if len(value) >= 3 && strings.Contains(text, form) {
				found = append(found, form)
			}
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(event.Data.Raw()))
	decoder.UseNumber()
	var data any
	if decoder.Decode(&data) == nil {
		values(data, look)
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, value := range slices.Compact(found) {
		pairs = append(pairs, value, redact.Placeholder)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// values calls yield for each string and number in data.
func values(data any, yield func(string)) {
	switch data := data.(type) {
	case map[string]any:
		for _, member := range data {
			values(member, yield)
		}
	case []any:
		for _, element := range data {
			values(element, yield)
		}
	case string:
		yield(data)
	case json.Number:
		yield(data.String())
	}
}
