package page

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAssets(t *testing.T) {
	for _, test := range []struct{ path, kind string }{
		{"/page.css", "text/css"}, {"/page.js", "text/javascript"},
	} {
		t.Run(test.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, nil))
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Contains(t, w.Header().Get("Content-Type"), test.kind)
		})
	}
	h := http.Header{}
	Secure(h, "'none'")
	assert.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
}
