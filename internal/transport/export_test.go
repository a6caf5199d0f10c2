package transport

import (
	"context"
	"net"
	"time"
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

// Dial opens a connection of [Fresh].
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return NewFresh(New(nil), true).shared.DialContext(ctx, network, address)
}
