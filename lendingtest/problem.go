package lendingtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// problem is the service's ProblemDetails, and the error of handlers.
type problem struct {
	Status        int          `json:"status"`
	Title         string       `json:"title"`
	Detail        string       `json:"detail"`
	Instance      string       `json:"instance"`
	TraceID       string       `json:"traceId"`
	CorrelationID string       `json:"correlationId"`
	ErrorCode     string       `json:"errorCode"`
	Errors        []fieldError `json:"errors"`

	authenticate string // WWW-Authenticate
}

type fieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

func (p *problem) Error() string { return p.ErrorCode + ": " + p.Detail }

// refuse returns the error of a failed business operation: 400.
func refuse(code, format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Title: "The request was refused.", ErrorCode: code, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(status int, code, detail string) *problem {
	return &problem{Status: status, Title: http.StatusText(status), ErrorCode: code, Detail: detail}
}

func notFound(what string) *problem {
	return problemOf(http.StatusNotFound, what+"NotFound", "There is no such "+what+".")
}

func forbidden(detail string) *problem {
	return problemOf(http.StatusForbidden, "Forbidden", detail)
}

// failures collects all errors of a request, so that the caller can correct them together.
type failures []fieldError

func (f *failures) add(field, code, format string, args ...any) {
	*f = append(*f, fieldError{Field: field, Code: code, Message: fmt.Sprintf(format, args...)})
}

// err returns the validation problem, or nil if there are no failures.
func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return &problem{
		Status: http.StatusBadRequest, Title: "One or more validation errors occurred.",
		ErrorCode: "ValidationFailed", Detail: "See errors.", Errors: f,
	}
}

// answer is a complete response that faults can still change.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) setHeader(key, value string) {
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set(key, value)
}

// null is a handler's result that becomes a 204, like in ASP.NET.
type null struct{}

func jsonAnswer(v any) *answer {
	switch v.(type) {
	case nil:
		return &answer{status: http.StatusOK}
	case null:
		return &answer{status: http.StatusNoContent}
	}
	a := &answer{status: http.StatusOK, body: mustJSON(v)}
	a.setHeader("Content-Type", "application/json; charset=utf-8")
	return a
}

// problemAnswer adds the fields that depend on the request to p.
func (s *Service) problemAnswer(p problem, instance string) *answer {
	s.mu.Lock()
	p.CorrelationID = s.newID(kindCorrelation)
	p.TraceID = fmt.Sprintf("00-%032x-%016x-00", int64(s.cfg.seed)<<32+int64(s.sequences[kindCorrelation]), s.sequences[kindCorrelation])
	s.mu.Unlock()
	p.Instance = instance
	if p.Errors == nil {
		p.Errors = []fieldError{}
	}
	a := &answer{status: p.Status, body: mustJSON(p)}
	a.setHeader("Content-Type", "application/problem+json; charset=utf-8")
	if p.authenticate != "" {
		a.setHeader("WWW-Authenticate", p.authenticate)
	}
	return a
}

// mustJSON encodes records of this package, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("lendingtest: " + err.Error())
	}
	return b
}

// requireTexts takes names and values in turn.
func requireTexts(namesAndValues ...string) error {
	var f failures
	for pair := range slices.Chunk(namesAndValues, 2) {
		if name, value := pair[0], pair[1]; value == "" {
			f.add(name, "Required", "The %s field is required.", name)
		}
	}
	return f.err()
}
