package openapi_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

const (
	unknownID = "99999999-9999-4999-8999-999999999999"
	zeroID    = "00000000-0000-0000-0000-000000000000"
	hostLimit = 30_000_000

	retryAfter = 7 * time.Second
)

// breakIt sends a request in every broken form of the description and of the interface's part on
// errors. The service executes none of them.
func (s *suite) breakIt(x exchange) {
	s.Helper()
	before := s.service.Executed(x.route())
	s.breakToken(x)
	for _, p := range x.Parameters {
		s.breakParameter(x, p.Value)
	}
	if x.RequestBody != nil {
		s.breakBody(x)
	}
	s.breakRoute(x)
	s.breakService(x)
	require.Equal(s, before, s.service.Executed(x.route()), "%s: a refused request is not executed", x.route())
}

// "Token missing, invalid or expired."
func (s *suite) breakToken(x exchange) {
	s.Helper()
	if x.anonymous() {
		return
	}
	x.want = []int{http.StatusUnauthorized}
	s.service.Advance(-2 * time.Hour)
	expired := s.service.Token(lendingtest.Username)
	s.service.Advance(2 * time.Hour)
	for _, token := range []string{"", "nobody's", expired} {
		x.token, x.broken = token, token == ""
		s.send(x)
	}
}

// "Invalid required fields, GUIDs, query parameters."
func (s *suite) breakParameter(x exchange, p *openapi3.Parameter) {
	s.Helper()
	schema, target := p.Schema.Value, x.Parameters.GetByInAndName("query", "customerId") != nil &&
		strings.HasSuffix(p.Name, "Id")
	with := func(value string) exchange {
		x.params, x.field = maps.Clone(x.params), p.Name
		x.params.Set(p.Name, value)
		x.want, x.broken = []int{http.StatusBadRequest}, true
		return x
	}
	wrong := map[string]string{"uuid": "not-a-uuid", "date-time": "yesterday", "integer": "many", "boolean": "maybe"}
	for _, kind := range []string{schema.Format, schema.Type.Slice()[0]} {
		if value, ok := wrong[kind]; ok && (!target || x.params.Has(p.Name)) {
			s.send(with(value))
		}
	}
	switch {
	case p.In == openapi3.ParameterInPath:
		unknown := with(unknownID)
		// "not every missing record gives 404"
		unknown.want, unknown.broken, unknown.field = []int{400, 403, 404}, false, ""
		s.send(unknown)
	case target && x.params.Has(p.Name): // "exactly one valid target id": prose in the description
		none, both := with(""), with(x.params.Get(p.Name))
		none.params.Del(p.Name)
		both.params = url.Values{"partnerId": {lendingtest.PartnerID}, "customerId": {unknownID}}
		for name := range x.params {
			if !both.params.Has(name) {
				both.params[name] = x.params[name]
			}
		}
		for _, y := range []exchange{none, both} {
			y.broken, y.field = false, ""
			s.send(y)
		}
	case p.Required:
		left := with("")
		left.params.Del(p.Name)
		s.send(left)
	}
}

func (s *suite) breakBody(x exchange) {
	s.Helper()
	body := x.RequestBody.Value
	x.want, x.broken = []int{http.StatusBadRequest}, true
	bodies := []string{"{", "7", "nonsense"}
	if body.Required {
		bodies = append(bodies, "")
	}
	if body.Content["application/json"].Schema.Value.Type.Is("string") {
		bodies = append(bodies, `""`, `{"file":"aGVsbG8="}`, `["aGVsbG8="]`)
	} else {
		bodies = append(bodies, `"text"`)
	}
	for _, broken := range bodies {
		y := x
		if y.body = broken; broken == "" {
			y.want = []int{http.StatusUnsupportedMediaType}
		}
		s.send(y)
	}
	if x.body == "" {
		return
	}
	other := x
	other.contentType, other.want = "text/plain", []int{http.StatusUnsupportedMediaType}
	s.send(other)
	huge := x // "the host may reject before controller validation"
	huge.length, huge.want, huge.broken = hostLimit+1, []int{http.StatusRequestEntityTooLarge}, false
	s.send(huge)
}

// "Wrong method, path or identifier." The description has no such route, so the response is
// compared with a refusal of the operation.
func (s *suite) breakRoute(x exchange) {
	s.Helper()
	x.want = []int{http.StatusNotFound}
	elsewhere := x
	elsewhere.path += "/elsewhere"
	s.send(elsewhere)
	if x.method == http.MethodGet {
		x.method = http.MethodPost
	} else {
		x.method, x.body, x.Operation = http.MethodGet, "", bodiless(x.Operation)
	}
	s.send(x)
}

func bodiless(op *openapi3.Operation) *openapi3.Operation {
	without := *op
	without.RequestBody = nil
	return &without
}

// "Too many requests; honour a Retry-After header when present", and a 5xx with an undescribed body.
func (s *suite) breakService(x exchange) {
	s.Helper()
	s.service.Fail(x.route(), lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: retryAfter})
	x.want = []int{http.StatusTooManyRequests}
	s.send(x)
	s.service.Fail(x.route(), lendingtest.Fault{
		Status: http.StatusBadGateway, Body: []byte("<html>"),
		ContentType: "text/html",
	})
	x.want = []int{http.StatusBadGateway}
	s.send(x)
}
