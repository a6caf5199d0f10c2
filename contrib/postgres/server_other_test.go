//go:build !linux

package lendingpostgres_test

import "syscall"

// attributes changes nothing. Outside Linux, run the tests as an ordinary user.
func attributes() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }
