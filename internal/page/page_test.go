package page

import (
	"bufio"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Pages that are open at the same time share what is rendered, and each shows the newest state.
func TestOpenPagesShareFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rendered, state atomic.Int32
		feed := &Feed[string]{Render: func(key string) (map[string]template.HTML, error) {
			rendered.Add(1)
			return map[string]template.HTML{"rows": template.HTML(strings.Repeat("x", int(state.Load())) + key)}, nil
		}}
		r := httptest.NewRequest(http.MethodGet, "/events", nil)
		first, err := feed.frame(r, "a")
		require.NoError(t, err)
		again, err := feed.frame(r, "a")
		require.NoError(t, err)
		assert.Equal(t, first.made, again.made, "nothing has happened")

		state.Store(3)
		feed.Tell()
		frames := make(chan frame, 20)
		for range cap(frames) {
			go func() {
				f, err := feed.frame(r, "a")
				assert.NoError(t, err)
				frames <- f
			}()
		}
		second := <-frames
		assert.Equal(t, `"xxxa"`, second.sections["rows"])
		assert.Equal(t, Rest, second.made.Sub(first.made), "not sooner")
		for range cap(frames) - 1 {
			assert.Equal(t, second.made, (<-frames).made)
		}
		assert.EqualValues(t, 2, rendered.Load())
		third, err := feed.frame(r, "b")
		require.NoError(t, err)
		assert.Equal(t, `"xxxb"`, third.sections["rows"], "another key shows its own")
		time.Sleep(2 * time.Minute) //nolint:forbidigo // on the bubble's clock
		_, err = feed.frame(r, "b")
		require.NoError(t, err)
		assert.Len(t, feed.byKey, 1, "a key that nobody asks for is forgotten")
	})
}

// A page gets every section at first and then the changed ones, until the pages end.
func TestStream(t *testing.T) {
	var changing atomic.Value
	changing.Store("one\r\n</script>")
	done := make(chan struct{})
	feed := &Feed[string]{Done: done, Render: func(string) (map[string]template.HTML, error) {
		return map[string]template.HTML{"same": "<p>", "changing": template.HTML(changing.Load().(string))}, nil
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { feed.Stream(w, r, "") }))
	defer server.Close()
	resp, err := http.Get(server.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		require.True(t, lines.Scan())
		line := lines.Text()
		require.True(t, lines.Scan(), "an empty line ends the event")
		return line
	}
	assert.Equal(t, `data: {"changing":"one\r\n\u003c/script\u003e","same":"\u003cp\u003e"}`, next())
	changing.Store("two")
	feed.Tell()
	assert.Equal(t, `data: {"changing":"two"}`, next())
	close(done)
	assert.False(t, lines.Scan())
}

// A page whose sections cannot be rendered ends, and so does one that nobody reads any more.
func TestStreamEnds(t *testing.T) {
	for _, test := range []struct {
		name   string
		render func(string) (map[string]template.HTML, error)
	}{
		{"an error", func(string) (map[string]template.HTML, error) { return nil, errors.New("no") }},
		{"nobody reads", func(string) (map[string]template.HTML, error) {
			return map[string]template.HTML{"a": "b"}, nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			feed := &Feed[string]{Render: test.render}
			feed.Stream(deaf{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil), "")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		feed := &Feed[string]{Done: done, Render: func(string) (map[string]template.HTML, error) { return nil, nil }}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		_, err := feed.frame(r, "")
		require.NoError(t, err)
		feed.Tell()
		close(done)
		_, err = feed.frame(r, "")
		require.Error(t, err, "it is too early, and the pages end")
	})
}

// An event is sent when something has changed, and not each second.
func TestStreamIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &Feed[string]{Render: func(string) (map[string]template.HTML, error) {
			return map[string]template.HTML{"a": "b"}, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := httptest.NewRecorder()
		feed.Stream(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), "")
		assert.Equal(t, "data: {\"a\":\"b\"}\n\n", w.Body.String())
	})
}

// deaf is a browser that has gone.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("gone") }

func (deaf) WriteString(string) (int, error) { return 0, errors.New("gone") }

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
