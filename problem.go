package lending

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/recordjson"
	"github.com/lendingapi/lending-go/internal/redact"
)

// ProblemDetails is the service's problem record (RFC 9457 with further members), the body of an
// error response. Proxies and hosts send other bodies or none.
//
// Title, Detail, Instance and the messages can echo the request. Under fmt, slog and
// json.Marshal a ProblemDetails shows only codes, field names and ids. Exception: fmt prints the
// whole record if it is in an unexported field of another struct; use a *ProblemDetails there.
type ProblemDetails struct {
	Status        int
	Title         string
	Detail        string
	Instance      string
	TraceID       string
	CorrelationID string
	ErrorCode     string // the values are not published
	Errors        []FieldError
	Raw           json.RawMessage // the record as received
}

// String shows codes, field names and ids.
func (p ProblemDetails) String() string { return strings.TrimPrefix(p.summary(), ": ") }

// Format prints [ProblemDetails.String] under every verb.
func (p ProblemDetails) Format(f fmt.State, verb rune) { _, _ = f.Write([]byte(p.String())) }

// LogValue logs [ProblemDetails.String].
func (p ProblemDetails) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON writes [ProblemDetails.String]; Raw is the record as received.
func (p ProblemDetails) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

func (p *ProblemDetails) fieldErrors() []FieldError {
	if p == nil {
		return nil
	}
	return p.Errors
}

// maxFieldsShown bounds the text of an error.
const maxFieldsShown = 16

func (p ProblemDetails) summary() string {
	var b strings.Builder
	for _, part := range []struct{ name, value string }{
		{"errorCode ", p.ErrorCode}, {"trace ", p.TraceID}, {"correlation ", p.CorrelationID},
	} {
		if part.value != "" {
			b.WriteString(": " + part.name + redact.Name(part.value))
		}
	}
	for i, f := range p.Errors {
		if i == maxFieldsShown {
			fmt.Fprintf(&b, ": and %d more fields", len(p.Errors)-i)
			break
		}
		b.WriteString(": field " + redact.Name(f.Field))
		if f.Code != "" {
			b.WriteString(" " + redact.Name(f.Code))
		}
	}
	return b.String()
}

// parseProblem reads the problem record of a response: the service's own, with an array of errors, or
// the host's, with a dictionary from field to messages. A 400 of an older host is the dictionary
// alone. A member of the wrong type does not lose the others. parseProblem returns nil if the body
// is not a JSON object.
func parseProblem(r *Response) *ProblemDetails {
	body := bytes.TrimPrefix(r.Body, utf8BOM)
	if !json.Valid(body) || jsonsplit.Kind(bytes.TrimLeft(body, " \t\r\n")) != "an object" {
		return nil
	}
	type plain ProblemDetails
	var p plain
	_ = json.Unmarshal(body, &p) // goes on after a member of the wrong type
	var host struct{ Errors map[string]json.RawMessage }
	_ = json.Unmarshal(body, &host)
	var bare map[string][]string
	if r.StatusCode == http.StatusBadRequest && json.Unmarshal(body, &bare) == nil && !slices.ContainsFunc(slices.Collect(maps.Values(bare)), isEmpty) {
		_ = json.Unmarshal(body, &host.Errors)
		p.Errors = nil
	}
	for _, field := range slices.Sorted(maps.Keys(host.Errors)) {
		var messages []string
		if text := host.Errors[field]; json.Unmarshal(text, &messages) != nil {
			messages = []string{""}
			_ = json.Unmarshal(text, &messages[0])
		}
		for _, message := range messages {
			p.Errors = append(p.Errors, FieldError{Field: wireName(field), Message: message})
		}
	}
	p.Raw = body
	return (*ProblemDetails)(&p)
}

func isEmpty(messages []string) bool { return len(messages) == 0 }

// wireName returns the name in the request of a field that the host names as in its code:
// [1].FirstName is [1].firstName.
func wireName(field string) string {
	parts := strings.Split(strings.TrimPrefix(field, "$."), ".")
	for i, part := range parts {
		parts[i] = camelCase(part)
	}
	return strings.Join(parts, ".")
}

// camelCase writes the capitals before the first word in lower case, as the host does with the names
// of its properties: DateUTC is dateUTC, OTP is otp, IPAddress is ipAddress.
func camelCase(name string) string {
	text := []byte(name)
	for i, c := range text {
		if c < 'A' || c > 'Z' || i > 0 && i+1 < len(text) && 'a' <= text[i+1] && text[i+1] <= 'z' {
			break
		}
		text[i] = c + 'a' - 'A'
	}
	return string(text)
}

// FieldError is a broken rule of a field, in the shape of the service's errors array.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// The codes of an [ArgumentError]. The service's own codes are not published.
const (
	CodeRequired = "required" // missing
	CodeFormat   = "format"   // not in the form of the interface
	CodeLength   = "length"   // too long
	CodeRange    = "range"    // too small or too large
	CodeConflict = "conflict" // not together with another field
	CodeUnsafe   = "unsafe"   // cannot be sent without loss
)

// ArgumentError is the error of an invalid request: the client sent nothing. It lists every
// broken rule with its field, and never quotes a value.
type ArgumentError struct {
	safe

	Method string // of the request, for example "POST"; empty outside a call
	Route  string // path template, for example "/api/Application/create-customer"
	Fields []FieldError

	ofClient bool // the token or WithHeader is to blame, and not the request
}

// Error lists the failures.
func (e *ArgumentError) Error() string {
	var b strings.Builder
	b.WriteString("lending: ")
	if e.Method != "" {
		b.WriteString(strings.TrimRight(e.Method+" "+e.Route, " ") + ": not sent: ")
	}
	for i, f := range e.Fields {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Field + " " + f.Message)
	}
	return b.String()
}

func argumentError(field, code, message string) error {
	return &ArgumentError{Fields: []FieldError{{field, message, code}}}
}

// isOfService reports whether p can be the service's own. Gateways send JSON too, but rarely a
// title or an error code.
func (p *ProblemDetails) isOfService() bool {
	return p != nil && (p.Title != "" || p.ErrorCode != "")
}

// rejects reports whether p is a verdict on the request, in one of the forms of the interface and the
// host.
func (p *ProblemDetails) rejects() bool {
	return p.isOfService() || slices.ContainsFunc(p.fieldErrors(), func(f FieldError) bool { return f != FieldError{} })
}

var utf8BOM = []byte("\xEF\xBB\xBF")

// shapeError is a value of the response with the wrong JSON type.
type shapeError = recordjson.Misshape
