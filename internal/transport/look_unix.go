//go:build unix

package transport

import "syscall"

// canLook reports whether hasInput works.
const canLook = true

// hasInput reports whether there is input to read, or its end, without waiting. The poller of
// package net can be late on a busy machine, so hasInput asks the kernel.
func (c *wireConn) hasInput() bool {
	system, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	c.looking.Lock()
	defer c.looking.Unlock()
	raw, err := system.SyscallConn()
	return err != nil || raw.Control(c.peekAt) != nil || c.peek != syscall.EAGAIN //nolint:errorlint // never wrapped
}

func (c *wireConn) peekAt(fd uintptr) {
	for c.peek = syscall.EINTR; c.peek == syscall.EINTR; { //nolint:errorlint // never wrapped
		_, _, c.peek = syscall.Recvfrom(int(fd), c.found[:], syscall.MSG_PEEK)
	}
}
