package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// attributes has the server end with the process that has started it. Root is nobody to a
// server.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if uid, gid, ok := nobody(); ok {
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return a
}

// own gives the folder to the user that the server runs as.
func own(directory string) error {
	if uid, gid, ok := nobody(); ok {
		return os.Chown(directory, uid, gid)
	}
	return nil
}

// nobody is the user of the server's programs where this process is root.
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
