package page

import (
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Rest is the shortest time between two events, so that an open page costs less than the
// requests of a busy service.
const Rest = 250 * time.Millisecond

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

	News

	mu    sync.Mutex
	byKey map[K]*frame
}

// frame is the changing sections of the page at a moment, each as a JSON string.
type frame struct {
	asked    time.Time
	changed  <-chan struct{} // closed by later news
	rendered chan struct{}   // closed when sections and err are set
	sections map[string]string
	err      error
}

// Stream sends the sections as server-sent events: first all sections, then changed sections. A
// slow browser skips intermediate states and delays nobody. After [Lease], Stream sends the event
// "again" and returns.
func (p *Feed[K]) Stream(w http.ResponseWriter, r *http.Request, key K) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]string{}
	for end := time.Now().Add(Lease); time.Now().Before(end); {
		changed := p.Wait() // before reading, so that no news is missed
		f, err := p.frame(r, key)
		if err != nil || push(w, f, shown) != nil {
			return
		}
		if !p.pause(r, Rest, nil) || !p.pause(r, time.Second, changed) { // the clock on the page moves every second
			return
		}
	}
	_, _ = io.WriteString(w, "event: again\ndata:\n\n")
}

// pause returns after d or an earlier signal, and false after the end of the page.
func (p *Feed[K]) pause(r *http.Request, d time.Duration, sooner <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
	case <-sooner:
	case <-r.Context().Done():
		return false
	case <-p.Done:
		return false
	}
	return true
}

// frame returns the present sections. It renders at most once per Rest for any number of pages,
// and returns a frame rendered for another page if possible.
func (p *Feed[K]) frame(r *http.Request, key K) (*frame, error) {
	asked := time.Now()
	for {
		f, tooEarly := p.newest(key, asked)
		if tooEarly > 0 {
			if !p.pause(r, tooEarly, nil) {
				return nil, http.ErrAbortHandler
			}
			continue
		}
		select {
		case <-f.rendered:
			if f.asked.Before(asked) && closed(f.changed) {
				continue // news came during the rendering
			}
			return f, f.err
		case <-r.Context().Done():
		case <-p.Done:
		}
		return nil, http.ErrAbortHandler
	}
}

// newest returns a frame with all news up to asked, perhaps not rendered yet, or the time until
// the next rendering. A frame that is being rendered is the newest, so that slow renderings of a
// page do not pile up.
func (p *Feed[K]) newest(key K, asked time.Time) (f *frame, tooEarly time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f = p.byKey[key]; f != nil {
		age := time.Since(f.asked)
		switch {
		case !closed(f.rendered), f.asked.After(asked), age < time.Second && !closed(f.changed):
			return f, 0
		case age < Rest:
			return nil, Rest - age
		}
	}
	if p.byKey == nil {
		p.byKey = map[K]*frame{}
	}
	maps.DeleteFunc(p.byKey, func(_ K, old *frame) bool {
		return time.Since(old.asked) > time.Minute && closed(old.rendered)
	})
	f = &frame{asked: time.Now(), changed: p.Wait(), rendered: make(chan struct{}), sections: map[string]string{}}
	p.byKey[key] = f
	go p.render(f, key)
	return f, 0
}

// render renders a frame outside the lock, so that nobody waits for the page of another.
func (p *Feed[K]) render(f *frame, key K) {
	defer func() {
		if recover() != nil {
			f.err = errPanic
		}
		close(f.rendered)
	}()
	var sections map[string]template.HTML
	sections, f.err = p.Render(key)
	for name, html := range sections {
		text, _ := json.Marshal(string(html)) //nolint:errchkjson // a string; JSON escapes line ends, which would end the event
		f.sections[name] = string(text)
	}
}

var errPanic = errors.New("the page cannot be rendered: a function panicked")

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// push sends the sections that differ from shown, as a JSON object. The texts are not copied,
// because 200 pages would fill the memory with copies.
func push(w http.ResponseWriter, f *frame, shown map[string]string) error {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.sections)) {
		if text := f.sections[name]; shown[name] != text {
			shown[name] = text
			parts = append(parts, ",", strconv.Quote(name), ":", text)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	parts[0] = "data: {"
	for _, part := range append(parts, "}\n\n") {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return http.NewResponseController(w).Flush()
}
