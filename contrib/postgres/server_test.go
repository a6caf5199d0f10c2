package lendingpostgres_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var errNoServer = errors.New("PostgreSQL is missing: apt-get install postgresql runs this; in CI it must run")

const (
	superuser = "postgres"       // needs no password
	patience  = 60 * time.Second // on a busy machine
)

// server is a PostgreSQL server with a folder and a socket of its own.
type server struct {
	programs, directory string
	settings            []string
	process             *exec.Cmd
	ended               chan struct{} // closed when the process has ended
}

// runServer starts a server for a test and removes it when the test ends. Without an installed
// server, runServer skips the test, or fails the test in CI.
func runServer(tb testing.TB, settings ...string) *server {
	tb.Helper()
	s, err := newServer(settings...)
	skipWithoutServer(tb, err)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.remove)
	return s
}

func skipWithoutServer(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNoServer) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
}

// newServer makes a server and starts it with settings such as "fsync=on". Other settings have
// PostgreSQL's defaults, except fsync, which is off: committed data survives the end of the
// server but not of the machine.
func newServer(settings ...string) (*server, error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s := &server{programs: programs, settings: settings}
	err = s.create("initdb", "-U", superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	return s, err
}

// standby makes and starts a server that replicates s. Its readers see the data of s a moment
// later.
func (s *server) standby() (*server, error) {
	standby := &server{programs: s.programs}
	err := standby.create("pg_basebackup", "-d", s.url(""), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	return standby, err
}

// promote makes a standby accept writes, and waits until it does. The function pg_promote would
// wait in a query, which recovery can cancel.
func (s *server) promote() error {
	return run(s.command("pg_ctl", "promote", "-w", "-t", fmt.Sprint(patience.Seconds()), "-D", s.data()))
}

// create makes a program fill the folder of the server, and starts the server.
func (s *server) create(program string, arguments ...string) (err error) {
	if s.directory, err = os.MkdirTemp("", "lending"); err != nil { // t.TempDir can be too long for a socket
		return err
	}
	if err = own(s.directory); err == nil {
		err = run(s.command(program, append(arguments, "-D", s.data())...))
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		s.remove()
	}
	return err
}

func run(command *exec.Cmd) error {
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(command.Path), err, text)
	}
	return nil
}

func (s *server) data() string { return filepath.Join(s.directory, "data") }

// command returns a command that runs a program of the server, as a user that the server accepts.
func (s *server) command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.programs, name), arguments...)
	command.Dir = s.directory
	command.Env = append(os.Environ(), "LC_ALL=C")
	command.SysProcAttr = attributes()
	return command
}

// start starts the server in its folder and waits until the server answers.
func (s *server) start() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := []string{"-D", s.data()}
	settings := []string{"listen_addresses=", "unix_socket_directories=" + s.directory, "fsync=off"}
	for _, setting := range append(settings, s.settings...) {
		arguments = append(arguments, "-c", setting)
	}
	process, ended := s.command("postgres", arguments...), make(chan struct{})
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return err
	}
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	s.process, s.ended = process, ended
	for began := time.Now(); time.Since(began) < patience; {
		if s.do("SELECT") == nil {
			return nil
		}
		select {
		case <-s.ended:
			began = time.Time{}
		case <-time.After(5 * time.Millisecond):
		}
	}
	said, _ := os.ReadFile(s.log())
	return fmt.Errorf("the PostgreSQL server has ended, or does not answer: %s", said[max(0, len(said)-2000):])
}

func (s *server) log() string { return filepath.Join(s.directory, "log") }

// stop shuts the server down in order and cuts its connections.
func (s *server) stop() { s.end(syscall.SIGINT) }

// kill ends the server at once, like an "immediate shutdown". The server recovers at the next
// start.
func (s *server) kill() { s.end(syscall.SIGQUIT) }

func (s *server) restart() error {
	s.kill()
	return s.start()
}

func (s *server) end(how os.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(how)
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	s.process = nil
}

// remove ends the server and removes its folder.
func (s *server) remove() {
	s.kill()
	_ = os.RemoveAll(s.directory)
}

func (s *server) url(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.directory}, "user": {superuser}}.Encode()
}

var odd = regexp.MustCompile(`[^a-z0-9]+`)

// database makes a database whose name starts with name, and returns its URL.
func (s *server) database(name string) (string, error) {
	name = odd.ReplaceAllString(strings.ToLower(name), "_")
	name = fmt.Sprintf("%.40s_%d", name, time.Now().UnixNano())
	return s.url(name), s.do(`CREATE DATABASE "` + name + `"`)
}

// do runs a statement in the database that always exists.
func (s *server) do(statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// findPrograms returns the folder of the server's programs.
func findPrograms() (string, error) {
	const variable = "LENDING_TEST_POSTGRES"
	if given := os.Getenv(variable); given != "" {
		if !complete(given) {
			return "", fmt.Errorf("%s: there are no initdb and postgres in %s", variable, given)
		}
		return given, nil
	}
	for _, folder := range folders() {
		if complete(folder) {
			return folder, nil
		}
	}
	return "", errNoServer
}

func complete(folder string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// folders returns the folders in which a server may be installed, in order of preference.
func folders() (found []string) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	if text, err := exec.CommandContext(context.Background(), "pg_config", "--bindir").Output(); err == nil {
		found = append(found, string(bytes.TrimSpace(text)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for i := range debian { // newest first
		found = append(found, debian[len(debian)-1-i])
	}
	return found
}

// skipExamples skips the examples on the same machines as the tests, and prints the reason.
func skipExamples() {
	if _, err := findPrograms(); !errors.Is(err, errNoServer) || os.Getenv("CI") == "true" {
		return
	}
	flag.Parse()
	skip := "^Example"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		skip += "|" + given
	}
	_ = flag.Set("test.skip", skip)
	_, _ = fmt.Fprintln(os.Stderr, "the examples are skipped:", errNoServer)
}
