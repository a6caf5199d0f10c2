package transport

import (
	"net"
	"time"
	"unsafe"
)

// Guard returns conn as a connection of [Fresh] that writes s next.
func Guard(conn net.Conn, s *Send) net.Conn {
	g := &guarded{Conn: conn}
	s.Got(g)
	return g
}

// Sleep returns at as seen by a machine that slept, and with it the monotonic clock. Package time
// cannot move the wall clock alone: its seconds are in the upper bits of the first word.
func Sleep(at time.Time, asleep time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) -= uint64(asleep/time.Second) << 30
	return at
}

// Learn notes that a gateway has refused the request n of a connection.
func (f *Fresh) Learn(n int32) { f.shared.learnLocked(n) }

// Most returns the number of requests of a new connection.
func (f *Fresh) Most() int32 { return f.shared.mostLocked() }
