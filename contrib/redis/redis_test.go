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

func TestMain(m *testing.M) {
	skipExamples()
	os.Exit(m.Run())
}

// startRedis starts a Redis server on a socket in directory. Without arguments, the server keeps
// nothing on disk.
func startRedis(t *testing.T, arguments ...string) (client *redis.Client, directory string) {
	t.Helper()
	client, directory, stop, err := runRedis(arguments...)
	if errors.Is(err, errNoRedis) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return client, directory
}

var errNoRedis = errors.New("redis-server is missing: apt-get install redis-server runs this; in CI it must run")

func runRedis(arguments ...string) (client *redis.Client, directory string, stop func(), err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", nil, errNoRedis
	}
	directory, err = os.MkdirTemp("", "lending") // not that of a test: its name may be too long for a socket
	if err != nil {
		return nil, "", nil, err
	}
	socket := filepath.Join(directory, "socket")
	process := exec.Command(binary, append([]string{
		"--port", "0", "--unixsocket", socket, "--dir", directory, "--save", "", "--appendonly", "no",
	}, arguments...)...)
	if err := process.Start(); err != nil {
		return nil, "", nil, err
	}
	// The timeouts are long, for a busy machine.
	client = redis.NewClient(&redis.Options{
		Addr: socket, DialTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, MaxRetries: 1,
	})
	stop = func() {
		_ = client.Close()
		_ = process.Process.Kill()
		_ = process.Wait()
		_ = os.RemoveAll(directory)
	}
	for start := time.Now(); client.Ping(context.Background()).Err() != nil; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			stop()
			return nil, "", nil, errors.New("redis-server does not answer")
		}
	}
	return client, directory, stop, nil
}

// exampleRedis starts a server for examples, which have no testing.T.
func exampleRedis() (rdb *redis.Client, stop func()) {
	rdb, _, stop, err := runRedis()
	if err != nil {
		panic(err)
	}
	return rdb, stop
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
