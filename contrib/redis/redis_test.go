package lendingredis_test

import (
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
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is missing: in CI these tests must run (apt-get install redis-server)")
		}
		t.Skip("redis-server is missing: apt-get install redis-server runs this test")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	s := &server{binary: binary, port: port, directory: t.TempDir(), arguments: arguments}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", s.port) }

func (s *server) start(t *testing.T) {
	t.Helper()
	s.process = exec.Command(s.binary, append([]string{
		"--port", s.port, "--bind", "127.0.0.1", "--dir", s.directory, "--save", "", "--appendonly", "no",
	}, s.arguments...)...)
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	client := s.client()
	defer client.Close()
	for start := time.Now(); client.Ping(t.Context()).Err() != nil; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("redis-server does not answer")
		}
	}
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
