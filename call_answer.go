package lending

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// The content that a 2xx response needs to be a success, for all routes:
//
//	declared             a success
//	a record             an object, with its id where one is published
//	a page               an object with data, or a total of 0
//	GuidApiResponse      a new UUID, alone or in an object without a contradiction
//	FullApplicationUser  an object: without a token, says the interface, the sign-in has failed
//	a UUID, a token      a string of this kind, and neither zero nor empty
//	a string             a string, an empty response
//	a boolean            true, false
//	a list               an array, null, an empty response
//	a list of a batch    an array of at least as many as were sent
//	an upload            true
//	nothing              any response, even empty
//	nothing, of a read   any response except null and empty
//
// Otherwise the outcome of a mutation is done, as the status says, and the result is lost. The
// outcome is unknown if the response contradicts its status: HTML; false where no boolean is
// due; an object that reports a failure (except a FullApplicationUser); a batch with too few
// records or with a record that reports a failure; any other content for an upload or a
// confirmed withdrawal. The caller judges the response of [Client.Do].

// content returns the content of the answer.
func (x *exchange) content() *parsedAnswer {
	if !x.parsed.known {
		x.parsed = parseAnswer(&x.answer)
	}
	return &x.parsed
}

// parseAnswer parses the body of a response.
func parseAnswer(answer *Response) parsedAnswer {
	s := parsedAnswer{known: true, text: bytes.TrimPrefix(answer.Body, utf8BOM)}
	s.body = bytes.Trim(s.text, " \t\r\n") // the white space of JSON
	if answer.StatusCode < 200 || answer.StatusCode >= 300 {
		return s
	}
	if len(s.body) == 0 || s.body[0] != '{' {
		s.valid = jsonsplit.Valid(s.body)
		return s
	}
	var report verdict.Failure
	if s.valid = jsonsplit.ValidMembers(s.body, func(name []byte, at jsonsplit.Span) { report.Add(name, s.body[at.From:at.To]) }); s.valid {
		s.failed = report.Member()
	}
	return s
}

// judge decodes the answer into result, or returns why the answer is no success.
func (x *exchange) judge(result reflect.Value) error {
	if x.noRecord {
		if result.Kind() == reflect.Pointer {
			result.Set(reflect.New(x.result.Elem()))
		}
		return nil
	}
	if err := x.failure(); err != nil {
		return err
	}
	return x.lost(x.decode(result))
}

// failure returns the error of a response that is no success, nil for a success.
func (x *exchange) failure() error {
	if status := x.answer.StatusCode; status < 200 || status >= 300 {
		cause := x.err
		if cause == nil && len(x.answer.Body) > 0 && mediaType(x.answer.Header) == "text/html" {
			cause = errHTML
		}
		return x.failed(cause)
	}
	return x.lost(x.doubt())
}

// lost returns the error of a 2xx response that is in doubt or does not decode, nil for nil.
func (x *exchange) lost(cause error) error {
	if cause == nil {
		return nil
	}
	e := x.failed(cause)
	if e.Outcome == OutcomeDone && x.key == nil { // whole, and no repetition decodes it; a layer checks or asks a person
		e.said = &Next{Person: true}
	}
	return e
}

// doubt returns why a 2xx response does not prove that the mutation happened. It works before
// decoding, and on a cut response.
func (x *exchange) doubt() error {
	content, media := x.content(), mediaType(x.answer.Header)
	switch {
	case media == "text/html" || media != "text/plain" && bytes.HasPrefix(content.body, []byte("<")):
		return errHTML
	case x.result == recordType: // of Client.Do
		return nil
	case content.failed != "" && !x.request.tokenTells:
		return hidden("the answer reports a failure: "+content.failed, nil)
	case x.request.acceptance != nil:
		return x.request.acceptance(x)
	case string(content.body) == "false" && x.result != reflect.TypeFor[bool]():
		return errSaysNo
	case x.request.batch > 0 && content.valid && content.body[0] == '[':
		return doubtOfBatch(content.body, x.request.batch)
	}
	return nil
}

// doubtOfBatch returns why the list in body does not prove that all records of a batch exist.
func doubtOfBatch(body []byte, sent int) error {
	n := 0
	for at := range jsonsplit.Elements(body) {
		if member := verdict.FailureIn(body[at.From:at.To]); member != "" {
			return hidden(fmt.Sprintf("the answer reports a failure: [%d].%s", n, member), nil)
		}
		n++
	}
	if n < sent {
		return errFewer
	}
	return nil
}

var (
	errHTML     error = redact.Text("the answer is HTML, not JSON")
	errBadToken error = redact.Text("the token is empty or holds bytes that no header may hold; check the TokenSource")
	errNoTokens       = hidden("the client has no source of tokens; use WithCredentials or WithTokenSource", ErrSignInRequired)
)

var (
	errSaysNo = hidden("the answer is false", nil)
	errFewer  = hidden("fewer records have come than were sent", nil)
)

// failed returns the error of the call in its present state.
func (x *exchange) failed(cause error) *Error {
	e := &Error{
		Method:     x.request.method,
		Route:      x.request.path,
		Effect:     x.request.effect,
		StatusCode: x.answer.StatusCode,
		Outcome:    x.outcome(),
		RetryAfter: backoff.RetryAfter(x.answer.Header),
		Attempts:   x.sent(),
		cause:      hide(cause),
	}
	if answer := x.answer; answer.StatusCode != 0 {
		e.response = func() *Response { return &answer }
	}
	if e.StatusCode >= 300 || x.content().failed == verdict.ProblemRecord {
		e.Problem = x.problem()
	}
	if e.Effect == Read && e.Outcome == OutcomeDone { // a failed read has no effect
		e.Outcome = OutcomeUnknown
	}
	if e.Effect == Mutation {
		e.CheckWith = x.request.checkWith
	}
	if x.key != nil {
		e.IdempotencyKey = x.key.name
	}
	if own, ok := errors.AsType[interface {
		error
		Next() Next
	}](cause); ok {
		said := own.Next()
		e.said = &said
	}
	return e
}

