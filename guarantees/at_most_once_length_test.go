package guarantees_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestEveryPOSTHasALengthOrABody calls every route. Gateways of .NET resend a POST without both.
func TestEveryPOSTHasALengthOrABody(t *testing.T) {
	t.Parallel()
	routes := catalog.Routes(t)
	for _, test := range []struct {
		protocol string
		foreign  bool // a caller's http.Client
	}{{"HTTP/1.1", false}, {"HTTP/1.1", true}, {"HTTP/2.0", false}, {"HTTP/2.0", true}} {
		t.Run(fmt.Sprintf("%s, transport of the caller %t", test.protocol, test.foreign), func(t *testing.T) {
			t.Parallel()
			arrived := make(chan string, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				length := cmp.Or(r.Header.Get("Content-Length"), fmt.Sprintf("none, body of %d bytes", len(body)))
				arrived <- r.Proto + " " + r.Method + " length " + length
				wire.Answer(http.StatusBadRequest, `{"title":"refused"}`)(w, r)
			}))
			server.EnableHTTP2 = test.protocol == "HTTP/2.0"
			server.StartTLS()
			t.Cleanup(server.Close)
			own := server.Client().Transport.(*http.Transport)
			option := lending.WithTLS(&tls.Config{RootCAs: own.TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS13})
			if test.foreign {
				option = lending.WithHTTPClient(server.Client())
			}
			client := wire.NewClient(t, server.URL, withToken, option)
			check := func(name string, call catalog.Call) {
				t.Run(name, func(t *testing.T) {
					_, err := call(t.Context(), client)
					require.Error(t, err)
					assert.Regexp(t, "^"+test.protocol+` POST length (\d+|none, body of [1-9]\d* bytes)$`, <-arrived)
				})
			}
			for _, table := range []map[string]catalog.Call{catalog.Calls, catalog.Variants} {
				for name, call := range table {
					if method, _, _ := strings.Cut(name, " "); routes[method].Method == http.MethodPost {
						check(name, call)
					}
				}
			}
			check("Do", func(ctx context.Context, client *lending.Client) (any, error) {
				return client.Do(ctx, lending.RawRequest{Method: http.MethodPost, Path: "/api/X"})
			})
		})
	}
}
