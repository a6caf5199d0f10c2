// Package rules has the 69 routes of the service for tests: what each refuses, changes and answers. The state is that of
// package book; sockets, faults and the request log stand above.
//
// A refusal ends its handler: refuse and the functions that call it panic with a problem, which Run returns as its error.
package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Call is a request in its handler. Handlers run with the state and return a value for the
// response. They either refuse the request at once or add errors to failed, which reject the
// request together.
type Call struct {
	Route    *Route
	Request  *http.Request
	Body     []byte
	HTTPHost func(*url.URL) bool
	HostZone *time.Location
	Learned  func(fact, subject string) string // what a real service does, "" if nobody has seen it
	Username string                            // of the token, after Run
	About    []string                          // identifiers and e-mails of the request's resources, after Run

	*book.State
	*book.Tables // the records that the request sees; for a read they can lag behind State's

	book     *book.Book
	query    url.Values
	account  *record.Account // the caller's account, nil on anonymous routes
	failed   failures
	concerns []string
}

// Run takes a request through sign-in and handler, and encodes the response. If the route ran, Run
// calls ran before anybody else sees the new state.
func (c *Call) Run(b *book.Book, ran func()) (a *Answer, refused *Problem) {
	c.book, c.query = b, c.Request.URL.Query()
	refused = try(c.admit)
	if refused != nil {
		return nil, refused
	}
	c.with(func() {
		var result any
		refused = try(func() {
			result = c.Route.handle(c)
			c.valid()
		})
		c.About = c.State.Related(c.concerns) // of rejected requests, too
		if refused != nil {
			return
		}
		ran()
		if !c.Reads() {
			c.Written(c.About)
		}
		a = jsonAnswer(result)
	})
	return a, refused
}

func (c *Call) with(f func()) {
	c.book.Do(func(s *book.State) {
		defer func() { c.State, c.Tables = nil, nil }()
		c.State, c.Tables = s, s.Tables
		if c.Reads() {
			c.Tables = s.Shown()
		}
		f()
	})
}

// Reads reports whether a request changes nothing.
func (c *Call) Reads() bool {
	action := c.Route.Action()
	changes := strings.HasPrefix(action, "process-") || strings.HasPrefix(action, "update-") ||
		action == "application-offer" && strings.EqualFold(c.query.Get("force"), "true")
	return c.Route.Method() == "GET" && !changes
}

// Admitted reports whether a host reads the body: of a stranger's request it reads none.
func (c *Call) Admitted(b *book.Book) bool {
	c.book = b
	return try(c.admit) == nil
}

// admit makes the checks before the body is read.
func (c *Call) admit() {
	if c.Route.access != anonymous {
		c.with(c.authenticate)
	}
	if c.Route.access == administrators && !c.account.Administrator {
		panic(forbidden("This route is for administrators."))
	}
}

// authenticate finds the caller's account.
func (c *Call) authenticate() {
	token := TokenOf(c.Request)
	session := c.Tokens[token]
	switch {
	case token == "":
		panic(unauthorized("TokenMissing", "Bearer", "A bearer token is required."))
	case session == nil:
		panic(unauthorized("TokenInvalid", `Bearer error="invalid_token"`, "The bearer token is not valid."))
	case !c.Now().Before(session.Expires):
		panic(unauthorized("TokenExpired", `Bearer error="invalid_token", error_description="The token expired"`, "The bearer token has expired."))
	}
	c.account, c.Username = c.Accounts[session.Username], session.Username
}

// TokenOf returns the bearer token of a request.
func TokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
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

