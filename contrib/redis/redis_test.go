package lendingredis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a Redis server on a socket of its own, which no other process can take while the
// server is down. By default the server keeps nothing on disk, and is empty after a kill.
type server struct {
	binary, directory string
	arguments         []string
	process           *exec.Cmd
}

func startRedis(t *testing.T, arguments ...string) *server {
	t.Helper()
	s, err := newServer(arguments...)
	switch {
	case errors.Is(err, errNoRedis) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	s.start(t)
	return s
}

var errNoRedis = errors.New("redis-server is missing: apt-get install redis-server runs this; in CI it must run")

func newServer(arguments ...string) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	directory, err := os.MkdirTemp("", "lending") // not that of a test: its name may be too long for a socket
	return &server{binary: binary, directory: directory, arguments: arguments}, err
}

func (s *server) address() string { return filepath.Join(s.directory, "socket") }

func (s *server) start(t *testing.T) {
	t.Helper()
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *server) run(ctx context.Context) error {
	s.process = exec.Command(s.binary, append([]string{
		"--port", "0", "--unixsocket", s.address(), "--dir", s.directory, "--save", "", "--appendonly", "no",
	}, s.arguments...)...)
	if err := s.process.Start(); err != nil {
		return err
	}
	client := s.client()
	defer client.Close()
	for start := time.Now(); client.Ping(ctx).Err() != nil; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			return errors.New("redis-server does not answer")
		}
	}
	return nil
}

// exampleRedis starts a server for examples, which have no testing.T.
func exampleRedis() (rdb *redis.Client, stop func()) {
	s, err := newServer("--appendonly", "yes")
	if err == nil {
		err = s.run(context.Background())
	}
	if err != nil {
		panic(err)
	}
	rdb = s.client()
	return rdb, func() {
		_ = rdb.Close()
		s.remove()
	}
}

// skipExamples skips the examples on the same machines as the tests, and prints the reason.
func skipExamples() {
	if _, err := exec.LookPath("redis-server"); err == nil || os.Getenv("CI") == "true" {
		return
	}
	flag.Parse()
	skip := "^Example"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		skip += "|" + given
	}
	_ = flag.Set("test.skip", skip)
	_, _ = fmt.Fprintln(os.Stderr, "the examples are skipped:", errNoRedis)
}

func (s *server) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

func (s *server) remove() {
	s.kill()
	_ = os.RemoveAll(s.directory)
}

func (s *server) client() *redis.Client { return newRedis(s.address()) }

// newRedis returns a client with long timeouts for a busy machine. A stopped server still refuses
// at once.
func newRedis(address string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: address, DialTimeout: 10 * time.Second,
		ReadTimeout: 10 * time.Second, MaxRetries: 1,
	})
}
