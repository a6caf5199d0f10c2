package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Event is the envelope of a delivery, and the data of the event. Its Record is the whole
// envelope, with unpublished fields.
//
// Data can hold one-time codes and personal data. fmt and slog do not print Data, except for
// slog's JSON handler if the event is in a list or a struct: see [lending.Record.LogValue].
type Event struct {
	lending.Record
	ID      uuid.UUID         `json:"id"` // shared by several events: see [Event.Key]; zero if missing or unreadable
	Name    lending.EventName `json:"webhookEvent"`
	Data    lending.Record    `json:"data"`            // any JSON value; Raw is nil if there is none
	Created time.Time         `json:"creationTimeUtc"` // time of this delivery; zero if missing or unreadable

	marked bool // the body began with a byte order mark
}

const byteOrderMark = "\xEF\xBB\xBF"

// Parse parses the body of a delivery. Call [lending.Verify] first. Do not change body afterwards.
//
// The body must be a JSON object with an event name. Field names match in any case. An
// unreadable id or time is zero, because the event matters more. Parse accepts a byte order mark
// and times without a zone. The error quotes nothing of the body.
func Parse(body []byte) (*Event, error) {
	text, marked := bytes.CutPrefix(body, []byte(byteOrderMark))
	e := &Event{Record: lending.NewRecord(text), marked: marked}
	valid := jsonsplit.ValidMembers(text, func(name []byte, at jsonsplit.Span) { e.set(name, text[at.From:at.To]) })
	if !valid || e.Name == "" {
		return nil, errNotEvent
	}
	return e, nil
}

var errNotEvent = errors.New("lending/webhook: event: want a JSON object with the member webhookEvent, a string")

// set sets the field for a member of the envelope. As in encoding/json, the last of several
// members with the same name counts, and null changes nothing.
func (e *Event) set(name, raw []byte) {
	switch field := string(name); {
	case strings.EqualFold(field, "data"):
		e.Data = lending.NewRecord(raw)
	case raw[0] == 'n': // null
	case strings.EqualFold(field, "id"):
		text, _ := jsonsplit.Text(raw)
		if id, err := uuid.ParseBytes(text); err == nil {
			e.ID = id
		} else {
			e.ID = uuid.UUID{} // instead of the bytes before the mistake
		}
	case strings.EqualFold(field, "webhookEvent"):
		text, _ := jsonsplit.Text(raw)
		e.Name = lending.EventName(text)
	case strings.EqualFold(field, "creationTimeUtc"):
		var created lending.Time
		_ = created.UnmarshalJSON(raw)
		e.Created = created.Time
	}
}

// Body returns the bytes of the body as received. Store these bytes, unchanged: signature and
// [Event.Key] belong to them. For an event that was not parsed, Body returns the JSON of its
// fields.
func (e *Event) Body() []byte {
	body, _ := e.MarshalJSON()
	if e.marked {
		return append([]byte(byteOrderMark), body...)
	}
	return body
}

// Key returns the SHA-256 of the body in hexadecimal. Two deliveries with the same key are the
// same delivery, repeated by a proxy or an attacker. If the service itself sends an event again,
// time and key differ: then recognize the event by an identifier in Data.
func (e *Event) Key() string {
	sum := sha256.Sum256(e.Body())
	return hex.EncodeToString(sum[:])
}

// Mentions reports whether a value in the event, or the name of a member, contains one of the
// ids, in upper or lower case.
func (e *Event) Mentions(ids ...string) bool {
	body := e.Body()
	contains := func(text string) bool {
		text = strings.ToLower(text)
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, strings.ToLower(id)) })
	}
	if contains(string(body)) {
		return true
	}
	if !bytes.ContainsRune(body, '\\') {
		return false
	}
	for decoder := json.NewDecoder(bytes.NewReader(body)); ; { // escaped characters
		token, err := decoder.Token()
		if text, ok := token.(string); err != nil || ok && contains(text) {
			return err == nil
		}
	}
}

// UnmarshalJSON parses data with [Parse].
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(bytes.Clone(data))
	if err == nil {
		*e = *parsed
	}
	return err
}

// MarshalJSON returns the event as received, or the JSON of its fields.
func (e Event) MarshalJSON() ([]byte, error) {
	if received := e.Record.Raw(); received != nil {
		return received, nil
	}
	return json.Marshal(struct {
		ID      uuid.UUID         `json:"id"`
		Name    lending.EventName `json:"webhookEvent"`
		Data    lending.Record    `json:"data"`
		Created time.Time         `json:"creationTimeUtc"`
	}{e.ID, e.Name, e.Data, e.Created})
}

// ApplicationCreated has the published fields of the data of [lending.EventApplicationCreated]:
//
//	var created webhook.ApplicationCreated
//	err := event.Data.Decode(&created)
type ApplicationCreated struct {
	Record           lending.Record          `json:"-"` // all fields
	ExtraInformation ApplicationCreatedExtra `json:"extraInformation"`
}

// ApplicationCreatedExtra has the published fields of the extra information.
type ApplicationCreatedExtra struct {
	Years Years `json:"years"`
}

// Years is the age of a business as the service writes it: a number, a number in a string, or in
// older records the label of a range.
type Years string

// UnmarshalJSON accepts a string or a number.
func (y *Years) UnmarshalJSON(data []byte) error {
	var number json.Number
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
