package page

import "sync"

// News wakes waiting readers. The zero value is ready.
type News struct {
	mu   sync.Mutex
	next chan struct{}
}

// Wait returns a channel, closed by the next Tell.
func (n *News) Wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// Tell wakes all waiting readers.
func (n *News) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
