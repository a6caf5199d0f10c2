package page

import "sync"

// News tells everybody who waits that there is something to look at. The zero value is ready.
type News struct {
	mu   sync.Mutex
	next chan struct{}
}

// Wait returns a channel that is closed when something happens from now on.
func (n *News) Wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// Tell wakes everybody who waits.
func (n *News) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
