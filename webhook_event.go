package lending

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// EventName names what a webhook tells of. The set is open: names that this package
// does not know are kept as received.
//
// The service publishes neither which operation sends which event nor the fields of
// its data.
type EventName string

// The events of the service. Their meaning is all that it publishes of them.
const (
	EventPartnerRequest                EventName = "WB_Partner_Request"                  // partner request notification
	EventApplicationCreated            EventName = "WB_Application_Created"              // application created: see [ApplicationCreated]
	EventCustomerCreated               EventName = "WB_Customer_Created"                 // customer created
	EventCustomerAndApplicationCreated EventName = "WB_Customer_And_Application_Created" // customer and application created
	EventApplicationCurrentProcess     EventName = "WB_Application_Current_Process"      // current process update
	EventApplicationStatusChanged      EventName = "WB_Application_Status_Changed"       // application status change
	EventLoanCreated                   EventName = "WB_Loan_Created"                     // loan created
	EventBankTransactionsRefresh       EventName = "WB_Bank_Transactions_Refresh"        // bank transaction refresh
	EventCommunicationSent             EventName = "WB_Communication_Sent"               // communication sent
	EventLoanWithdrawalCompleted       EventName = "WB_Loan_Withdrawal_Completed"        // loan withdrawal completed
	EventSendSecondaryApplicantNotice  EventName = "WB_Send_Secondary_Applicant_Notice"  // secondary applicant notice
	EventUnderReview                   EventName = "WB_Under_Review"                     // under review notification
	EventSendSMS                       EventName = "WB_Send_Sms"                         // SMS send
	EventSendOTP                       EventName = "WB_Send_Otp"                         // OTP send
	EventSendLoanOTP                   EventName = "WB_Send_Loan_Otp"                    // loan OTP send
	EventApplicationCancelled          EventName = "WB_Application_Cancelled"            // application cancelled
	EventSendTwoFactorCode             EventName = "WB_Send_Two_Factor_Code"             // two-factor code sent
	EventSendApplicationReady          EventName = "WB_Send_Application_Ready"           // application ready notification
	EventApplicationReady              EventName = "WB_Application_Ready"                // application ready
	EventLoanEnabledOrDisabled         EventName = "WB_Loan_Enabled_Or_Disabled"         // loan enabled or disabled
	EventLoanClosed                    EventName = "WB_Loan_Closed"                      // loan closed
	EventLoanOpened                    EventName = "WB_Loan_Opened"                      // loan opened
)

// EventNames returns the names above, in that order.
func EventNames() []EventName {
	return []EventName{
		EventPartnerRequest, EventApplicationCreated, EventCustomerCreated, EventCustomerAndApplicationCreated,
		EventApplicationCurrentProcess, EventApplicationStatusChanged, EventLoanCreated, EventBankTransactionsRefresh,
		EventCommunicationSent, EventLoanWithdrawalCompleted, EventSendSecondaryApplicantNotice, EventUnderReview,
		EventSendSMS, EventSendOTP, EventSendLoanOTP, EventApplicationCancelled, EventSendTwoFactorCode,
		EventSendApplicationReady, EventApplicationReady, EventLoanEnabledOrDisabled, EventLoanClosed, EventLoanOpened,
	}
}

// Event is a webhook delivery: the envelope, and the data of the event. Its Record is
// the whole envelope, with the fields that are not published.
//
// Data can hold codes and personal data. fmt shows nothing of them, in whatever the event
// stands, and slog neither, but for the JSON handler in a list or a struct: see
// [Record.LogValue].
type Event struct {
	Record
	ID      uuid.UUID `json:"id"` // not a key: the service uses one id for several events, see [Event.Key]; zero if it is missing or unreadable
	Name    EventName `json:"webhookEvent"`
	Data    Record    `json:"data"`            // any JSON value; Raw is nil if there is none
	Created time.Time `json:"creationTimeUtc"` // zero if it is missing or unreadable; of the sending, so another one in each attempt
}

