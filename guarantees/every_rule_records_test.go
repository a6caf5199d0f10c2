package guarantees_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

func TestUserRequestRules(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6"}`))
	for _, test := range []struct {
		name   string
		change func(*lending.UserRequest)
		want   string
	}{
		{"good", func(*lending.UserRequest) {}, ""},
		{"50 letters of two bytes", func(r *lending.UserRequest) { r.FirstName = strings.Repeat("é", 50) }, ""},
		{
			"51-character name", func(r *lending.UserRequest) { r.FirstName = strings.Repeat("x", 51) },
			"firstName length",
		},
		{
			"51-character last name", func(r *lending.UserRequest) { r.LastName = strings.Repeat("x", 51) },
			"lastName length",
		},
		{
			"51-character e-mail", func(r *lending.UserRequest) { r.Email = strings.Repeat("x", 39) + "@example.com" },
			"email length",
		},
		{
			"50-character e-mail", func(r *lending.UserRequest) { r.Email = strings.Repeat("x", 38) + "@example.com" },
			"",
		},
		{"no e-mail", func(r *lending.UserRequest) { r.Email = "" }, "email format"},
		{"e-mail with a name", func(r *lending.UserRequest) { r.Email = "Ada <ada@example.com>" }, "email format"},
		{"e-mail without domain", func(r *lending.UserRequest) { r.Email = "ada" }, "email format"},
		{"nine digits", func(r *lending.UserRequest) { r.MobileNumber = "415-555-010" }, "mobileNumber format"},
		{"eleven digits", func(r *lending.UserRequest) { r.MobileNumber = "+1 415 555 0100" }, "mobileNumber format"},
		{"letters", func(r *lending.UserRequest) { r.MobileNumber = "415 555 0100x" }, "mobileNumber format"},
		{"ten digits with punctuation", func(r *lending.UserRequest) { r.MobileNumber = "+415.555/0100" }, ""},
		{"no password", func(r *lending.UserRequest) { r.Password = lending.Secret{} }, "password required"},
		{"no number", func(r *lending.UserRequest) { r.MobileNumber = "" }, "mobileNumber format"},
		{"all at once", func(r *lending.UserRequest) {
			*r = lending.UserRequest{FirstName: strings.Repeat("x", 51), LastName: strings.Repeat("x", 51)}
		}, "firstName length, lastName length, email format, password required, mobileNumber format"},
		{"clash", func(r *lending.UserRequest) { r.Extra = map[string]string{"EMAIL": "x"} }, "Extra.email conflict"},
		{"not UTF-8", func(r *lending.UserRequest) { r.FirstName = "\xff" }, "firstName unsafe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			customer := fake.Ada()
			test.change(&customer)
			_, err := client.Applications.CreateCustomer(t.Context(), customer)
			assert.Equal(t, test.want, catalog.Refused(t, err))
		})
	}
}

func TestApplicationRequestRules(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `"3fa85f64-5717-4562-b3fc-2c963f66afa6"`))
	extra := func(pairs ...string) func(*lending.ApplicationRequest) {
		return func(r *lending.ApplicationRequest) {
			r.ExtraInformation = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				r.ExtraInformation[pairs[i]] = pairs[i+1]
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*lending.ApplicationRequest)
		want   string
	}{
		{"good", func(*lending.ApplicationRequest) {}, ""},
		{
			"no customer", func(r *lending.ApplicationRequest) { r.CustomerID = lending.CustomerID{} },
			"customerId required",
		},
		{"zip twice", extra("zipcode", "94105"), "businessZip conflict"},
		{"zip twice, the second empty", extra("zipcode", ""), "businessZip conflict"},
		{"zip in the other place", func(r *lending.ApplicationRequest) {
			extra("zipcode",
				"94105")(r)
			r.BusinessZip = ""
		}, ""},
		{"0 years", extra("years", "0"), ""},
		{"99 years", extra("years", "99"), ""},
		{"100 years", extra("years", "100"), "extraInformation.years range"},
		{"300 years", extra("years", "300"), "extraInformation.years range"},
		{"-1 years", extra("years", "-1"), "extraInformation.years range"},
		{"a word", extra("years", "seven"), "extraInformation.years range"},
		{"no years", extra("years", ""), "extraInformation.years range"},
		{"not UTF-8", extra("note", "\xff"), "extraInformation.note unsafe"},
		{"all at once", func(r *lending.ApplicationRequest) {
			extra("zipcode", "1", "years", "x")(r)
			r.CustomerID = lending.CustomerID{}
		}, "customerId required, businessZip conflict, extraInformation.years range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := lending.ApplicationRequest{CustomerID: catalog.OtherCustomer, BusinessName: "B", BusinessZip: "94105"}
			test.change(&r)
			_, err := client.Applications.Create(t.Context(), r, nil)
			assert.Equal(t, test.want, catalog.Refused(t, err))
		})
	}
}

