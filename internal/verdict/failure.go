// Package verdict finds out whether the JSON of a 2xx response reports success or failure.
package verdict

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
)

// ErrGateway means that a 4xx response is none of the service's, and no verdict on the request.
var ErrGateway error = redact.Text("a gateway has refused the request")

// ErrEmptyNotFound is a 404 without a body to a read: of a missing record, or of an unknown path.
var ErrEmptyNotFound error = redact.Text("an empty 404")

// Failure gathers the members of an object with a report of a failed call. The interface does
// not mention failures with a 2xx status; these names are common in frameworks.
type Failure struct {
	name    string
	status  bool // the object has the status of a failure
	problem bool // the object has another member of a problem record
}

// Add takes the next member.
func (f *Failure) Add(name, value []byte) {
	var known [len("correlationId")]byte // so that nothing is allocated
	if len(name) > len(known) {
		return
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		known[i] = c
	}
	switch string(known[:len(name)]) {
	case "success", "issuccess", "succeeded":
		if isFalse(value) {
			f.name = string(name)
		}
	case "error", "errors":
		if !isNothing(value) {
			f.name = string(name)
		}
	case "errorcode":
		if !isNothing(value) {
			f.name, f.problem = string(name), true
		}
	case "status":
		f.status = isFailure(value)
	case "title", "detail", "instance", "traceid", "correlationid":
		f.problem = f.problem || !isNothing(value)
	}
}

// FailureIn is the member of a batch's record with a report of its failure.
func FailureIn(record []byte) string {
	var report Failure
	for name, at := range jsonsplit.Members(record) {
		report.Add(name, record[at.From:at.To])
	}
	return report.Member()
}

// isFalse reports whether value is false, as a boolean, a text or a number.
func isFalse(value []byte) bool {
	return string(value) == "0" || strings.EqualFold(strings.Trim(string(value), `"`), "false")
}

func isFailure(value []byte) bool {
	if len(value) != 3 || value[0] != '4' && value[0] != '5' {
		return false
	}
	_, err := strconv.Atoi(string(value)) // 4e2 is none
	return err == nil
}

// ProblemRecord stands for all the members of a problem record.
const ProblemRecord = "status"

// Member returns the name of the member with the failure, "" if there is none.
func (f *Failure) Member() string {
	if f.status && f.problem {
		return ProblemRecord
	}
	return f.name
}

func isNothing(value []byte) bool {
	switch string(value) {
	case "null", "false", "0", `""`:
		return true
	}
	inside := bytes.TrimSpace(value[1:])
	return (value[0] == '[' || value[0] == '{') && len(inside) == 1
}
