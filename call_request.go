package lending

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/redact"
)

// request describes a call. The verb, for example get, sets the last two fields.
type request struct {
	path      string // as the interface prints it, with {placeholders}
	args      []string
	query     []param
	body      any     // the request record, or an *upload; nil for none
	former    any     // the request record of the release 0.1, if it differs
	also      checker // rules besides those of path, query and body; nil for none
	anonymous bool
	token     Token // instead of the client's own
	noneIs204 bool  // the service answers 204 for a missing record: see docs/dev/assumptions.md
	signIn    bool  // the response holds a token, which no layer may see
	proof     proof

	// checkWith names the reads that show whether a mutation happened, for [Error].CheckWith; ""
	// if no read shows it.
	checkWith string

	method string
	effect Effect

	// withheld is the error of a mutation with a key that lacks nothing but secrets: it cannot
	// be sent, and a recorded answer needs none.
	withheld error
}

// route returns the request of a route: its path template, and the values for the names in braces.
func route(path string, args ...string) request { return request{path: path, args: args} }

func (r request) where(query ...param) request {
	r.query = query
	return r
}

func (r request) with(body any) request {
	r.body = body
	return r
}

func (r request) orNone() request {
	r.noneIs204 = true
	return r
}

func (r request) checkedBy(reads string) request {
	r.checkWith = reads
	return r
}

// streamed is a body produced while the transport sends it.
type streamed interface {
	bind(ctx context.Context, hr *http.Request)
	isWhole() bool                            // the transport has the last byte
	settle()                                  // the exchange has ended: the last byte no longer leaves
	finish(ctx context.Context, failed error) // the call has ended
}

func (r *request) isUpload() bool {
	_, ok := r.body.(streamed)
	return ok
}

// param is a query parameter. An empty value is left out, or an error if the parameter is required.
type param struct {
	name, value string
	required    bool
}

func required(name, value string) param { return param{name, value, true} }

// prepare returns the body, or all broken rules of the request. With hasKey it withholds the
// error of missing secrets.
func (r *request) prepare(hasKey bool) ([]byte, error) {
	var c checks
	for i, arg := range r.args {
		switch message := whyMissing(arg); {
		case message != "":
			c.add(placeholders(r.path)[i], CodeRequired, message)
		case !isPathSafe(arg):
			c.add(placeholders(r.path)[i], CodeUnsafe, "must not hold slashes, control characters or be a dot segment")
		}
	}
	for _, p := range r.query {
		switch message := whyMissing(p.value); {
		case p.required && message != "" && p.name == secretParam:
			c.secret(false, p.name)
		case p.required && message != "":
			c.add(p.name, CodeRequired, message)
		case strings.ContainsFunc(p.value, isControl):
			c.add(p.name, CodeUnsafe, "must not hold control characters or invalid UTF-8")
		}
	}
	body, of := r.prepareBody()
	c.fields, c.secrets = append(c.fields, of.fields...), c.secrets+of.secrets
	err := c.err(r.method, r.path)
	if hasKey && c.secrets == len(c.fields) {
		r.withheld, err = err, nil
	}
	return body, err
}

// checks collects the broken rules of a call's arguments.
type checks struct {
	prefix  string // of the record under check, for example "[3]."
	fields  []FieldError
	secrets int // among fields: required, and missing
}

// checker is a request record with rules.
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

// secret adds a failure unless ok: a required secret is missing.
func (c *checks) secret(ok bool, field string) {
	if !ok {
		c.secrets++
		c.add(field, CodeRequired, "must not be empty")
	}
}

// err returns the collected failures as an error, nil if there are none.
func (c *checks) err(method, route string) error {
	if len(c.fields) == 0 {
		return nil
	}
	return &ArgumentError{Method: method, Route: route, Fields: c.fields}
}

// whyMissing returns why value counts as missing, "" if it does not.
func whyMissing(value string) string {
	switch value {
	case "":
		return "must not be empty"
	case zeroUUID:
		return "must not be the zero UUID"
	}
	return ""
}

