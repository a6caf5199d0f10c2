package rules

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Problem is the service's ProblemDetails, and the error of handlers.
type Problem struct {
	Status        int          `json:"status"`
	Title         string       `json:"title"`
	Detail        string       `json:"detail"`
	Instance      string       `json:"instance"`
	TraceID       string       `json:"traceId"`
	CorrelationID string       `json:"correlationId"`
	ErrorCode     string       `json:"errorCode"`
	Errors        []FieldError `json:"errors"`

	Assumption string `json:"-"` // behind the refusal, if the code does not tell

	authenticate string // WWW-Authenticate
}

// FieldError is an error of a field of the request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// refuse ends a failed business operation: 400.
func refuse(code, detail string) {
	panic(&Problem{Status: http.StatusBadRequest, Title: "The request was refused.", ErrorCode: code, Detail: detail})
}

// try returns the problem with which f was refused, or nil.
func try(f func()) (p *Problem) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Problem:
			p = v
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// Refuse returns the refusal of a request with another status than 400.
func Refuse(status int, code, detail string) *Problem {
	return &Problem{Status: status, Title: http.StatusText(status), ErrorCode: code, Detail: detail}
}

func notFound(what string) *Problem {
	return Refuse(http.StatusNotFound, what+"NotFound", "There is no such "+what+".")
}

func unauthorized(code, challenge, detail string) *Problem {
	p := Refuse(http.StatusUnauthorized, code, detail)
	p.authenticate = challenge
	return p
}

func forbidden(detail string) *Problem {
	return Refuse(http.StatusForbidden, "Forbidden", detail)
}

// failures collects all errors of a request, so that the caller can correct them together.
type failures []FieldError

func (f *failures) add(field, code, format string, args ...any) {
	*f = append(*f, FieldError{Field: field, Code: code, Message: fmt.Sprintf(format, args...)})
}

// require adds an error for a field without a value.
func (f *failures) require(field string, present bool) {
	if !present {
		f.add(field, "Required", "The %s field is required.", field)
	}
}

// identifier returns a valid identifier, or "" and adds an error.
func (f *failures) identifier(field, text string) string {
	id, ok := record.ParseID(text)
	if !ok {
		f.add(field, "InvalidGuid", "The value is not a valid identifier.")
		return ""
	}
	return id
}

// valid refuses the request if there are failures.
func (c *Call) valid() {
	if len(c.failed) > 0 {
		panic(&Problem{
			Status: http.StatusBadRequest, Title: "One or more validation errors occurred.",
			ErrorCode: "ValidationFailed", Detail: "See errors.", Errors: c.failed,
		})
	}
}

// invalid refuses the request at once.
func (c *Call) invalid(field, code, message string) {
	c.failed.add(field, code, "%s", message)
	c.valid()
}

// Answer is a complete response that faults can still change.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// jsonType is the type of every response: "Responses are application/json."
const jsonType = "application/json; charset=utf-8"

// fields is a response without a record of its own.
type fields = map[string]any

// null is a handler's result that becomes a 204, like in ASP.NET.
type null struct{}

func jsonAnswer(v any) *Answer {
	switch v.(type) {
	case nil:
		return &Answer{Status: http.StatusOK, Header: http.Header{}}
	case null:
		return &Answer{Status: http.StatusNoContent, Header: http.Header{}}
	}
	return &Answer{http.StatusOK, http.Header{"Content-Type": {jsonType}}, plain.JSON(v)}
}

// PlainText sends a JSON string as the bare text, as ASP.NET does unless the request accepts JSON. With */* the host ignores
// the whole header Accept.
func (a *Answer) PlainText(request http.Header) {
	accept, text := strings.Join(request.Values("Accept"), ","), ""
	acceptsJSON := !strings.Contains(accept, "*/*") && (strings.Contains(accept, "json") || strings.Contains(accept, "application/*"))
	if !acceptsJSON && strings.HasPrefix(string(a.Body), `"`) && json.Unmarshal(a.Body, &text) == nil {
		a.Header, a.Body = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, []byte(text)
	}
}

// Refusal returns the response to a rejected request.
func Refusal(b *book.Book, refused *Problem, path string) *Answer {
	p := *refused
	b.Do(func(s *book.State) { p.CorrelationID, p.TraceID = s.Trace() })
	p.Instance = path
	if p.Errors == nil {
		p.Errors = []FieldError{}
	}
	a := &Answer{p.Status, http.Header{"Content-Type": {jsonType}}, plain.JSON(p)}
	if p.authenticate != "" {
		a.Header.Set("WWW-Authenticate", p.authenticate)
	}
	return a
}
