package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// form describes a response without a record: its status, and the kind of its body.
func form(r lending.Response, _ error) string {
	text, kind := strings.TrimSpace(string(r.Body)), mediaType(r.Header)
	switch {
	case text == "":
		kind = assumption.Empty
	case text == "null" || text == "[]" || text == "{}":
		kind = text
	case strings.HasSuffix(kind, "json"):
		kind = either(r.StatusCode >= 400 && strings.Contains(strings.ToLower(text), `"status"`), assumption.Problem, assumption.OtherJSON)
	}
	return fmt.Sprint(r.StatusCode, " ", kind)
}

// refusalForm describes a refusal: its media type, and the form of its problem record.
func refusalForm(r lending.Response) string {
	var record map[string]json.RawMessage
	body := bytes.TrimSpace(r.Body)
	switch {
	case len(body) == 0:
		return assumption.Empty
	case json.Unmarshal(body, &record) != nil:
		return mediaType(r.Header) + " " + assumption.FormOther
	}
	isList := func(raw json.RawMessage) bool { return raw[0] == '[' }
	errors, ok := record["errors"]
	form := assumption.FormRecord
	switch {
	case ok && isList(errors):
		form = assumption.FormArray
	case ok && errors[0] == '{':
		form = assumption.FormDictionary
	case len(record) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(record)), func(raw json.RawMessage) bool { return !isList(raw) }):
		form = assumption.FormBareDictionary
	}
	return mediaType(r.Header) + " " + form
}

func addForm(forms, form string) string {
	all := strings.Split(strings.TrimPrefix(forms+", "+form, ", "), ", ")
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// accepted is the fact of a request with assumed names that succeeds.
const accepted = "accepted"

// answer describes the response to a mutation.
func answer(r lending.Response, err error) string {
	if err != nil && r.StatusCode/100 == 2 {
		return fmt.Sprint(r.StatusCode, " ", assumption.WithRefusal)
	}
	return fmt.Sprint(r.StatusCode)
}

// reason tells why a call failed, without a value.
func reason(err error) string {
	if failed, ok := errors.AsType[*lending.Error](err); ok && failed.StatusCode > 0 {
		if failed.StatusCode == http.StatusForbidden {
			return "403: the account may not call this route"
		}
		return fmt.Sprint("status ", failed.StatusCode)
	}
	return "the call failed: " + lending.NextOf(err).String()
}

func ceiling(d time.Duration) string { return (d + time.Second - 1).Truncate(time.Second).String() }

var media = regexp.MustCompile(`^[a-z]+/[a-z.+-]{1,40}$`)

func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if kind = strings.ToLower(strings.TrimSpace(kind)); !media.MatchString(kind) {
		return "no content type"
	}
	return kind
}

// uuidForm tells where a response has a UUID.
func uuidForm(body []byte) string {
	isUUID := func(value []byte) bool { return len(value) == 38 && uuid.Validate(string(value[1:37])) == nil }
	switch {
	case !jsonsplit.Valid(body):
		return "another form"
	case isUUID(body):
		return "a UUID"
	}
	for _, value := range jsonsplit.Members(body) {
		if isUUID(body[value.From:value.To]) {
			return "a UUID in an object"
		}
	}
	return "no UUID"
}

func either(first bool, one, other string) string {
	if first {
		return one
	}
	return other
}
