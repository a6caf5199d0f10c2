package lendingtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// call is a request in its handler. Handlers run with the service locked and return a value for
// the response. They either return an error at once or add errors to failed, which reject the
// request at the end.
type call struct {
	*Service
	*tables // the state that the request sees; for a read it can lag behind Service's
	route   *route
	r       *http.Request
	body    []byte
	query   url.Values
	entry   *entry
	who     string   // user name of the caller or of the sign-in
	account *Account // the caller's account, nil on anonymous routes
	events  []Event  // passed to watchers after the handler
	failed  failures
	bulk    bulk

	concerns []string // identifiers and e-mails, for ExecutedFor
}

// admit makes the checks before a controller: service running, token, content type.
func (c *call) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return problemOf(http.StatusServiceUnavailable, "Closed", "The service is closed.")
	}
	if c.route.access != anonymous {
		if err := c.authenticate(); err != nil {
			return err
		}
	}
	if c.route.access == administrators && !c.account.Administrator {
		return forbidden("This route is for administrators.")
	}
	if (len(c.body) > 0 || c.route.upload && c.r.ContentLength != 0) && !jsonContentType(c.r.Header.Get("Content-Type")) {
		return problemOf(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The content type is not supported.")
	}
	return nil
}

// jsonContentType reports whether a content type is one of the interface's four types.
func jsonContentType(value string) bool {
	t, params, err := mime.ParseMediaType(value)
	if err != nil || (params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8")) {
		return false
	}
	return t == "application/json" || t == "text/json" ||
		strings.HasPrefix(t, "application/") && strings.HasSuffix(t, "+json")
}

// decode reads the body into v and reports whether there was a body.
func (c *call) decode(v any) (present bool, err error) {
	body := bytes.TrimSpace(bytes.TrimPrefix(c.body, []byte("\xef\xbb\xbf")))
	if len(body) == 0 || string(body) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		var f failures
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			f.add(strings.TrimSuffix("$."+cmp.Or(te.Field, misfit(body, v)), "."), "InvalidType", "The JSON value could not be converted.")
		} else {
			f.add("$", "InvalidJson", "The body is not valid JSON.")
		}
		return false, f.err()
	}
	return true, nil
}

// misfit names the member of body that does not fit v. Since Go 1.27 encoding/json does not name
// the member if its type decodes itself.
func misfit(body []byte, v any) string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if alone, err := json.Marshal(map[string]json.RawMessage{name: members[name]}); err == nil && json.Unmarshal(alone, v) != nil {
			return name
		}
	}
	return ""
}

// decodeRequired rejects a request without a body.
func (c *call) decodeRequired(v any) error {
	present, err := c.decode(v)
	if err == nil && !present {
		var f failures
		f.add("", "BodyRequired", "A non-empty request body is required.")
		err = f.err()
	}
	return err
}

// object reads a body without published fields: any JSON object.
func (c *call) object() (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := c.decodeRequired(&fields); err != nil {
		return nil, err
	}
	return bytes.Clone(c.body), nil
}

// id reads an identifier from the path, or else from the query.
func (c *call) id(name string) (string, error) {
	raw := c.r.PathValue(name)
	if raw == "" {
		raw = c.query.Get(name)
	}
	id, ok := parseID(raw)
	if !ok {
		var f failures
		f.add(name, "InvalidGuid", "The value is not a valid identifier.")
		return "", f.err()
	}
	if name != "partnerId" { // partners are not created, so a caller could name ever more of them
		c.concern(id)
	}
	return id, nil
}

func (c *call) application() (*Application, error) {
	id, err := c.id("applicationId")
	if err != nil {
		return nil, err
	}
	if app := c.applications.get(id); app != nil {
		return app, nil
	}
	return nil, notFound("Application")
}

func (c *call) customer() (*Customer, error) {
	id, err := c.id("customerId")
	if err != nil {
		return nil, err
	}
	if customer := c.customers.get(id); customer != nil {
		return customer, nil
	}
	return nil, notFound("Customer")
}

func (c *call) loan() (*Loan, error) {
	id, err := c.id("loanId")
	if err != nil {
		return nil, err
	}
	if loan := c.loans.get(id); loan != nil {
		return loan, nil
	}
	return nil, notFound("Loan")
}

// required reads a required query parameter.
func (c *call) required(name string) string {
	value := c.query.Get(name)
	if strings.TrimSpace(value) == "" {
		c.failed.add(name, "Required", "The %s field is required.", name)
	}
	return value
}

func (c *call) requiredTime(name string) Timestamp {
	value := c.required(name)
	t, ok := parseTime(value)
	if !ok && value != "" {
		c.failed.add(name, "InvalidDate", "The value is not a valid date.")
	}
	return Timestamp{t}
}

// flag reads an optional boolean, false by default.
func (c *call) flag(name string) bool {
	switch strings.ToLower(c.query.Get(name)) {
	case "true":
		return true
	case "", "false":
	default:
		c.failed.add(name, "InvalidBoolean", "The value is not true or false.")
	}
	return false
}

// number reads an optional int32, which must not be negative.
func (c *call) number(name string, otherwise int) int {
	value := c.query.Get(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		c.failed.add(name, "InvalidNumber", "The value is not a number from 0 to 2147483647.")
		return otherwise
	}
	return int(n)
}

// takeCap is the limit on loan lists and communication lists.
const takeCap = 200

// window returns the part of a list of n rows that skip and take select. limit caps take; 0 means
// no cap.
func (c *call) window(n, limit int) (first, last int) {
	first = min(c.number("skip", 0), n)
	take := c.number("take", 2147483647)
	if limit > 0 {
		take = min(take, limit)
	}
	return first, first + min(take, n-first)
}

// page cuts a list by skip and take.
func page[T any](c *call, rows []T, limit int) []T {
	first, last := c.window(len(rows), limit)
	return append([]T{}, rows[first:last]...)
}

// drained reports whether only white space is left.
func drained(r io.ByteReader) bool {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if !strings.ContainsRune(" \t\r\n", rune(b)) {
			return false
		}
	}
}
