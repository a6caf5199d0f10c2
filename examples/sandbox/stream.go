package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
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
		if err := p.push(w, r, shown); err != nil {
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

// push sends what differs from shown, as one JSON object: JSON keeps the line ends
// that somebody may have put into a name from ending the event.
func (p *page) push(w http.ResponseWriter, r *http.Request, shown map[string]string) error {
	now, news := p.view(r), map[string]string{}
	for _, name := range sections {
		var html bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&html, name, now); err != nil {
			return err
		}
		if shown[name] != html.String() {
			shown[name], news[name] = html.String(), html.String()
		}
	}
	if len(news) == 0 {
		return nil
	}
	data, err := json.Marshal(news)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