// ParseEvent reads the body of a delivery, after [Verify] has accepted it. It keeps
// body, which must not be changed afterwards.
//
// It refuses what is not a JSON object with the name of an event, a string. An id or a
// time that cannot be read is zero: the event counts. The text of its error quotes
// nothing of body. It takes names of fields in any case, times without a zone, and a
// byte order mark.
func ParseEvent(body []byte) (*Event, error) {
	text := bytes.TrimPrefix(body, utf8BOM)
	// All records are of body, so that Key finds it: their spans begin behind the mark.
	whole, mark := newAnswerText(body), len(body)-len(text)
	e := &Event{Record: Record{whole, mark, len(body)}}
	var mismatch *shapeError
	valid := jsonsplit.ValidMembers(text, func(name []byte, at jsonsplit.Span) {
		if err := e.set(name, Record{whole, mark + at.From, mark + at.To}); err != nil {
			mismatch = err
		}
	})
	switch {
	case !valid:
		return nil, errNotEvent
	case mismatch != nil:
		return nil, fmt.Errorf("lending: event: %w", mismatch)
	case e.Name == "":
		return nil, errNotEvent
	}
	return e, nil
}

var errNotEvent = errors.New("lending: event: want a JSON object with the member webhookEvent")

// set takes a member of the envelope. As in encoding/json the last of several with
// one name counts, and null changes nothing.
func (e *Event) set(name []byte, value Record) *shapeError {
	raw := value.Raw()
	switch field := string(name); {
	case strings.EqualFold(field, "data"):
		e.Data = value
	case raw[0] == 'n': // null
	case strings.EqualFold(field, "id"):
		text, _ := unquote(raw)
		if id, err := uuid.Parse(text); err == nil {
			e.ID = id
		} else {
			e.ID = uuid.UUID{} // id holds what was read before the mistake
		}
	case strings.EqualFold(field, "webhookEvent"):
		text, err := unquote(raw)
		if err != nil {
			return &shapeError{"webhookEvent", "a string", jsonsplit.Kind(raw)}
		}
		e.Name = EventName(text)
	case strings.EqualFold(field, "creationTimeUtc"):
		e.Created = time.Time{}
		_ = parseTime(raw, &e.Created)
	}
	return nil
}

// unquote returns the string that raw is, which is valid JSON.
func unquote(raw []byte) (string, error) {
	plain := func(c byte) bool { return c != '\\' && c < 0x80 }
	for i, c := range raw {
		if !plain(c) || (c == '"') != (i == 0 || i == len(raw)-1) {
			var text *string
			err := json.Unmarshal(raw, &text)
			if err != nil || text == nil {
				return "", errors.New("not a string")
			}
			return *text, nil
		}
	}
	return string(raw[1 : len(raw)-1]), nil
}

// Body returns the body as it was received, to store it: Verify and Key are about its
// bytes. It must not be modified. For an event made by hand it is what MarshalJSON writes.
func (e *Event) Body() []byte {
	if e.answer != nil {
		return (*e.answer).text
	}
	body, _ := e.MarshalJSON()
	return body
}

// Detach copies the event out of the buffer that its body was in, byte for byte: with
// Data, and with what stands around the envelope, which Verify and Key are about too.
func (e *Event) Detach() {
	if e.answer == nil {
		return // made by hand
	}
	whole := newAnswerText(bytes.Clone(e.Body()))
	if e.Data.answer == e.answer {
		e.Data.answer = whole
	}
	e.answer = whole
}

// Key returns the SHA-256 of the body as it was received, in hexadecimal. Two
// deliveries with one key are the same delivery, repeated byte for byte by a proxy or
// an attacker. What the service itself sends again has another time of creation, and
// so another key: to recognise that takes an identifier out of Data, see [OnceBy].
func (e *Event) Key() string {
	sum := sha256.Sum256(e.Body())
	return hex.EncodeToString(sum[:])
}

// UnmarshalJSON reads data as [ParseEvent] does.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := ParseEvent(bytes.Clone(data))
	if err == nil {
		*e = *parsed
	}
	return err
}

// MarshalJSON writes the event as it was received, or from its fields if it was made
// by hand, as tests do.
func (e Event) MarshalJSON() ([]byte, error) { return marshalRecord(e.Record, e) }

// ApplicationCreated is what is published of the data of [EventApplicationCreated]:
//
//	var created lending.ApplicationCreated
//	err := event.Data.Decode(&created)
type ApplicationCreated struct {
	Record
	ExtraInformation ApplicationCreatedExtra `json:"extraInformation"`
}

// UnmarshalJSON keeps data as the [Record].
func (a *ApplicationCreated) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, a) }

