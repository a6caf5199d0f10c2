package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

// sections are the parts of the page that change.
var sections = []string{"clock", "summary", "newest", "sent", "requests", "deliveries", "customers", "faults"}

// rest is the least time between two events: a page that is followed while hundreds of
// requests a second come in must not cost more than they do.
const rest = 250 * time.Millisecond

// news tells everybody who waits that there is something to look at.
type news struct {
	mu   sync.Mutex
	next chan struct{}
}

// wait returns a channel that is closed when something happens from now on.
func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// steered has those who follow the page see what the control has changed, of which the
// service tells nobody.
func (p *page) steered(control http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control.ServeHTTP(w, r)
		if r.Method == http.MethodPost {
			p.news.tell()
		}
	})
}

// follow has those who follow the page see what happens in the service.
func (p *page) follow() { p.service.Watch(func(lendingtest.Event) { p.news.tell() }) }

// stream sends the sections as server-sent events: all of them first, then those
// that have changed. A slow browser skips what lies between; it holds nobody up.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	shown := map[string]string{}
	for {
		changed := p.news.wait() // before looking, so that nothing is missed
		f, err := p.frame(r)
		if err != nil || push(w, f, shown) != nil {
			return
		}
		if !p.wait(r, rest, nil) || !p.wait(r, time.Second, changed) { // in which the clock has gone on
			return
		}
	}
}

// wait returns after d, or when something is closed, and false when nobody is there any more.
func (p *page) wait(r *http.Request, d time.Duration, sooner <-chan struct{}) bool {
	select {
	case <-time.After(d):
	case <-sooner:
	case <-r.Context().Done():
		return false
	case <-p.done:
		return false
	}
	return true
}

// frame is the changing sections of the page at one moment, each as a JSON string.
type frame struct {
	made     time.Time
	changed  <-chan struct{} // closed when something has happened since
	sections map[string]string
}

// frames holds the newest frame for each address by which browsers call the sandbox. All open
// pages share a frame, so 200 pages cost the service no more than one page does.
type frames struct {
	mu     sync.Mutex
	byBase map[string]frame
}

// frame returns the sections as they are now. It renders them at most once per rest, whatever
// the number of pages, and returns a frame that another page has had rendered meanwhile.
func (p *page) frame(r *http.Request) (frame, error) {
	asked := time.Now()
	for {
		f, tooEarly, err := p.newestFrame(p.base(r), asked)
		if err != nil || tooEarly == 0 {
			return f, err
		}
		if !p.wait(r, tooEarly, nil) {
			return f, r.Context().Err()
		}
	}
}

// newestFrame returns a frame that shows all that had happened when asked, or how long it is
// too early to render one.
func (p *page) newestFrame(base string, asked time.Time) (f frame, tooEarly time.Duration, err error) {
	p.frames.mu.Lock()
	defer p.frames.mu.Unlock()
	f = p.frames.byBase[base]
	age := time.Since(f.made)
	switch {
	case f.made.After(asked) || age < time.Second && !closed(f.changed):
		return f, 0, nil
	case age < rest:
		return f, rest - age, nil
	}
	f = frame{made: time.Now(), changed: p.news.wait()} // before looking, so that nothing is missed
	if f.sections, err = p.render(base); err != nil {
		return f, 0, err
	}
	maps.DeleteFunc(p.frames.byBase, func(_ string, old frame) bool { return time.Since(old.made) > time.Minute })
	if p.frames.byBase == nil {
		p.frames.byBase = map[string]frame{}
	}
	p.frames.byBase[base] = f
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

// render writes each section as a JSON string: JSON keeps the line ends that somebody may have
// put into a name from ending the event.
func (p *page) render(base string) (map[string]string, error) {
	now, all := p.view(base), map[string]string{}
	for _, name := range sections {
		var html bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&html, name, now); err != nil {
			return nil, err
		}
		text, err := json.Marshal(html.String())
		if err != nil {
			return nil, err
		}
		all[name] = string(text)
	}
	return all, nil
}

// push sends the sections that differ from shown, as one JSON object.
func push(w http.ResponseWriter, f frame, shown map[string]string) error {
	var members []string
	for _, name := range sections {
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
