package ops_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for _, test := range []struct {
		path, want string
		status     int
	}{
		{"api/keys?limit=0", "limit must be from 1 to 1000", http.StatusBadRequest},
		{"api/keys?state=in-doubt", "no key has this state", http.StatusBadRequest},
		{"api/key", "the parameter key is missing", http.StatusBadRequest},
		{inboxPath + "?limit=1001", "limit must be from 1 to 1000", http.StatusBadRequest},
		{"api/keys?stat=review", `unknown or repeated; this route has [`, http.StatusBadRequest},
		{"api/keys?state=review&state=doubt", "unknown or repeated", http.StatusBadRequest},
		{"api/keys?state=review;", "unknown or repeated", http.StatusBadRequest},
		{"api/sessions?a", "this route has []", http.StatusBadRequest},
		{"api/inboxes/other", `"now":["web hooks"]`, http.StatusNotFound},
		{"api/inboxes/other/1", `"now":["web hooks"]`, http.StatusNotFound},
	} {
		t.Run(test.path, func(t *testing.T) {
			status, text := b.get(test.path)
			assert.Equal(t, test.status, status)
			assert.Contains(t, text, test.want)
		})
	}
	status, text := b.send(http.MethodGet, inboxPath+"/9", nil, http.Header{"X-Person": {person}})
	assert.Equal(t, http.StatusNotFound, status, "nobody has set this event aside")
	assert.Contains(t, text, "list the dead letters again")
}
