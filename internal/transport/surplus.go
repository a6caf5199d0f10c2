package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// HideSurplus makes the connections of t end at the first byte between two requests.
// net/http would print the bytes, a late response with its body, through the standard log package.
func HideSurplus(t *http.Transport) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		p := &pooled{Conn: conn, in: bufio.NewReader(conn)}
		p.use.Store(&opening)
		return p, nil
	}
}

// pooled is a connection of HTTP/1.1. A Read ends where a response may end. Otherwise surplus in
// the segment of a response would reach the buffer of net/http, which is printed.
type pooled struct {
	net.Conn

	use     atomic.Pointer[Use] // nil while idle
	surplus atomic.Bool         // in has bytes

	secure bool // from the first write, before all reads
	in     *bufio.Reader
	left   int // of the unit that Read returns: see [pooled.next]
}

// Use is a request that uses a connection of [HideSurplus].
type Use struct{ conn atomic.Pointer[pooled] }

var opening Use

// Begin notes the connection of the request. A connection with surplus stays idle and ends;
// net/http takes another.
func (u *Use) Begin(conn net.Conn) {
	p, ok := dialed(conn).(*pooled)
	if ok && (p.use.Load() == &opening || !p.surplus.Load()) {
		u.conn.Store(p)
		p.use.Store(u)
	}
}

// End notes that the connection is idle, unless another request has got it.
func (u *Use) End() {
	if p := u.conn.Load(); p != nil {
		p.use.CompareAndSwap(u, nil)
	}
}

func (p *pooled) Write(b []byte) (int, error) {
	const handshake = 22
	if len(b) > 0 && b[0] == handshake && !p.secure {
		p.secure, p.left = true, 0
	}
	return p.Conn.Write(b)
}

func (p *pooled) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := p.in.Peek(1); err != nil {
		return 0, err
	}
	if p.use.Load() == nil {
		return 0, io.EOF
	}
	if p.left == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n, err := p.in.Read(b[:min(len(b), p.left)])
	p.left -= n
	p.surplus.Store(p.in.Buffered() > 0)
	return n, err
}

// next sets left. A unit is a record, a whole response with a Content-Length, a head, or a line.
func (p *pooled) next() error {
	if p.secure {
		head, err := p.in.Peek(5)
		if err == nil {
			p.left = 5 + int(binary.BigEndian.Uint16(head[3:]))
		}
		return err
	}
	text, _ := p.in.Peek(p.in.Buffered())
	p.left = bytes.IndexByte(text, '\n') + 1
	end := bytes.Index(text, []byte("\r\n\r\n"))
	switch {
	case p.left == 0:
		p.left = len(text)
	case end >= 0 && bytes.HasPrefix(text, []byte("HTTP/")):
		p.left = end + 4
		for line := range bytes.Lines(text[:end]) {
			name, value, _ := bytes.Cut(line, []byte(":"))
			if bytes.EqualFold(name, []byte("Content-Length")) {
				length, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
				p.left += max(length, 0)
			}
		}
	}
	return nil
}
