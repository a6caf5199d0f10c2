package lending_test

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
)

const eventID = `3fa85f64-5717-4562-b3fc-2c963f66afa6`

func TestParseEventReadsTheEnvelope(t *testing.T) {
	created := time.Date(2024, 1, 2, 3, 4, 5, 123456700, time.UTC)
	for name, test := range map[string]struct {
		body, data string
		want       lending.Event
	}{
		"as documented": {
			deliveryBody, `{"applicationId":"11111111-2222-3333-4444-555555555555","extraInformation":{"years":"7"}}`,
			lending.Event{ID: uuid.MustParse(eventID), Name: lending.EventApplicationCreated, Created: created},
		},
		"PascalCase, zone-less time, further fields": {
			`{"Id":"` + strings.ToUpper(eventID) + `","WebhookEvent":"WB_Loan_Created","Attempt":1,"Data":{"LoanId":1},"CreationTimeUtc":"2024-01-02T03:04:05.1234567"}`, `{"LoanId":1}`,
			lending.Event{ID: uuid.MustParse(eventID), Name: lending.EventLoanCreated, Created: created},
		},
		"byte order mark and white space": {
			"\ufeff \r\n{ \"webhookEvent\" : \"WB_Loan_Closed\" , \"data\" : [ 1 , 2 ] }\n", `[ 1 , 2 ]`,
			lending.Event{Name: lending.EventLoanClosed},
		},
		"an event of tomorrow, a scalar": {
			`{"webhookEvent":"WB_Moon_Landed","data":-1.50}`, `-1.50`, lending.Event{Name: "WB_Moon_Landed"},
		},
		"null data":        {`{"webhookEvent":"a","data":null,"id":null,"creationTimeUtc":null}`, `null`, lending.Event{Name: "a"}},
		"a string of JSON": {`{"webhookEvent":"a","data":"{\"x\":1}"}`, `"{\"x\":1}"`, lending.Event{Name: "a"}},
		"no data":          {`{"webhookEvent":"a"}`, ``, lending.Event{Name: "a"}},
		"escapes, also of names": {
			`{"webhook\u0045vent":"WB_\u004coan_Opened","d\u0061ta":{}}`, `{}`, lending.Event{Name: lending.EventLoanOpened},
		},
		"no time": {`{"webhookEvent":"a","creationTimeUtc":"0001-01-01T00:00:00"}`, ``, lending.Event{Name: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lending.ParseEvent([]byte(test.body))
			require.NoError(t, err)
			require.Equal(t, test.data, string(got.Data.Raw()))
			require.JSONEq(t, strings.TrimPrefix(test.body, "\ufeff"), string(got.Raw()))
			sum := sha256.Sum256([]byte(test.body))
			require.Equal(t, hex.EncodeToString(sum[:]), got.Key())
			got.Record, got.Data = lending.Record{}, lending.Record{}
			require.Equal(t, test.want, *got)
		})
	}
}

func TestParseEventRefuses(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{}`, `{"webhookEvent":""}`, `{"webhookEvent":null}`, `{"webhookEvent":7}`, `{"webhookEvent":"a"`, `{"webhookEvent":"a"} x`,
		`{"webhookEvent":"a"}{}`, `{"webhookEvent":"a","data":{"x":01}}`, `{"webhookEvent":"a",}`, "\ufeff\ufeff{\"webhookEvent\":\"a\"}",
		`{"webhookEvent":"a","id":"123-45-6789"}`, `{"webhookEvent":"a","id":7}`, `{"webhookEvent":"a","creationTimeUtc":"123-45-6789"}`, `{"webhookEvent":"a","creationTimeUtc":{}}`,
	} {
		event, err := lending.ParseEvent([]byte(body))
		require.Error(t, err, body)
		require.Nil(t, event)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "6789", "an error quoted the body")
	}
}

// The data of some events are one-time codes.
func TestEventShowsNoData(t *testing.T) {
	event, err := lending.ParseEvent([]byte(`{"webhookEvent":"WB_Send_Otp","data":{"otp":"c0de-123"},"note":"c0de-123"}`))
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
	for years, want := range map[string]lending.Years{`"7"`: "7", `7`: "7", `"2-5 years"`: "2-5 years", `null`: "", `12.50`: "12.50"} {
		event, err := lending.ParseEvent([]byte(`{"webhookEvent":"WB_Application_Created","data":{"extraInformation":{"years":` + years + `,"zipcode":"10001"},"applicationId":"x"}}`))
		require.NoError(t, err)
		var created lending.ApplicationCreated
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
	var created lending.ApplicationCreated
	require.Error(t, json.Unmarshal([]byte(`{"extraInformation":{"years":[7]}}`), &created))
}

func TestEventSurvivesStorage(t *testing.T) {
	event, err := lending.ParseEvent([]byte(deliveryBody))
	require.NoError(t, err)
	text, err := json.Marshal(event)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(deliveryBody), text), "%s", text)
	var read lending.Event
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, event.Name, read.Name)
	require.Equal(t, event.Key(), read.Key())

	text, err = json.Marshal(lending.Event{Name: "a", ID: uuid.MustParse(eventID)})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, lending.EventName("a"), read.Name)
}

func TestEventDetachKeepsEveryByte(t *testing.T) {
	const text = "\ufeff {\"webhookEvent\":\"a\",\"data\":{\"n\":1}} "
	buffer := []byte(text)
	event, err := lending.ParseEvent(buffer)
	require.NoError(t, err)
	key, raw := event.Key(), string(event.Raw())
	event.Detach()
	clear(buffer)
	require.Equal(t, text, string(event.Body()))
	require.Equal(t, raw, string(event.Raw()))
	require.JSONEq(t, `{"n":1}`, string(event.Data.Raw()))
	require.Equal(t, key, event.Key())

	byHand := lending.Event{Name: "a"}
	key = byHand.Key()
	byHand.Detach()
	require.Equal(t, key, byHand.Key())
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
		event, err := lending.ParseEvent(bytes.Clone(body))
		var want struct {
			ID              uuid.UUID       `json:"id"`
			Name            string          `json:"webhookEvent"`
			Data            json.RawMessage `json:"data"`
			CreationTimeUTC *string         `json:"creationTimeUtc"`
		}
		other := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &want)
		if err != nil {
			// Refused without reason? A time is the one field that encoding/json cannot judge here.
			if other == nil && want.Name != "" && want.CreationTimeUTC == nil && bytes.Count(bytes.ToLower(body), []byte("time")) == 0 {
				t.Fatalf("refused %q: %v", body, err)
			}
			return
		}
		if other != nil {
			t.Fatalf("accepted %q, encoding/json: %v", body, other)
		}
		if event.ID != want.ID || string(event.Name) != want.Name || string(event.Data.Raw()) != string(want.Data) {
			t.Fatalf("%q: got %q %q %q, want %q %q %q", body, event.ID, event.Name, event.Data.Raw(), want.ID, want.Name, want.Data)
		}
		if want.CreationTimeUTC != nil {
			at, err := time.Parse(time.RFC3339, *want.CreationTimeUTC)
			if err != nil {
				at, err = time.Parse(time.RFC3339, *want.CreationTimeUTC+"Z")
			}
			if err != nil || !at.Equal(event.Created) {
				t.Fatalf("time %q read as %s", *want.CreationTimeUTC, event.Created)
			}
		}
	})
}
