package guarantees_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

const eventID = `3fa85f64-5717-4562-b3fc-2c963f66afa6`

func TestParseEventReadsTheEnvelope(t *testing.T) {
	created := time.Date(2024, 1, 2, 3, 4, 5, 123456700, time.UTC)
	for name, test := range map[string]struct {
		body, data string
		want       webhook.Event
	}{
		"as documented": {
			deliveryBody, `{"applicationId":"11111111-2222-3333-4444-555555555555","extraInformation":{"years":"7"}}`,
			webhook.Event{ID: uuid.MustParse(eventID), Name: lending.EventApplicationCreated, Created: created},
		},
		"PascalCase, zone-less time, further fields": {
			`{"Id":"` + strings.ToUpper(eventID) + `","WebhookEvent":"WB_Loan_Created","Attempt":1,"Data":{"LoanId":1},"CreationTimeUtc":"2024-01-02T03:04:05.1234567"}`, `{"LoanId":1}`,
			webhook.Event{ID: uuid.MustParse(eventID), Name: lending.EventLoanCreated, Created: created},
		},
		"byte order mark and white space": {
			"\ufeff \r\n{ \"webhookEvent\" : \"WB_Loan_Closed\" , \"data\" : [ 1 , 2 ] }\n", `[ 1 , 2 ]`,
			webhook.Event{Name: lending.EventLoanClosed},
		},
		"an event of tomorrow, a scalar": {
			`{"webhookEvent":"WB_Moon_Landed","data":-1.50}`, `-1.50`, webhook.Event{Name: "WB_Moon_Landed"},
		},
		"null data":        {`{"webhookEvent":"a","data":null,"id":null,"creationTimeUtc":null}`, `null`, webhook.Event{Name: "a"}},
		"a string of JSON": {`{"webhookEvent":"a","data":"{\"x\":1}"}`, `"{\"x\":1}"`, webhook.Event{Name: "a"}},
		"no data":          {`{"webhookEvent":"a"}`, ``, webhook.Event{Name: "a"}},
		"escapes, also of names": {
			`{"webhook\u0045vent":"WB_\u004coan_Opened","d\u0061ta":{}}`, `{}`, webhook.Event{Name: lending.EventLoanOpened},
		},
		"no time": {`{"webhookEvent":"a","creationTimeUtc":"0001-01-01T00:00:00"}`, ``, webhook.Event{Name: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := webhook.Parse([]byte(test.body))
			require.NoError(t, err)
			require.Equal(t, test.data, string(got.Data.Raw()))
			require.JSONEq(t, strings.TrimPrefix(test.body, "\ufeff"), string(got.Raw()))
			sum := sha256.Sum256([]byte(test.body))
			require.Equal(t, hex.EncodeToString(sum[:]), got.Key())
			require.Equal(t, test.want, webhook.Event{ID: got.ID, Name: got.Name, Created: got.Created})
		})
	}
}

func TestParseEventRefuses(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{}`, `{"webhookEvent":""}`, `{"webhookEvent":null}`, `{"webhookEvent":7}`, `{"webhookEvent":"a"`, `{"webhookEvent":"a"} x`,
		`{"webhookEvent":"a"}{}`, `{"webhookEvent":"a","data":{"x":01}}`, `{"webhookEvent":"a",}`, "\ufeff\ufeff{\"webhookEvent\":\"a\"}",
		`{"webhookEvent":{"a":"123-45-6789"}}`, `{"webhookEvent":"a","id":"123-45-6789"`,
	} {
		event, err := webhook.Parse([]byte(body))
		require.Error(t, err, body)
		require.Nil(t, event)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "6789", "an error quoted the body")
	}
}

// Money can wait for an event whose signature is right and whose id or time is not.
func TestParseEventTakesAnUnreadableIDOrTime(t *testing.T) {
	for _, field := range []string{
		`"id":"123-45-6789"`, `"id":"3fa85f64-5717-4562-b3fc-2c963f66afaX"`, `"id":7`, `"id":{}`, `"id":"` + eventID + `","ID":false`,
		`"creationTimeUtc":"2024-13-01T00:00:00Z"`, `"creationTimeUtc":"yesterday"`, `"creationTimeUtc":1704164645`, `"creationTimeUtc":{}`,
		`"creationTimeUtc":"2024-01-02T03:04:05Z","CreationTimeUtc":""`,
	} {
		event, err := webhook.Parse([]byte(`{"webhookEvent":"a","data":1,` + field + `}`))
		require.NoError(t, err, field)
		require.Equal(t, lending.EventName("a"), event.Name)
		require.Equal(t, "1", string(event.Data.Raw()))
		require.Zero(t, event.ID, field)
		require.Zero(t, event.Created, field)
		require.Contains(t, string(event.Raw()), field)
	}
}

// The data of some events are one-time codes.
func TestEventShowsNoData(t *testing.T) {
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Send_Otp","data":{"otp":"c0de-123"},"note":"c0de-123"}`))
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("event", "event", event, "value", *event, "data", event.Data)
	slog.New(slog.NewTextHandler(&log, nil)).Info("event", "event", event, "value", *event, "data", event.Data)
	shown := log.String() + fmt.Sprintf("%v %+v %#v %v %+v %v", event, event, event, *event, *event, event.Data)
	for _, verb := range []string{"%s", "%q", "%x"} {
		shown += fmt.Sprintf(verb, any(event)) + fmt.Sprintf(verb, any(event.Data))
	}
	for _, secret := range []string{"c0de-123", "99 48 100 101 45 49", hex.EncodeToString([]byte("c0de-123")), "YzBkZS0xMjM"} {
		require.NotContains(t, shown, secret)
	}
}

