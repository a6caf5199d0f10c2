package claimer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/claimer"
)

// store is a source: events that are due, in order.
type store struct {
	mu      sync.Mutex
	due     []string
	asked   []claimer.Ask
	takes   time.Duration // of a request
	next    time.Duration
	err     error
	panics  bool
	back    int // given back
	blocks  bool
	arrived chan struct{}
}

func (s *store) put(events ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, events...)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *store) Claim(_ context.Context, ask claimer.Ask, give func(string, error)) (
	seen claimer.Outlook, err error,
) {
	s.mu.Lock()
	s.asked = append(s.asked, ask)
	err, empty := s.err, len(s.due) == 0
	if s.panics {
		s.panics = false
		s.mu.Unlock()
		panic("here")
	}
	s.mu.Unlock()
	if s.blocks && empty && ask.Wait > 0 {
		select {
		case <-s.arrived:
		case <-time.After(ask.Wait):
		}
	}
	s.mu.Lock()
	var claimed []string
	if n := min(ask.N, len(s.due)); err == nil {
		claimed, s.due = s.due[:n], s.due[n:]
	}
	seen.More, seen.Next = len(claimed) == ask.N, s.next
	takes := s.takes
	s.mu.Unlock()
	<-time.After(takes)
	for _, id := range claimed {
		give(id, nil)
	}
	return seen, err
}

func (s *store) GiveBack(_ context.Context, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back++
	s.due = append(s.due, id)
}

// set changes a field.
func set[T any](s *store, field *T, value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*field = value
}

func (s *store) givenBack() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back
}

func (s *store) requests() []claimer.Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func bubble(t *testing.T, s *store, options claimer.Options, test func(t *testing.T, c *claimer.Claimer[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if options.Poll == 0 {
			options.Poll = time.Hour
		}
		s.blocks, s.arrived = options.Blocks, make(chan struct{}, 1)
		test(t, claimer.New(s, options))
	})
}

// take takes an event, which must come at once.
func take(t *testing.T, c *claimer.Claimer[string]) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	id, err := c.Take(ctx, false)
	require.NoError(t, err)
	return id
}

// ended is a context that has ended, and whose Done gives other goroutines time.
type ended struct{ context.Context }

func (e ended) Done() <-chan struct{} {
	synctest.Wait()
	return e.Context.Done()
}

func TestEndedContextTakesNothing(t *testing.T) {
	s := &store{}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		s.put("0")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Take(ended{ctx}, false)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, s.requests())
	})
}

// none holds that no event comes in a while.
func none(t *testing.T, c *claimer.Claimer[string], while time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	_, err := c.Take(ctx, false)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func events(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func TestWorkersShareRequests(t *testing.T) {
	s := &store{due: events(8), takes: time.Millisecond}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		var taking sync.WaitGroup
		for range 8 {
			taking.Go(func() { take(t, c) })
		}
		taking.Wait()
		require.Less(t, len(s.requests()), 8)
	})
}

// A request costs about as much for four events as for one, so few workers wait for its end.
func TestWorkersWaitForARequest(t *testing.T) {
	s := &store{due: events(6), takes: time.Millisecond}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		take(t, c)
		var taking sync.WaitGroup
		for range 5 {
			taking.Go(func() { take(t, c) })
			synctest.Wait()
		}
		taking.Wait()
		var asked []int
		for _, ask := range s.requests() {
			asked = append(asked, ask.N)
		}
		require.Equal(t, []int{1, 1, 4}, asked)
	})
}

func TestAProcessThatWaitsAsksOnceInPoll(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options claimer.Options
		most    int
	}{
		{"it polls", claimer.Options{Poll: time.Second}, 11},
		{"the source blocks", claimer.Options{Poll: time.Second, Blocks: true}, 21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{}
			bubble(t, s, tt.options, func(t *testing.T, c *claimer.Claimer[string]) {
				none(t, c, 10*time.Second)
				require.InDelta(t, tt.most, len(s.requests()), 2)
			})
		})
	}
}

