package lending

import (
	"strings"
)

// FieldError is one rule that one field breaks, in the shape of the service's own
// errors array.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// The codes of an [ArgumentError]. The service's own codes are not published.
const (
	CodeRequired = "required" // nothing was given
	CodeFormat   = "format"   // not of the form that the interface states
	CodeLength   = "length"   // too long
	CodeRange    = "range"    // too small or too large
	CodeConflict = "conflict" // not together with another field
	CodeUnsafe   = "unsafe"   // cannot travel as one exact value
	CodeInsecure = "insecure" // would send secrets in the clear
	CodeEncoding = "encoding" // cannot be written as JSON without loss
)

// ArgumentError says that a call was refused before anything was sent, and why.
// It lists every failure, names field and rule, and never quotes a value.
type ArgumentError struct {
	Method string // of the request, for example "POST"; empty outside a call
	Route  string // path template, for example "/api/Application/create-customer"
	Fields []FieldError
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

// checks collects what is wrong with the arguments of a call.
type checks struct {
	prefix string // of the record under check, for example "[3]."
	fields []FieldError
}

// checker is a request record with rules of its own.
type checker interface{ check(c *checks) }

func (c *checks) add(field, code, message string) {
	c.fields = append(c.fields, FieldError{Field: c.prefix + field, Message: message, Code: code})
}

// that adds a failure unless ok.
func (c *checks) that(ok bool, field, code, message string) {
	if !ok {
		c.add(field, code, message)
	}
}

// err returns what was collected, as the error of r if there is one.
func (c *checks) err(r *request) error {
	if len(c.fields) == 0 {
		return nil
	}
	e := &ArgumentError{Fields: c.fields}
	if r != nil {
		e.Method, e.Route = r.method, r.path
	}
	return e
}
