package webhook

import (
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/sealed"
)

// Encryption encrypts the events that an inbox stores, with AES-256-GCM: events carry one-time
// passwords and personal data. A nil Encryption stores them as received. An inbox with an
// Encryption also reads events that were stored as received, so encryption can be switched on at any
// time. A nil Encryption opens no encrypted event: empty the inbox before you switch encryption off.
//
// The name, the time and the [Event.Key] of an event stay readable. The key is a hash of the body,
// in which the service's own random id keeps the other values from being guessed.
type Encryption struct{ box sealed.Box }

// NewEncryption returns an encryption with a key of 32 random bytes. To change the key, put the
// new key in front of the older keys. During the deployment, processes without the new key leave
// its events to the others.
func NewEncryption(key []byte, older ...[]byte) (*Encryption, error) {
	box, err := sealed.New(key, older...)
	if err != nil {
		return nil, redact.Text("lending/webhook: NewEncryption: " + err.Error())
	}
	return &Encryption{box}, nil
}

// sealedMark begins a stored event that is not the body as received: no JSON begins with it.
const sealedMark = 0

var sealedFor = []byte("lending webhook")

// Seal returns the bytes to store for event.
func (e *Encryption) Seal(event *Event) []byte {
	if e == nil {
		return event.Body()
	}
	return append([]byte{sealedMark}, e.box.Seal(event.Body(), sealedFor)...)
}

// Open returns the event in the stored bytes. If [Parse] refuses the body, Open returns the error
// and an event that holds only the bytes.
//
// If this process lacks the key, or if a newer release has stored the event, Open returns no
// event. The inbox leaves such an event to another process for a minute, and counts no try.
func (e *Encryption) Open(stored []byte) (*Event, error) {
	body := stored
	if len(stored) > 0 && stored[0] == sealedMark {
		if err := sealed.Check(stored[1:]); err != nil {
			return nil, err
		}
		if e == nil {
			return nil, errEncrypted
		}
		var err error
		if body, err = e.box.Open(stored[1:], sealedFor); err != nil {
			return nil, errEncrypted
		}
	}
	event, err := Parse(body)
	if err != nil {
		event = &Event{Record: lending.NewRecord(body)}
	}
	return event, err
}

const errEncrypted = redact.Text("lending/webhook: the event is encrypted with another key; check the encryption keys of the inbox")
