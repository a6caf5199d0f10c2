package verdict

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// The members of a response that Confirms reads, in lower case.
var (
	identifiers = []string{"id", "guid", "data", "result"}
	successes   = []string{"success", "issuccess", "succeeded"}
	faults      = []string{"error", "errors", "errorcode"}
	codes       = []string{"status", "statuscode", "state", "code"}

	// The codes of a success, and the states of a record that exists. Any other word costs a read.
	yes = []string{
		"ok", "success", "successful", "succeeded", "done", "accepted", "approved", "complete", "completed", "confirmed",
		"created", "processed", "settled", "paid", "funded", "active", "open",
	}
)

// Confirms reports whether answer, valid JSON, confirms a transaction, and returns the name of a
// contradicting member. held reports the identifiers of the request: a repeated identifier
// proves nothing.
//
// A UUID confirms if it is the whole answer, or the value of id, guid, data or result. These
// members contradict:
//
//   - success, isSuccess or succeeded other than true, and error, errors or errorCode other than empty,
//     also in an inner object
//   - status, statusCode, state or code other than empty, the number or the word of a success
//
// Confirms reads no other member. A wrong no only costs a read, so an unknown word in a status
// contradicts.
func Confirms(answer []byte, held func(uuid.UUID) bool) (ok bool, contradiction string) {
	if answer[jsonsplit.Space(answer, 0)] == '"' {
		return identifies(answer, held), ""
	}
	for name, at := range jsonsplit.Members(answer) {
		member, value := strings.ToLower(string(name)), answer[at.From:at.To]
		ok = ok || slices.Contains(identifiers, member) && identifies(value, held)
		if text := textOf(value); contradiction == "" && slices.Contains(codes, member) && text != "" && !isSuccess(text) {
			contradiction = string(name)
		}
	}
	if !ok { // the missing UUID is the reason
		return false, ""
	}
	contradiction = cmp.Or(failureIn(answer), contradiction)
	return contradiction == "", contradiction
}

// failureIn returns the name of the first member of value, at any depth, that reports a failure.
func failureIn(value []byte) string {
	for name, at := range jsonsplit.Members(value) {
		inner := value[at.From:at.To]
		switch member, text := strings.ToLower(string(name)), textOf(inner); {
		case slices.Contains(successes, member) && text != "" && text != "true" && text != "1",
			slices.Contains(faults, member) && !isNothing(inner):
			return string(name)
		}
		if deeper := failureIn(inner); deeper != "" {
			return deeper
		}
	}
	for at := range jsonsplit.Elements(value) {
		if deeper := failureIn(value[at.From:at.To]); deeper != "" {
			return deeper
		}
	}
	return ""
}

// identifies reports whether value is a new UUID.
func identifies(value []byte, held func(uuid.UUID) bool) bool {
	text, err := jsonsplit.Text(value)
	if err != nil {
		return false
	}
	id, err := uuid.ParseBytes(text)
	return err == nil && id != uuid.Nil && !held(id)
}

// textOf returns the text of a JSON value in lower case, without quotes. null has no text.
func textOf(value []byte) string {
	if string(value) == "null" {
		return ""
	}
	if text, err := jsonsplit.Text(value); err == nil {
		value = text
	}
	return string(bytes.ToLower(bytes.TrimSpace(value)))
}

// isSuccess reports whether the text of a code is 0, a 2xx status or a word for success.
func isSuccess(text string) bool {
	code, err := strconv.Atoi(text)
	return err == nil && (code == 0 || code/100 == 2) || slices.Contains(yes, text)
}
