package webhooktest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/webhook"
)

const (
	crashVariable = "LENDING_WEBHOOKTEST_CRASH" // for a process of Crash
	crashed       = 3                           // exit status of a process that a handler has ended

	innocents  = 1000
	crashTries = 12
)

// Crash puts 1,000 events in the store, and an event that ends each process that handles it. Then
// Crash starts a process with eight workers, again and again, until the inbox is empty. The test
// fails in these cases:
//
//   - The killer does not become a dead letter after twelve tries.
//   - More than one of the other events becomes a dead letter.
//   - An event is lost.
func Crash(t *testing.T, store string, open func(store string) (Store, error)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot inherit a file here")
	}
	acts, err := os.OpenFile(t.TempDir()+"/acts", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(t, err, "create")
	defer acts.Close()
	opened, err := open(store)
	require.NoError(t, err, "open")
	for n := range innocents + 1 {
		require.NoError(t, opened.Inbox.Put(t.Context(), event(n)), "put")
	}
	opened.close()

	crashes := crashAll(t, store, acts)
	opened, err = open(store)
	require.NoError(t, err, "open")
	defer opened.close()
	letters, _ := opened.Inbox.(webhook.DeadLetters)
	page, err := letters.DeadLetters(t.Context(), webhook.DeadLetterFilter{Limit: webhook.MaxDeadLetters})
	require.NoError(t, err, "dead letters")
	text, err := os.ReadFile(acts.Name())
	require.NoError(t, err, "read")
	accounted := map[string]bool{}
	for _, letter := range page {
		accounted[letter.Key] = true
		if letter.Tries != crashTries || !strings.Contains(letter.Cause, "the process ended") {
			t.Errorf("a dead letter does not tell that its process ended: %+v", letter)
		}
	}
	if !accounted[event(0).Key()] {
		t.Error("the killer is no dead letter")
	}
	for line := range strings.Lines(string(text)) {
		accounted[strings.TrimSpace(line)] = true
	}
	t.Logf("%d processes ended, %d of %d innocents set aside", crashes, len(page)-1, innocents)
	if len(page) > 2 || len(accounted) != innocents+1 {
		t.Errorf("%d innocents set aside, want 1 at most; %d lost, want 0", len(page)-1, innocents+1-len(accounted))
	}
}

// crashAll starts processes until a process finds the inbox empty, and returns the number of
// processes that ended early.
func crashAll(t *testing.T, store string, acts *os.File) (crashes int) {
	t.Helper()
	for start := time.Now(); ; crashes++ {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		process.Env = append(os.Environ(), childVariable+"=1", storeVariable+"="+store, crashVariable+"=1")
		process.ExtraFiles = []*os.File{acts}
		var stderr bytes.Buffer
		process.Stderr = &stderr
		err := process.Run()
		if err == nil {
			return crashes
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != crashed || time.Since(start) > 10*time.Minute {
			t.Fatalf("process %d: %v: %s", crashes+1, err, stderr.String())
		}
	}
}

// crashChild is a process of Crash. It writes the handled events to file 3 and ends when its
// inbox is empty.
func crashChild(_ string, open func(string) (Store, error)) error {
	store, err := open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	acts := os.NewFile(3, "acts")
	ctx := context.Background()
	go store.work(ctx, func(_ context.Context, e *webhook.Event) error {
		wait(rand.N(5 * time.Millisecond))
		if e.Key() == event(0).Key() {
			os.Exit(crashed)
		}
		_, err := acts.WriteString(e.Key() + "\n")
		return err
	}, &webhook.WorkOptions{
		Concurrency: 8, MaxTries: crashTries,
		Backoff: func(int) time.Duration { return 100 * time.Millisecond }, // on a slow machine
	})
	for {
		if counts, err := store.Inbox.Counts(ctx); err == nil && counts.Waiting+counts.Running == 0 {
			return nil
		}
		wait(10 * time.Millisecond)
	}
}