func TestEventDataDecodes(t *testing.T) {
	for years, want := range map[string]webhook.Years{`"7"`: "7", `7`: "7", `"2-5 years"`: "2-5 years", `null`: "", `12.50`: "12.50"} {
		event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Application_Created","data":{"extraInformation":{"years":` + years + `,"zipcode":"10001"},"applicationId":"x"}}`))
		require.NoError(t, err)
		var created webhook.ApplicationCreated
		require.NoError(t, event.Data.Decode(&created))
		require.Equal(t, want, created.ExtraInformation.Years)
		var mine struct {
			ApplicationID    string
			ExtraInformation struct{ ZipCode string }
		}
		require.NoError(t, event.Data.Decode(&mine))
		require.Equal(t, "x", mine.ApplicationID)
		require.Equal(t, "10001", mine.ExtraInformation.ZipCode)
	}
	event, err := webhook.Parse([]byte(`{"webhookEvent":"a","data":{"applicationId":"x"}}`))
	require.NoError(t, err)
	require.ErrorContains(t, event.Data.Decode(new(struct {
		webhook.ApplicationCreated
		ApplicationID string
	})), "give the field a name", "the promoted UnmarshalJSON would leave ApplicationID empty")
	var created webhook.ApplicationCreated
	require.Error(t, json.Unmarshal([]byte(`{"extraInformation":{"years":[7]}}`), &created))
}

func TestEventSurvivesStorage(t *testing.T) {
	event, err := webhook.Parse([]byte(deliveryBody))
	require.NoError(t, err)
	text, err := json.Marshal(event)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(deliveryBody), text), "%s", text)
	var read webhook.Event
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, event.Name, read.Name)
	require.Equal(t, event.Key(), read.Key())

	text, err = json.Marshal(webhook.Event{Name: "a", ID: uuid.MustParse(eventID)})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, lending.EventName("a"), read.Name)
}

func TestEventCloneKeepsEveryByte(t *testing.T) {
	const text = "\ufeff {\"webhookEvent\":\"a\",\"data\":{\"n\":1}} "
	buffer := []byte(text)
	event, err := webhook.Parse(buffer)
	require.NoError(t, err)
	key, raw := event.Key(), string(event.Raw())
	event = event.Clone()
	clear(buffer)
	require.Equal(t, text, string(event.Body()))
	require.Equal(t, raw, string(event.Raw()))
	require.JSONEq(t, `{"n":1}`, string(event.Data.Raw()))
	require.Equal(t, key, event.Key())

	byHand := webhook.Event{Name: "a"}
	key = byHand.Key()
	require.Equal(t, key, byHand.Clone().Key())
}

// FuzzParseEvent compares what ParseEvent accepts with what encoding/json makes of it.
func FuzzParseEvent(f *testing.F) {
	for _, v := range signatureVectors(f) {
		f.Add(v.body())
	}
	f.Add([]byte(`{"webhookEvent":"a","WEBHOOKEVENT":"b","webhoo\u212aEvent":"\ud800","id":null,"data":{"a":[1,{}]},"data":1,"creationTimeUtc":"2024-01-02T03:04:05+02:00"}`))
	f.Add([]byte("{\"webhookEvent\":\"\xff\",\"dat\xc5\xbf\":7}"))
	f.Add([]byte(`{"webhookEvent":"a","creationTimeUtc":"0001-01-01T00:00:00"} `))
	f.Fuzz(func(t *testing.T, body []byte) {
		event, err := webhook.Parse(bytes.Clone(body))
		var want struct {
			ID              json.RawMessage `json:"id"`
			Name            string          `json:"webhookEvent"`
			Data            json.RawMessage `json:"data"`
			CreationTimeUTC json.RawMessage `json:"creationTimeUtc"`
		}
		other := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &want)
		if err != nil {
			if other == nil && want.Name != "" {
				t.Fatalf("refused %q: %v", body, err)
			}
			return
		}
		if other != nil {
			t.Fatalf("accepted %q, encoding/json: %v", body, other)
		}
		if string(event.Name) != want.Name || string(event.Data.Raw()) != string(want.Data) {
			t.Fatalf("%q: got %q %q, want %q %q", body, event.Name, event.Data.Raw(), want.Name, want.Data)
		}
		var id uuid.UUID
		var created time.Time
		if json.Unmarshal(want.ID, &id) != nil {
			id = uuid.UUID{}
		}
		var text string
		if json.Unmarshal(want.CreationTimeUTC, &text) == nil {
			var err error
			if created, err = time.Parse(time.RFC3339, text); err != nil {
				created, _ = time.Parse(time.RFC3339, text+"Z")
			}
		}
		// Of several with one name the last counts, unless that is null: both hold nothing then.
		if string(want.ID) != "null" && event.ID != id || string(want.CreationTimeUTC) != "null" && !event.Created.Equal(created) {
			t.Fatalf("%q: got %s %s, want %s %s", body, event.ID, event.Created, id, created)
		}
	})
}
