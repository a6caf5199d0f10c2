//go:build unix

package fleettest

import (
	"sync"
	"time"
)

// stalls measures the longest pause of this process, which a busy machine can cause.
type stalls struct {
	mu   sync.Mutex
	most time.Duration
}

func (s *stalls) saw(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, d)
}

func (s *stalls) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// watch measures until the caller calls end.
func (s *stalls) watch() (end func()) {
	const step = 20 * time.Millisecond
	ended := make(chan struct{})
	go func() {
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-ended:
				return
			case <-time.After(step):
				s.saw(time.Since(last) - step)
			}
		}
	}()
	return func() { close(ended) }
}
