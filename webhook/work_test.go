package webhook_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMemoryInboxKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.Inbox(t, func(t *testing.T, _ time.Duration) func() webhook.Inbox {
		t.Parallel()
		inbox := webhook.NewMemoryInbox()
		return func() webhook.Inbox { return inbox }
	})
}

func put(t *testing.T, inbox webhook.Inbox, names ...lending.EventName) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: name}))
	}
}

func requireCounts(t *testing.T, inbox webhook.Inbox, want webhook.InboxCounts) {
	t.Helper()
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, counts)
}

// work puts n events in a memory inbox and works until none is waiting or running.
func work(t *testing.T, n int, handle webhook.EventFunc, opts *webhook.WorkOptions) webhook.InboxCounts {
	t.Helper()
	inbox := webhook.NewMemoryInbox()
	for i := range n {
		put(t, inbox, lending.EventName(fmt.Sprint("event ", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		webhook.Work(ctx, inbox, handle, opts)
		close(ended)
	}()
	for {
		synctest.Wait()
		counts, err := inbox.Counts(ctx)
		require.NoError(t, err)
		if counts.Waiting == 0 && counts.Running == 0 {
			cancel()
			<-ended
			return counts
		}
		bubble.Elapse(time.Second)
	}
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
		}, &webhook.WorkOptions{Concurrency: 1, MaxTries: 5, Observe: func(r webhook.Result) {
			if r.DeadLettered {
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

func TestWorkWaitsAsBackoffSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		work(t, 1, func(context.Context, *webhook.Event) error {
			if tries = append(tries, time.Now()); len(tries) < 3 {
				return errors.New("not yet")
			}
			return nil
		}, &webhook.WorkOptions{Backoff: func(tries int) time.Duration { return time.Duration(tries) * time.Minute }})
		require.Len(t, tries, 3)
		require.Equal(t, time.Minute, tries[1].Sub(tries[0]).Round(time.Second))
		require.Equal(t, 2*time.Minute, tries[2].Sub(tries[1]).Round(time.Second))
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
// given up at its deadline.
func TestWorkLetsCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := webhook.NewMemoryInbox()
		put(t, inbox, "quick", "stuck")
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
		requireCounts(t, inbox, webhook.InboxCounts{Waiting: 1})
	})
}

// nothing stands for no entry and no error of Take.
var nothing = new(webhook.InboxEntry)

// hookedInbox is a memory inbox whose methods can be changed.
type hookedInbox struct {
	webhook.Inbox
	taking func() (*webhook.InboxEntry, error) // before Take; an entry or an error is its result
	taken  func(*webhook.InboxEntry)           // changes the entry
	doing  func(*webhook.InboxEntry) error     // before Done
	retry  func(wait time.Duration)            // in the place of Retry
}

func (b *hookedInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	if b.taking != nil {
		switch entry, err := b.taking(); {
		case entry == nothing:
			return nil, nil //nolint:nilnil // a mistake
		case entry != nil || err != nil:
			return entry, err
		}
	}
	entry, err := b.Inbox.Take(ctx)
	if err == nil && b.taken != nil {
		b.taken(entry)
	}
	return entry, err
}

func (b *hookedInbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if b.doing != nil {
		if err := b.doing(entry); err != nil {
			return err
		}
	}
	return b.Inbox.Done(ctx, entry)
}

func (b *hookedInbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	if b.retry != nil {
		b.retry(wait)
		return nil
	}
	return b.Inbox.Retry(ctx, entry, wait)
}

// An inbox that cannot be reached is told again of a handled event, which would be handled
// again otherwise.
func TestWorkOutlastsTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancel(t.Context())
		takes, dones, acted, failures := 0, 0, 0, 0
		began, paused := time.Now(), time.Duration(0)
		inbox := &hookedInbox{Inbox: webhook.NewMemoryInbox()}
		inbox.taking = func() (*webhook.InboxEntry, error) {
			if takes++; takes <= 5 {
				return nil, gone
			}
			paused = cmp.Or(paused, time.Since(began))
			return nil, nil //nolint:nilnil // go on
		}
		inbox.doing = func(*webhook.InboxEntry) error {
			if dones++; dones <= 5 {
				return gone
			}
			cancel()
			return nil
		}
		put(t, inbox, "a")
		webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
			acted++
			return nil
		}, &webhook.WorkOptions{Concurrency: 1, Observe: func(r webhook.Result) {
			if r.Key == "" {
				failures++
			}
		}})
		require.Equal(t, 1, acted)
		require.Equal(t, 10, failures)
		require.Greater(t, paused, time.Second, "each pause is longer")
		requireCounts(t, inbox, webhook.InboxCounts{})
	})
}

