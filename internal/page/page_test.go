package page

import (
	"bufio"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Open pages share renderings, and each shows the state of the last second.
func TestOpenPagesShareFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rendered, state atomic.Int32
		feed := &Feed[string]{Render: func(key string) (map[string]template.HTML, error) {
			rendered.Add(1)
			return map[string]template.HTML{"rows": template.HTML(fmt.Sprint(state.Load(), key))}, nil
		}}
		newest := func(key string) *frame {
			f := feed.frame(key)
			<-f.rendered
			return f
		}
		first := newest("a")
		state.Store(3)
		assert.Same(t, first, newest("a"))
		time.Sleep(Rest) //nolint:forbidigo // on the bubble's clock
		second := newest("a")
		assert.EqualValues(t, "3a", second.sections["rows"])
		for range 20 {
			assert.Same(t, second, newest("a"))
		}
		assert.EqualValues(t, 2, rendered.Load())
		assert.EqualValues(t, "3b", newest("b").sections["rows"], "another key shows its own")
		time.Sleep(Rest) //nolint:forbidigo // on the bubble's clock
		newest("b")
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
	assert.Equal(t, `data: {"changing":"two"}`, next())
	close(done)
	assert.False(t, lines.Scan())
}

// TestStreamEnds ends with a rendering that fails, and with a browser that has gone.
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
}

// TestSlowPageDelaysNobody has a page that hangs beside others, which end at once when the server
// shuts down.
func TestSlowPageDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, done, rendered := make(chan struct{}), make(chan struct{}), new(atomic.Int32)
		feed := &Feed[string]{Done: done, Render: func(key string) (map[string]template.HTML, error) {
			rendered.Add(1)
			if key == "hangs" {
				<-hangs
			}
			return map[string]template.HTML{"a": "b"}, nil
		}}
		defer close(hangs)
		ended := make(chan struct{}, 6)
		for range cap(ended) {
			go func() {
				feed.Stream(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "hangs")
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		start := time.Now()
		<-feed.frame("works").rendered
		time.Sleep(time.Minute) //nolint:forbidigo // on the bubble's clock
		assert.EqualValues(t, 2, rendered.Load(), "a page that hangs is rendered once")
		close(done)
		for range cap(ended) {
			<-ended
		}
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestPanicOfARenderingEndsItsPageOnly(t *testing.T) {
	feed := &Feed[string]{Render: func(string) (map[string]template.HTML, error) { panic("hush") }}
	f := feed.frame("")
	<-f.rendered
	require.ErrorIs(t, f.err, errPanic)
}

// An event is sent when something has changed and not each second, and the stream ends after a
// minute: a person without the right sees nothing more.
func TestStreamIsQuietAndAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &Feed[string]{Render: func(string) (map[string]template.HTML, error) {
			return map[string]template.HTML{"a": "b"}, nil
		}}
		start, w := time.Now(), httptest.NewRecorder()
		feed.Stream(w, httptest.NewRequest(http.MethodGet, "/", nil), "")
		assert.Equal(t, "data: {\"a\":\"b\"}\n\nevent: again\ndata:\n\n", w.Body.String())
		assert.InDelta(t, time.Minute, time.Since(start), float64(2*time.Second))
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
