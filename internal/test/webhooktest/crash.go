package webhooktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

const (
	crashVariable = "LENDING_WEBHOOKTEST_CRASH" // numbers of innocent events, tries and early ends, for a process of Crash
	crashed       = 3                           // exit status of a process that a handler has ended
)

// crashTest is a test in which processes end repeatedly.
type crashTest struct {
	name                string
	Innocents, MaxTries int
	Killer              bool // event 0 ends each process that handles it
	Restarts            int  // number of processes that end before a handler can
}

// Crash puts events in the store and starts processes that work on them until the inbox is
// empty. The test fails in these cases:
//
//   - An event that ends its process does not become a dead letter.
//   - Another event becomes a dead letter, because it ran at the same time or because processes
//     ended
//     for another reason.
func Crash(t *testing.T, store func() string, open func(store string) (Store, error)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot inherit a file here")
	}
	for _, test := range []crashTest{
		{name: "a killer and 12 innocents", Innocents: 12, MaxTries: 5, Killer: true},
		{name: "a killer alone", MaxTries: 5, Killer: true},
		{name: "14 restarts before a function could end", Innocents: 40, MaxTries: 12, Restarts: 14},
		{name: "14 restarts, and a killer and 4 innocents", Innocents: 4, MaxTries: 5, Restarts: 14, Killer: true},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, store(), open) })
	}
}

func (c crashTest) run(t *testing.T, store string, open func(store string) (Store, error)) {
	t.Helper()
	acts, err := os.OpenFile(t.TempDir()+"/acts", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer acts.Close()
	first := 1
	if c.Killer {
		first = 0
	}
	opened, err := open(store)
	must(t, "open", err)
	for n := first; n <= c.Innocents; n++ {
		must(t, "put", opened.Inbox.Put(t.Context(), event(n)))
	}
	opened.close()

	crashes := c.crashes(t, store, acts)
	opened, err = open(store)
	must(t, "open", err)
	defer opened.close()
	counts, err := opened.Inbox.Counts(t.Context())
	must(t, "counts", err)
	text, err := os.ReadFile(acts.Name())
	must(t, "read", err)
	acted := map[string]int{}
	for line := range strings.Lines(string(text)) {
		acted[strings.TrimSpace(line)]++
	}
	deadLettered := 0
	for n := 1; n <= c.Innocents; n++ {
		if acted[event(n).Key()] == 0 {
			deadLettered++
		}
	}
	t.Logf("%d processes ended, %d events set aside, %d of %d innocents among them", crashes, counts.DeadLetters, deadLettered, c.Innocents)
	if expected := (webhook.InboxCounts{DeadLetters: 1 - first}); deadLettered > 0 || counts != expected {
		t.Errorf("%d innocents were set aside; counts: got %+v, want %+v", deadLettered, counts, expected)
	}
}

// crashes starts processes until a process finds the inbox empty, and returns the number of
// processes that ended early.
func (c crashTest) crashes(t *testing.T, store string, acts *os.File) int {
	t.Helper()
	for start, crashes := time.Now(), 0; ; crashes++ {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		process.Env = append(os.Environ(), childVariable+fmt.Sprint("=", crashes+1), storeVariable+"="+store,
			crashVariable+fmt.Sprintf("=%d %d %t %d", c.Innocents, c.MaxTries, c.Killer, c.Restarts))
		process.ExtraFiles = []*os.File{acts}
		var stderr bytes.Buffer
		process.Stderr = &stderr
		err := process.Run()
		if err == nil {
			return crashes
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != crashed || time.Since(start) > 2*time.Minute {
			t.Fatalf("process %d: %v: %s", crashes+1, err, stderr.String())
		}
	}
}

// crashChild is a process of Crash. It writes the handled events to file 3 and ends when its
// inbox is empty.
func crashChild(text string, open func(string) (Store, error)) error {
	var c crashTest
	if _, err := fmt.Sscan(os.Getenv(crashVariable), &c.Innocents, &c.MaxTries, &c.Killer, &c.Restarts); err != nil {
		return err
	}
	generation, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	store, err := open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	inbox := store.Inbox
	acts := os.NewFile(3, "acts")
	ctx := context.Background()
	go store.work(ctx, func(ctx context.Context, e *webhook.Event) error {
		if generation <= c.Restarts {
			time.AfterFunc(20*time.Millisecond, func() { os.Exit(crashed) })
			<-ctx.Done()
			return ctx.Err()
		}
		wait(rand.N(5 * time.Millisecond))
		if c.Killer && e.Key() == event(0).Key() {
			os.Exit(crashed)
		}
		_, err := acts.WriteString(e.Key() + "\n")
		return err
	}, &webhook.WorkOptions{MaxTries: c.MaxTries, Backoff: func(int) time.Duration { return 20 * time.Millisecond }})
	for {
		if counts, err := inbox.Counts(ctx); err == nil && counts.Waiting+counts.Running == 0 {
			return nil
		}
		wait(10 * time.Millisecond)
	}
}
