//go:build !unix

package transport

// canLook reports whether hasInput works. Spare connections need hasInput.
const canLook = false

func (c *wireConn) hasInput() bool { return false }
