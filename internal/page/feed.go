package page

import (
	"encoding/json"
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

// Feed sends the changing sections of a page to every open page. All open pages with the same
// key share a rendering, so 200 pages cost no more than a single page.
type Feed[K comparable] struct {
	// Render returns the changing sections by the id of their element, as HTML.
	Render func(key K) (map[string]template.HTML, error)
	// Done is closed when the pages are to end.
	Done <-chan struct{}
	News

	mu    sync.Mutex
	byKey map[K]frame
}

// frame is the changing sections of the page at a moment, each as a JSON string.
type frame struct {
	made     time.Time
	changed  <-chan struct{} // closed by later news
	sections map[string]string
}

// Stream sends the sections as server-sent events: first all sections, then changed sections. A
// slow browser skips intermediate states and delays nobody.
func (p *Feed[K]) Stream(w http.ResponseWriter, r *http.Request, key K) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]string{}
	for {
		changed := p.Wait() // before reading, so that no news is missed
		f, err := p.frame(r, key)
		if err != nil || push(w, f, shown) != nil {
			return
		}
		if !p.pause(r, Rest, nil) || !p.pause(r, time.Second, changed) { // the clock on the page moves every second
			return
		}
	}
}

// pause returns after d or an earlier signal, and false after the end of the page.
func (p *Feed[K]) pause(r *http.Request, d time.Duration, sooner <-chan struct{}) bool {
	select {
	case <-time.After(d):
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
func (p *Feed[K]) frame(r *http.Request, key K) (frame, error) {
	asked := time.Now()
	for {
		f, tooEarly, err := p.newest(key, asked)
		if err != nil || tooEarly == 0 {
			return f, err
		}
		if !p.pause(r, tooEarly, nil) {
			return f, http.ErrAbortHandler
		}
	}
}

// newest returns a frame with all news up to asked, or the time until the next rendering.
func (p *Feed[K]) newest(key K, asked time.Time) (f frame, tooEarly time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f = p.byKey[key]
	age := time.Since(f.made)
	switch {
	case f.made.After(asked) || age < time.Second && !closed(f.changed):
		return f, 0, nil
	case age < Rest:
		return f, Rest - age, nil
	}
	f = frame{made: time.Now(), changed: p.Wait(), sections: map[string]string{}} // before reading, so that no news is missed
	sections, err := p.Render(key)
	if err != nil {
		return f, 0, err
	}
	for name, html := range sections {
		text, _ := json.Marshal(string(html)) //nolint:errchkjson // a string; JSON escapes line ends, which would end the event
		f.sections[name] = string(text)
	}
	maps.DeleteFunc(p.byKey, func(_ K, old frame) bool { return time.Since(old.made) > time.Minute })
	if p.byKey == nil {
		p.byKey = map[K]frame{}
	}
	p.byKey[key] = f
	return f, 0, nil
}

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
func push(w http.ResponseWriter, f frame, shown map[string]string) error {
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
