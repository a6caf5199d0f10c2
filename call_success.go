package lending

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/confirmed"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
)

// What an answer with a status of success must show to be one, for all routes:
//
//	what is declared     what is a success
//	a record             an object, with its id where one is published
//	a page               an object with data, or a total of 0
//	GuidApiResponse      a new UUID, alone or in a member of an object that contradicts nowhere
//	FullApplicationUser  an object: without a token, says the interface, the sign-in has failed
//	a UUID, a token      a string that is one, and neither zero nor empty
//	a string             a string, an empty answer
//	a boolean            true, false
//	a list               an array, null, an empty answer
//	a list of a batch    an array of as many as were sent, at least
//	an upload            true
//	nothing              whatever it is, an empty answer too
//	nothing, of a read   whatever it is, but null and an empty answer
//
// What is no success leaves the outcome of a mutation done, as its status says, and the
// result lost. It is unknown where the answer itself casts doubt on the status: everywhere
// by HTML, by false where no boolean is due, and by an object that reports a failure (but
// for a FullApplicationUser); in a batch also by too few, and by a record that reports a
// failure; and in an upload or a confirmed withdrawal by anything that is no success. What [Client.Do] receives is for its caller
// to judge.

// said is what the body of a success says, found in one pass over it.
type said struct {
	text   []byte // without a byte order mark
	body   []byte // and without white space around it
	valid  bool   // it is one JSON value
	failed string // the member by which an object reports a failure; "" if it does not
}

// hear reads the body of an answer that has come.
func hear(answer *Response) said {
	var s said
	s.text = bytes.TrimPrefix(answer.Body, utf8BOM)
	s.body = bytes.Trim(s.text, " \t\r\n") // the white space of JSON
	if answer.StatusCode < 200 || answer.StatusCode >= 300 {
		return s
	}
	if len(s.body) == 0 || s.body[0] != '{' {
		s.valid = jsonsplit.Valid(s.body)
		return s
	}
	var report failureReport
	if s.valid = jsonsplit.ValidMembers(s.body, func(name []byte, at jsonsplit.Span) { report.add(name, s.body[at.From:at.To]) }); s.valid {
		s.failed = report.member()
	}
	return s
}

// failureReport gathers the members of an object that say that a call has failed. The
// interface says nothing of a failure with a status of success. Where it happens all the
// same, frameworks use these names; a record with one of them is in doubt, and whoever
// knows better finds it in [Error.Response].
type failureReport struct {
	name    string
	status  bool // it is that of a failure
	problem bool // there is another member of a problem record
}

