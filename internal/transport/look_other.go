//go:build !unix

package transport

// canLook reports whether hasInput works. Without it there are no spare connections.
const canLook = false

func (c *wireConn) hasInput() bool { return false }
