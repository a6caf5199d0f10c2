// Package pgtest starts PostgreSQL clusters of its own from the installed server, for tests
// and examples: in a temporary folder, on a socket that nobody else has, as any user.
//
// It has no client: what uses it brings its own.
package pgtest

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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Binaries is the environment variable that chooses among several servers: the folder of
// initdb and postgres.
const Binaries = "LENDING_TEST_POSTGRES"

// ErrMissing says what to install.
var ErrMissing = errors.New("the PostgreSQL server is missing: apt-get install postgresql runs this; in CI it must run")

// User is the superuser of a cluster. Nobody is asked for a password.
const User = "postgres"

const patience = 60 * time.Second // with a machine that does much else

// Cluster is a PostgreSQL server and its data.
type Cluster struct {
	binaries, directory string
	settings            []string
	process             *exec.Cmd
	ended               chan struct{} // closed when process has
}

// Run starts a cluster for a test, which ends with it. Without a server the test is skipped,
// unless it runs in CI.
func Run(tb testing.TB, settings ...string) *Cluster {
	tb.Helper()
	c, err := New(settings...)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// New makes a cluster and starts it with settings, each as in "fsync=on". The default is
// PostgreSQL's, but for fsync: off, what is kept survives the end of the server, and not that
// of the machine.
func New(settings ...string) (*Cluster, error) {
	binaries, err := find()
	if err != nil {
		return nil, err
	}
	return create(&Cluster{binaries: binaries, settings: settings}, "initdb", "-U", User, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
}

// Standby makes a cluster that follows c, and starts it: its readers see what c has, a moment
// later. It ends with [Cluster.Close].
func (c *Cluster) Standby(settings ...string) (*Cluster, error) {
	standby := &Cluster{binaries: c.binaries, settings: settings}
	return create(standby, "pg_basebackup", "-d", c.URL(User), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
}

// Promote has a standby take writes, and waits until it does. pg_promote would wait in a query, which
// recovery can cancel.
func (c *Cluster) Promote() error {
	return run(c.command("pg_ctl", "promote", "-w", "-t", strconv.Itoa(int(patience.Seconds())), "-D", c.data()))
}

// create has a program fill the folder of a cluster, and starts it.
func create(c *Cluster, program string, arguments ...string) (*Cluster, error) {
	var err error
	if c.directory, err = os.MkdirTemp("", "lending"); err != nil { // not that of a test: its name may be too long for a socket
		return nil, err
	}
	if err = own(c.directory); err == nil {
		err = run(c.command(program, append(arguments, "-D", c.data())...))
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func run(command *exec.Cmd) error {
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(command.Path), err, text)
	}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.directory, "data") }

// command is a program of the server's, as a user that the server accepts.
func (c *Cluster) command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(c.binaries, name), arguments...)
	command.Dir = c.directory
	command.Env = append(os.Environ(), "LC_ALL=C")
	command.SysProcAttr = attributes()
	return command
}

// Start starts the server, in the folder where it was before, and waits until it answers.
func (c *Cluster) Start() error {
	log, err := os.OpenFile(filepath.Join(c.directory, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := []string{"-D", c.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + c.directory, "-c", "fsync=off"}
	for _, setting := range c.settings {
		arguments = append(arguments, "-c", setting)
	}
	_ = os.Remove(c.pidFile()) // of one that was killed, which is waited for
	process, ended := c.command("postgres", arguments...), make(chan struct{})
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return err
	}
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	c.process, c.ended = process, ended
	return c.answers()
}

func (c *Cluster) pidFile() string { return filepath.Join(c.data(), "postmaster.pid") }

// answers waits until the server says so in its file.
func (c *Cluster) answers() error {
	for start := time.Now(); time.Since(start) < patience; {
		text, _ := os.ReadFile(c.pidFile())
		if lines := strings.Split(string(text), "\n"); len(lines) > 7 && lines[0] == strconv.Itoa(c.process.Process.Pid) {
			if state := strings.TrimSpace(lines[7]); state == "ready" || state == "standby" {
				return nil
			}
		}
		select {
		case <-c.ended:
			c.process = nil
			return fmt.Errorf("the PostgreSQL server has ended: %s", c.log())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("the PostgreSQL server does not answer: %s", c.log())
}

// log returns the end of what the server has to say.
func (c *Cluster) log() []byte {
	text, _ := os.ReadFile(filepath.Join(c.directory, "log"))
	return text[max(0, len(text)-2000):]
}

// Stop ends the server in order; those who are connected are cut.
func (c *Cluster) Stop() { c.end(syscall.SIGINT) }

// Kill ends the server at once, as "immediate shutdown" does: it recovers at the next Start.
func (c *Cluster) Kill() { c.end(syscall.SIGQUIT) }

// Restart kills the server and starts it again.
func (c *Cluster) Restart() error {
	c.Kill()
	return c.Start()
}

func (c *Cluster) end(how os.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(how)
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = c.process.Process.Kill()
		<-c.ended
	}
	c.process = nil
}

// Close ends the server and removes all that it has.
func (c *Cluster) Close() {
	c.Kill()
	_ = os.RemoveAll(c.directory)
}

// Pid is that of the server, for a test that stops it.
func (c *Cluster) Pid() int { return c.process.Process.Pid }

// Socket is the path of the server's socket.
func (c *Cluster) Socket() string { return filepath.Join(c.directory, ".s.PGSQL.5432") }

// URL is for who connects to a database: "postgres" is always there.
func (c *Cluster) URL(database string) string { return c.URLAs(User, database) }

// URLAs is for who connects as another role.
func (c *Cluster) URLAs(role, database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.directory}, "user": {role}}.Encode()
}

var odd = regexp.MustCompile(`[^a-z0-9]+`)

// Database makes a database with a name that is like name, and returns its URL.
func (c *Cluster) Database(name string) (string, error) {
	name = odd.ReplaceAllString(strings.ToLower(name), "_")
	name = fmt.Sprintf("%.40s_%d", name, time.Now().UnixNano())
	return c.URL(name), c.Do("postgres", `CREATE DATABASE "`+name+`"`)
}

// Do has psql do something, as the superuser.
func (c *Cluster) Do(database, statements string) error {
	return run(c.command("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", c.URL(database), "-c", statements))
}

// Folder is that of the server's socket, for who names it as a host.
func (c *Cluster) Folder() string { return c.directory }

// find returns the folder of the server's programs.
func find() (string, error) {
	if given := os.Getenv(Binaries); given != "" {
		if !complete(given) {
			return "", fmt.Errorf("%s: there are no initdb, postgres and psql in %s", Binaries, given)
		}
		return given, nil
	}
	for _, folder := range folders() {
		if complete(folder) {
			return folder, nil
		}
	}
	return "", ErrMissing
}

func complete(folder string) bool {
	for _, name := range []string{"initdb", "postgres", "psql"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// folders are those where a server may be: of several the one that comes first.
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
	for i := range debian { // the newest first
		found = append(found, debian[len(debian)-1-i])
	}
	return found
}

// SkipExamples leaves the examples of a test program out where its tests are skipped, and
// says why. TestMain calls it.
func SkipExamples() {
	if _, err := find(); !errors.Is(err, ErrMissing) || os.Getenv("CI") == "true" {
		return
	}
	flag.Parse()
	skip := "^Example"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		skip += "|" + given
	}
	_ = flag.Set("test.skip", skip)
	_, _ = fmt.Fprintln(os.Stderr, "the examples are skipped:", ErrMissing)
}
