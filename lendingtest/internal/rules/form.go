package rules

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// The forms of a refusal, the preferred form first: fields are in a dictionary, and other refusals are records.
var (
	withFields = []string{
		assumption.FormBareDictionary, assumption.FormDictionary, assumption.FormArray, assumption.FormRecord,
		assumption.FormOther, assumption.Empty,
	}
	withoutFields = []string{
		assumption.FormArray, assumption.FormRecord, assumption.FormOther, assumption.FormBareDictionary,
		assumption.FormDictionary, assumption.Empty,
	}
)

// Formed returns a refusal in one of the forms of a fact of [assumption.ProblemRecord].
func (c *Call) Formed(b *book.Book, refused *Problem, forms string) *Answer {
	a, order := Refusal(b, refused, c.Request.URL.Path), withoutFields
	if len(refused.Errors) > 0 {
		order = withFields
	}
	rank := func(form string) int {
		return slices.IndexFunc(order, func(kind string) bool { return strings.HasSuffix(form, kind) })
	}
	form := slices.MinFunc(strings.Split(forms, ", "), func(a, b string) int { return rank(a) - rank(b) })
	if media, _, _ := strings.Cut(form, " "); strings.Contains(media, "/") {
		a.Header.Set("Content-Type", media)
	}
	own := plain.Decode(a.Body).(map[string]any)
	record := fields{
		"type":  fmt.Sprintf("https://tools.ietf.org/html/rfc9110#section-15.5.%d", a.Status-http.StatusBadRequest+1),
		"title": own["title"], "status": own["status"], "traceId": own["traceId"],
	}
	switch i := rank(form); {
	case i < 0 || order[i] == assumption.FormArray:
		return a
	case order[i] == assumption.FormBareDictionary:
		record = c.dictionary(refused)
	case order[i] == assumption.FormDictionary:
		record["errors"] = c.dictionary(refused)
	case order[i] == assumption.FormOther:
		a.Body = []byte("<h1>" + http.StatusText(a.Status) + "</h1>")
		return a
	case order[i] == assumption.Empty:
		a.Header.Del("Content-Type")
		a.Body = nil
		return a
	}
	a.Body = plain.JSON(record)
	return a
}

// dictionary returns the errors of a refusal as the framework does. Fields have the names of C#, but those of JSON in a
// body that cannot be read.
func (c *Call) dictionary(refused *Problem) fields {
	all := fields{}
	for _, e := range refused.Errors {
		name, isPath := strings.CutPrefix(e.Field, "$")
		name = strings.TrimPrefix(name, ".")
		isParameter := c.Request.Method == http.MethodGet || c.Request.URL.Query().Has(name) || c.Request.PathValue(name) != ""
		if !isPath && !isParameter {
			name = initial.ReplaceAllStringFunc(name, strings.ToUpper)
		}
		messages, _ := all[name].([]string)
		all[name] = append(messages, e.Message)
	}
	if len(all) == 0 {
		all[""] = []string{refused.Detail}
	}
	return all
}

// initial is the first letter of a part of a field name.
var initial = regexp.MustCompile(`(^|\.)[a-z]`)
