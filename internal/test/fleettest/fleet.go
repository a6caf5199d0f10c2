//go:build unix

// Package fleettest has several processes share a token in a store, which goes away and comes
// back, for the modules under contrib.
package fleettest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const lifetime = 6 * time.Second // of a token: refreshed after 3.6 to 4.5, used for 5.4

// Store is what the replicas share.
type Store struct {
	Name        string // for those who open it in a replica
	Local       lending.TokenStore
	Kill, Start func() // its server
	Away, Back  func() // it takes nobody, and does again at once
}

// fleet is a service and the replicas that call it.
type fleet struct {
	service   *lendingtest.Service
	directory string

	mu        sync.Mutex
	refreshed map[string]int // how often, by token
	total     int
}

// ServeHTTP counts the refreshes of each token, and gives out the codes that a person
// would read from a phone.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/code" {
		_, _ = io.WriteString(w, f.service.TwoFactorCode(lendingtest.Username))
		return
	}
	f.service.ServeHTTP(w, r)
	if strings.HasSuffix(r.URL.Path, "/refresh-token") {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refreshed[r.Header.Get("Authorization")]++
		f.total++
	}
}

func (f *fleet) refreshes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// next waits for a refresh after the first before ones.
func (f *fleet) next(t *testing.T, before int) {
	t.Helper()
	eventually(t, "a refresh", func() bool { return f.refreshes() > before })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * lifetime); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come within two lives of a token", what)
		}
		wait(10 * time.Millisecond)
	}
}

func wait(d time.Duration) { <-time.After(d) }

// Run has count processes share one sign-in and one refresh for each life of the token, while
// the store is killed and comes back, takes nobody, and a process stops in the middle of a
// refresh. [Replica] must be called first in TestMain.
func Run(t *testing.T, count int, store Store) {
	t.Helper()
	f := &fleet{service: lendingtest.New(lendingtest.WithTokenLifetime(lifetime)), directory: t.TempDir(), refreshed: map[string]int{}}
	defer f.service.Close()
	service := httptest.NewServer(f)
	defer service.Close()

	start := time.Now()
	var ends []func() result
	for range count {
		ends = append(ends, startReplica(t, settings{service.URL, store.Name, f.directory}))
	}
	f.next(t, f.refreshes())

	// The store is gone while every process has the token, and comes back before it is due.
	f.next(t, f.refreshes())
	wait(1800 * time.Millisecond)
	store.Kill()
	wait(time.Second)
	store.Start()
	f.next(t, f.refreshes())

	// It takes nobody when the token is due, and does again before that expires.
	wait(3 * time.Second)
	store.Away()
	before := f.refreshes()
	wait(1300 * time.Millisecond)
	if now := f.refreshes(); now != before {
		t.Errorf("%d refreshes without the store: a process goes on with the token it has", now-before)
	}
	store.Back()
	f.next(t, before)

	// The next process that takes the lease stops, until another has refreshed.
	wait(1500 * time.Millisecond)
	held, err := store.Local.Load(t.Context())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(f.directory, "freeze"), nil, 0o600))
	eventually(t, "a newer token in the store", func() bool {
		newer, err := store.Local.Load(t.Context())
		return err == nil && newer.Fence > held.Fence
	})
	_, err = os.Stat(filepath.Join(f.directory, "frozen"))
	must(t, err)
	resume(t, filepath.Join(f.directory, "pid"))
	f.next(t, f.refreshes())

	f.judge(t, ends, time.Since(start))
}

func (f *fleet) judge(t *testing.T, ends []func() result, took time.Duration) {
	t.Helper()
	calls := 0
	for _, end := range ends {
		told := end()
		if len(told.Failed) > 0 {
			t.Errorf("calls that failed: %q", told.Failed)
		}
		calls += told.Calls
	}
	if calls <= 1000 {
		t.Errorf("only %d calls", calls)
	}
	signIns, codes := f.service.Arrived("POST /api/Authenication/login"), len(f.service.Sent())
	if signIns != 1 || codes != 1 {
		t.Errorf("%d sign-ins and %d codes, want one", signIns, codes)
	}
	for _, times := range f.refreshed {
		if times != 1 {
			t.Errorf("%d refreshes of one token", times)
		}
	}
	t.Logf("%d processes, %.1f lives of a token, %d calls, %d sign-in, %d refreshes", len(ends), took.Seconds()/lifetime.Seconds(), calls, signIns, f.refreshes())
}

// startReplica starts a process. The function that it returns ends it.
func startReplica(t *testing.T, s settings) func() result {
	t.Helper()
	text, err := json.Marshal(s)
	must(t, err)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), variable+"="+string(text))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGCONT)
		_ = command.Process.Kill()
	})
	return func() (told result) {
		must(t, stdin.Close())
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		must(t, err)
		must(t, errors.Join(json.Unmarshal(line, &told), command.Wait()))
		return told
	}
}

func resume(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	must(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGCONT))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func askForCode(ctx context.Context, service string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/code", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	code, err := io.ReadAll(response.Body)
	return string(code), err
}
