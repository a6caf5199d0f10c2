package guarantees_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// withNothing has the rejected fields of a call with empty arguments, for each method that rejects
// others than the required parameters of its row in testdata/routes.tsv.
var withNothing = map[string]string{
	"Applications.SendLink":             "applicationId required",
	"Applications.CreateCustomer":       "email format, password required, mobileNumber format",
	"Applications.Create":               "customerId required",
	"Applications.UpdateName":           "applicationId required, name required",
	"Applications.UpdateNameAndZipCode": "applicationId required, name required, zipCode required",
	"Applications.SubmitBankStatement":  "applicationId required, fileName required, content required",
	"Approval.SetPrimaryBankAccount":    "applicationId required, id required",
	"Approval.SignContract": "applicationId required, applicantId required, signature required, signature2 " +
		"required",
	"Approval.SubmitRequiredDocument": "applicationId required, supportingDocumentId required, fileType required, " +
		"fileName required, content required",
	"Approval.SubmitDocument": "applicationId required, fileType required, fileName required, content required",
	"Bulk.CreateCustomers":    "records required",
	"Bulk.CreateApplications": "records required",
	"Auth.Login":              "username required, password required",
	"Auth.ValidateTwoFactor":  "username required, code required",
	"Loans.WithdrawInvoice":   "loanId required, calculation.amount required",
	"Loans.ConfirmInvoiceWithdrawal": "loanId required, amount required, advanceRate required, dateUTC required, " +
		"otp required",
	"Webhooks.Register":  "target required, webhookUri format",
	"Webhooks.Simulate":  "eventName required, target required",
	"Webhooks.UpdateURI": "webhookUri required, target required, webhookUri format",
}

// A call without a required argument is not sent.
func TestMissingRequiredArgumentIsRefused(t *testing.T) {
	client := wire.Silent(t)
	for name, r := range catalog.Routes(t) {
		t.Run(name, func(t *testing.T) {
			var required []string
			for _, p := range append(r.PathParams, r.Query...) {
				if len(r.PathParams) > 0 && p == r.PathParams[0] || p.Required {
					required = append(required, p.Name+" required")
				}
			}
			if r.Target {
				required = append(required, "target required")
			}
			refused, differs := withNothing[name]
			if !differs {
				refused = strings.Join(required, ", ")
			}
			for _, field := range required {
				assert.Contains(t, refused, field)
			}
			if refused != "" {
				assert.Equal(t, refused, catalog.Refused(t, callWithNothing(t, client, name)))
			}
		})
	}
}

// callWithNothing calls a method with the zero value of every argument.
func callWithNothing(t *testing.T, client *lending.Client, name string) error {
	t.Helper()
	service, method, _ := strings.Cut(name, ".")
	call := reflect.ValueOf(client).Elem().FieldByName(service).MethodByName(method)
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < call.Type().NumIn(); i++ {
		arg := reflect.Zero(call.Type().In(i))
		if arg.Kind() == reflect.Pointer { // nil is no record
			arg = reflect.New(arg.Type().Elem())
		}
		args = append(args, arg)
	}
	results := call.Call(args)
	err, _ := reflect.TypeAssert[error](results[len(results)-1])
	return err
}

// A log or a proxy may misread control bytes, so none travels in a path or a query. Bytes outside
// UTF-8, and their replacement by other programs, would be another name at the service.
func TestUnsafeTextIsRefused(t *testing.T) {
	client, values := wire.Silent(t), []string{"a\xffb", "a\uFFFDb", "a\x7fb"}
	for b := range byte(' ') {
		values = append(values, "a"+string(rune(b))+"b")
	}
	for _, value := range values {
		assert.Equal(t, "id unsafe", catalog.Refused(t, client.Approval.SetPrimaryBankAccount(t.Context(),
			catalog.Application, value)), "%q", value)
		assert.Equal(t, "email unsafe", catalog.Refused(t, second(client.Customers.GetByEmail(t.Context(), value))),
			"%q", value)
	}
}

// The client leaves out an empty map like a nil map.
func TestEmptyMapIsNotSent(t *testing.T) {
	for _, information := range []map[string]string{nil, {}} {
		got := record(t, func(ctx context.Context, c *lending.Client) (any, error) {
			return c.Applications.Create(ctx, lending.ApplicationRequest{
				CustomerID:       catalog.Customer,
				ExtraInformation: information,
			}, nil)
		})
		var sent map[string]json.RawMessage
		assert.NoError(t, json.Unmarshal(got.body, &sent))
		assert.Contains(t, sent, "customerId")
		assert.NotContains(t, sent, "extraInformation")
	}
}

// A head above the limits of gateways is refused by the name of its part. Over HTTP/2 it would end the
// connection, and make the outcome of other callers' mutations unknown.
func TestLongHeadIsNotSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8000)
	header := func(values ...string) lending.Option {
		return lending.WithHeader(func(_ context.Context, h http.Header) { h["X-Test"] = values })
	}
	for _, test := range []struct {
		name, field, address string
		opts                 []lending.Option
	}{
		{"address", "address", long, []lending.Option{withToken}},
		{"token", "token", "", []lending.Option{lending.WithTokenSource(lending.StaticToken(long))}},
		{"header", "X-Test", "", []lending.Option{withToken, header(long)}},
		{"head", "head", "", []lending.Option{withToken, header(long[:7900], long[:7900])}},
		{"within the limits", "", long[:7800], []lending.Option{withToken, header(long[:7400])}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var arrived atomic.Int32
			client := wire.NewClient(t, wire.Listen(t, func(w http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				wire.Answer(http.StatusOK, "{}")(w, r)
			}), test.opts...)
			for _, effect := range []lending.Effect{lending.Mutation, lending.Read} {
				_, err := client.Do(t.Context(), lending.RawRequest{
					Effect: effect, Method: http.MethodPost, Path: "/api/Thing/do", Query: url.Values{"a": {test.address}},
				})
				if test.field == "" {
					require.NoError(t, err)
					continue
				}
				var argument *lending.ArgumentError
				require.ErrorAs(t, err, &argument)
				assert.Equal(t, test.field, argument.Fields[0].Field)
				assert.Equal(t, lending.CodeLength, argument.Fields[0].Code)
				assert.NotContains(t, err.Error(), long[:10])
				next := lending.Next{Retry: true, After: 15 * time.Minute, Person: true} // the order is not to blame
				if test.field == "address" {
					next = lending.Next{}
				}
				assert.Equal(t, next, lending.NextOf(err))
			}
			assert.Equal(t, test.field == "", arrived.Load() > 0)
		})
	}
}
