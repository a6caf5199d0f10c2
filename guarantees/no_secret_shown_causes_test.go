package guarantees_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// The kinds of errors that fmt prints from any field of any struct: a string, a struct, a slice.
type (
	textError   string
	structError struct{ Said string }
	listError   []string
)

func (e textError) Error() string   { return string(e) }
func (e structError) Error() string { return e.Said }
func (e listError) Error() string   { return fmt.Sprint([]string(e)) }

var valueErrors = []error{
	textError(planted),
	structError{planted},
	listError{planted},
	fmt.Errorf("%w: %s", io.EOF, planted),
}

// TestNoCauseIsShown makes each function of a caller fail with a confidential error of a value
// type, which fmt would print. The test prints the client's errors, and copies of their structs,
// under every verb.
func TestNoCauseIsShown(t *testing.T) {
	t.Parallel()
	for _, source := range []struct {
		name string
		fail func(*testing.T, error) error
	}{
		{"transport", func(t *testing.T, cause error) error {
			client := wire.InMemory(t, func(*http.Request) (*http.Response, error) { return nil, cause })
			return client.Applications.Cancel(t.Context(), catalog.Application)
		}},
		{"body of an answer", func(t *testing.T, cause error) error {
			client := wire.InMemory(t, func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(failingReader{cause})}, nil
			})
			_, err := client.Applications.Process(t.Context(), catalog.Application)
			return err
		}},
		{"source of tokens", func(t *testing.T, cause error) error {
			client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(failing{cause}))
			return client.Applications.Cancel(t.Context(), catalog.Application)
		}},
		{"token store", func(t *testing.T, cause error) error {
			client := wire.NewClient(t, "https://lending.example",
				lending.WithTokenStore(brokenStore{lending.NewMemoryTokenStore(), cause}),
				lending.WithCredentials(lending.Credentials{Username: "u", Password: lending.NewSecret("test-token")}))
			_, err := client.Session().Token(t.Context())
			err = errors.Join(err, client.Session().SignIn(t.Context()))
			return errors.Join(err, client.Applications.Cancel(t.Context(), catalog.Application))
		}},
		{"two-factor callback", func(t *testing.T, cause error) error {
			client := wire.NewClient(t, wire.Listen(t, wire.Answer(200, `{"requiresTwoFactor":true}`)),
				lending.WithCredentials(lending.Credentials{
					Username: "u", Password: lending.NewSecret("test-token"),
					TwoFactor: func(context.Context, lending.Challenge) (string, error) { return "", cause },
				}))
			_, err := client.Session().Token(t.Context())
			err = errors.Join(err, client.Session().SignIn(t.Context()))
			return errors.Join(err, client.Applications.Cancel(t.Context(), catalog.Application))
		}},
		{"reader of a document", func(t *testing.T, cause error) error {
			client := wire.Serve(t, wire.Answer(200, `true`))
			document := lending.Document{Name: "a.pdf", Content: failingReader{cause}, Size: 10}
			return client.Approval.SubmitDocument(t.Context(), catalog.Application, "t", document)
		}},
		{"decoder of a caller's type", func(t *testing.T, cause error) error {
			unmarshalling = cause
			record, err := wire.Serve(t, wire.Answer(200, `{"a":1}`)).Customers.GetByEmail(t.Context(), "a@b.example")
			require.NoError(t, err)
			var into struct{ A failingType }
			return record.Decode(&into)
		}},
	} {
		for _, cause := range valueErrors {
			t.Run(fmt.Sprintf("%s/%T", source.name, cause), func(t *testing.T) {
				err := source.fail(t, cause)
				require.Error(t, err)
				var shown bytes.Buffer
				for _, link := range chain(err) {
					show(&shown, link)
					if v := reflect.ValueOf(link); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
						show(&shown, v.Elem().Interface())
					}
				}
				assert.Empty(t, leaks(shown.String(), []string{planted, "test-token"}))
			})
		}
	}
}

var withToken = lending.WithTokenSource(lending.StaticToken("test-token"))

func withTransport(send wire.RoundTripper) lending.Option {
	return lending.WithHTTPClient(&http.Client{Transport: send})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// failingType fails to decode.
type failingType struct{}

var unmarshalling error

func (*failingType) UnmarshalJSON([]byte) error { return unmarshalling }

var _ json.Unmarshaler = (*failingType)(nil)

// brokenStore grants no lease.
type brokenStore struct {
	lending.TokenStore
	cause error
}

func (b brokenStore) Acquire(context.Context, string, time.Duration) (int64, error) {
	return 0, b.cause
}
