package lending

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lendingapi/lending-go/internal/redact"
)

const redacted = redact.Placeholder

// Secret holds a password, a token, a code or another value that must not be
// seen. It prints as "[redacted]" under every verb of fmt, in slog and in JSON,
// also where it lies in an unexported field, which fmt reads past every method:
// the text is behind a pointer. Only requests to the service carry it.
//
// The zero Secret holds nothing.
type Secret struct{ text *string }

// NewSecret hides s.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the hidden text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String returns "[redacted]", or nothing if there is nothing to hide.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format prints [Secret.String] under every verb.
func (s Secret) Format(f fmt.State, verb rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue logs [Secret.String].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes [Secret.String]: a record with secrets in it can be logged. To
// store it, store the secrets apart: what was redacted cannot be read back.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON hides a JSON string. It refuses what [Secret.MarshalJSON] wrote,
// so that "[redacted]" is never used as a password.
func (s *Secret) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New("lending: a secret must be a JSON string")
	}
	if text != nil && *text == redacted {
		return errors.New("lending: the secret was redacted when it was written")
	}
	s.text = text
	return nil
}
