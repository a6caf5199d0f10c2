package lending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

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

// MarshalJSON writes [Secret.String], so that a record with secrets can be logged. To store such
// a record, store its secrets apart: [Secret.UnmarshalJSON] refuses "[redacted]".
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

// Token is what authenticates calls: a bearer token.
type Token struct {
	Value   Secret
	Expires time.Time // zero if it is not known

	adopted bool // from a TokenStore: older than a refusal, perhaps
}

// TokenSource gives the token for a call. It is asked before every call, by many goroutines at
// once.
//
// A source that also has a method Invalidate(Token) is told of a token that the service has
// refused, and is asked again for a read.
type TokenSource interface {
	// Token returns the token for one call.
	Token(ctx context.Context) (Token, error)
}

// StaticToken returns a source that always gives the same token.
func StaticToken(token string) TokenSource { return staticToken{NewSecret(token)} }

type staticToken struct{ value Secret }

func (t staticToken) Token(context.Context) (Token, error) { return Token{Value: t.value}, nil }

// isHeaderSafe reports whether s can follow "Bearer " in a header.
func isHeaderSafe(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