func (r *request) hasRecord() bool {
	v := reflect.ValueOf(r.body)
	return v.IsValid() && !(v.Kind() == reflect.Pointer && v.IsNil())
}

// isNull reports whether the caller left out an optional request record, which is null on the wire:
// some hosts accept no request without a content type.
func (r *request) isNull() bool { return r.body != nil && !r.hasRecord() }

// prepareBody returns the bytes of the request record and its broken rules. The bytes are nil
// for a route without a record, and for a streamed body.
func (r *request) prepareBody() (_ []byte, broken checks) {
	if r.body == nil && r.also == nil {
		return nil, checks{}
	}
	var c checks
	if r.also != nil {
		r.also.check(&c)
	}
	switch {
	case r.isNull():
		return []byte("null"), c
	case !r.hasRecord():
		return nil, c
	}
	if body, ok := r.body.(checker); ok {
		body.check(&c)
	}
	if r.isUpload() {
		return nil, c
	}
	body, err := encode(r.body)
	if failed, ok := errors.AsType[*ArgumentError](err); ok {
		for _, f := range failed.Fields {
			f.Field = cmp.Or(f.Field, "Body")
			if !slices.ContainsFunc(c.fields, func(known FieldError) bool { return known.Field == f.Field }) {
				c.fields = append(c.fields, f)
			}
		}
	}
	return body, c
}

// public yields the query parameters that are neither empty nor secret.
func (r *request) public() iter.Seq[param] {
	return func(yield func(param) bool) {
		for _, p := range r.query {
			if p.name != secretParam && p.value != "" && !yield(p) {
				return
			}
		}
	}
}

func (r *request) encodeQuery() string {
	var parts []string
	for _, p := range r.query {
		if p.value != "" {
			parts = append(parts, url.QueryEscape(p.name)+"="+url.QueryEscape(p.value))
		}
	}
	return strings.Join(parts, "&")
}

// placeholders returns the names in braces in a path template.
func placeholders(path string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(path, "{")
		if !found {
			return names
		}
		var name string
		name, path, _ = strings.Cut(rest, "}")
		names = append(names, name)
	}
}

// address returns the URL of the request below base.
func (r *request) address(base url.URL) url.URL {
	base.RawPath = expand(base.RawPath, r.path, r.args)
	base.Path = base.RawPath
	if strings.Contains(base.RawPath, "%") {
		base.Path, _ = url.PathUnescape(base.RawPath) // cannot fail: every part is escaped
	}
	base.RawQuery = r.encodeQuery()
	return base
}

// The limits of a request line or a header, and of all of them, in bytes: nginx and Kestrel take 8 KiB
// of a line, and haproxy 16 KiB in all. Over HTTP/2 a longer head can end the connection, and with it
// the requests of other callers.
const (
	maxLine = 8000
	maxHead = 15 << 10
)

func (r *request) lineLength(address *url.URL) int {
	return len(r.method) + len(address.RawPath) + len(address.RawQuery) + len(" ? HTTP/1.1")
}

func (r *request) checkAddress(address *url.URL) error {
	var c checks
	c.that(r.lineLength(address) <= maxLine, "address", CodeLength, "must have at most 8,000 bytes; shorten the parameters")
	return c.err(r.method, r.path)
}

// checkHead returns the error of a header that a gateway would refuse.
func (r *request) checkHead(address *url.URL, header http.Header) error {
	var c checks
	size := r.lineLength(address) + len(address.Host)
	for name, values := range header {
		field := redact.Name(name)
		if name == "Authorization" {
			field = "token"
		}
		for _, value := range values {
			n := len(name) + len(value) + len(": \r\n")
			c.that(n <= maxLine, field, CodeLength, "must have at most 8,000 bytes")
			size += n
		}
	}
	c.that(size <= maxHead, "head", CodeLength, "must have at most 15 KiB: address, token and the headers of WithHeader together")
	return c.err(r.method, r.path)
}