// text returns the body. A route with a body needs a content type, also without a body.
func (c *Call) text() []byte {
	if !jsonContentType(c.Request.Header.Get("Content-Type")) {
		panic(Refuse(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The content type is not supported."))
	}
	return bytes.TrimSpace(c.Body)
}

// decode reads the body into v and reports whether there was a body.
func (c *Call) decode(v any) (present bool) {
	body := c.text()
	if len(body) == 0 || string(body) == "null" {
		return false
	}
	err := json.Unmarshal(body, v)
	if !utf8.Valid(body) { // encoding/json accepts this
		err = errors.New("no UTF-8")
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := position.ReplaceAllString("$."+cmp.Or(te.Field, misfit(body, v)), "")
		c.invalid(field, "InvalidType", "The JSON value could not be converted.")
	} else if err != nil {
		c.invalid("$", "InvalidJson", "The body is not valid JSON.")
	}
	return true
}

// position is the index of an element in the name of a field. Some versions of encoding/json leave it out.
var position = regexp.MustCompile(`\.\d+|\.$`)

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
func (c *Call) decodeRequired(v any) {
	if !c.decode(v) {
		c.invalid("", "BodyRequired", "A non-empty request body is required.")
	}
}

// object reads a body without published fields: any JSON object.
func (c *Call) object() json.RawMessage {
	var fields map[string]json.RawMessage
	c.decodeRequired(&fields)
	return bytes.Clone(c.Body)
}

// id reads an identifier from the path, or else from the query.
func (c *Call) id(name string) string {
	id := c.failed.identifier(name, cmp.Or(c.Request.PathValue(name), c.query.Get(name)))
	c.valid()
	if name != "partnerId" { // partners are not created, so a caller could name ever more of them
		c.concern(id)
	}
	return id
}

func (c *Call) concern(resource string) { c.concerns = append(c.concerns, resource) }

// mine reports whether the caller may see the records of a partner. Anonymous callers need the identifier only.
func (c *Call) mine(partnerID string) bool { return c.account == nil || c.account.MayUse(partnerID) }

// learned reports whether a real service has shown a fact.
func (c *Call) learned(fact, value string) bool { return c.Learned(fact, c.Route.Action()) == value }

// otherID returns an identifier, or another identifier if a real service answers with another.
func (c *Call) otherID(fact, id string) string {
	if c.learned(fact, assumption.AnotherID) {
		return "99999999" + id[8:]
	}
	return id
}

// lookUp returns the customer, application or loan that a request names. It refuses the record of another partner as
// if there were none.
func lookUp[T any](c *Call) *T {
	kind := reflect.TypeFor[T]().Name()
	id := c.id(strings.ToLower(kind) + "Id")
	row := book.Get[T](c.Tables, id)
	switch {
	case row == nil:
		panic(notFound(kind))
	case !c.mine(c.TargetOf(id).PartnerID):
		p := notFound(kind)
		p.Assumption = "foreign records"
		panic(p)
	}
	return row
}

// applicationOf returns the present application of a loan, also for reads that lag.
func (c *Call) applicationOf(loan *record.Loan) *record.Application {
	return book.Get[record.Application](c.State.Tables, loan.ApplicationID)
}

// required reads a required query parameter.
func (c *Call) required(name string) string {
	value := c.query.Get(name)
	c.failed.require(name, strings.TrimSpace(value) != "")
	return value
}

// requiredTime reads a date. A host on ASP.NET Core before 5.0 converts a time with a zone to its own zone.
func (c *Call) requiredTime(name string) record.Timestamp {
	value := c.required(name)
	t, ok := record.ParseTime(value)
	if !ok && value != "" {
		c.failed.add(name, "InvalidDate", "The value is not a valid date.")
	}
	if _, err := time.Parse(time.RFC3339, value); err == nil { // with a zone
		_, offset := t.In(c.HostZone).Zone()
		t = t.Add(time.Duration(offset) * time.Second)
	}
	return record.Timestamp{Time: t}
}

// flag reads an optional boolean, false by default.
func (c *Call) flag(name string) bool {
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
func (c *Call) number(name string, otherwise int) int {
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

// page cuts a list by skip and take, in the order of a real service. limit caps take; 0 means no cap.
func page[T any](c *Call, rows []T, limit int) []T {
	skip, take := c.number("skip", 0), c.number("take", math.MaxInt32)
	if known := c.Learned(assumption.TakeCap, c.Route.Action()); known != "" {
		limit, _ = strconv.Atoi(known) // 0 for "none up to 201 records"
	}
	if limit > 0 {
		take = min(take, limit)
	}
	rows = rows[min(skip, len(rows)):]
	rows = list(rows[:min(take, len(rows))])
	if c.learned(assumption.Pages, assumption.AnotherOrder) {
		slices.Reverse(rows)
	}
	return rows
}

// list returns a copy that is an array in JSON, also without rows.
func list[T any](rows []T) []T { return append([]T{}, rows...) }

// wire returns rows as a list of a response.
func wire[T any](rows []*T) []any {
	all := []any{}
	for _, row := range rows {
		all = append(all, plain.Wire(row))
	}
	return all
}

// Loopback reports whether a Host header names this machine.
func Loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, _ := netip.ParseAddr(strings.Trim(name, "[]"))
	return ip.IsLoopback() || strings.EqualFold(name, "localhost")
}
