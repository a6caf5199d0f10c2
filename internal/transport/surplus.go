package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// HideSurplus ends an idle connection of t when a byte arrives. net/http would
// print the data, a late response with its body, through the standard log package.
func HideSurplus(t *http.Transport) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		p := &pooled{Conn: conn}
		p.use.Store(&opening)
		return p, nil
	}
}

// pooled is a connection of HTTP/1.1.
type pooled struct {
	net.Conn

	use atomic.Pointer[Use] // nil while idle
}

// Use is a request that uses a connection of [HideSurplus].
type Use struct{ conn atomic.Pointer[pooled] }

var opening Use // a new connection is not idle: TLS tickets may arrive

// Begin notes the connection of the request.
func (u *Use) Begin(conn net.Conn) {
	if p, ok := dialed(conn).(*pooled); ok {
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

func (p *pooled) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if p.use.Load() == nil {
		return 0, io.EOF
	}
	return n, err
}
