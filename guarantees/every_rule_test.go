package guarantees_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

func TestExtraIsSentUnchangedOrRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		extra any
		want  string // the refused fields, or the sent body
	}{
		{"a map", catalog.Unpublished{"b": json.Number("1.10"), "a": nil}, `{"a":null,"b":1.10}`},
		{"a nil map", catalog.Unpublished(nil), `{}`},
		{"a struct", struct{ X int }{1}, `{"X":1}`},
		{
			"JSON", json.RawMessage(`{"n":12345678901234567890.10,"s":"\u00e9<"}`),
			`{"n":12345678901234567890.10,"s":"\u00e9\u003c"}`,
		},
		{"a list", []int{1}, "Extra unsafe"},
		{"a scalar", "x", "Extra unsafe"},
		{"a function", func() {}, "Extra unsafe"},
		{
			"a secret",
			catalog.Unpublished{"a": []any{struct{ S lending.Secret }{lending.NewSecret("hush")}}},
			"Extra.a[0] unsafe",
		},
		{"a secret, deeper", struct{ hushed }{hushed{lending.NewSecret("hush")}}, "Extra unsafe"},
		{
			"a request record",
			catalog.Unpublished{"a": &lending.WebhookSubscription{
				Secret: lending.NewSecret("hush"),
				Extra:  catalog.Unpublished{"b": 1},
			}},
			`{"a":{"webhookUri":"","secret":"hush","b":1}}`,
		},
		{"bytes, not UTF-8", catalog.Unpublished{"a": "\xff"}, "Extra.a unsafe"},
		{"a name, not UTF-8", catalog.Unpublished{"a": map[string]any{"\xff": 1}}, "Extra.a unsafe"},
		{"a name twice", json.RawMessage(`{"amount":100,"amount":5}`), "Extra.amount conflict"},
		{"twice, in another case", json.RawMessage(`{"a":1,"A":2}`), "Extra.A conflict"},
		{"twice, with an escape", json.RawMessage(`{"a":1,"\u0061":2}`), "Extra.a conflict"},
		{"twice, far inside", json.RawMessage(`{"a":[{},{"b":{"c":1,"d":{},"C":2}}]}`), "Extra.a[1].b.C conflict"},
		{"twice in a map", map[string]any{"a": []any{map[string]int{"b": 1, "B": 2}}}, "Extra.a[0].b conflict"},
		{"twice in a struct", catalog.Unpublished{"a": struct {
			X int `json:"x"`
			Y int `json:"X"`
		}{1, 2}}, "Extra.a.X conflict"},
		{"once in each object", json.RawMessage(`{"a":[{"b":1},{"b":2}],"b":{}}`), `{"a":[{"b":1},{"b":2}],"b":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sent string
			client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent = string(body)
				wire.Answer(http.StatusOK, "")(w, r)
			})
			err := client.Approval.AddCompanyDetails(t.Context(), catalog.Application,
				lending.CompanyDataRequest{Extra: test.extra})
			assert.Equal(t, test.want, catalog.Refused(t, err)+sent)
		})
	}
	_, err := wire.Silent(t).Do(t.Context(), lending.RawRequest{
		Method: http.MethodPost, Path: "/api/new", Body: json.RawMessage(`{"a":1,"a":2}`),
	})
	assert.Equal(t, "a conflict", catalog.Refused(t, err))
	user := fake.Ada()
	user.Password = lending.NewSecret("\xff")
	_, err = wire.Silent(t).Applications.CreateCustomer(t.Context(), user)
	assert.Equal(t, "password unsafe", catalog.Refused(t, err), "another password would be sent")
}

type hushed struct{ S lending.Secret }

func TestBulkRulesNameTheRecord(t *testing.T) {
	ctx, client := t.Context(), wire.Silent(t)
	bad := fake.Ada()
	bad.Email, bad.MobileNumber = "nobody", "1"
	_, err := client.Bulk.CreateCustomers(ctx, []lending.UserRequest{
		fake.Ada(), fake.Ada(), bad,
		{Email: "a@b.c", MobileNumber: "4155550100", FirstName: strings.Repeat("x", 51)},
	})
	assert.Equal(t, "[2].email format, [2].mobileNumber format, [3].firstName length, [3].password required",
		catalog.Refused(t, err))

	_, err = client.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{
		{CustomerID: catalog.Customer, BusinessZip: "1", ExtraInformation: map[string]string{
			"zipcode": "1",
			"years":   "100",
		}}, {},
	})
	assert.Equal(t, "[0].businessZip conflict, [0].extraInformation.years range, [1].customerId required",
		catalog.Refused(t, err))

	_, err = client.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{
		{CustomerID: catalog.Customer},
		{CustomerID: catalog.Customer, Extra: catalog.Unpublished{"BUSINESSNAME": 1}},
	})
	assert.Equal(t, "[1].Extra.businessName conflict", catalog.Refused(t, err))
}

// A 400 without a field may have created some of the records.
func TestBulkRejectionWithoutFieldsIsUnknown(t *testing.T) {
	for _, test := range []struct {
		body string
		want lending.Outcome
	}{
		{`{"title":"failed"}`, lending.OutcomeUnknown}, {`{"errors":[{"field":"[0].email"}]}`, lending.OutcomeRejected},
	} {
		t.Run(test.body, func(t *testing.T) {
			client := wire.Serve(t, wire.Answer(http.StatusBadRequest, test.body))
			for _, name := range []string{"Bulk.CreateCustomers", "Bulk.CreateApplications"} {
				_, err := catalog.Calls[name](t.Context(), client)
				assert.Equal(t, test.want, lending.OutcomeOf(err), "%s: %s", name)
			}
		})
	}
}

func TestSignatureRules(t *testing.T) {
	image := lending.SignatureImage([]byte("png"))
	for _, test := range []struct {
		name    string
		request lending.SignaturesRequest
		want    string
	}{
		{
			"the second empty",
			lending.SignaturesRequest{Signature: image, Signature2: lending.SignatureImage(nil)},
			"signature2 required",
		},
		{
			"raw bytes",
			lending.SignaturesRequest{Signature: lending.NewSecret("\x89PNG"), Signature2: image},
			"signature format",
		},
		{"a clash", lending.SignaturesRequest{
			Signature: image, Signature2: image,
			Extra: catalog.Unpublished{"mimeType": 1},
		}, "Extra.mimeType conflict"},
		{
			"a hidden secret",
			lending.SignaturesRequest{
				Signature: image, Signature2: image,
				SecondaryApplicant: struct{ SSN lending.Secret }{lending.NewSecret("hush")},
			},
			"secondaryApplicant unsafe",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := wire.Silent(t).Approval.SignContract(t.Context(), catalog.Application, catalog.Applicant,
				&test.request)
			assert.Equal(t, test.want, catalog.Refused(t, err))
		})
	}
	assert.Equal(t, "[redacted]", fmt.Sprint(image))
}

func TestCalculationRules(t *testing.T) {
	for _, number := range []json.Number{
		"abc", "1,000", "0x10", "01", "+1", ".5", "1.", " 1", "1 ", "1e", "Infinity",
		"NaN", `1,"terms":2`, "--1",
	} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			client := wire.Silent(t)
			_, err := client.Calculation.LineOfCredit(t.Context(), catalog.Application,
				&lending.CalculationRequest{Amount: number, PercentOfIncome: "1"})
			assert.Equal(t, "amount format", catalog.Refused(t, err))
			_, err = client.Loans.WithdrawInvoice(t.Context(), catalog.Loan,
				lending.InvoiceWithdrawalRequest{Calculation: lending.CalculationRequest{
					Amount:          number,
					PercentOfIncome: "x",
				}})
			assert.Equal(t, "calculation.amount format, calculation.percentOfIncome format", catalog.Refused(t, err))
		})
	}
}

// TestStoredWithdrawalIsConfirmed begins a withdrawal, keeps the result as JSON, and confirms the
// withdrawal: the requested amount and the returned rate are kept to the last digit.
func TestStoredWithdrawalIsConfirmed(t *testing.T) {
	const began = `{"amount":9,"advanceRate":"0.80","fee":1.10,"id":` + someID + `}`
	var sent string
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		sent = r.URL.Path + " " + string(body)
		wire.Answer(http.StatusOK, began)(w, r)
	})
	begun, err := client.Loans.WithdrawInvoice(t.Context(), catalog.Loan,
		lending.InvoiceWithdrawalRequest{Calculation: catalog.Calculation()})
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%+v", begun), "fee", "the response is not printed")

	kept, err := json.Marshal(begun)
	require.NoError(t, err)
	var later lending.InvoiceWithdrawal
	require.NoError(t, json.Unmarshal(kept, &later))
	assert.Equal(t, began, string(later.Response.Raw())) //nolint:testifylint // to the last digit

	_, err = client.Loans.ConfirmInvoiceWithdrawal(t.Context(), later,
		lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date, OTP: lending.NewSecret("012345")})
	require.NoError(t, err)
	assert.Equal(t, "/api/Loan/confirm-withdrawal-invoice/"+catalog.Loan.String()+
		` {"amount":2500.10,"advanceRate":0.80,"dateUTC":"2026-03-04T05:06:07Z","otp":"012345"}`, sent)
}

// A withdrawal whose advance rate came under another name is not confirmed, even if the result was
// kept as JSON.
func TestConfirmationNeedsAnAdvanceRate(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusOK, `{"rate":0.8,"advanceRate":{"not":"a number"}}`))
	begun, err := client.Loans.WithdrawInvoice(t.Context(), catalog.Loan,
		lending.InvoiceWithdrawalRequest{Calculation: catalog.Calculation()})
	require.NoError(t, err, "the withdrawal has begun")
	kept, err := json.Marshal(begun)
	require.NoError(t, err)
	var later lending.InvoiceWithdrawal
	require.NoError(t, json.Unmarshal(kept, &later))
	data := lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date, OTP: lending.NewSecret("012345")}
	for _, withdrawal := range []lending.InvoiceWithdrawal{*begun, later} {
		t.Run("rate "+string(withdrawal.AdvanceRate), func(t *testing.T) {
			_, err = wire.Silent(t).Loans.ConfirmInvoiceWithdrawal(t.Context(), withdrawal, data)
			assert.Equal(t, "advanceRate required", catalog.Refused(t, err))
		})
	}

	withdrawal := catalog.Withdrawal()
	withdrawal.AdvanceRate = "four fifths"
	_, err = wire.Silent(t).Loans.ConfirmInvoiceWithdrawal(t.Context(), withdrawal, data)
	assert.Equal(t, "advanceRate format", catalog.Refused(t, err))

	data.Extra = catalog.Unpublished{"Amount": 1}
	_, err = wire.Silent(t).Loans.ConfirmInvoiceWithdrawal(t.Context(), catalog.Withdrawal(), data)
	assert.Equal(t, "Extra.amount conflict", catalog.Refused(t, err), "no other amount by the back door")
	data.Extra = struct{ OTPCode lending.Secret }{lending.NewSecret("012345")}
	_, err = wire.Silent(t).Loans.ConfirmInvoiceWithdrawal(t.Context(), catalog.Withdrawal(), data)
	assert.Equal(t, "Extra unsafe", catalog.Refused(t, err), "a Secret in a struct would be sent redacted")
}

func TestWebhookRules(t *testing.T) {
	ctx, client := t.Context(), wire.Silent(t)
	for _, uri := range []string{
		"", "http://hooks.example.com", "hooks.example.com", "https://", "https:///x",
		"ftp://hooks.example.com", "https:hooks.example.com", "://",
		"https://user:pass@hooks.example.com", "https://hooks.example.com/#a", "https://hooks.example.com/#",
	} {
		t.Run(uri, func(t *testing.T) {
			err := client.Webhooks.Register(ctx, lending.ForPartner(catalog.Partner),
				lending.WebhookSubscription{WebhookURI: uri})
			assert.Equal(t, "webhookUri format", catalog.Refused(t, err))
			err = client.Webhooks.UpdateURI(ctx, lending.ForPartner(catalog.Partner), uri)
			assert.Contains(t, catalog.Refused(t, err), "webhookUri format")
		})
	}
	for _, test := range []struct {
		name   string
		target lending.WebhookTarget
	}{
		{"zero", lending.WebhookTarget{}},
		{"zero partner", lending.ForPartner(lending.PartnerID{})},
		{"zero customer", lending.ForCustomer(lending.CustomerID{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, "target required", catalog.Refused(t, client.Webhooks.UpdateAll(ctx, test.target)))
			_, err := client.Webhooks.Subscription(ctx, test.target)
			assert.Equal(t, "target required", catalog.Refused(t, err))
			assert.Empty(t, test.target.String())
		})
	}
	assert.Equal(t, "customer "+catalog.Customer.String(), lending.ForCustomer(catalog.Customer).String())
	assert.Equal(t, "partner "+catalog.Partner.String(), fmt.Sprint(lending.ForPartner(catalog.Partner)))
}

// The client sends the changed fields and loses nothing, not even members without a typed field.
func TestChangedSubscriptionLosesNoField(t *testing.T) {
	const before = `{"Id":"5b000000-0000-4000-8000-000000000008","WebhookUri":"https://a.example","isActive":true,` +
		`"webhooks":["WB_Loan_Created"],` +
		`"secret":"whs_1","tenantId":12345678901234567890,"headers":{"x":0.10},"createdBy":null}`
	var sent string
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		sent = string(body)
		wire.Answer(http.StatusOK, before)(w, r)
	})
	target := lending.ForPartner(catalog.Partner)
	subscription, err := client.Webhooks.Subscription(t.Context(), target)
	require.NoError(t, err)

	subscription.WebhookURI = "https://b.example"
	subscription.IsActive = false
	subscription.Webhooks = append(subscription.Webhooks, "WB_Loan_Closed")
	subscription.Extra = catalog.Unpublished{"createdBy": "me"}
	require.NoError(t, client.Webhooks.Register(t.Context(), target, *subscription))
	//nolint:testifylint // to the last digit
	assert.Equal(t, `{"id":"5b000000-0000-4000-8000-000000000008","webhookUri":"https://b.example","isActive":false,`+
		`"webhooks":["WB_Loan_Created","WB_Loan_Closed"],"secret":"whs_1","createdBy":"me",`+
		`"tenantId":12345678901234567890,"headers":{"x":0.10}}`, sent)

	text, err := json.Marshal(subscription)
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(sent, "whs_1", "[redacted]"), string(text))

	require.NoError(t, json.Unmarshal([]byte(`{"webhookUri":"https://a.example","x":{"n":1,"N":2}}`), subscription))
	assert.Equal(t, "x.N conflict", catalog.Refused(t, client.Webhooks.Register(t.Context(), target, *subscription)))

	old := lending.WebhookSubscription{WebhookURI: "http://old.example"}
	require.NoError(t, client.Webhooks.Unregister(t.Context(), target, old), "what is there can be removed")
}

// hostile are values that a careless client changes on the way.
var hostile = []string{
	"a/b", "../../x", "..", ".", "%2F", "%2e%2e", "a%2Fb", "?x=1", "#x", "a b", "a+b", "a&b=c", "a;b", "é😀", "a\nb",
	"a\r\nX: y", "a\x00b", "\xff\xfe", `a\b`, "{id}", " ", "~:@!$&'()*,;=",
}

func TestValuesArriveUnchangedOrNotAtAll(t *testing.T) {
	var got string
	var place func(*http.Request) string
	mux := http.NewServeMux()
	handler := func(w http.ResponseWriter, r *http.Request) { got = place(r); wire.Answer(http.StatusOK, "{}")(w, r) }
	mux.HandleFunc("POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}", handler)
	mux.HandleFunc("GET /api/Customer/get-customer-by-email", handler)
	mux.HandleFunc("GET /api/Later/thing/{a}/of/{b}", handler)
	client := wire.Serve(t, mux.ServeHTTP)
	for _, test := range []struct {
		name  string
		place func(*http.Request) string
		send  func(ctx context.Context, value string) error
	}{
		{
			"path", func(r *http.Request) string { return r.PathValue("id") },
			func(ctx context.Context, value string) error {
				return client.Approval.SetPrimaryBankAccount(ctx, catalog.Application, value)
			},
		},
		{
			"query", func(r *http.Request) string { return r.URL.Query().Get("email") },
			func(ctx context.Context, value string) error {
				return second(client.Customers.GetByEmail(ctx, value))
			},
		},
		{
			"raw path", func(r *http.Request) string { return r.PathValue("b") },
			func(ctx context.Context, value string) error {
				return second(client.Do(ctx, lending.RawRequest{
					Effect: lending.Read, Method: "GET",
					Path: "/api/Later/thing/{a}/of/{b}", Args: []string{"1", value},
				}))
			},
		},
		{
			"raw query", func(r *http.Request) string { return r.URL.Query().Get(r.URL.Query().Get("n")) },
			func(ctx context.Context, value string) error {
				return second(client.Do(ctx, lending.RawRequest{
					Effect: lending.Read, Method: "GET", Path: "/api/Later/thing/{a}/of/{b}", Args: []string{"1", "2"},
					Query: url.Values{"n": {value}, value: {value}},
				}))
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			arrived := 0
			for _, value := range hostile {
				got, place = "never arrived", test.place
				err := test.send(t.Context(), value)
				if err == nil {
					arrived++
					assert.Equal(t, value, got)
					continue
				}
				assert.Contains(t, catalog.Refused(t, err), "unsafe", "%s: %q", test.name, value)
				assert.Equal(t, "never arrived", got, "%s: %q", test.name, value)
			}
			t.Logf("%s: %d of %d arrived, the others were refused", test.name, arrived, len(hostile))
			assert.GreaterOrEqual(t, arrived, 13)
		})
	}
}

func TestZeroIDsInExtraAreRefused(t *testing.T) {
	for _, id := range []any{lending.LoanID{}, &lending.LoanID{}} {
		t.Run(fmt.Sprintf("%T", id), func(t *testing.T) {
			err := wire.Silent(t).Approval.AddCompanyDetails(t.Context(), catalog.Application,
				lending.CompanyDataRequest{Extra: catalog.Unpublished{"a": []any{id}}})
			assert.Equal(t, "Extra.a[0] required", catalog.Refused(t, err))
		})
	}
}
