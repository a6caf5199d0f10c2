// Package openapi_test compares packages lending and lendingtest with lendingtest/openapi.yaml, the
// description of the service in OpenAPI 3. Its author read the published interface only, neither
// the client nor lendingtest. Generators of Go and TypeScript read the description, too: make
// openapi-peer.
package openapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	openapi3.DefineStringFormatValidator("uuid",
		openapi3.NewRegexpFormatValidator(openapi3.FormatOfStringForUUIDOfRFC4122))
	// RFC 5321's Mailbox, without quoted and literal forms. The format of kin-openapi allows blanks.
	openapi3.DefineStringFormatValidator("email", openapi3.NewRegexpFormatValidator(
		"^[\\w!#$%&'*+/=?^`{|}~-]+(\\.[\\w!#$%&'*+/=?^`{|}~-]+)*@[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*$"))
	openapi3.DefineStringFormatValidator("byte", openapi3.NewCallbackValidator(func(text string) error {
		_, err := base64.StdEncoding.DecodeString(text)
		return err
	}))
	m.Run()
}

// operation is a route of the description.
type operation struct {
	*openapi3.Operation
	method, path string
	item         *openapi3.PathItem
}

func (o operation) route() string { return o.method + " " + o.path }

func (o operation) anonymous() bool { return o.Security != nil && len(*o.Security) == 0 }

var description = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(lendingtest.OpenAPI()))
	if err == nil {
		err = doc.Validate(context.Background())
	}
	return doc, err
})

func load(t *testing.T) (*openapi3.T, map[string]operation) {
	t.Helper()
	doc, err := description()
	require.NoError(t, err)
	all := map[string]operation{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all[op.OperationID] = operation{op, method, path, item}
		}
	}
	return doc, all
}

// suite drives one service by the description.
type suite struct {
	*testing.T
	doc        *openapi3.T
	operations map[string]operation
	service    *lendingtest.Server
	client     *http.Client
	receiver   string         // https, answers 200
	token      string         // of a request without a token of its own
	done       map[string]int // successes by operation
	beyond     map[string]int // the departures of the fake from the interface
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	service := lendingtest.NewServer(lendingtest.WithBasePath("/base"),
		lendingtest.WithDeliveryClient(receiver.Client()))
	t.Cleanup(service.Close)
	s := &suite{
		T: t, service: service, receiver: receiver.URL,
		client: &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}},
		token:  service.Token(lendingtest.Username), done: map[string]int{}, beyond: map[string]int{},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.doc, s.operations = load(t)
	return s
}

// exchange is a request and the expected response.
type exchange struct {
	operation
	params      url.Values // of the path and of the query
	body        string
	contentType string // application/json by default
	token       string
	length      int64 // Content-Length: the body follows only if the service asks

	want   []int // the possible statuses
	broken bool  // the description refuses the request, too
	field  string
}

// request finds the operation by its id and takes "a=b&c=d" as parameters.
func (s *suite) request(id, params, body string) exchange {
	s.Helper()
	op, ok := s.operations[id]
	require.True(s, ok, id)
	values, err := url.ParseQuery(params)
	require.NoError(s, err)
	return exchange{operation: op, params: values, body: body, token: s.token, want: []int{http.StatusOK}}
}

// ok sends a request, first in every broken form, and returns the response.
func (s *suite) ok(id, params, body string) string {
	s.Helper()
	x := s.request(id, params, body)
	if s.done[id] == 0 {
		s.breakIt(x)
	}
	executed := s.service.Executed(x.route())
	answer := s.send(x)
	require.Equal(s, executed+1, s.service.Executed(x.route()), "%s did its work once", x.route())
	s.done[id]++
	return answer
}

// refused sends a request. The description and the service refuse it.
func (s *suite) refused(id, params, body string) {
	s.Helper()
	x := s.request(id, params, body)
	x.want, x.broken = []int{http.StatusBadRequest}, true
	s.send(x)
}

func decode[T any](s *suite, response string) (value T) {
	s.Helper()
	require.NoError(s, json.Unmarshal([]byte(response), &value), response)
	return value
}

// member returns a text of a response: "1.id" is the id of the second element, "" the response itself.
func (s *suite) member(response, path string) string {
	s.Helper()
	value := decode[any](s, response)
	for name := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '.' }) {
		if rows, ok := value.([]any); ok {
			i, err := strconv.Atoi(name)
			require.NoError(s, err)
			value = rows[i]
		} else {
			value = value.(map[string]any)[name]
		}
	}
	text, ok := value.(string)
	require.True(s, ok, "%s in %s", path, response)
	return text
}

