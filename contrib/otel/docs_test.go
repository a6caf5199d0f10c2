package lendingotel_test

import (
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

var credentials = lending.Credentials{
	Username: lendingtest.AdministratorUsername,
	Password: lending.NewSecret(lendingtest.AdministratorPassword),
}

// The code block of the package documentation, and that of contrib/README.md. Both make
// spans with the global provider.

func TestDocumentation(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	baseURL := service.URL
	client, err := lending.New(baseURL,
		lending.WithCredentials(credentials),
		lending.WithCallObserver(lendingotel.CallObserver(lendingotel.WithBaseURL(baseURL))),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(baseURL))),
	)
	require.NoError(t, err)
	signIn(t, client)
}

func TestReadme(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	address := service.URL
	client, err := lending.New(address, lending.WithCredentials(credentials),
		lending.WithCallObserver(lendingotel.CallObserver(lendingotel.WithBaseURL(address))),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(address))))
	require.NoError(t, err)
	signIn(t, client)
}

func signIn(t *testing.T, client *lending.Client) {
	t.Helper()
	_, tel := late()
	tel.spans.Reset()
	require.NoError(t, client.Session().SignIn(t.Context()))
	spans := tel.spans.GetSpans()
	require.Len(t, spans, 2)
	require.Equal(t, "POST /api/Authenication/login", spans[0].Name)
	require.Equal(t, "call POST /api/Authenication/login", spans[1].Name)
	require.NoError(t, client.Close())
}
