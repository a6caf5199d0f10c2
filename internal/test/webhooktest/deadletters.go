package webhooktest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

const redriveVariable = "LENDING_WEBHOOKTEST_REDRIVE" // for a process of KillRedrive

// KillRedrive makes 10,000 dead letters and starts processes that redrive all of them.
// KillRedrive kills all but the last process with SIGKILL in the middle of their work. The test
// fails if an event is lost or handled twice.
func KillRedrive(t *testing.T, store string, open func(store string) (Store, error)) {
	t.Helper()
	const events, killed = 10_000, 4
	opened, err := open(store)
	must(t, "open", err)
	putAll(t, opened, events)
	opened.close()
	for range killed {
		redriveInProcess(t, store, 2+rand.N(3)) // of 20 batches
		opened, err = open(store)
		must(t, "open", err)
		counts, err := opened.Inbox.Counts(t.Context())
		must(t, "counts", err)
		t.Logf("killed: %+v", counts)
		if counts.Waiting+counts.DeadLetters != events || counts.Waiting == 0 || counts.DeadLetters == 0 {
			t.Fatalf("after the end of a process in the middle: got %+v, want %d together", counts, events)
		}
		opened.close()
	}
	redriveInProcess(t, store, 0)
	opened, err = open(store)
	must(t, "open", err)
	defer opened.close()
	if counts, err := opened.Inbox.Counts(t.Context()); err != nil || counts != (webhook.InboxCounts{Waiting: events}) {
		t.Fatalf("after the last process: got %+v and error %v, want %d that wait", counts, err, events)
	}
	handled := handleAll(t, opened, events, nil)
	for n := range events {
		if times := handled[event(n).Key()]; times != 1 {
			t.Fatalf("event %d was handled %d times, want 1", n, times)
		}
	}
}

// putAll puts events and makes each event a dead letter.
func putAll(t *testing.T, store Store, events int) {
	t.Helper()
	var group sync.WaitGroup
	for first := range concurrency {
		group.Go(func() {
			for n := first; n < events; n += concurrency {
				if err := store.Inbox.Put(t.Context(), event(n)); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	group.Wait()
	handleAll(t, store, events, errors.New("a failure"))
}

// handleAll works until the handler has returned result for this number of events, and counts
// the calls by event.
func handleAll(t *testing.T, store Store, events int, result error) map[string]int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	ended, handled := 0, map[string]int{}
	webhook.Work(ctx, store.Inbox, func(_ context.Context, e *webhook.Event) error {
		mu.Lock()
		defer mu.Unlock()
		handled[e.Key()]++
		return result
	}, &webhook.WorkOptions{Concurrency: 64, MaxTries: 1, Observe: func(r webhook.Result) {
		mu.Lock()
		defer mu.Unlock()
		if r.Key == "" {
			t.Errorf("work: %v", r.Err)
		} else if ended++; ended == events {
			cancel()
		}
	}})
	cancel()
	return handled
}

// redriveInProcess starts a process that redrives all dead letters, and kills the process in the
// given batch or shortly after. Batch 0 means no kill.
func redriveInProcess(t *testing.T, store string, batch int) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	process.Env = append(os.Environ(), childVariable+"=1", storeVariable+"="+store, redriveVariable+"=1")
	var stderr bytes.Buffer
	process.Stderr = &stderr
	ready, err := process.StdoutPipe()
	must(t, "pipe", err)
	proceed, err := process.StdinPipe()
	must(t, "pipe", err)
	must(t, "start", process.Start())
	for lines, batches := bufio.NewScanner(ready), 1; lines.Scan(); batches++ {
		_, err := proceed.Write([]byte{1})
		must(t, "let it proceed", err)
		if batches == batch {
			wait(rand.N(4 * time.Millisecond))
			must(t, "kill", process.Process.Kill())
			break
		}
	}
	if err := process.Wait(); batch == 0 && err != nil {
		t.Fatalf("redrive: %v: %s", err, stderr.String())
	}
}

// redriveChild is a process of KillRedrive.
func redriveChild(_ string, open func(string) (Store, error)) error {
	store, err := open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	all, _ := store.Inbox.(webhook.DeadLetters)
	_, err = webhook.RedriveAll(context.Background(), guided{all}, webhook.DeadLetterFilter{})
	store.close()
	return err
}

var decision = webhook.Decision{By: "tester", Why: "a test"}

type letters interface{ webhook.DeadLetters }

// guided asks the test before each batch.
type guided struct{ letters }

func (g guided) Redrive(ctx context.Context, ids ...string) (int, error) {
	_, _ = os.Stdout.WriteString("ready\n")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	return g.letters.Redrive(ctx, ids...)
}

// ManyDeadLetters lists the dead letters of an inbox, redrives half of them and drops the
// others. The test fails if a call allocates too much memory or if the number of dead letters is
// wrong. The caller must not run other tests in parallel.
func ManyDeadLetters(t *testing.T, letters webhook.DeadLetters, number int) {
	t.Helper()
	bounded := allocating{letters, t}
	listed, last := 0, ""
	for {
		page, err := bounded.DeadLetters(t.Context(), webhook.DeadLetterFilter{After: last, Limit: webhook.MaxDeadLetters})
		must(t, "list", err)
		if len(page) == 0 {
			break
		}
		listed, last = listed+len(page), page[len(page)-1].ID
	}
	redriven, err := webhook.RedriveAll(t.Context(), bounded, webhook.DeadLetterFilter{Event: "WB_Loan_Opened"})
	must(t, "redrive", err)
	dropped, err := webhook.DropAll(t.Context(), bounded, decision, webhook.DeadLetterFilter{})
	must(t, "drop", err)
	counts, err := letters.Counts(t.Context())
	must(t, "counts", err)
	if want := (webhook.InboxCounts{Waiting: number / 2}); listed != number || redriven != number/2 || dropped != number/2 || counts != want {
		t.Errorf("listed %d, redriven %d, dropped %d, then %+v; want %d, and a half each", listed, redriven, dropped, counts, number)
	}
}

// allocating fails the test if a call allocates more than 32 MiB.
type allocating struct {
	letters
	t *testing.T
}

func (a allocating) watch(call string) (end func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() {
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
			a.t.Errorf("%s allocated %d MiB", call, allocated>>20)
		}
	}
}

func (a allocating) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	defer a.watch("DeadLetters")()
	return a.letters.DeadLetters(ctx, filter)
}

func (a allocating) Redrive(ctx context.Context, ids ...string) (int, error) {
	defer a.watch("Redrive")()
	return a.letters.Redrive(ctx, ids...)
}

func (a allocating) Drop(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	defer a.watch("Drop")()
	return a.letters.Drop(ctx, by, ids...)
}
