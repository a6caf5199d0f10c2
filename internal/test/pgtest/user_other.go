//go:build !linux

package pgtest

import "syscall"

// attributes changes nothing: where this is not Linux, start it as an ordinary user.
func attributes() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }
