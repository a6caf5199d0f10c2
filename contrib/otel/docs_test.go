package lendingotel_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

var credentials = lending.Credentials{
	Username: lendingtest.AdministratorUsername,
	Password: lending.NewSecret(lendingtest.AdministratorPassword),
}

// The code block of the package documentation and of contrib/README.md, with the global providers.
func TestDocumentation(t *testing.T) {
	service, _ := fake.Start(t)
	tel := newTelemetry()
	otel.SetTracerProvider(tel.tracers)
	otel.SetMeterProvider(tel.meters)
	baseURL := service.URL
	client, err := lending.New(baseURL,
		lending.WithCredentials(credentials),
		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(baseURL))),
		lending.WithHeader(lendingotel.Header),
	)
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.Session().SignIn(t.Context()))
	spans := tel.spans.GetSpans()
	require.Len(t, spans, 2)
	for i, want := range []string{"POST /api/Authenication/login", "call POST /api/Authenication/login"} {
		require.Equal(t, want, spans[i].Name)
	}
	metrics, _ := tel.histograms(t)
	require.NotEmpty(t, metrics)
}

// The code blocks of docs/operating.md.
func TestOperating(t *testing.T) {
	service, _ := fake.Start(t)
	inbox := webhook.NewMemoryInbox()
	keys := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	client, err := lending.New(service.URL, lending.WithCredentials(credentials))
	require.NoError(t, err)
	defer client.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		err := errors.Join(client.Session().Ready(r.Context()), keys.Ready(r.Context()), inbox.Ready(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	})

	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		require.Equal(t, want, answer.Code)
		client.Close()
	}

	registration, err := lendingotel.Gauges(lendingotel.Sources{
		Log:      keys,
		Inboxes:  map[string]webhook.DeadLetters{"webhooks": inbox},
		Sessions: map[string]*lending.Session{"service": client.Session()},
	})
	require.NoError(t, err)
	require.NoError(t, registration.Unregister())
}