// Midnight in Sydney is the day before in UTC, and some hosts convert a time with a zone.
func TestDatesKeepTheirDay(t *testing.T) {
	sydney := time.FixedZone("AEST", 10*60*60)
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "1815-12-10T00:00:00", r.URL.Query().Get("dateOfBirth"))
		wire.Answer(200, `true`)(w, r)
	})
	data := lending.CustomerData{
		FirstName: "Ada", LastName: "L", Address: "1 A St", State: "CA", City: "SF",
		SSN: lending.NewSecret("123-45-6789"), Mobile: "4155550100",
		DateOfBirth: time.Date(1815, 12, 10, 0, 0, 0, 0, sydney),
	}
	changed, err := client.Applications.UpdateCustomerData(t.Context(), catalog.OtherApplication, data)
	require.NoError(t, err)
	assert.True(t, changed)
}

func TestEveryKindOfIDIsParsed(t *testing.T) {
	const text = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for _, test := range []struct {
		field string
		parse func(string) (fmt.Stringer, error)
	}{
		{"customerId", func(s string) (fmt.Stringer, error) { return lending.ParseCustomerID(s) }},
		{"applicationId", func(s string) (fmt.Stringer, error) { return lending.ParseApplicationID(s) }},
		{"loanId", func(s string) (fmt.Stringer, error) { return lending.ParseLoanID(s) }},
		{"partnerId", func(s string) (fmt.Stringer, error) { return lending.ParsePartnerID(s) }},
	} {
		t.Run(test.field, func(t *testing.T) {
			id, err := test.parse(strings.ToUpper(text))
			require.NoError(t, err)
			assert.Equal(t, text, id.String())
			_, err = test.parse("hush")
			assert.Equal(t, test.field+" format", catalog.Refused(t, err))
		})
	}
}

// A record without published fields gets those of another record.
func TestRequestRecordsInExtra(t *testing.T) {
	var body string
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
		wire.Answer(200, `{}`)(w, r)
	})
	customer := fake.Ada()
	customer.Extra = map[string]int{"score": 7}
	const want = `{"people":[{"firstName":"Ada","lastName":"Lovelace","email":"ada@example.com",
		"password":"A-hush-Pass-1","mobileNumber":"(415) 555-0100","score":7}],
		"ssn":"123","none":null,"note":"[redacted]"}`
	extra := map[string]any{
		"people": []any{&customer}, "ssn": lending.NewSecret("123"), "none": nil, "note": "[redacted]",
	}
	_, err := client.Applications.CreateWithCustomerAndApplicant(t.Context(),
		lending.ApplicationAndCustomerAndApplicantRequest{Extra: extra}, nil)
	require.NoError(t, err)
	assert.JSONEq(t, want, body)
	_, err = client.Do(t.Context(), lending.RawRequest{Method: "POST", Path: "/api/New/thing", Body: extra})
	require.NoError(t, err)
	assert.JSONEq(t, want, body)
	_, err = client.Do(t.Context(), lending.RawRequest{Method: "POST", Path: "/api/New/thing", Body: customer})
	require.NoError(t, err)
	assert.Contains(t, body, `"score":7`)

	for _, lossy := range []any{
		struct{ C lending.UserRequest }{customer},
		struct{ S *lending.Secret }{new(lending.Secret)},
		map[string]any{"x": struct{ Names []string }{[]string{"\xff"}}},
		map[string]any{"customerId": lending.CustomerID{}},
	} {
		t.Run(fmt.Sprintf("%T", lossy), func(t *testing.T) {
			_, err = client.Do(t.Context(), lending.RawRequest{Method: "POST", Path: "/api/New/thing", Body: lossy})
			assert.Error(t, err)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		})
	}
}
