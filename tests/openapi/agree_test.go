package openapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

// rule is a rule of the interface, with valid and invalid values.
type rule struct {
	field string // as package lending and the service name it
	fine  []string
	wrong []string // the description refuses them, too
	words []string // the description refuses them in prose only

	call func(w *world, value string) error
	wire func(w *world, value string) (id, params, body string)
}

// world is a service with a customer, an application and a subscription.
type world struct {
	*suite
	client      *lending.Client
	customer    lending.CustomerID
	application lending.ApplicationID
}

var partnerTarget = lending.ForPartner(lending.PartnerID(uuid.MustParse(lendingtest.PartnerID)))

// accounts are identifiers of bank accounts: "a string account identifier".
var accounts = []string{"account-1", "7", "3fa85f64-5717-4562-b3fc-2c963f66afa6", "a b", "é", "a:b@c", "100%", "~"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{suite: newSuite(t)}
	w.customer = lending.CustomerID(uuid.MustParse(w.service.AddCustomer(lendingtest.Customer{}).ID))
	application := lendingtest.Application{CustomerID: w.customer.String(), Offer: &lendingtest.Offer{}}
	for _, id := range accounts {
		application.Accounts = append(application.Accounts, lendingtest.BankAccount{ID: id})
	}
	w.application = lending.ApplicationID(uuid.MustParse(w.service.AddApplication(application).ID))
	w.service.AddSubscription(lendingtest.Subscription{WebhookURI: w.receiver})
	var err error
	w.client, err = lending.New(w.service.URL, lending.WithTokenSource(lending.StaticToken(w.token)))
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	return w
}

// Package lending, the embedded service and the description accept the same values.
func TestClientServiceAndDescriptionAgree(t *testing.T) {
	var rules []rule
	for _, test := range []struct {
		field string
		set   func(*lending.UserRequest) *string
	}{
		{"firstName", func(u *lending.UserRequest) *string { return &u.FirstName }},
		{"lastName", func(u *lending.UserRequest) *string { return &u.LastName }},
		{"email", func(u *lending.UserRequest) *string { return &u.Email }},
		{"mobileNumber", func(u *lending.UserRequest) *string { return &u.MobileNumber }},
	} {
		rules = append(rules, ofCustomer(test.field, test.set))
	}
	rules = append(rules, years(), zipCode(), accountID(), skip())
	rules = append(rules, receivers()...)
	for _, r := range rules {
		t.Run(r.field, func(t *testing.T) {
			sent, written := newWorld(t), newWorld(t)
			for _, value := range r.fine {
				require.NoError(t, r.call(sent, value), "package lending: %q", value)
				id, params, body := r.wire(written, value)
				written.send(written.request(id, params, body))
			}
			for i, value := range append(r.wrong, r.words...) {
				refused, ok := errors.AsType[*lending.ArgumentError](r.call(sent, value))
				require.True(t, ok, "package lending: %q", value)
				require.Contains(t, fieldsOf(refused), r.field, "package lending: %q", value)
				id, params, body := r.wire(written, value)
				x := written.request(id, params, body)
				x.want, x.broken, x.field = []int{400}, i < len(r.wrong), r.field
				written.send(x)
			}
			id, _, _ := r.wire(written, "")
			route := written.operations[id].route()
			require.Equal(t, len(r.fine), sent.service.Executed(route))
			require.Equal(t, len(r.fine), written.service.Executed(route))
		})
	}
}

func fieldsOf(refused *lending.ArgumentError) (fields []string) {
	for _, f := range refused.Fields {
		fields = append(fields, f.Field)
	}
	return fields
}

// object writes members as a JSON object.
func object(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		panic(err) // of strings
	}
	return string(text)
}

func ofCustomer(field string, of func(*lending.UserRequest) *string) rule {
	fifty := strings.Repeat("a", 50)
	r := rule{
		field: field,
		fine:  []string{"", "Ada", fifty, strings.Repeat("é", 50), strings.Repeat("数", 50)},
		wrong: []string{fifty + "a", strings.Repeat("é", 51), strings.Repeat("数", 51)},
	}
	switch field {
	case "email":
		r.fine = []string{
			"ada@example.com", strings.Repeat("a", 38) + "@example.com", "a.d-a+tag@sub.example.co.uk",
			"o'neil_7@localhost",
		}
		r.wrong = []string{
			"", "ada", "@", "@example.com", "ada@", "ada@@example.com", "ada@example@com", "ada@example..com",
			".ada@example.com",
			"ada.@example.com", "a..da@example.com", "a da@example.com", " ada@example.com", "ada@example.com ",
			"ada@example.com\n",
			"Ada <ada@example.com>", "<ada@example.com>", "ada@example.com, bob@example.com", "mailto:ada@example.com",
			strings.Repeat("a", 39) + "@example.com",
		}
	case "mobileNumber":
		r.fine = []string{
			"4155550100", "(415) 555-0100", "415.555.0100", "415/555/0100", "+4155550100", "[415]_555~0100",
			" 4 1 5 5 5 5 0 1 0 0 ",
			"415–555–0100", "415\u00a0555\u202f0100", "415·555·0100", "（415）555-0100", "0000000000",
		}
		r.wrong = []string{
			"", "()-", "415555010", "41555501000", "+1 415 555 0100", "415-555-010O", "415 555 0100 x1",
			"tel:4155550100",
			"٤١٥٥٥٥٠١٠٠", "４１５５５５０１００",
		}
		// no pattern for every tool refuses these
		r.words = []string{"é4155550100", "4155550100٧", "4155550100½", "電4155550100"}
	}
	customer := func(w *world, value string) lending.UserRequest {
		u := lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace",
			Email:    fmt.Sprintf("ada%d@example.com", len(w.service.Snapshot().Customers)),
			Password: lending.NewSecret("Analytical-1"), MobileNumber: "4155550100",
		}
		*of(&u) = value
		return u
	}
	r.call = func(w *world, value string) error {
		_, err := w.client.Applications.CreateCustomer(w.Context(), customer(w, value))
		return err
	}
	r.wire = func(w *world, value string) (string, string, string) {
		u := customer(w, value)
		return "createCustomer", "", object(map[string]any{
			"firstName": u.FirstName, "lastName": u.LastName, "email": u.Email, "password": "Analytical-1",
			"mobileNumber": u.MobileNumber,
		})
	}
	return r
}

