package lending

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// answer is the last response of the service to a call.
type answer struct {
	Response

	protocol string
	noRecord bool // the mutation happened, and the layer has no record of the response

	parsed parsedAnswer // see [answer.content]
}

// parsedAnswer is the content of a response, found in a single pass.
type parsedAnswer struct {
	known  bool
	text   []byte // without a byte order mark
	body   []byte // text without surrounding white space
	valid  bool   // body is a JSON value; false without a status of success
	failed string // the member that reports a failure; "" if there is none
}

// proof is what a 2xx response needs to be a success of a route.
type proof struct {
	result  reflect.Type // of the call
	records int          // sent in a bulk creation; 0 for other calls
	// accepts replaces the general rule: it returns why a response is no success.
	accepts func(*answer) error
	// fits returns why a result is not the requested record; nil accepts any record.
	fits func(result any) *shapeError
}

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

func (a *answer) content() *parsedAnswer {
	if !a.parsed.known {
		a.parsed = parseAnswer(&a.Response)
	}
	return &a.parsed
}

func parseAnswer(response *Response) parsedAnswer {
	s := parsedAnswer{known: true, text: bytes.TrimPrefix(response.Body, utf8BOM)}
	s.body = bytes.Trim(s.text, " \t\r\n") // the white space of JSON
	if !isSuccess(response.StatusCode) {
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

// kind describes the body of a response without its values.
func (a *answer) kind() string {
	switch body := a.content().body; {
	case len(body) == 0:
		return "empty"
	case mediaType(a.Header) == "text/html" || body[0] == '<':
		return "HTML"
	case jsonsplit.Valid(body):
		return "other JSON"
	}
	return "text"
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// doubt returns why a 2xx response does not prove that the mutation happened. It works before
// decoding, and on a cut response.
func (p *proof) doubt(a *answer) error {
	content := a.content()
	switch {
	case mediaType(a.Header) == "text/html" || bytes.HasPrefix(content.body, []byte("<")): // under any media type
		return errHTML
	case p.result == recordType: // of Client.Do
		return nil
	case p.accepts != nil:
		return p.accepts(a)
	case content.failed != "":
		return a.reportsFailure()
	case p.result != reflect.TypeFor[bool]() && string(content.body) == "false":
		return errSaysNo
	case p.records > 0 && content.valid && content.body[0] == '[':
		return doubtOfBatch(content.body, p.records)
	}
	return nil
}

// doubtOfBatch returns why the list in body does not prove that all records of a batch exist.
func doubtOfBatch(body []byte, sent int) error {
	n := 0
	for at := range jsonsplit.Elements(body) {
		if member := verdict.FailureIn(body[at.From:at.To]); member != "" {
			return reported(fmt.Sprintf("[%d].%s", n, member))
		}
		n++
	}
	if n < sent {
		return errFewer
	}
	return nil
}

// reportsFailure returns the failure that the response reports, nil if there is none.
func (a *answer) reportsFailure() error {
	if member := a.content().failed; member != "" {
		return reported(member)
	}
	return nil
}

func reported(member string) error { return hidden("the answer reports a failure: "+member, nil) }

var (
	errHTML    error = redact.Text("the answer is HTML, not JSON")
	errSaysNo        = hidden("the answer is false", nil)
	errNoValue       = hidden("the answer has no value and shows no absence; a gateway may have answered", nil)
	errFewer         = hidden("fewer records have come than were sent", nil)
)

// decode fills result, a value of the type of the call's result, from a 2xx response.
func (p *proof) decode(a *answer, effect Effect, result reflect.Value) error {
	body, valid := a.content().body, a.content().valid
	plain := mediaType(a.Header) == "text/plain" && len(body) > 0 && body[0] != '"'
	switch {
	case p.result == reflect.TypeFor[nothing]():
		return nil
	case plain && result.Kind() == reflect.String:
		result.SetString(string(a.content().text)) // as received, with white space
		return nil
	case len(body) == 0 || string(body) == "null":
		return p.empty(a)
	case plain && (p.result == reflect.TypeFor[Secret]() || result.Kind() == reflect.Array):
		body = []byte(strconv.Quote(string(body))) // a token or an id without quotes
		valid = jsonsplit.Valid(body)
	}
	if !valid {
		return errNotJSON
	}
	return p.decodeJSON(body, effect, result)
}

// nothing is the result of routes without a response body.
type nothing struct{}

// empty returns why a 2xx response without a value is no result.
func (p *proof) empty(a *answer) error {
	switch {
	case p.result == recordType: // of [Client.Do]: the response is not published
	case p.result.Kind() == reflect.Slice && p.records == 0: // an empty list
	case p.result.Kind() == reflect.String && len(a.content().body) == 0 && a.StatusCode == http.StatusOK: // an empty string
	default:
		return ErrNoContent
	}
	return nil
}

// decodeJSON fills result from body, valid JSON. The result stays zero if body is not the record
// that is due.
func (p *proof) decodeJSON(body []byte, effect Effect, result reflect.Value) error {
	into := result
	if result.Kind() == reflect.Pointer {
		result.Set(reflect.New(p.result.Elem()))
		into = result.Elem()
	}
	text := newAnswerText(body)
	(*text).checked, (*text).mutation = true, effect == Mutation
	err := decodeValue(text, 0, into)
	if err == nil {
		err = missing(result)
	}
	if err == nil && p.fits != nil {
		err = p.fits(result.Interface())
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

type captureKey struct{}

// capture is a Response to fill, and the captures of the contexts around.
type capture struct {
	into  *Response
	outer *capture
}

// keep fills everything that captures.
func (c *capture) keep(answer Response) {
	for ; c != nil; c = c.outer {
		*c.into = answer
	}
}

// captured returns the captures to fill, emptied; nil if nobody wants the response.
func captured(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	c.keep(Response{})
	return c
}

// CaptureResponse returns a context whose calls fill into with the last response of the service,
// also after an error. Use the context for a single call at a time. A Response that ctx captures
// into already is filled as well, so that an observer and its caller can both capture. If into is
// nil, CaptureResponse returns ctx.
func CaptureResponse(ctx context.Context, into *Response) context.Context {
	if into == nil {
		return ctx
	}
	outer, _ := ctx.Value(captureKey{}).(*capture)
	return context.WithValue(ctx, captureKey{}, &capture{into, outer})
}
