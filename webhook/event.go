package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Event is a webhook delivery: the envelope, and the data of the event. Its Record is
// the whole envelope, with the fields that are not published.
//
// Data can hold codes and personal data. fmt shows nothing of them, in whatever the event
// stands, and slog neither, but for the JSON handler in a list or a struct: see
// [Record.LogValue].
type Event struct {
	lending.Record
	ID      uuid.UUID         `json:"id"` // not a key: the service uses one id for several events, see [Event.Key]; zero if it is missing or unreadable
	Name    lending.EventName `json:"webhookEvent"`
	Data    lending.Record    `json:"data"`            // any JSON value; Raw is nil if there is none
	Created time.Time         `json:"creationTimeUtc"` // zero if it is missing or unreadable; of the sending, so another one in each attempt

	marked bool // a byte order mark stood before the envelope
}

const byteOrderMark = "\xEF\xBB\xBF"

// Parse reads the body of a delivery, after [lending.Verify] has accepted it. It keeps
// body, which must not be changed afterwards.
//
// It refuses what is not a JSON object with the name of an event, a string. An id or a
// time that cannot be read is zero: the event counts. The text of its error quotes
// nothing of body. It takes names of fields in any case, times without a zone, and a
// byte order mark.
func Parse(body []byte) (*Event, error) {
	text, marked := bytes.CutPrefix(body, []byte(byteOrderMark))
	e := &Event{Record: lending.NewRecord(text), marked: marked}
	var misfit error
	valid := jsonsplit.ValidMembers(text, func(name []byte, at jsonsplit.Span) {
		if err := e.set(name, text[at.From:at.To]); err != nil {
			misfit = err
		}
	})
	switch {
	case !valid:
		return nil, errNotEvent
	case misfit != nil:
		return nil, misfit
	case e.Name == "":
		return nil, errNotEvent
	}
	return e, nil
}

var errNotEvent = errors.New("lending/webhook: event: want a JSON object with the member webhookEvent")

// set takes a member of the envelope. As in encoding/json the last of several with
// one name counts, and null changes nothing.
func (e *Event) set(name, raw []byte) error {
	switch field := string(name); {
	case strings.EqualFold(field, "data"):
		e.Data = lending.NewRecord(raw)
	case raw[0] == 'n': // null
	case strings.EqualFold(field, "id"):
		text, _ := jsonsplit.Text(raw)
		if id, err := uuid.ParseBytes(text); err == nil {
			e.ID = id
		} else {
			e.ID = uuid.UUID{} // id holds what was read before the mistake
		}
	case strings.EqualFold(field, "webhookEvent"):
		text, err := jsonsplit.Text(raw)
		if err != nil {
			return errors.New("lending/webhook: event: webhookEvent: want a string, got " + jsonsplit.Kind(raw))
		}
		e.Name = lending.EventName(text)
	case strings.EqualFold(field, "creationTimeUtc"):
		var created lending.Time
		_ = created.UnmarshalJSON(raw)
		e.Created = created.Time
	}
	return nil
}

// Body returns the body as it was received, to store it: Verify and Key are about its
// bytes. It must not be modified. For an event made by hand it is what MarshalJSON writes.
func (e *Event) Body() []byte {
	body, _ := e.MarshalJSON()
	if e.marked {
		return append([]byte(byteOrderMark), body...)
	}
	return body
}

// Clone returns a copy of the event that shares no memory with the body it was parsed
// from. Body, Key and Data stay the same, byte for byte.
func (e *Event) Clone() *Event {
	clone := *e
	body, data := bytes.Clone(e.Record.Raw()), e.Data.Raw()
	if at := bytes.Index(body, data); data != nil && at >= 0 {
		clone.Data = lending.NewRecord(body[at : at+len(data)])
	} else {
		clone.Data = e.Data.Clone()
	}
	if body != nil {
		clone.Record = lending.NewRecord(body)
	}
	return &clone
}

// Key returns the SHA-256 of the body as it was received, in hexadecimal. Two
// deliveries with one key are the same delivery, repeated byte for byte by a proxy or
// an attacker. What the service itself sends again has another time of creation, and
// so another key: to recognise that takes an identifier out of Data, see [OnceBy].
func (e *Event) Key() string {
	sum := sha256.Sum256(e.Body())
	return hex.EncodeToString(sum[:])
}

// UnmarshalJSON reads data as [Parse] does.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(bytes.Clone(data))
	if err == nil {
		*e = *parsed
	}
	return err
}

// MarshalJSON writes the event as it was received, or from its fields if it was made
// by hand, as tests do.
func (e Event) MarshalJSON() ([]byte, error) {
	return encode(e.Record, struct {
		ID      uuid.UUID         `json:"id"`
		Name    lending.EventName `json:"webhookEvent"`
		Data    lending.Record    `json:"data"`
		Created time.Time         `json:"creationTimeUtc"`
	}{e.ID, e.Name, e.Data, e.Created})
}

// ApplicationCreated is what is published of the data of [lending.EventApplicationCreated]:
//
//	var created webhook.ApplicationCreated
//	err := event.Data.Decode(&created)
type ApplicationCreated struct {
	lending.Record
	ExtraInformation ApplicationCreatedExtra `json:"extraInformation"`
}

// UnmarshalJSON keeps data as the [lending.Record].
func (a *ApplicationCreated) UnmarshalJSON(data []byte) error {
	var fields struct{ ExtraInformation ApplicationCreatedExtra }
	record, err := decode(data, &fields)
	if err == nil {
		*a = ApplicationCreated{record, fields.ExtraInformation}
	}
	return err
}

// MarshalJSON writes the record as it was received, or from its fields if it was made by hand.
func (a ApplicationCreated) MarshalJSON() ([]byte, error) {
	return encode(a.Record, map[string]any{"extraInformation": a.ExtraInformation})
}

// ApplicationCreatedExtra is what is published of the extra information of an
// [ApplicationCreated].
type ApplicationCreatedExtra struct {
	lending.Record
	Years Years `json:"years"`
}

// UnmarshalJSON keeps data as the [lending.Record].
func (a *ApplicationCreatedExtra) UnmarshalJSON(data []byte) error {
	var fields struct{ Years Years }
	record, err := decode(data, &fields)
	if err == nil {
		*a = ApplicationCreatedExtra{record, fields.Years}
	}
	return err
}

// MarshalJSON writes the record as it was received, or from its fields if it was made by hand.
func (a ApplicationCreatedExtra) MarshalJSON() ([]byte, error) {
	return encode(a.Record, map[string]any{"years": a.Years})
}

// decode decodes data into fields, and returns a Record of it: none of null.
func decode(data []byte, fields any) (lending.Record, error) {
	if string(data) == "null" {
		return lending.Record{}, nil
	}
	record := lending.NewRecord(bytes.Clone(data))
	return record, record.Decode(fields)
}

// encode returns the record as it was received, or the JSON of fields if it was made by hand.
func encode(record lending.Record, fields any) ([]byte, error) {
	if received := record.Raw(); received != nil {
		return received, nil
	}
	return json.Marshal(fields)
}

// Years is how many years a business exists, as the service writes it: a number, a
// number in a string, or the label of a range in older records.
type Years string

// UnmarshalJSON takes a string and a number.
func (y *Years) UnmarshalJSON(data []byte) error {
	var number json.Number // takes both, but only a string that holds a number
	var text string
	if json.Unmarshal(data, &text) != nil {
		if err := json.Unmarshal(data, &number); err != nil {
			return errors.New("want a string or a number")
		}
		text = number.String()
	}
	*y = Years(text)
	return nil
}
