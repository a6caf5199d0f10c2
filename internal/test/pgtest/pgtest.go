// Package pgtest starts PostgreSQL clusters from the installed server, for tests and examples. A
// cluster has a temporary folder and a socket of its own, and any user may start a cluster. The
// package has no client; callers bring their own.
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

// Binaries is the environment variable with the folder of initdb and postgres. Set the variable
// if several servers are installed.
const Binaries = "LENDING_TEST_POSTGRES"

// ErrMissing reports that no server is installed.
var ErrMissing = errors.New("the PostgreSQL server is missing: apt-get install postgresql runs this; in CI it must run")

// User is the superuser of a cluster. A cluster asks for no password.
const User = "postgres"

const patience = 60 * time.Second // on a busy machine

// Cluster is a PostgreSQL server and its data.
type Cluster struct {
	binaries, directory string
	settings            []string
	process             *exec.Cmd
	ended               chan struct{} // closed when the process has ended
}

// Run starts a cluster for a test and closes the cluster when the test ends. Without a server
// Run skips the test, or fails the test in CI.
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

// New makes a cluster and starts it with settings such as "fsync=on". Other settings have
// PostgreSQL's defaults, except fsync, which is off: committed data survives the end of the
// server but not of the machine.
func New(settings ...string) (*Cluster, error) {
	binaries, err := find()
	if err != nil {
		return nil, err
	}
	return create(&Cluster{binaries: binaries, settings: settings}, "initdb", "-U", User, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
}

// Standby makes and starts a cluster that replicates c. Its readers see the data of c a moment
// later. [Cluster.Close] ends a standby.
func (c *Cluster) Standby(settings ...string) (*Cluster, error) {
	standby := &Cluster{binaries: c.binaries, settings: settings}
	return create(standby, "pg_basebackup", "-d", c.URL(User), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
}

// Promote makes a standby accept writes, and waits until it does. The function pg_promote would
// wait in a query, which recovery can cancel.
func (c *Cluster) Promote() error {
	return run(c.command("pg_ctl", "promote", "-w", "-t", strconv.Itoa(int(patience.Seconds())), "-D", c.data()))
}

// create makes a program fill the folder of a cluster, and starts the cluster.
func create(c *Cluster, program string, arguments ...string) (*Cluster, error) {
	var err error
	if c.directory, err = os.MkdirTemp("", "lending"); err != nil { // t.TempDir can be too long for a socket
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

// command returns a command that runs a program of the server, as a user that the server accepts.
func (c *Cluster) command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(c.binaries, name), arguments...)
	command.Dir = c.directory
	command.Env = append(os.Environ(), "LC_ALL=C")
	command.SysProcAttr = attributes()
	return command
}

// Start starts the server in its folder and waits until the server answers.
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
	_ = os.Remove(c.pidFile()) // left by a killed server, for which Start would wait
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

// answers waits until the server reports in its file to be ready.
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

// log returns the end of the server's log.
func (c *Cluster) log() []byte {
	text, _ := os.ReadFile(filepath.Join(c.directory, "log"))
	return text[max(0, len(text)-2000):]
}

// Stop shuts the server down in order and cuts its connections.
func (c *Cluster) Stop() { c.end(syscall.SIGINT) }

// Kill ends the server at once, like an "immediate shutdown". The server recovers at the next
// Start.
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

// Close ends the server and removes its folder.
func (c *Cluster) Close() {
	c.Kill()
	_ = os.RemoveAll(c.directory)
}

// URL returns the address of a database. The database "postgres" always exists.
func (c *Cluster) URL(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.directory}, "user": {User}}.Encode()
}

var odd = regexp.MustCompile(`[^a-z0-9]+`)

// Database makes a database whose name starts with name, and returns its address.
func (c *Cluster) Database(name string) (string, error) {
	name = odd.ReplaceAllString(strings.ToLower(name), "_")
	name = fmt.Sprintf("%.40s_%d", name, time.Now().UnixNano())
	return c.URL(name), c.Do("postgres", `CREATE DATABASE "`+name+`"`)
}

// Do runs statements with psql as the superuser.
func (c *Cluster) Do(database, statements string) error {
	return run(c.command("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", c.URL(database), "-c", statements))
}

// Folder returns the folder of the server's socket, for a client that takes the folder as host.
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

// SkipExamples skips the examples of a test program if Run would skip its tests, and prints why.
// Call SkipExamples in TestMain.
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