// ofApplication is a rule about the zip code and the further information of an application.
func ofApplication(r rule, zip string, extra func(value string) map[string]string) rule {
	r.call = func(w *world, value string) error {
		_, err := w.client.Applications.Create(w.Context(), lending.ApplicationRequest{
			CustomerID: w.customer, BusinessZip: zip, ExtraInformation: extra(value),
		}, nil)
		return err
	}
	r.wire = func(w *world, value string) (string, string, string) {
		return "createApplication", "", object(map[string]any{
			"customerId": w.customer.String(), "businessZip": zip, "extraInformation": extra(value),
		})
	}
	return r
}

// "A numeric string "0" to "99"": of one digit or two.
func years() rule {
	return ofApplication(rule{
		field: "extraInformation.years",
		fine:  []string{"0", "7", "07", "00", "99"},
		wrong: []string{
			"", "100", "007", "000", "-1", "-0", "+5", " 7", "7 ", "7\n", "7.0", "1e1", "0x7", "1_0", "٧", "７", "seven",
			"2-5",
		},
	}, "", func(value string) map[string]string { return map[string]string{"years": value} })
}

// The zip code is given once. In another case a key of the further information is another key.
func zipCode() rule {
	return ofApplication(rule{
		field: "businessZip",
		fine:  []string{"zip", "zipCode", "ZIPCODE", "businessZip", ""},
		wrong: []string{"zipcode"},
	}, "94105", func(value string) map[string]string { return map[string]string{value: "94105"} })
}

func accountID() rule {
	return rule{
		field: "id", fine: accounts,
		call: func(w *world, value string) error {
			return w.client.Approval.SetPrimaryBankAccount(w.Context(), w.application, value)
		},
		wire: func(w *world, value string) (string, string, string) {
			return "setPrimaryBankAccount", url.Values{
				"applicationId": {w.application.String()},
				"id":            {value},
			}.Encode(), ""
		},
	}
}

func skip() rule {
	return rule{
		field: "skip", fine: []string{"0", "1", "2147483647"}, wrong: []string{"-1", "-2147483648", "2147483648"},
		call: func(w *world, value string) error {
			var opts lending.ListOptions
			if _, err := fmt.Sscan(value, &opts.Skip); err != nil {
				return err
			}
			_, err := w.client.Communication.Messages(w.Context(), w.application, &opts)
			return err
		},
		wire: func(w *world, value string) (string, string, string) {
			return "getAllMessages", "applicationId=" + w.application.String() + "&skip=" + value, ""
		},
	}
}

// receivers are the rule of webhookUri, in a body and in a query.
func receivers() []rule {
	r := rule{
		field: "webhookUri",
		fine: []string{
			"https://partner.example", "HTTPS://partner.example/hooks", "https://partner.example:8443/a/b?c=d@e",
			"https://[2001:db8::1]/",
			"https://192.0.2.1", "https://xn--bcher-kva.example/%20",
		},
		wrong: []string{
			"", "http://partner.example", "https:partner.example", "https:/partner.example", "https://",
			"https:///hooks", "https://?a=b",
			"//partner.example", "partner.example", "ftp://partner.example", "httpss://partner.example",
			" https://partner.example",
			"https://user@partner.example", "https://user:secret@partner.example/", "https://partner.example/#a",
			"https://partner.example#",
		},
		words: []string{"https://:443", "https://partner.example:port", "https://part ner.example"},
	}
	body, query := r, r
	body.call = func(w *world, value string) error {
		return w.client.Webhooks.Register(w.Context(), partnerTarget, lending.WebhookSubscription{WebhookURI: value})
	}
	body.wire = func(_ *world, value string) (string, string, string) {
		return "register", partner, object(map[string]any{"webhookUri": value})
	}
	query.call = func(w *world, value string) error {
		return w.client.Webhooks.UpdateURI(w.Context(), partnerTarget, value)
	}
	query.wire = func(_ *world, value string) (string, string, string) {
		return "updateWebhookUri", partner + "&webhookUri=" + url.QueryEscape(value), ""
	}
	return []rule{body, query}
}
