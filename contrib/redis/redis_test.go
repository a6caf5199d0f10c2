package lendingredis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a Redis server on a loopback port, started by the test. Unless its arguments
// say otherwise it keeps nothing on disk: killed, it comes back empty.
type server struct {
	binary, port, directory string
	arguments               []string
	process                 *exec.Cmd
}

func startRedis(t *testing.T, arguments ...string) *server {
	t.Helper()
	s, err := newServer(t.TempDir(), arguments...)
	switch {
	case errors.Is(err, errNoRedis) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

var errNoRedis = errors.New("redis-server is missing: apt-get install redis-server runs this; in CI it must run")

func newServer(directory string, arguments ...string) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return &server{binary: binary, port: port, directory: directory, arguments: arguments}, listener.Close()
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", s.port) }

func (s *server) start(t *testing.T) {
	t.Helper()
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *server) run(ctx context.Context) error {
	s.process = exec.Command(s.binary, append([]string{
		"--port", s.port, "--bind", "127.0.0.1", "--dir", s.directory, "--save", "", "--appendonly", "no",
	}, s.arguments...)...)
	if err := s.process.Start(); err != nil {
		return err
	}
	client := s.client()
	defer client.Close()
	for start := time.Now(); client.Ping(ctx).Err() != nil; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			return errors.New("redis-server does not answer")
		}
	}
	return nil
}

// exampleRedis starts a server for an example, which has no testing.T.
func exampleRedis() (rdb *redis.Client, stop func()) {
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		panic(err)
	}
	s, err := newServer(directory)
	if err == nil {
		err = s.run(context.Background())
	}
	if err != nil {
		panic(err)
	}
	rdb = s.client()
	return rdb, func() {
		_ = rdb.Close()
		s.kill()
		_ = os.RemoveAll(directory)
	}
}

// skipExamples leaves the examples out where the tests are skipped, and says why.
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

func (s *server) client() *redis.Client { return newRedis(s.address()) }

func newRedis(address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, DialTimeout: 500 * time.Millisecond, ReadTimeout: 500 * time.Millisecond, MaxRetries: 1})
}
