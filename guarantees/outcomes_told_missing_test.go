package guarantees_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestMissingRecordsAsMeasured answers each read as an older host does. The error of an empty 404 has the
// line that lets IsNotFound believe it.
func TestMissingRecordsAsMeasured(t *testing.T) {
	t.Parallel()
	for name, route := range catalog.Routes(t) {
		if !route.Reads {
			_, err := lending.New("https://lending.example", lending.WithMissing(name, 404))
			assert.Equal(t, "read format", catalog.Refused(t, err), name)
			continue
		}
		for _, test := range []struct {
			name   string
			status int // of WithMissing; 0 without it
			answer wire.RoundTripper
			want   bool
		}{
			{"as measured", 404, wire.Reply(404, ""), true},
			{"not measured", 0, wire.Reply(404, ""), false},
			{"another status", 400, wire.Reply(404, ""), false},
			{"a 400", 400, wire.Reply(400, ""), true},
			{"a page", 404, wire.Reply(404, "<h1>404</h1>"), false},
			{"cut", 404, func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusNotFound, Body: brokenBody{}}, nil
			}, false},
		} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				var opts []lending.Option
				if test.status != 0 {
					opts = append(opts, lending.WithMissing(name, test.status))
				}
				_, err := catalog.Calls[name](t.Context(), afterRequest(t, test.answer, opts...))
				require.Error(t, err)
				assert.Equal(t, test.want, lending.IsNotFound(err), "%v", err)
				if test.want {
					assert.NotContains(t, err.Error(), "WithMissing", "the option is set")
				}
				if test.status == 0 {
					assert.ErrorContains(t, err, fmt.Sprintf("404 Not Found: the answer is empty, as of an unknown path; "+
						"if the probe prints it, set lending.WithMissing(%q, 404)", name))
				}
			})
		}
	}
	_, err := lending.New("https://lending.example", lending.WithMissing("Loans.Get", 200))
	assert.Equal(t, "status range", catalog.Refused(t, err))
}

// brokenBody is the body of a response whose connection breaks.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("broken") }
func (brokenBody) Close() error             { return nil }
