package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// load keeps each processor busy for stretches of random length, until stop is called.
func load() (stop func()) {
	done := make(chan struct{})
	var burning sync.WaitGroup
	for range runtime.NumCPU() {
		burning.Go(func() {
			for {
				end := time.Now().Add(upTo(200 * time.Millisecond))
				for time.Now().Before(end) {
					runtime.KeepAlive(end)
				}
				select {
				case <-done:
					return
				case <-time.After(upTo(50 * time.Millisecond)):
				}
			}
		})
	}
	return func() { close(done); burning.Wait() }
}

func upTo(d time.Duration) time.Duration { return rand.N(d) }
