package page

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rest is the least time between two events: a page that is followed while hundreds of
// requests a second come in must not cost more than they do.
const Rest = 250 * time.Millisecond

// Feed sends the changing sections of a page to everybody who follows the page. All open
// pages with the same key share one rendering, so 200 pages cost no more than one page does.
type Feed struct {
	// Render returns the changing sections by the id of their element, as HTML.
	Render func(key string) (map[string]template.HTML, error)
	// Done is closed when the pages are to end.
	Done <-chan struct{}
	News

	mu    sync.Mutex
	byKey map[string]frame
}

// frame is the changing sections of the page at one moment, each as a JSON string.
type frame struct {
	made     time.Time
	changed  <-chan struct{} // closed when something has happened since
	sections map[string]string
}

// Stream sends the sections as server-sent events: all of them first, then those that have
// changed. A slow browser skips what lies between; it holds nobody up.
func (p *Feed) Stream(w http.ResponseWriter, r *http.Request, key string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]string{}
	for {
		changed := p.Wait() // before looking, so that nothing is missed
		f, err := p.frame(r, key)
		if err != nil || push(w, f, shown) != nil {
			return
		}
		if !p.pause(r, Rest, nil) || !p.pause(r, time.Second, changed) { // in which the clock has gone on
			return
		}
	}
}

// pause returns after d, or when something is closed, and false when nobody is there any more.
func (p *Feed) pause(r *http.Request, d time.Duration, sooner <-chan struct{}) bool {
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

// frame returns the sections as they are now. It renders them at most once per Rest, whatever
// the number of pages, and returns a frame that another page has had rendered meanwhile.
func (p *Feed) frame(r *http.Request, key string) (frame, error) {
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

// newest returns a frame that shows all that had happened when asked, or how long it is
// too early to render one.
func (p *Feed) newest(key string, asked time.Time) (f frame, tooEarly time.Duration, err error) {
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
	f = frame{made: time.Now(), changed: p.Wait(), sections: map[string]string{}} // before looking, so that nothing is missed
	sections, err := p.Render(key)
	if err != nil {
		return f, 0, err
	}
	for name, html := range sections {
		text, _ := json.Marshal(string(html)) //nolint:errchkjson // a string; JSON keeps the line ends of somebody's name from ending the event
		f.sections[name] = string(text)
	}
	maps.DeleteFunc(p.byKey, func(_ string, old frame) bool { return time.Since(old.made) > time.Minute })
	if p.byKey == nil {
		p.byKey = map[string]frame{}
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

// push sends the sections that differ from shown, as one JSON object.
func push(w http.ResponseWriter, f frame, shown map[string]string) error {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(f.sections)) {
		if text := f.sections[name]; shown[name] != text {
			shown[name] = text
			members = append(members, strconv.Quote(name)+":"+text)
		}
	}
	if len(members) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "data: {%s}\n\n", strings.Join(members, ",")); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
