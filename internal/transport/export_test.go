package transport

import (
	"context"
	"net"
	"time"
	"unsafe"
)

// The limits of a stop of the process.
const (
	Tick    = tick
	MaxStop = maxStop
)

// Watch returns conn as a connection of [Fresh].
func Watch(conn net.Conn) net.Conn { return watch(conn, nil) }

// Stop makes conn believe that the process stood still for some time.
func Stop(conn net.Conn, stop time.Duration) {
	w := conn.(*watched)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticked = w.ticked.Add(-stop)
}

// Sleep makes conn believe that the machine slept, and with it the monotonic clock. Package time cannot
// move the wall clock alone: its seconds are in the upper bits of the first word.
func Sleep(conn net.Conn, asleep time.Duration) {
	w := conn.(*watched)
	w.mu.Lock()
	defer w.mu.Unlock()
	*(*uint64)(unsafe.Pointer(&w.ticked)) -= uint64(asleep/time.Second) << 30
}

// Dial opens a connection of [Fresh].
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return NewFresh(New(nil), true).shared.DialContext(ctx, network, address)
}