func TestWorkOutlivesAnInboxThatDoesNotCount(t *testing.T) {
	retried := make(chan time.Duration)
	inbox := &hookedInbox{
		Inbox: webhook.NewMemoryInbox(),
		taken: func(entry *webhook.InboxEntry) { entry.Tries = 0 },
		retry: func(wait time.Duration) { retried <- wait },
	}
	put(t, inbox, "a")
	go webhook.Work(t.Context(), inbox, func(context.Context, *webhook.Event) error { return assert.AnError }, nil)
	assert.LessOrEqual(t, <-retried, 5*time.Second)
}

// A function can panic, and so can its error when errors.Is asks it.
func TestWorkReportsPanics(t *testing.T) {
	for _, tt := range []struct {
		name   string
		handle webhook.EventFunc
	}{
		{"a function that panics", func(context.Context, *webhook.Event) error { panic("x") }},
		{"an error that panics when it is asked", returnsNilPointer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				counts := work(t, 1, tt.handle, &webhook.WorkOptions{MaxTries: 2, Observe: func(r webhook.Result) {
					panicked, ok := errors.AsType[*lending.PanicError](r.Err)
					require.True(t, ok)
					require.Contains(t, string(panicked.Stack), "_test.go")
					tries++
				}})
				require.Equal(t, webhook.InboxCounts{DeadLetters: 1}, counts)
				require.Equal(t, 2, tries)
			})
		})
	}
}

// The entry tells the worker when the claim ends, and that the process ended in its last try.
func TestWorkHeedsTheEntry(t *testing.T) {
	for _, tt := range []struct {
		name          string
		tries         int
		claim, within time.Duration
	}{
		{"a claim that ends first", 12, 5 * time.Second, 5 * time.Second},
		{"a claim that ends later", 12, 2 * time.Minute, time.Minute},
		{"one try too many", 13, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inbox := &hookedInbox{Inbox: webhook.NewMemoryInbox(), taken: func(entry *webhook.InboxEntry) {
					entry.Tries, entry.Until = tt.tries, time.Now().Add(tt.claim)
				}}
				put(t, inbox, "a")
				ctx, cancel := context.WithCancel(t.Context())
				var within time.Duration
				webhook.Work(ctx, inbox, func(ctx context.Context, _ *webhook.Event) error {
					deadline, _ := ctx.Deadline()
					within = time.Until(deadline)
					return errors.New("broken")
				}, &webhook.WorkOptions{Concurrency: 1, Observe: func(r webhook.Result) {
					require.Error(t, r.Err)
					require.True(t, r.DeadLettered)
					require.Equal(t, 12, r.Tries)
					cancel()
				}})
				require.Equal(t, tt.within, within)
				requireCounts(t, inbox, webhook.InboxCounts{DeadLetters: 1})
			})
		})
	}
}

// refusing is a memory inbox with the events a and b, whose Done of a fails for some time.
type refusing struct {
	*hookedInbox
	start time.Time
	told  []time.Duration // when Done of a was called
}

func newRefusing(t *testing.T, claim, refuses time.Duration) *refusing {
	t.Helper()
	b := &refusing{hookedInbox: &hookedInbox{Inbox: webhook.NewMemoryInbox()}, start: time.Now()}
	b.taken = func(entry *webhook.InboxEntry) {
		if claim > 0 {
			entry.Until = time.Now().Add(claim)
		}
	}
	b.doing = func(entry *webhook.InboxEntry) error {
		if entry.Event.Name != "a" {
			return nil
		}
		if b.told = append(b.told, time.Since(b.start)); time.Since(b.start) < refuses {
			return errors.New("gone")
		}
		return nil
	}
	put(t, b, "a", "b")
	return b
}

// work handles the events in turn until wait has passed.
func (b *refusing) work(t *testing.T, wait time.Duration) (handled []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	webhook.Work(ctx, b, func(_ context.Context, event *webhook.Event) error {
		handled = append(handled, fmt.Sprint(event.Name, " ", time.Since(b.start).Round(time.Second)))
		return nil
	}, &webhook.WorkOptions{Concurrency: 1, Timeout: 10 * time.Second})
	return handled
}

// After its claim has ended an event is another's.
func TestWorkReportsNoLongerThanTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := newRefusing(t, 5*time.Second, time.Hour)
		handled := inbox.work(t, time.Minute)
		require.Equal(t, "a 0s", handled[0])
		require.Len(t, handled, 2)
		requireCounts(t, inbox, webhook.InboxCounts{Running: 1})
		last := inbox.told[len(inbox.told)-1]
		require.GreaterOrEqual(t, last, 4*time.Second, "it was given up early")
		require.LessOrEqual(t, last, 6*time.Second, "it was told after the end of the claim")
	})
}

