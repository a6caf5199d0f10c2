package lendingpostgres_test

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// attributes makes the server end with the process that started it. PostgreSQL does not run as
// root, so a test that runs as root starts the server as nobody.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if uid, gid, ok := nobody(); ok {
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return a
}

// own gives the folder to the user of the server.
func own(directory string) error {
	if uid, gid, ok := nobody(); ok {
		return os.Chown(directory, uid, gid)
	}
	return nil
}

// nobody returns the user of the server if this process runs as root.
func nobody() (uid, gid int, ok bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	uid, gid = 65534, 65534
	if known, err := user.Lookup("nobody"); err == nil {
		uid, _ = strconv.Atoi(known.Uid)
		gid, _ = strconv.Atoi(known.Gid)
	}
	return uid, gid, true
}
