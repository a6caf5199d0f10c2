package webhook_test

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
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/webhook"
)

func TestParseReadsTheEnvelope(t *testing.T) {
	id, created := uuid.MustParse(delivery.EventID), time.Date(2024, 1, 2, 3, 4, 5, 123456700, time.UTC)
	for _, tt := range []struct {
		name, body, data string
		want             webhook.Event
	}{
		{
			"as documented", delivery.Body, delivery.Data,
			webhook.Event{ID: id, Name: lending.EventApplicationCreated, Created: created},
		},
		{
			"PascalCase, zone-less time, further fields",
			`{"Id":"` + strings.ToUpper(delivery.EventID) + `","WebhookEvent":"WB_Loan_Created","Attempt":1,` +
				`"Data":{"LoanId":1},"CreationTimeUtc":"2024-01-02T03:04:05.1234567"}`,
			`{"LoanId":1}`,
			webhook.Event{ID: id, Name: lending.EventLoanCreated, Created: created},
		},
		{
			"byte order mark and white space",
			"\ufeff \r\n{ \"webhookEvent\" : \"WB_Loan_Closed\" , \"data\" : [ 1 , 2 ] }\n",
			`[ 1 , 2 ]`,
			webhook.Event{Name: lending.EventLoanClosed},
		},
		{
			"an event of tomorrow, a scalar",
			`{"webhookEvent":"WB_Moon_Landed","data":-1.50}`, `-1.50`,
			webhook.Event{Name: "WB_Moon_Landed"},
		},
		{
			"null data", `{"webhookEvent":"a","data":null,"id":null,"creationTimeUtc":null}`, `null`,
			webhook.Event{Name: "a"},
		},
		{"a string of JSON", `{"webhookEvent":"a","data":"{\"x\":1}"}`, `"{\"x\":1}"`, webhook.Event{Name: "a"}},
		{"no data", `{"webhookEvent":"a"}`, ``, webhook.Event{Name: "a"}},
		{
			"escapes, also of names",
			`{"webhook\u0045vent":"WB_\u004coan_Opened","d\u0061ta":{},` +
				`"id":"\u0033fa85f64-5717-4562-b3fc-2c963f66afa6"}`,
			`{}`,
			webhook.Event{ID: id, Name: lending.EventLoanOpened},
		},
		{"no time", `{"webhookEvent":"a","creationTimeUtc":"0001-01-01T00:00:00"}`, ``, webhook.Event{Name: "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := parsed(t, tt.body)
			require.Equal(t, tt.data, string(got.Data.Raw()))
			require.JSONEq(t, strings.TrimPrefix(tt.body, "\ufeff"), string(got.Raw()))
			require.Equal(t, tt.body, string(got.Body()))
			sum := sha256.Sum256([]byte(tt.body))
			require.Equal(t, hex.EncodeToString(sum[:]), got.Key())
			require.Equal(t, tt.want, webhook.Event{ID: got.ID, Name: got.Name, Created: got.Created})
		})
	}
}

// A record that contains an event decodes, though an Event embeds its own record.
func TestEventDecodesInARecord(t *testing.T) {
	read, err := lending.As[struct{ Events []webhook.Event }](&struct{ lending.Record }{
		lending.NewRecord([]byte(`{"events":[` + delivery.Body + `]}`)),
	}, nil)
	require.NoError(t, err)
	require.Equal(t, lending.EventApplicationCreated, read.Events[0].Name)
	require.Len(t, read.Events[0].Body(), len(delivery.Body))
}

func TestParseRefuses(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{}`, `{"webhookEvent":""}`, `{"webhookEvent":null}`, `{"webhookEvent":7}`,
		`{"webhookEvent":"a"`, `{"webhookEvent":"a"} x`, `{"webhookEvent":"a"}{}`, `{"webhookEvent":"a",}`,
		`{"webhookEvent":"a","data":{"x":01}}`, "\ufeff\ufeff{\"webhookEvent\":\"a\"}",
		`{"webhookEvent":{"a":"123-45-6789"}}`, `{"webhookEvent":"a","id":"123-45-6789"`,
	} {
		t.Run(body, func(t *testing.T) {
			event, err := webhook.Parse([]byte(body))
			require.ErrorContains(t, err, "lending/webhook: ")
			require.Nil(t, event)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "6789", "an error quoted the body")
		})
	}
}

// Money can wait for an event whose signature is right and whose id or time is not.
func TestParseTakesAnUnreadableIDOrTime(t *testing.T) {
	for _, field := range []string{
		`"id":"123-45-6789"`, `"id":"3fa85f64-5717-4562-b3fc-2c963f66afaX"`, `"id":7`, `"id":{}`,
		`"id":12345678901234567890123456789012`, `"id":"` + delivery.EventID + `","ID":false`,
		`"creationTimeUtc":"2024-13-01T00:00:00Z"`, `"creationTimeUtc":"yesterday"`, `"creationTimeUtc":1704164645`,
		`"creationTimeUtc":{}`, `"creationTimeUtc":"2024-01-02T03:04:05Z","CreationTimeUtc":""`,
	} {
		t.Run(field, func(t *testing.T) {
			event := parsed(t, `{"webhookEvent":"a","data":1,`+field+`}`)
			require.Equal(t, lending.EventName("a"), event.Name)
			require.Equal(t, "1", string(event.Data.Raw()))
			require.Zero(t, event.ID)
			require.Zero(t, event.Created)
			require.Contains(t, string(event.Raw()), field)
		})
	}
}

func TestParseAllocatesLittle(t *testing.T) {
	body := []byte(delivery.Body)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = webhook.Parse(body) }), 5.0)
}

// The data of some events are one-time codes.
func TestEventShowsNoData(t *testing.T) {
	event := parsed(t, `{"webhookEvent":"WB_Send_Otp","data":{"otp":"c0de-123"},"note":"c0de-123"}`)
	var log bytes.Buffer
	for _, logger := range []*slog.Logger{
		slog.New(slog.NewJSONHandler(&log, nil)), slog.New(slog.NewTextHandler(&log, nil)),
	} {
		logger.Info("event", "event", event, "value", *event, "data", event.Data)
	}
	shown := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		for _, value := range []any{event, *event, event.Data, struct{ event any }{*event}, []any{event}} {
			shown += fmt.Sprintf(verb, value)
		}
	}
	hexadecimal := hex.EncodeToString([]byte("c0de-123"))
	for _, form := range []string{"c0de-123", "99 48 100 101 45 49", hexadecimal, "YzBkZS0xMjM"} {
		require.NotContains(t, shown, form)
	}
}

func TestEventDataDecodes(t *testing.T) {
	for _, tt := range []struct {
		years string
		want  webhook.Years
	}{{`"7"`, "7"}, {`7`, "7"}, {`"2-5 years"`, "2-5 years"}, {`null`, ""}, {`12.50`, "12.50"}} {
		t.Run(tt.years, func(t *testing.T) {
			const body = `{"webhookEvent":"a","data":{"extraInformation":{"years":%s,"zipcode":"10001"},` +
				`"applicationId":"x"}}`
			event := parsed(t, fmt.Sprintf(body, tt.years))
			var created webhook.ApplicationCreated
			require.NoError(t, event.Data.Decode(&created))
			require.Equal(t, tt.want, created.ExtraInformation.Years)
			require.Equal(t, event.Data.Raw(), created.Record.Raw())
			var mine struct {
				ApplicationID    string
				ExtraInformation struct{ ZipCode string }
			}
			require.NoError(t, event.Data.Decode(&mine))
			require.Equal(t, "x", mine.ApplicationID)
			require.Equal(t, "10001", mine.ExtraInformation.ZipCode)
		})
	}
}

func TestEventDataRefuses(t *testing.T) {
	for _, data := range []string{`{"extraInformation":{"years":[7]}}`, `{"extraInformation":"6789"}`, `[]`} {
		t.Run(data, func(t *testing.T) {
			err := lending.NewRecord([]byte(data)).Decode(new(webhook.ApplicationCreated))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "6789")
		})
	}
}

func TestEventSurvivesStorage(t *testing.T) {
	event := parsed(t, delivery.Body)
	text, err := json.Marshal(event)
	require.NoError(t, err)
	require.Equal(t, delivery.Body, string(text)) //nolint:testifylint // to the byte
	var read webhook.Event
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, event.Name, read.Name)
	require.Equal(t, event.Key(), read.Key())

	text, err = json.Marshal(webhook.Event{Name: "a", ID: uuid.MustParse(delivery.EventID)})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, lending.EventName("a"), read.Name)
}

// FuzzParse compares the events that Parse accepts with encoding/json's.
func FuzzParse(f *testing.F) {
	f.Add([]byte(delivery.Body))
	f.Add([]byte(`{"webhookEvent":"a","WEBHOOKEVENT":"b","webhoo\u212aEvent":"\ud800","id":null,"data":{"a":[1,{}]},` +
		`"data":1,"creationTimeUtc":"2024-01-02T03:04:05+02:00"}`))
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
		switch {
		case err != nil && other == nil && want.Name != "":
			t.Fatalf("refused %q: %v", body, err)
		case err != nil:
			return
		case other != nil:
			t.Fatalf("accepted %q, encoding/json: %v", body, other)
		case string(event.Name) != want.Name || string(event.Data.Raw()) != string(want.Data):
			t.Fatalf("%q: got %q %q, want %q %q", body, event.Name, event.Data.Raw(), want.Name, want.Data)
		case !bytes.Equal(event.Body(), body):
			t.Fatalf("%q: Body is %q", body, event.Body())
		}
		var id uuid.UUID
		var created time.Time
		if json.Unmarshal(want.ID, &id) != nil {
			id = uuid.UUID{}
		}
		var text string
		if json.Unmarshal(want.CreationTimeUTC, &text) == nil {
			if created, err = time.Parse(time.RFC3339, text); err != nil {
				created, _ = time.Parse(time.RFC3339, text+"Z")
			}
		}
		// Of several with one name the last counts, unless that is null: both hold nothing then.
		if string(want.ID) != "null" && event.ID != id ||
			string(want.CreationTimeUTC) != "null" && !event.Created.Equal(created) {
			t.Fatalf("%q: got %s %s, want %s %s", body, event.ID, event.Created, id, created)
		}
	})
}
