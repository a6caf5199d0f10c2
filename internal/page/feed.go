package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Rest is the time between two looks of an open page.
const Rest = time.Second

// Lease is the life of a stream. The page then asks again, with the person's new rights.
const Lease = time.Minute

// Feed sends the changing sections of a page to every open page. All open pages with the same
// key share a rendering, so 200 pages cost no more than a single page.
type Feed[K comparable] struct {
	// Render returns the changing sections by the id of their element, as HTML. A slow Render
	// delays the pages with its key, but not their end.
	Render func(key K) (map[string]template.HTML, error)
	// Done is closed when the pages are to end.
	Done <-chan struct{}

	mu    sync.Mutex
	byKey map[K]*frame
}

// frame is the changing sections of the page at a moment.
type frame struct {
	asked    time.Time
	rendered chan struct{} // closed when sections and err are set
	sections map[string]template.HTML
	err      error
}

// Stream sends the sections as server-sent events: first all sections, then changed sections. A
// slow browser skips intermediate states and delays nobody. After [Lease], Stream sends the event
// "again" and returns.
func (p *Feed[K]) Stream(w http.ResponseWriter, r *http.Request, key K) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]template.HTML{}
	for end := time.Now().Add(Lease); time.Now().Before(end); {
		f := p.frame(key)
		if !came(r, p.Done, f.rendered) || f.err != nil || push(w, f.sections, shown) != nil || !came(r, p.Done, time.After(Rest)) {
			return
		}
	}
	_, _ = io.WriteString(w, "event: again\ndata:\n\n")
}

// came waits for c, and returns false if the page ends before.
func came[T any](r *http.Request, done <-chan struct{}, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-r.Context().Done():
	case <-done:
	}
	return false
}

// frame returns the newest frame, perhaps not rendered yet. Slow renderings of a page do not pile up.
func (p *Feed[K]) frame(key K) *frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.byKey, func(_ K, old *frame) bool {
		select {
		case <-old.rendered:
			return time.Since(old.asked) >= Rest
		default:
			return false
		}
	})
	f := p.byKey[key]
	if f == nil {
		f = &frame{asked: time.Now(), rendered: make(chan struct{})}
		if p.byKey == nil {
			p.byKey = map[K]*frame{}
		}
		p.byKey[key] = f
		go p.render(f, key)
	}
	return f
}

// render renders a frame outside the lock, so that nobody waits for the page of another.
func (p *Feed[K]) render(f *frame, key K) {
	defer func() {
		if recover() != nil {
			f.err = errPanic
		}
		close(f.rendered)
	}()
	f.sections, f.err = p.Render(key)
}

var errPanic = errors.New("the page cannot be rendered: a function panicked")

// push sends the sections that differ from shown, as a JSON object.
func push(w http.ResponseWriter, sections, shown map[string]template.HTML) error {
	changed := maps.Clone(sections)
	maps.DeleteFunc(changed, func(name string, html template.HTML) bool { return shown[name] == html })
	if len(changed) == 0 {
		return nil
	}
	maps.Copy(shown, changed)
	text, _ := json.Marshal(changed) //nolint:errchkjson // strings; JSON escapes line ends, which would end the event
	if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