// notSent returns the error of a call that got no token.
func (x *exchange) notSent(cause error) error {
	e := x.failed(cause)
	if paused, ok := errors.AsType[*signin.PausedError](cause); ok {
		e.RetryAfter = max(e.RetryAfter, time.Until(paused.Until))
	} else if signIn, ok := errors.AsType[*Error](cause); ok {
		e.RetryAfter = max(e.RetryAfter, signIn.RetryAfter)
	}
	if s, ok := x.client.settings().tokens.(interface{ pause() time.Duration }); ok {
		e.RetryAfter = max(e.RetryAfter, s.pause())
	}
	return e
}

func (x *exchange) problem() *ProblemDetails { return parseProblem(x.answer.Body) }

// outcome derives the outcome from all attempts, never from the last error: "connection refused"
// can follow an executed request.
func (x *exchange) outcome() Outcome {
	status := x.answer.StatusCode
	switch {
	case status == 0 && !x.reached():
		return OutcomeNotSent
	case status == 0, x.request.effect == Mutation && x.written() > 1 && status >= 300:
		return OutcomeUnknown
	case status >= 200 && status < 300:
		if x.doubt() != nil {
			return OutcomeUnknown
		}
		return OutcomeDone
	case status == http.StatusRequestTimeout, status < 400, status >= 500:
		return OutcomeUnknown
	case status == http.StatusBadRequest && x.request.batch > 0 && len(x.problem().fieldErrors()) == 0:
		return OutcomeUnknown // the interface does not say whether a batch is all or nothing
	}
	return OutcomeRejected
}

// reached reports whether any attempt may have reached the service. Any attempt of a read
// counts.
func (x *exchange) reached() bool {
	if x.attempts == 0 || x.deadline.NeverLeft() {
		return false
	}
	if u, ok := x.request.body.(streamed); ok && !u.isWhole() {
		return false // the service accepts no part of a document
	}
	unserved := x.gotConn.Load() == 1 && !x.reused.Load() && !x.client.settings().foreign && neterr.NeverServed(x.err)
	if x.request.effect == Read || x.gotConn.Load() > 0 && !unserved {
		return true
	}
	return x.client.settings().foreign && !neterr.NeverLeft(x.err) // a caller's transport may fire no trace
}

// written returns the number of times the transport wrote the head of the request.
func (x *exchange) written() int32 {
	return max(x.marks[0].Load(), x.marks[1].Load(), x.marks[2].Load())
}

// sent returns the number of sends, by this package or by the transport.
func (x *exchange) sent() int { return max(x.attempts, int(x.written())) }

// decode fills result, a value of the type of the call's result, from a 2xx response.
func (x *exchange) decode(result reflect.Value) error {
	body, valid := x.content().body, x.content().valid
	plain := mediaType(x.answer.Header) == "text/plain" && len(body) > 0 && body[0] != '"'
	switch {
	case x.result == reflect.TypeFor[nothing]():
		return nil
	case plain && result.Kind() == reflect.String:
		result.SetString(string(x.content().text)) // as received, with white space
		return nil
	case len(body) == 0 || string(body) == "null":
		return x.empty()
	case plain && (x.result == reflect.TypeFor[Secret]() || result.Kind() == reflect.Array):
		body = []byte(strconv.Quote(string(body))) // a token or an id without quotes
		valid = jsonsplit.Valid(body)
	}
	if !valid {
		return errNotJSON
	}
	return x.decodeJSON(body, result)
}

// empty returns why a 2xx response without a value is no result.
func (x *exchange) empty() error {
	switch {
	case x.result == recordType: // of [Client.Do]: the response is not published
	case x.result.Kind() == reflect.Slice && x.request.batch == 0: // an empty list
	case x.result.Kind() == reflect.String && len(x.content().body) == 0 && x.answer.StatusCode == http.StatusOK: // an empty string
	default:
		return ErrNoContent
	}
	return nil
}

// decodeJSON fills result from body, valid JSON. The result stays zero if body is not the record
// that is due.
func (x *exchange) decodeJSON(body []byte, result reflect.Value) error {
	into := result
	if result.Kind() == reflect.Pointer {
		result.Set(reflect.New(x.result.Elem()))
		into = result.Elem()
	}
	text := newAnswerText(body)
	(*text).checked, (*text).mutation = true, x.request.effect == Mutation
	err := decodeValue(text, 0, into)
	if err == nil {
		err = missing(result)
	}
	if err == nil && x.request.fits != nil {
		err = x.request.fits(result.Interface())
	}
	if err != nil {
		result.SetZero()
		return err
	}
	return nil
}

func mediaType(header http.Header) string {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// missing reports a missing published part of a result.
func missing(result reflect.Value) *shapeError {
	switch r := result.Interface().(type) {
	case Secret:
		if r.IsZero() {
			return &shapeError{Want: "a token", Got: "an empty string"}
		}
	case interface{ missing() *shapeError }:
		return r.missing()
	}
	if result.Kind() == reflect.Array && result.IsZero() {
		return &shapeError{Want: "a UUID", Got: "the zero UUID"}
	}
	if result.Kind() != reflect.Slice || !reflect.PointerTo(result.Type().Elem()).Implements(withParts) {
		return nil
	}
	for i := range result.Len() {
		if err := missing(result.Index(i).Addr()); err != nil {
			return err.Within(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

var withParts = reflect.TypeFor[interface{ missing() *shapeError }]()
