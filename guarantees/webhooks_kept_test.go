package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMemoryInboxKeepsItsContract(t *testing.T) {
	storetest.Inbox(t, func(*testing.T, time.Duration) func() webhook.Inbox {
		inbox := webhook.NewMemoryInbox()
		return func() webhook.Inbox { return inbox }
	})
}

// work puts n events in a memory inbox and works until none is waiting or running.
func work(t *testing.T, n int, handle webhook.EventFunc, opts *webhook.WorkOptions) webhook.InboxCounts {
	t.Helper()
	inbox := webhook.NewMemoryInbox()
	for i := range n {
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: lending.EventName(fmt.Sprint("event ", i))}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		webhook.Work(ctx, inbox, handle, opts)
		close(ended)
	}()
	var counts webhook.InboxCounts
	for {
		synctest.Wait()
		var err error
		counts, err = inbox.Counts(ctx)
		require.NoError(t, err)
		if counts.Waiting == 0 && counts.Running == 0 {
			break
		}
		bubble.Elapse(time.Second)
	}
	cancel()
	<-ended
	return counts
}

func TestWorkTriesAgainAndPutsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tries := map[lending.EventName][]time.Duration{}
		deadLettered := 0
		counts := work(t, 3, func(_ context.Context, event *webhook.Event) error {
			tries[event.Name] = append(tries[event.Name], time.Since(start))
			switch {
			case event.Name == "event 0":
				return errors.New("never")
			case event.Name == "event 1" && len(tries[event.Name]) < 3:
				panic("not yet")
			}
			return nil
		}, &webhook.WorkOptions{Concurrency: 1, MaxTries: 5, Observe: func(h webhook.Result) {
			if h.DeadLettered {
				deadLettered++
			}
		}})
		require.Equal(t, webhook.InboxCounts{DeadLetters: 1}, counts)
		require.Len(t, tries["event 0"], 5)
		require.Len(t, tries["event 1"], 3)
		require.Len(t, tries["event 2"], 1)
		require.Equal(t, 1, deadLettered)
		for i, most := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			waited := tries["event 0"][i+1] - tries["event 0"][i]
			require.GreaterOrEqual(t, waited, most/2)
			require.LessOrEqual(t, waited, most)
		}
	})
}

func TestWorkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		counts := work(t, 50, func(context.Context, *webhook.Event) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			bubble.Elapse(time.Second)
			running.Add(-1)
			return nil
		}, &webhook.WorkOptions{Concurrency: 7})
		require.Equal(t, webhook.InboxCounts{}, counts)
		require.EqualValues(t, 7, most.Load())
	})
}

// The end of the program does not cut a call short, and a call that does not end is
// given up by its deadline.
func TestWorkLetsCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := webhook.NewMemoryInbox()
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "quick"}))
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "stuck"}))
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		webhook.Work(ctx, inbox, func(handling context.Context, event *webhook.Event) error {
			if event.Name == "stuck" {
				cancel()
				<-handling.Done()
				return handling.Err()
			}
			<-ctx.Done()
			return handling.Err()
		}, &webhook.WorkOptions{Concurrency: 2, Timeout: 10 * time.Second})
		require.Equal(t, 10*time.Second, time.Since(start))
		counts, err := inbox.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, webhook.InboxCounts{Waiting: 1}, counts)
	})
}

// An inbox that cannot be reached: what was acted on is told again until it is known,
// since the event would be acted on again otherwise.
func TestWorkOutlastsTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := &brokenInbox{Inbox: webhook.NewMemoryInbox()}
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "a"}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		acted, failures := 0, 0
		inbox.done = cancel
		webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
			acted++
			return nil
		}, &webhook.WorkOptions{Concurrency: 1, Observe: func(h webhook.Result) {
			if h.Key == "" {
				failures++
			}
		}})
		require.Equal(t, 1, acted)
		require.Equal(t, 10, failures)
		counts, err := inbox.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, webhook.InboxCounts{}, counts)
	})
}

type brokenInbox struct {
	webhook.Inbox
	takes, dones int
	done         func()
}

