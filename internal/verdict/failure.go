// Package verdict says what JSON answers with a status of success say about themselves.
package verdict

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Failure gathers the members of an object that report a failed call. The interface does not
// mention a failure with a status of success. Frameworks that answer so use these names.
type Failure struct {
	name    string
	status  bool // it is that of a failure
	problem bool // there is another member of a problem record
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
	case "status":
		f.status = isFailure(value)
	case "title", "detail", "instance", "traceid", "correlationid", "errorcode":
		f.problem = f.problem || !isNothing(value)
	}
}

// FailureIn is the member by which a record of a batch reports that it failed.
func FailureIn(record []byte) string {
	var report Failure
	for name, at := range jsonsplit.Members(record) {
		report.Add(name, record[at.From:at.To])
	}
	return report.Member()
}

// isFalse reports whether value is false, also as a text or a number.
func isFalse(value []byte) bool {
	return string(value) == "0" || strings.EqualFold(strings.Trim(string(value), `"`), "false")
}

// isFailure reports whether value is a status from 400 to 599.
func isFailure(value []byte) bool {
	if len(value) != 3 || value[0] != '4' && value[0] != '5' {
		return false
	}
	_, err := strconv.Atoi(string(value)) // 4e2 is none
	return err == nil
}

// ProblemRecord stands for all the members of one.
const ProblemRecord = "status"

// Member returns the name of the member that reports a failure, "" if none does.
func (f *Failure) Member() string {
	if f.status && f.problem {
		return ProblemRecord
	}
	return f.name
}

// isNothing reports whether value is what stands where there is no error.
func isNothing(value []byte) bool {
	switch string(value) {
	case "null", "false", "0", `""`:
		return true
	}
	inside := bytes.TrimSpace(value[1:])
	return (value[0] == '[' || value[0] == '{') && len(inside) == 1
}
