package lendingpostgres_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pooler starts a PgBouncer in front of the server until the end of the test, and returns the host
// to connect to. The pooler gives each transaction any of a few connections and resets the
// session after the transaction.
func (s *server) pooler(tb testing.TB, program string) (host string) {
	tb.Helper()
	directory, err := os.MkdirTemp("", "lending") //nolint:usetesting // t.TempDir can be too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(directory) })
	users, settings := filepath.Join(directory, "users"), filepath.Join(directory, "settings")
	text := fmt.Appendf(nil, `[databases]
* = host=%s user=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
server_reset_query = DISCARD ALL
server_reset_query_always = 1
listen_addr =
unix_socket_dir = %s
listen_port = 5432
auth_type = trust
auth_file = %s
logfile = %s/log
`, s.directory, superuser, directory, users, directory)
	const mode = 0o644 // the user of the server reads the file
	user := []byte(`"` + superuser + `" ""`)
	err = errors.Join(own(directory), os.WriteFile(users, user, mode), os.WriteFile(settings, text, mode))
	if err != nil {
		tb.Fatal(err)
	}
	process := s.command(program, "-q", settings)
	process.Path = program
	if err := process.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	for start := time.Now(); ; <-time.After(5 * time.Millisecond) {
		connection, err := net.Dial("unix", filepath.Join(directory, ".s.PGSQL.5432"))
		if err == nil {
			_ = connection.Close()
			return directory
		}
		if time.Since(start) > patience {
			tb.Fatal(err)
		}
	}
}