// If claims do not end, the inbox is told until it knows, while the worker goes on.
func TestWorkReportsAClaimWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := newRefusing(t, 0, 2*time.Minute)
		handled := inbox.work(t, 5*time.Minute)
		require.Len(t, handled, 2, "handled once each")
		require.Contains(t, []string{"b 10s", "b 11s"}, handled[1], "the worker went on after its Timeout")
		requireCounts(t, inbox, webhook.InboxCounts{})
		require.Less(t, len(inbox.told), 50)

		inbox = newRefusing(t, 0, 2*time.Minute)
		inbox.work(t, time.Minute)
		require.Equal(t, time.Minute, time.Since(inbox.start), "the end of Work does not wait for the inbox")
		requireCounts(t, inbox, webhook.InboxCounts{Running: 1})
	})
}

// The inbox is closed before Work, whose context ends before, during and after a call: the inbox has 5 more
// seconds. A method that hangs ends too.
func TestWorkEndsSoonAfterItsInbox(t *testing.T) {
	for _, test := range []struct {
		name        string
		claim, call time.Duration
		hangs       bool
		want        time.Duration // after the start; the context ends after 20 seconds
	}{
		{"claim of 5 minutes", 5 * time.Minute, time.Second, false, 25 * time.Second},
		{"call in progress", 5 * time.Minute, 30 * time.Second, false, 35 * time.Second},
		{"hanging inbox", 5 * time.Minute, 15 * time.Second, true, 25 * time.Second},
		{"claim without end", 0, 15 * time.Second, false, 25 * time.Second},
		{"hanging inbox, claim without end", 0, 15 * time.Second, true, 25 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inbox := &hookedInbox{Inbox: webhook.NewMemoryInbox()}
				inbox.taken = func(entry *webhook.InboxEntry) {
					if test.claim > 0 {
						entry.Until = time.Now().Add(test.claim)
					}
				}
				put(t, inbox, "a")
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				webhook.Work(ctx, closedInbox{inbox, test.hangs}, func(context.Context, *webhook.Event) error {
					bubble.Elapse(test.call)
					return nil
				}, &webhook.WorkOptions{Concurrency: 1})
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 1.5)
			})
		})
	}
}

// closedInbox is an inbox that is closed after Take.
type closedInbox struct {
	*hookedInbox
	hangs bool
}

func (b closedInbox) Done(ctx context.Context, _ *webhook.InboxEntry) error {
	if b.hangs {
		<-ctx.Done()
	}
	return errors.New("the inbox is closed")
}

// No function of the caller ends a worker, by a panic or by runtime.Goexit, which a failed
// assertion in a test calls too.
func TestWorkOutlivesItsCaller(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func()
	}{{"panic", func() { panic("x") }}, {"Goexit", runtime.Goexit}} {
		t.Run("functions/"+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var acted atomic.Int32
				counts := work(t, 8, func(context.Context, *webhook.Event) error {
					if acted.Add(1) <= 8 {
						tt.end()
					}
					return nil
				}, &webhook.WorkOptions{
					Backoff: func(int) time.Duration { tt.end(); return 0 },
					Observe: func(webhook.Result) { tt.end() },
				})
				require.Equal(t, webhook.InboxCounts{}, counts)
				require.EqualValues(t, 16, acted.Load())
			})
		})
		t.Run("inbox/"+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes, dones, acted := 0, 0, 0
				inbox := &hookedInbox{Inbox: webhook.NewMemoryInbox()}
				inbox.taking = func() (*webhook.InboxEntry, error) {
					switch takes++; takes {
					case 1, 2:
						tt.end()
					case 3:
						return &webhook.InboxEntry{}, nil // a mistake: it holds no event
					case 4:
						return nothing, nil
					}
					return nil, nil //nolint:nilnil // go on
				}
				inbox.doing = func(*webhook.InboxEntry) error {
					if dones++; dones <= 2 {
						tt.end()
					}
					return nil
				}
				put(t, inbox, "a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				mistakes := 0
				webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
					acted++
					return nil
				}, &webhook.WorkOptions{Concurrency: 1, Observe: func(r webhook.Result) {
					if strings.Contains(fmt.Sprint(r.Err), "Take returned no event and no error") {
						mistakes++
					}
				}})
				require.Equal(t, 1, acted)
				require.Equal(t, 2, mistakes)
				requireCounts(t, inbox, webhook.InboxCounts{})
			})
		})
	}
}
