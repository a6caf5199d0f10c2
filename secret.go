package lending

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lendingapi/lending-go/internal/redact"
)

const redacted = redact.Placeholder

// Secret hides a password, a token, a code or another confidential value. A Secret prints as
// "[redacted]" under every verb of fmt, in slog and in JSON, even in an unexported field. Only
// requests to the service contain the value.
//
// The zero Secret hides nothing.
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

// IsZero reports whether the hidden text is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String returns "[redacted]", or "" for an empty text.
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

// MarshalJSON writes [Secret.String], so that a record with secrets can be logged. To store
// such a record, store its secrets apart: [Secret.UnmarshalJSON] refuses "[redacted]".
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON hides a JSON string. It refuses "[redacted]", so that nobody uses the
// placeholder as a password.
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