func (b *brokenInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	if b.takes++; b.takes <= 5 {
		return nil, errors.New("gone")
	}
	return b.Inbox.Take(ctx)
}

func (b *brokenInbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if b.dones++; b.dones <= 5 {
		return errors.New("gone")
	}
	defer b.done()
	return b.Inbox.Done(ctx, entry)
}

// No server is there to take http.ErrAbortHandler, as behind a receiver: it must not
// end the program.
func TestWorkOutlivesEveryPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var values []any
		counts := work(t, 1, func(context.Context, *webhook.Event) error { panic(http.ErrAbortHandler) },
			&webhook.WorkOptions{MaxTries: 2, Observe: func(h webhook.Result) {
				var panicked *lending.PanicError
				require.ErrorAs(t, h.Err, &panicked)
				values = append(values, panicked.Value)
			}})
		require.Equal(t, webhook.InboxCounts{DeadLetters: 1}, counts)
		require.Equal(t, []any{http.ErrAbortHandler, http.ErrAbortHandler}, values)
	})
}

// What an inbox says of an entry binds the worker: when the claim ends, and that its
// last try was one too many, of which the process knew no end.
func TestWorkHeedsTheEntry(t *testing.T) {
	for name, test := range map[string]struct {
		tries         int
		claim, within time.Duration
	}{
		"a claim that ends first": {12, 5 * time.Second, 5 * time.Second},
		"a claim that ends later": {12, 2 * time.Minute, time.Minute},
		"one try too many":        {13, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inbox := &changedInbox{webhook.NewMemoryInbox(), func(entry *webhook.InboxEntry) {
					entry.Tries, entry.Until = test.tries, time.Now().Add(test.claim)
				}}
				require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "a"}))
				ctx, cancel := context.WithCancel(t.Context())
				var within time.Duration
				webhook.Work(ctx, inbox, func(ctx context.Context, _ *webhook.Event) error {
					deadline, _ := ctx.Deadline()
					within = time.Until(deadline)
					return errors.New("broken")
				}, &webhook.WorkOptions{Concurrency: 1, Observe: func(h webhook.Result) {
					require.Error(t, h.Err)
					require.True(t, h.DeadLettered)
					cancel()
				}})
				require.Equal(t, test.within, within)
				counts, err := inbox.Counts(t.Context())
				require.NoError(t, err)
				require.Equal(t, webhook.InboxCounts{DeadLetters: 1}, counts)
			})
		})
	}
}

type changedInbox struct {
	webhook.Inbox
	change func(*webhook.InboxEntry)
}

func (b *changedInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	entry, err := b.Inbox.Take(ctx)
	if err == nil {
		b.change(entry)
	}
	return entry, err
}

// claimedInbox gives claims that end, and refuses to be told of an end for some time.
type claimedInbox struct {
	webhook.Inbox
	claim, refuses time.Duration
	start          time.Time
	told           []time.Duration
}

func (b *claimedInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	entry, err := b.Inbox.Take(ctx)
	if err == nil && b.claim > 0 {
		entry.Until = time.Now().Add(b.claim)
	}
	return entry, err
}

func (b *claimedInbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if entry.Event.Name == "a" {
		b.told = append(b.told, time.Since(b.start))
		if time.Since(b.start) < b.refuses {
			return errors.New("gone")
		}
	}
	return b.Inbox.Done(ctx, entry)
}

// workOnTwo works on the events a and b, one after the other, until wait has passed.
func workOnTwo(t *testing.T, inbox *claimedInbox, wait time.Duration) (acted []string, counts webhook.InboxCounts) {
	t.Helper()
	inbox.Inbox, inbox.start = webhook.NewMemoryInbox(), time.Now()
	for _, name := range []lending.EventName{"a", "b"} {
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: name}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	webhook.Work(ctx, inbox, func(_ context.Context, event *webhook.Event) error {
		acted = append(acted, fmt.Sprint(event.Name, " ", time.Since(inbox.start).Round(time.Second)))
		return nil
	}, &webhook.WorkOptions{Concurrency: 1, Timeout: 10 * time.Second})
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	return acted, counts
}