// send makes an exchange over a socket and compares both halves with the description.
func (s *suite) send(x exchange) string {
	s.Helper()
	path, query, inPath := x.path, url.Values{}, map[string]string{}
	for name, values := range x.params {
		if strings.Contains(path, "{"+name+"}") {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(values[0]))
			inPath[name] = values[0]
		} else {
			query[name] = values
		}
	}
	req, err := http.NewRequestWithContext(s.Context(), x.method, s.service.URL+path+"?"+query.Encode(),
		strings.NewReader(x.body))
	require.NoError(s, err)
	req.Header.Set("Accept", "application/json")
	if x.body != "" {
		req.Header.Set("Content-Type", cmp.Or(x.contentType, "application/json"))
	}
	if x.token != "" && !x.anonymous() {
		req.Header.Set("Authorization", "Bearer "+x.token)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: inPath, QueryParams: query,
		Route: &routers.Route{Spec: s.doc, Path: x.path, PathItem: x.item, Method: x.method, Operation: x.Operation},
		Options: &openapi3filter.Options{
			SkipSettingDefaults: true, IncludeResponseStatus: true, RejectWhenRequestBodyNotSpecified: true,
			AuthenticationFunc: needsToken,
		},
	}
	if err := openapi3filter.ValidateRequest(s.Context(), input); x.broken {
		require.Error(s, err, "the description takes a request to %s that is to be refused: %s %s", x.route(),
			query.Encode(), short(x.body))
	} else {
		require.NoError(s, err, "%s %s", x.route(), short(x.body))
	}
	if x.length > 0 {
		req.ContentLength, req.Body, req.GetBody = x.length, io.NopCloser(strings.NewReader("")), nil
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := s.client.Do(req)
	require.NoError(s, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	require.Contains(s, x.want, resp.StatusCode, "%s %s %s: %s", x.route(), query.Encode(), short(x.body), body)
	s.checkAnswer(x, input, resp, body)
	return string(body)
}

func needsToken(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	if input.RequestValidationInput.Request.Header.Get("Authorization") == "" {
		return errors.New("no token")
	}
	return nil
}

func short(body string) string { return body[:min(len(body), 300)] }

// The departures of the fake from the interface. The test fails if one does not occur: then its
// entry has to go.
const (
	// "200 is success." The fake sends 204 if three reads find nothing. The description marks 204 as assumed.
	noContent = "204 where there is nothing"
	// The interface's part on errors has no such status.
	mediaType = "415 for another content type"
)

// documented are the statuses of the interface: of success, and those in its part on errors.
var documented = []int{200, 400, 401, 403, 404, 413, 429}

func (s *suite) checkAnswer(x exchange, input *openapi3filter.RequestValidationInput, resp *http.Response,
	body []byte,
) {
	s.Helper()
	at := x.route() + ": " + string(body)
	switch {
	case resp.StatusCode == http.StatusNoContent:
		s.beyond[noContent]++
		require.Empty(s, body, at)
		return
	case resp.StatusCode == http.StatusUnsupportedMediaType:
		s.beyond[mediaType]++
	case resp.StatusCode < 500:
		require.Contains(s, documented, resp.StatusCode, at)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		require.Equal(s, "7", resp.Header.Get("Retry-After"), at)
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: input.Options,
	}
	answer.SetBodyBytes(body)
	require.NoError(s, openapi3filter.ValidateResponse(s.Context(), answer), at)

	response := x.Responses.Status(resp.StatusCode)
	if response == nil || response.Value.Content == nil { // no record is described
		return
	}
	declared := response.Value.Content.Get("application/json")
	decoder := json.NewDecoder(bytes.NewReader(body))
	var value any
	require.NoError(s, decoder.Decode(&value), at)
	require.ErrorIs(s, decoder.Decode(new(any)), io.EOF, "a single value")
	require.Empty(s, missing(declared.Schema.Value, value, ""), "published fields are all there: %s", at)
	if resp.StatusCode >= 400 {
		s.checkProblem(x, resp.StatusCode, value.(map[string]any))
	}
}

// missing returns the published fields that a response lacks, required or not.
func missing(schema *openapi3.Schema, value any, at string) (names []string) {
	for _, part := range schema.AllOf {
		names = append(names, missing(part.Value, value, at)...)
	}
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if schema.Items != nil {
				names = append(names, missing(schema.Items.Value, element, at+"[]")...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if field, ok := value[name]; ok {
				names = append(names, missing(schema.Properties[name].Value, field, at+"."+name)...)
			} else {
				names = append(names, at+"."+name)
			}
		}
	}
	return names
}

// checkProblem compares a problem record with its response.
func (s *suite) checkProblem(x exchange, status int, problem map[string]any) {
	s.Helper()
	assert.EqualValues(s, status, problem["status"])
	for _, name := range []string{"title", "detail", "traceId", "correlationId", "errorCode"} {
		assert.NotEmpty(s, problem[name], "%s: %s", x.route(), name)
	}
	if !strings.Contains(x.path, "{") {
		assert.Equal(s, x.path, problem["instance"], "the path of the request")
	}
	if x.field == "" {
		return
	}
	var fields []any
	for _, entry := range problem["errors"].([]any) {
		fields = append(fields, entry.(map[string]any)["field"])
	}
	assert.Contains(s, fields, x.field, "%s: the field at fault is named", x.route())
}