// expand returns prefix and path, with the escaped args in place of the names in braces.
func expand(prefix, path string, args []string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(path) + len(zeroUUID)*len(args))
	b.WriteString(prefix)
	for _, arg := range args {
		before, rest, _ := strings.Cut(path, "{")
		_, path, _ = strings.Cut(rest, "}")
		b.WriteString(before)
		b.WriteString(url.PathEscape(arg))
	}
	b.WriteString(path)
	return b.String()
}

// isPathSafe reports whether s stays one path segment: url.PathEscape leaves dot segments alone,
// and servers split on decoded slashes.
func isPathSafe(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, isControl)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

// secretParam is the only secret query parameter.
const secretParam = "ssn"

type idempotencyContext struct{}

// idempotencyKey is the value of a context for the layer.
type idempotencyKey struct {
	name  string
	check bool // instead of a name: reads with this context are checks of the layer
}

func keyIn(ctx context.Context) *idempotencyKey {
	key, _ := ctx.Value(idempotencyContext{}).(*idempotencyKey)
	return key
}

// withoutKey returns ctx without its key, for the calls that precede a mutation.
func withoutKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotencyContext{}, (*idempotencyKey)(nil))
}

// readRoutes are the path templates of the reads.
var readRoutes = map[string]string{
	"Applications.Status":         "/api/Application/application-status/{applicationId}",
	"Applications.Offer":          "/api/Application/application-offer/{applicationId}",
	"Applications.ListByCustomer": "/api/Application/get-customer-applications/{customerId}",
	"Applications.ListByPartner":  "/api/Application/get-partner-applications/{partnerId}",
	"Applications.Get":            "/api/Application/get-application/{applicationId}",
	"Approval.Contracts":          "/api/ApplicationApproval/get-contracts/{applicationId}",
	"Approval.ContractDetails":    "/api/ApplicationApproval/get-contract-details/{applicationId}",
	"Approval.Applicants":         "/api/ApplicationApproval/get-all-applicants/{applicationId}",
	"Approval.BankAccounts":       "/api/ApplicationApproval/get-all-bank-accounts/{applicationId}",
	"Approval.PrimaryBankAccount": "/api/ApplicationApproval/get-primary-bank-account/{applicationId}",
	"Approval.RequiredDocuments":  "/api/ApplicationApproval/get-required-documents/{applicationId}",
	"Communication.Messages":      "/api/Communication/get-all-messages/{applicationId}",
	"Customers.GetByEmail":        "/api/Customer/get-customer-by-email",
	"Customers.GetByID":           "/api/Customer/get-customer-by-id/{customerId}",
	"Loans.Get":                   "/api/Loan/get-loan/{loanId}",
	"Loans.ListByCustomer":        "/api/Loan/get-customer-loans/{customerId}",
	"Loans.Transactions":          "/api/Loan/get-transactions/{loanId}",
	"Loans.TransactionsPaged":     "/api/Loan/get-transactions-paged/{loanId}",
	"Loans.Withdrawals":           "/api/Loan/get-withdrawals/{loanId}",
	"Loans.ContractDocuments":     "/api/Loan/get-contract-documents/{loanId}",
	"Loans.TotalBalance":          "/api/Loan/get-total-balance/{loanId}",
	"Loans.RepaymentBalances":     "/api/Loan/get-repayment-balances/{loanId}",
	"Loans.IsEnabled":             "/api/Loan/is-loan-enabled/{loanId}",
	"Loans.IsClosed":              "/api/Loan/is-loan-closed/{loanId}",
	"Loans.EarlyRepayment":        "/api/Loan/get-early-repayment/{loanId}",
	"Webhooks.RegisteredEvents":   "/api/Webhook/get-registered-webhooks",
	"Webhooks.Subscription":       "/api/Webhook/get-subscription",
	"Webhooks.AllSubscriptions":   "/api/Webhook/get-all-subscriptions",
}