// A claim that has ended is another's: the worker tells nothing of it any more.
func TestWorkSettlesNoLongerThanTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := &claimedInbox{claim: 5 * time.Second, refuses: time.Hour}
		acted, counts := workOnTwo(t, inbox, time.Minute)
		require.Equal(t, "a 0s", acted[0])
		require.Len(t, acted, 2)
		require.Equal(t, webhook.InboxCounts{Running: 1}, counts)
		last := inbox.told[len(inbox.told)-1]
		require.GreaterOrEqual(t, last, 4*time.Second, "it was given up early")
		require.LessOrEqual(t, last, 6*time.Second, "it was told after the end of the claim")
	})
}

// A claim that does not end is nobody else's: it is told until the inbox knows, while
// the worker goes on.
func TestWorkSettlesAClaimWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := &claimedInbox{refuses: 2 * time.Minute}
		acted, counts := workOnTwo(t, inbox, 5*time.Minute)
		require.Len(t, acted, 2, "acted on once each")
		require.Contains(t, []string{"b 10s", "b 11s"}, acted[1], "the worker went on after its Timeout")
		require.Equal(t, webhook.InboxCounts{}, counts)
		require.Less(t, len(inbox.told), 50)

		inbox = &claimedInbox{refuses: 2 * time.Minute}
		start := time.Now()
		_, counts = workOnTwo(t, inbox, time.Minute)
		require.Equal(t, time.Minute, time.Since(start), "the end of Work does not wait for the inbox")
		require.Equal(t, webhook.InboxCounts{Running: 1}, counts)
	})
}

// No function of the caller's ends a worker, by a panic or by runtime.Goexit, which a
// failed assertion in a test calls too.
func TestWorkOutlivesItsCaller(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var acted atomic.Int32
				counts := work(t, 8, func(context.Context, *webhook.Event) error {
					if acted.Add(1) <= 8 {
						end()
					}
					return nil
				}, &webhook.WorkOptions{
					Backoff: func(int) time.Duration { end(); return 0 },
					Observe: func(webhook.Result) { end() },
				})
				require.Equal(t, webhook.InboxCounts{}, counts)
				require.EqualValues(t, 16, acted.Load())

				inbox := &endingInbox{webhook.NewMemoryInbox(), end, 0, 0}
				require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "a"}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				acted.Store(0)
				webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
					acted.Add(1)
					return nil
				}, &webhook.WorkOptions{Concurrency: 1})
				require.EqualValues(t, 1, acted.Load())
				counts, err := inbox.Counts(t.Context())
				require.NoError(t, err)
				require.Equal(t, webhook.InboxCounts{}, counts)
			})
		})
	}
}

// endingInbox calls end, or returns nothing, a few times before it works.
type endingInbox struct {
	webhook.Inbox
	end          func()
	takes, dones int
}

func (b *endingInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	switch b.takes++; b.takes {
	case 1, 2:
		b.end()
	case 3:
		return nil, nil //nolint:nilnil // a mistake
	case 4:
		return &webhook.InboxEntry{}, nil
	}
	return b.Inbox.Take(ctx)
}

func (b *endingInbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if b.dones++; b.dones <= 2 {
		b.end()
	}
	return b.Inbox.Done(ctx, entry)
}

// What has ended the process each time that it was alone is set aside without another
// try, and one that may stand beside it is tried.
func TestWorkPutsAsideWhatEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for crashes, acted := range map[int]int{4: 1, 5: 0} {
			inbox := &changedInbox{webhook.NewMemoryInbox(), func(entry *webhook.InboxEntry) { entry.Crashes = crashes }}
			require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: "a"}))
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
				calls++
				return nil
			}, &webhook.WorkOptions{Concurrency: 1, MaxTries: 5, Observe: func(h webhook.Result) {
				require.Equal(t, acted == 0, h.DeadLettered)
				cancel()
			}})
			require.Equal(t, acted, calls)
			counts, err := inbox.Counts(t.Context())
			require.NoError(t, err)
			require.Equal(t, webhook.InboxCounts{DeadLetters: 1 - acted}, counts)
		}
	})
}