// MarshalJSON writes the record as it was received.
func (a ApplicationCreated) MarshalJSON() ([]byte, error) { return marshalRecord(a.Record, a) }

// ApplicationCreatedExtra is what is published of the extra information of an
// [ApplicationCreated].
type ApplicationCreatedExtra struct {
	Record
	Years Years `json:"years"`
}

// UnmarshalJSON keeps data as the [Record].
func (a *ApplicationCreatedExtra) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, a) }

// MarshalJSON writes the record as it was received.
func (a ApplicationCreatedExtra) MarshalJSON() ([]byte, error) { return marshalRecord(a.Record, a) }

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

// SignatureHeader is the header of a webhook delivery that holds its signature.
const SignatureHeader = "abp-webhook-signature"

// ErrSignature is found by errors.Is in every error of [Verify].
var ErrSignature = errors.New("lending: webhook signature not accepted")

// Why a signature is not accepted. Made once: a flood of forgeries costs no memory.
var (
	errNoSecret         = fmt.Errorf("%w: there is no secret to check it with", ErrSignature)
	errNoSignature      = fmt.Errorf("%w: the header is missing or repeated", ErrSignature)
	errSignatureDiffers = fmt.Errorf("%w: it was not made of this body with this secret", ErrSignature)
)

const (
	signaturePrefix = "sha256="
	signatureLength = len(signaturePrefix) + 3*sha256.Size - 1
)

// Sign returns the signature of a webhook delivery: HMAC-SHA256 of the exact bytes of
// body under the whole secret, as "sha256=" and 32 bytes in upper-case hexadecimal
// with hyphens between them. Tests of a receiver need it.
func Sign(secret string, body []byte) string {
	m := signers.Get().(*signer)
	defer signers.Put(m)
	text := make([]byte, 0, signatureLength)
	text = append(text, signaturePrefix...)
	for i, b := range m.sum(secret, body) {
		if i > 0 {
			text = append(text, '-')
		}
		text = append(text, digits[b>>4], digits[b&15])
	}
	return string(text)
}

// Verify returns nil if signature is [Sign] of body with secret, and an error that is
// [ErrSignature] if not. It takes the same time wherever the two differ.
//
// body must be the bytes as they were received: JSON that was decoded and encoded
// again has another signature. An empty secret verifies nothing.
//
// A genuine delivery can be sent again by anybody who has seen it: see [Once].
func Verify(secret string, body []byte, signature string) error {
	switch {
	case secret == "":
		return errNoSecret
	case signature == "":
		return errNoSignature
	}
	m := signers.Get().(*signer)
	defer signers.Put(m)
	if !m.parse(signature) || !hmac.Equal(m.sum(secret, body), m.given[:]) {
		return errSignatureDiffers
	}
	return nil
}

// signers keeps states that have taken in their secret: most programs have one
// secret, and to begin with it anew costs a quarter of the time and all of the
// memory that a verification takes.
var signers = sync.Pool{New: func() any { return new(signer) }}

type signer struct {
	secret     string
	mac        hash.Hash
	own, given [sha256.Size]byte
}

// sum returns the HMAC of body, which is good until the next call.
func (m *signer) sum(secret string, body []byte) []byte {
	if m.mac != nil && m.secret == secret {
		m.mac.Reset()
	} else {
		m.mac, m.secret = hmac.New(sha256.New, []byte(secret)), secret
	}
	m.mac.Write(body)
	return m.mac.Sum(m.own[:0])
}

// parse reads a signature of exactly the documented form into given.
func (m *signer) parse(signature string) bool {
	if len(signature) != signatureLength || signature[:len(signaturePrefix)] != signaturePrefix {
		return false
	}
	text := signature[len(signaturePrefix):]
	odd := byte(0)
	for i := range m.given {
		if i > 0 {
			odd |= text[0] ^ '-'
			text = text[1:]
		}
		high, low := digitValue[text[0]], digitValue[text[1]]
		odd |= (high | low) & 0xF0
		m.given[i] = high<<4 | low
		text = text[2:]
	}
	return odd == 0
}

const digits = "0123456789ABCDEF"

// digitValue is the value of a digit, and 0xFF of any other byte.
var digitValue = func() (values [256]byte) {
	for c := range values {
		values[c] = byte(strings.IndexByte(digits, byte(c))) // -1 is 0xFF
	}
	return values
}()
