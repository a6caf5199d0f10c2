package verdict

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

var (
	// The members that may hold the identifier.
	identifiers = []string{"id", "guid", "data", "result", "value"}

	verdicts = []string{"success", "issuccess", "succeeded"}
	codes    = []string{"status", "statuscode", "httpstatus", "code", "resultcode", "responsecode", "state", "outcome", "result"}
	messages = []string{"message", "msg", "detail", "details", "title", "reason", "description"}
	faults   = []string{"error", "errors", "errorcode", "errormessage", "exception", "failure", "failures"}

	// Codes and messages of a success.
	yes = []string{"ok", "success", "successful", "succeeded", "done", "accepted", "approved", "completed", "confirmed", "created", "processed"}

	// Parts of words for a failure.
	no = []string{
		"fail", "error", "reject", "declin", "denied", "refus", "unauthor", "expire", "invalid", "wrong", "cancel", "delet",
		"pending", "require",
	}
)

// Confirms reports whether answer, valid JSON, confirms a transaction, and returns the name of a
// contradicting member. held reports the identifiers of the request: a repeated identifier
// proves nothing. The judgement is strict: a wrong yes hides a refusal, and a wrong no only
// costs another read.
//
// A UUID confirms if it is the whole answer, or the value of id, guid, data, result or value,
// unless another member contradicts:
//
//   - false, "false" or 0 for success; any other false, unless its name means a failure
//   - a status, state or code other than a success
//   - an error other than empty
//   - a word for a failure in any text
//   - a message for people, unless another member says success
func Confirms(answer []byte, held func(uuid.UUID) bool) (ok bool, contradiction string) {
	if answer[jsonsplit.Space(answer, 0)] == '"' {
		return identifies(answer, held), ""
	}
	for name, at := range jsonsplit.Members(answer) {
		ok = ok || slices.Contains(identifiers, fold(name)) && identifies(answer[at.From:at.To], held)
	}
	if ok {
		contradiction = contradictionIn(answer, claimsSuccess(answer))
	}
	return ok && contradiction == "", contradiction
}

func fold(name []byte) string { return strings.ToLower(string(name)) }

// identifies reports whether value is a new UUID.
func identifies(value []byte, held func(uuid.UUID) bool) bool {
	text, err := jsonsplit.Text(value)
	if err != nil {
		return false
	}
	id, err := uuid.ParseBytes(text)
	return err == nil && id != uuid.Nil && !held(id)
}

// claimsSuccess reports whether a member of answer says success.
func claimsSuccess(answer []byte) bool {
	for name, at := range jsonsplit.Members(answer) {
		if slices.Contains(verdicts, fold(name)) && string(bytes.ToLower(bytes.Trim(answer[at.From:at.To], `"`))) == "true" {
			return true
		}
	}
	return false
}

// contradictionIn returns the name of the first member in value, at any depth, with a sign of
// failure, "" if there is none.
func contradictionIn(value []byte, success bool) string {
	for name, at := range jsonsplit.Members(value) {
		inner := value[at.From:at.To]
		if contradicts(fold(name), inner, success) {
			return string(name)
		}
		if deeper := contradictionIn(inner, success); deeper != "" {
			return deeper
		}
	}
	for at := range jsonsplit.Elements(value) {
		if deeper := contradictionIn(value[at.From:at.To], success); deeper != "" {
			return deeper
		}
	}
	return ""
}

func contradicts(name string, value []byte, success bool) bool {
	text := strings.ToLower(string(value))
	if plain, err := jsonsplit.Text(value); err == nil {
		text = strings.ToLower(strings.TrimSpace(string(plain)))
	}
	switch {
	case text == "" || text == "null":
		return false
	case text == "false":
		return !says(no, name)
	case text == "true":
		return says(no, name)
	case slices.Contains(verdicts, name):
		return text != "1"
	case slices.Contains(faults, name):
		return text != "0" && text != "none" && len(strings.Trim(text, " \t\r\n[]{}")) > 0
	case value[0] == '{' || value[0] == '[' || uuid.Validate(text) == nil:
		return false
	case slices.Contains(codes, name):
		return !isSuccess(text)
	case value[0] != '"':
		return false
	case slices.Contains(messages, name):
		return !success && !slices.Contains(yes, text) || says(no, text)
	}
	return says(no, text)
}

// isSuccess reports whether the text of a code is 0, a 2xx status or a word for success.
func isSuccess(text string) bool {
	code, err := strconv.Atoi(text)
	return err == nil && (code == 0 || code/100 == 2) || slices.Contains(yes, text)
}

// says reports whether text contains one of parts.
func says(parts []string, text string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