func TestAWorkerIsWoken(t *testing.T) {
	for _, tt := range []struct {
		name string
		wake func(s *store, c *claimer.Claimer[string])
		next time.Duration
		want time.Duration
	}{
		{"at once", func(_ *store, c *claimer.Claimer[string]) { c.LookIn(0) }, 0, time.Minute},
		{
			"in a while", func(_ *store, c *claimer.Claimer[string]) { c.LookIn(time.Second) }, 0,
			time.Minute + time.Second,
		},
		{"when the source has said", func(*store, *claimer.Claimer[string]) {}, 90 * time.Second, 90 * time.Second},
		{"by a shorter Poll", func(_ *store, c *claimer.Claimer[string]) { c.SetPoll(time.Second) }, 0, time.Minute},
		{"by Poll", func(*store, *claimer.Claimer[string]) {}, 0, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{next: tt.next}
			bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
				start := time.Now()
				time.AfterFunc(time.Minute, func() {
					s.put(events(1)...)
					tt.wake(s, c)
				})
				_, err := c.Take(t.Context(), false)
				require.NoError(t, err)
				require.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

func TestABlockingSourceIsNotPolled(t *testing.T) {
	s := &store{}
	bubble(t, s, claimer.Options{Poll: time.Second, Blocks: true}, func(t *testing.T, c *claimer.Claimer[string]) {
		start := time.Now()
		time.AfterFunc(300*time.Millisecond, func() { s.put(events(1)...) })
		take(t, c)
		require.Equal(t, 300*time.Millisecond, time.Since(start))
	})
}

// What is claimed for a worker that has left is given back before Take returns.
func TestAClaimForNobodyIsGivenBack(t *testing.T) {
	s := &store{due: events(1), takes: time.Second}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		none(t, c, time.Millisecond)
		require.Equal(t, 1, s.givenBack())
		set(s, &s.takes, time.Minute)
		start := time.Now()
		none(t, c, time.Millisecond)
		require.Less(t, time.Since(start), 5*time.Second, "a source that hangs holds nobody up")
		<-time.After(time.Hour)
		require.Equal(t, 2, s.givenBack())
		set(s, &s.takes, 0)
		require.Equal(t, "0", take(t, c))
	})
}

func TestAFailureIsThatOfAllWhoWait(t *testing.T) {
	failure := errors.New("a failure")
	s := &store{err: failure, takes: time.Second}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		var taking sync.WaitGroup
		for range 8 {
			taking.Go(func() {
				_, err := c.Take(t.Context(), false)
				assert.ErrorIs(t, err, failure)
			})
		}
		taking.Wait()
		set(s, &s.err, nil)
		set(s, &s.panics, true)
		_, err := c.Take(t.Context(), false)
		require.ErrorAs(t, err, new(*lending.PanicError))
		set(s, &s.takes, 0)
		s.put(events(1)...)
		require.Equal(t, "0", take(t, c))
	})
}

// During a backlog, workers that have ended their events wait a moment for others and share a
// request with them.
func TestWorkersShareARequestInABacklog(t *testing.T) {
	s := &store{due: events(16)}
	bubble(t, s, claimer.Options{}, func(t *testing.T, c *claimer.Claimer[string]) {
		for range 8 {
			take(t, c)
		}
		before, start := len(s.requests()), time.Now()
		var taking sync.WaitGroup
		for range 4 { // half of the workers
			taking.Go(func() {
				<-time.After(time.Millisecond)
				require.NoError(t, c.Ended(nil))
				take(t, c)
			})
		}
		taking.Wait()
		require.Len(t, s.requests(), before+1)
		require.Equal(t, 4, s.requests()[before].N)
		require.LessOrEqual(t, time.Since(start), 10*time.Millisecond)
		require.EqualError(t, c.Ended(errors.New("a failure")), "a failure")
	})
}