func (f *failureReport) add(name, value []byte) {
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

// failureIn is the member by which a record of a batch reports that it failed.
func failureIn(record []byte) string {
	var report failureReport
	for name, at := range jsonsplit.Members(record) {
		report.add(name, record[at.From:at.To])
	}
	return report.member()
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

// problemRecord stands for all the members of one.
const problemRecord = "status"

func (f *failureReport) member() string {
	if f.status && f.problem {
		return problemRecord
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

var (
	errSaysNo  = hidden("the answer is false", nil)
	errFewer   = hidden("fewer records have come than were sent", nil)
	errNotTrue = hidden("the answer is not true", nil)
	errNotGUID = hidden("the answer holds no UUID of a withdrawal", nil)
)

// doubt says why a success does not mean that it happened. It looks at the answer before
// it is decoded, and also at one that was cut.
func (x *exchange) doubt() error {
	body := x.said.body
	media := mediaType(x.answer.Header)
	switch {
	case media == "text/html" || media != "text/plain" && bytes.HasPrefix(body, []byte("<")):
		return errHTML
	case x.result == reflect.TypeFor[Record](): // of Client.Do
		return nil
	case x.said.failed != "" && x.result != reflect.TypeFor[*FullApplicationUser]():
		return hidden("the answer reports a failure: "+x.said.failed, nil)
	case x.request.proof != nil:
		return x.request.proof(x)
	case string(body) == "false" && x.result != reflect.TypeFor[bool]():
		return errSaysNo
	case x.request.batch > 0 && x.said.valid && body[0] == '[':
		n := 0
		for at := range jsonsplit.Elements(body) {
			if member := failureIn(body[at.From:at.To]); member != "" {
				return hidden(fmt.Sprintf("the answer reports a failure: [%d].%s", n, member), nil)
			}
			n++
		}
		if n < x.request.batch {
			return errFewer
		}
	}
	return nil
}

// provesDocument says why an answer does not mean that the document was accepted:
// "200 with true on success". The transport may go on sending after an early answer,
// which does not make it a late one.
func provesDocument(x *exchange) error {
	u, _ := x.request.body.(*upload)
	u.early = u.early || !u.complete.Load()
	switch body := string(x.said.body); {
	case body == "false":
		return errNotAccepted
	case u.early:
		return errEarlyAnswer
	case body == "" || body == "null":
		return ErrNoContent
	case body != "true":
		return errNotTrue
	}
	return nil
}

// provesWithdrawal says why an answer does not mean that money moves. Nothing but its name
// is published of a GuidApiResponse.
func provesWithdrawal(x *exchange) error {
	switch {
	case len(x.said.body) == 0 || string(x.said.body) == "null":
		return ErrNoContent
	case !x.said.valid:
		return errNotGUID
	}
	ok, contradiction := confirmed.By(x.said.body, x.request.holds)
	switch {
	case contradiction != "":
		return hidden("the answer reports a failure: "+redact.Name(contradiction), nil)
	case !ok:
		return errNotGUID
	}
	return nil
}

// holds reports whether the path or the body of the request names id.
func (r *request) holds(id uuid.UUID) bool {
	body, _ := encodeWithoutSecrets(r.body)
	text := strings.ToLower(strings.Join(r.args, " ") + string(body))
	return strings.Contains(strings.ReplaceAll(text, "-", ""), strings.ReplaceAll(id.String(), "-", ""))
}

// lacks says which published part of a result is missing, without which it is none.
func lacks(result any) *shapeError {
	switch r := result.(type) {
	case *UserResponse:
		return r.lacksID("id", r.ID.IsZero())
	case []UserResponse:
		return anyLacks(r)
	case *LoanResponse:
		if r.ID.IsZero() {
			return r.lacksID("id", true)
		}
		return r.lacksID("applicationId", r.ApplicationID.IsZero())
	case []LoanResponse:
		return anyLacks(r)
	case *WebhookSubscription:
		return r.lacksID("id", r.ID.IsZero())
	case Secret:
		if r.IsZero() {
			return &shapeError{want: "a token", got: "an empty string"}
		}
	case interface{ missing() *shapeError }:
		return r.missing()
	}
	return nil
}

// isAnother says that a result is not the record that was asked for. No record but that of
// a loan has a published id and a route that reads it by that id.
func isAnother(result any, asked LoanID) *shapeError {
	if loan, ok := result.(*LoanResponse); ok && loan.ID != asked && !asked.IsZero() {
		return &shapeError{path: "id", want: "the id that was asked for", got: "another"}
	}
	return nil
}

func anyLacks[T any](records []T) *shapeError {
	for i := range records {
		if err := lacks(&records[i]); err != nil {
			return err.within(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

// lacksID says what stands in r where the identifier should, which was not found.
func (r Record) lacksID(name string, lost bool) *shapeError {
	if !lost {
		return nil
	}
	got := "nothing"
	for member, at := range jsonsplit.Members(r.Raw()) {
		if strings.EqualFold(string(member), name) {
			if got = jsonsplit.Kind(r.Raw()[at.From:at.To]); got != "null" {
				got = "the zero UUID"
			}
		}
	}
	return &shapeError{path: name, want: "a UUID", got: got}
}
