package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// What a transport or a source of tokens says can quote anything: no error in the chain shows it.
func TestErrorsOfOthersAreHidden(t *testing.T) {
	quoting := &url.Error{Op: "Post", URL: "https://hush.example",
		Err: fmt.Errorf("hush: %w", &net.AddrError{Err: "hush", Addr: "hush"})}
	var attempts []error
	client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithObserver(func(_ context.Context, a lending.Attempt) { attempts = append(attempts, a.Err) }),
		lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(*http.Request) (*http.Response,
			error) {
			return nil, quoting
		})}))
	sourceless := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(failing{quoting}))
	told := append([]error(nil), client.Applications.Cancel(t.Context(), catalog.Application),
		sourceless.Applications.Cancel(t.Context(), catalog.Application))
	told = append(told, attempts...)
	require.Len(t, told, 3)
	for _, err := range told {
		require.ErrorIs(t, err, quoting)
		var address *net.AddrError
		assert.NotErrorAs(t, err, &address)
		for ; err != nil; err = errors.Unwrap(err) {
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "hush")
		}
	}
	assert.ErrorContains(t, told[1], "the source of tokens failed")
	assert.Equal(t, told[0].Error(), fmt.Sprintf("%#v", told[0]), "under every verb")
}
