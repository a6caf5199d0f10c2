package guarantees_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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

const customerRecord = `{ "ID" : "3FA85F64-5717-4562-B3FC-2C963F66AFA6", "score": 1.000000000000000000001, ` +
	`"a\u0062c": [ {"x":"}\"]"} ], "note":"<b>" }`

func TestRecordsLoseNothing(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, customerRecord))
	customer, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.NoError(t, err)
	assert.Equal(t, "3fa85f64-5717-4562-b3fc-2c963f66afa6", customer.ID.String())
	assert.Equal(t, customerRecord, string(customer.Raw())) //nolint:testifylint // byte for byte

	written, err := json.Marshal(customer)
	require.NoError(t, err)
	var again lending.UserResponse
	require.NoError(t, json.Unmarshal(written, &again))
	assert.Equal(t, customer.ID, again.ID)
	assert.Contains(t, string(again.Raw()), "1.000000000000000000001")
	assert.JSONEq(t, customerRecord, string(again.Raw()))

	var mine struct {
		Score json.Number
		ABC   []map[string]string
	}
	require.NoError(t, customer.Decode(&mine))
	assert.Equal(t, "1.000000000000000000001", mine.Score.String())
	assert.Equal(t, `}"]`, mine.ABC[0]["x"])
}

func TestRecordsMadeByHand(t *testing.T) {
	written, err := json.Marshal(lending.UserResponse{ID: catalog.OtherCustomer})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"22222222-2222-4333-8444-555555555555"}`, string(written))
	written, err = json.Marshal(lending.OfferResponse{})
	require.NoError(t, err)
	assert.Equal(t, "null", string(written))
}

func TestDecodeErrorsQuoteNothing(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `{"amount":70001,"when":"hush","name":["hush"]}`))
	offer, err := client.Applications.Offer(t.Context(), catalog.OtherApplication, nil)
	require.NoError(t, err)
	err = offer.Decode(&struct {
		Amount int8 `json:"amount"`
	}{})
	assert.EqualError(t, err, `lending: record: field "amount": a number does not fit int8`)
	var mismatch *json.UnmarshalTypeError
	assert.ErrorAs(t, err, &mismatch)
	err = offer.Decode(&struct{ When time.Time }{})
	require.Error(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %d", err, err, err, err), "hush")
}

func TestCloneLeavesThePage(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `[{"n":1},{"n":2}]`))
	list, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
	require.NoError(t, err)
	require.Len(t, list, 2)
	before := list[1].Raw()
	list[1].Record = list[1].Clone()
	assert.Equal(t, `{"n":2}`, string(list[1].Raw()))
	assert.NotSame(t, &before[0], &list[1].Raw()[0])
	assert.Equal(t, `{"n":1}`, string(list[0].Raw()))
}

func TestRecordsLogTheirSize(t *testing.T) {
	client := wire.Serve(t, wire.Answer(200, `{"ssn":"hush"}`))
	offer, err := client.Applications.Offer(t.Context(), catalog.OtherApplication, nil)
	require.NoError(t, err)
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "offer", offer)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "offer", offer)
	assert.NotContains(t, b.String()+fmt.Sprintf("%v %+v %#v", offer, offer, *offer), "hush")
	assert.Contains(t, b.String(), "record of 14 bytes")
}

// TestTimesAreUTC holds that a time is the same whatever zone it is written in, to
// assert.Equal and to ==.
func TestTimesAreUTC(t *testing.T) {
	for _, text := range []string{
		"2026-03-04T05:06:07.5", "2026-03-04T05:06:07.5000000", "2026-03-04T05:06:07.5Z", "2026-03-04T06:06:07.5+01:00",
		"2026-03-03T21:06:07.5-08:00",
	} {
		t.Run(text, func(t *testing.T) {
			client := wire.Serve(t, wire.Answer(http.StatusOK, `{"token":"t","expiresUTC":"`+text+`"}`))
			user, err := client.Auth.Login(t.Context(),
				lending.LoginRequest{Username: "u", Password: lending.NewSecret("p")})
			require.NoError(t, err)
			assert.Equal(t, time.Date(2026, 3, 4, 5, 6, 7, 5e8, time.UTC), user.ExpiresUTC)
		})
	}
}

func TestLists(t *testing.T) {
	for _, test := range []struct {
		body string
		want int
	}{{`[]`, 0}, {`null`, 0}, {``, 0}, {"\t[ {} , {} ]\n", 2}, {"\uFEFF[{}]", 1}} {
		t.Run(test.body, func(t *testing.T) {
			client := wire.Serve(t, wire.Answer(200, test.body))
			list, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
			require.NoError(t, err)
			assert.Len(t, list, test.want)
			assert.Equal(t, test.body == "[]", list != nil && len(list) == 0,
				"an empty list is not nil, and no list is: %s")
		})
	}
	client := wire.Serve(t, wire.Answer(200, `[{},[]]`))
	_, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer)
	assert.ErrorContains(t, err, "[1]: want an object, got an array")
}

func TestScalars(t *testing.T) {
	for _, test := range []struct{ contentType, body, want string }{
		{"application/json", `"In Review"`, "In Review"},
		{"application/json", `""`, ""},
		{"application/json", ``, ""},
		{"text/plain; charset=utf-8", `In Review`, "In Review"},
		{"text/plain", `123`, "123"},
	} {
		t.Run(test.contentType, func(t *testing.T) {
			client := wire.Serve(t, wire.Plain(test.contentType, test.body))
			status, err := client.Applications.Status(t.Context(), catalog.OtherApplication)
			require.NoError(t, err, test.body)
			assert.Equal(t, test.want, status)
		})
	}
	for _, test := range []struct {
		body string
		want string
	}{{"  padded \n", "  padded \n"}, {"null", "null"}, {"<b>", "<b>"}} {
		t.Run(test.body, func(t *testing.T) {
			client := wire.Serve(t, wire.Plain("text/plain", test.body))
			status, err := client.Applications.Status(t.Context(), catalog.OtherApplication)
			require.NoError(t, err)
			assert.Equal(t, test.want, status, "kept as it came")
		})
	}
	for _, body := range []string{"hello", "null", "{}x"} {
		t.Run(body, func(t *testing.T) {
			client := wire.Serve(t, wire.Plain("text/plain", body))
			_, err := client.Applications.Offer(t.Context(), catalog.OtherApplication, nil)
			require.Error(t, err, "text is no record")
		})
	}
	client := wire.Serve(t, wire.Answer(200, `"00000000-0000-0000-0000-000000000000"`))
	_, err := client.Applications.Process(t.Context(), catalog.OtherApplication)
	require.ErrorContains(t, err, "want a UUID, got the zero UUID")
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))

	client = wire.Serve(t, wire.Plain("text/plain", "3fa85f64-5717-4562-b3fc-2c963f66afa6"))
	offer, err := client.Applications.Process(t.Context(), catalog.OtherApplication)
	require.NoError(t, err)
	assert.Equal(t, "3fa85f64-5717-4562-b3fc-2c963f66afa6", offer.String())

	client = wire.Serve(t, wire.Answer(200, `null`))
	_, err = client.Applications.Status(t.Context(), catalog.OtherApplication)
	require.ErrorIs(t, err, lending.ErrNoContent)
	_, err = client.Applications.UpdateName(t.Context(), catalog.OtherApplication, "x")
	require.ErrorIs(t, err, lending.ErrNoContent)
}

func TestSecrets(t *testing.T) {
	secret := lending.NewSecret("hush")
	login := lending.LoginRequest{Username: "u", Password: secret}
	holder := struct {
		secret  lending.Secret
		list    []lending.Secret
		byName  map[string]lending.Secret
		login   lending.LoginRequest
		pointer *lending.LoginRequest
		source  lending.TokenSource
		token   lending.Token
	}{secret, []lending.Secret{secret}, map[string]lending.Secret{"a": secret}, login, &login,
		lending.StaticToken("hush"), lending.Token{Value: secret}}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "s", secret, "login", login, "holder", holder)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "s", secret, "login", login, "holder", holder)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t"} {
		fmt.Fprintf(&b, verb+verb+verb, secret, login, holder)
	}
	written, err := json.Marshal(login)
	require.NoError(t, err)
	assert.NotContains(t, b.String()+string(written), "hush")
	assert.NotContains(t, b.String(), fmt.Sprintf("%x", "hush"))
	assert.Equal(t, "[redacted]", fmt.Sprint(secret))
	assert.Equal(t, "hush", secret.Reveal())
	assert.Empty(t, fmt.Sprint(lending.Secret{}))

	var back lending.LoginRequest
	require.ErrorContains(t, json.Unmarshal(written, &back), "redacted when it was written")
	require.NoError(t, json.Unmarshal([]byte(`{"password":"hush"}`), &back))
	assert.Equal(t, "hush", back.Password.Reveal())
	require.Error(t, json.Unmarshal([]byte(`{"password":["hush"]}`), &back))
}

// A record holds personal data, also where it is printed under a verb that does not
// fit and from an unexported field, which fmt reads past every method.
func TestRecordPrintsNoByteUnderAnyVerb(t *testing.T) {
	var record lending.Record
	require.NoError(t, json.Unmarshal([]byte(`{"ssn":"123-45-6789"}`), &record))
	holder := struct {
		record  lending.Record
		records []lending.Record
	}{record, []lending.Record{record}}
	bytes := fmt.Sprint([]byte("123-45-6789")) //nolint:staticcheck // the bytes as numbers
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%o"} {
		for _, value := range []any{record, &record, holder, &holder} {
			shown := fmt.Sprintf(verb, value)
			require.NotContains(t, shown, "123-45-6789", verb)
			require.NotContains(t, shown, bytes[1:len(bytes)-1], verb)
			require.NotContains(t, strings.ToLower(shown), "3132332d34352d36373839", verb)
		}
	}
}
