package claimer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/claimer"
)

// source has events that are due, in order. A request takes some time.
type source struct {
	mu     sync.Mutex
	due    []string
	asked  []bool // whether each request was for a relaxed claim
	asking int    // requests in progress
	most   int    // at the same time
	takes  time.Duration
	next   time.Duration
	fails  error
	panics bool
}

func (s *source) put(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, event)
}

func (s *source) claim(ctx context.Context, relaxed bool) (seen claimer.Seen[string], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, relaxed)
	s.asking++
	s.most = max(s.most, s.asking)
	if s.panics {
		s.panics, s.asking = false, 0
		panic("here")
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	s.asking--
	if err = errors.Join(err, s.fails); err != nil {
		s.fails = nil
		return seen, err
	}
	if len(s.due) == 0 {
		return claimer.Seen[string]{Next: s.next}, nil
	}
	seen = claimer.Seen[string]{Entry: s.due[0], Found: true}
	s.due = s.due[1:]
	return seen, nil
}

func (s *source) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// works runs workers until the end of the test, and returns a channel with the events.
func works(t *testing.T, c *claimer.Claimer[string], workers int) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan string, 100)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				event, err := c.Take(ctx, false)
				if err != nil {
					return
				}
				events <- event
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return events
}

func TestIdleWorkersAskOnceInPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{next: -1, takes: time.Millisecond}
		c := claimer.New(s.claim, time.Minute)
		events := works(t, c, 64)
		<-time.After(time.Hour - time.Second)
		assert.Equal(t, 60, s.requests())
		s.put("a")
		start := time.Now()
		assert.Equal(t, "a", <-events, "of another process")
		assert.Equal(t, time.Second+time.Millisecond, time.Since(start))
	})
}

func TestLookInMovesTheNextRequestForward(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		before time.Duration // since the request began
		in     time.Duration
		want   time.Duration
	}{
		{"while the workers wait", time.Minute, 0, time.Second},
		{"to a later time", time.Minute, 5 * time.Minute, 5*time.Minute + time.Second},
		{"while a request that could miss the event is in progress", time.Second / 2, 0, time.Second},
		{"no later than Poll", time.Minute, 2 * time.Hour, 59*time.Minute + time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &source{next: -1, takes: time.Second}
				c := claimer.New(s.claim, time.Hour)
				events := works(t, c, 4)
				<-time.After(test.before)
				start := time.Now()
				c.LookIn(test.in)
				if test.before > time.Second {
					s.put("a")
				} else { // the request in progress does not see the event
					<-time.After(time.Second - test.before + time.Millisecond)
					s.put("a")
				}
				assert.Equal(t, "a", <-events)
				assert.Equal(t, test.want, time.Since(start))
			})
		})
	}
}

func TestTakeAsksWhenAnEventIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{next: time.Minute}
		events := works(t, claimer.New(s.claim, time.Hour), 4)
		<-time.After(time.Minute - time.Second)
		s.put("a")
		s.put("b")
		start := time.Now()
		assert.ElementsMatch(t, []string{"a", "b"}, []string{<-events, <-events})
		assert.Equal(t, time.Second, time.Since(start), "the second at once")
	})
}

func TestBacklogHasFourRequestsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{next: -1, takes: time.Second}
		for range 40 {
			s.put("a")
		}
		events := works(t, claimer.New(s.claim, time.Minute), 64)
		for range 40 {
			<-events
		}
		synctest.Wait()
		assert.Equal(t, 4, s.most)
	})
}

func TestFailureOrPanicAsksAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("a failure")
		s := &source{due: []string{"a"}, fails: failed}
		c := claimer.New(s.claim, time.Hour)
		_, err := c.Take(t.Context(), false)
		require.ErrorIs(t, err, failed)
		s.panics = true
		assert.Panics(t, func() { _, _ = c.Take(t.Context(), false) })
		start := time.Now()
		event, err := c.Take(t.Context(), true)
		require.NoError(t, err)
		assert.Equal(t, "a", event)
		assert.Zero(t, time.Since(start))
		assert.True(t, s.asked[2])
	})
}

func TestTakeReturnsWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		takes time.Duration // of a request that claims an event
		after time.Duration // the end of the context
		event string
		want  time.Duration // from the end of the context
	}{
		{"waiting", 0, time.Hour, "", 0},
		{"before a response, which is soon there", time.Second, time.Second / 2, "a", time.Second / 2},
		{"before a response that does not come", time.Minute, time.Second, "", 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &source{next: -1, takes: test.takes}
				if test.takes > 0 {
					s.put("a")
				}
				c := claimer.New(s.claim, 2*time.Hour)
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				start := time.Now()
				var group sync.WaitGroup
				for range 4 { // three with a turn, and one behind them
					group.Go(func() {
						<-time.After(time.Millisecond)
						_, err := c.Take(ctx, false)
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						assert.Equal(t, test.after, time.Since(start))
					})
				}
				event, err := c.Take(ctx, false)
				assert.Equal(t, test.event, event)
				if test.event == "" {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					assert.NoError(t, err)
				}
				assert.Equal(t, test.after+test.want, time.Since(start))
				group.Wait()
			})
		})
	}
}

func TestTakeFailsWhenASourceHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := claimer.New((&source{takes: time.Hour}).claim, time.Minute)
		start := time.Now()
		_, err := c.Take(t.Context(), false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}
