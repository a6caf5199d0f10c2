package orders_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
	"github.com/lendingapi/lending-go/webhook"
)

// shop is a program's table of orders, and a worker that runs in a bubble.
type shop struct {
	*orders.Worker
	start   time.Time
	mu      sync.Mutex
	open    map[string]bool
	listing func() error // before the open orders are listed
	steps   map[string][]time.Duration
	results []orders.Result
	stop    context.CancelFunc
	ended   chan error
}

// inShop runs f beside a worker, which has ended with all its goroutines afterwards.
func inShop(t *testing.T, opts orders.Options, open []string,
	step func(ctx context.Context, s *shop, order string) error, f func(t *testing.T, s *shop),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{
			start: time.Now(), open: map[string]bool{}, steps: map[string][]time.Duration{},
			ended: make(chan error, 1),
		}
		for _, order := range open {
			s.open[order] = true
		}
		opts.Report = func(r orders.Result) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.results = append(s.results, r)
		}
		s.Worker = fake.Must(orders.New(s.list, func(ctx context.Context, order string) error {
			s.mu.Lock()
			s.steps[order] = append(s.steps[order], time.Since(s.start))
			s.mu.Unlock()
			return step(ctx, s, order)
		}, &opts))
		var ctx context.Context
		ctx, s.stop = context.WithCancel(t.Context())
		go func() { s.ended <- s.Run(ctx) }()
		synctest.Wait()
		f(t, s)
		s.stop()
		assert.ErrorIs(t, <-s.ended, context.Canceled)
	})
}

func (s *shop) list(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing != nil {
		if err := s.listing(); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Keys(s.open)), nil
}

func (s *shop) onList(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = f
}

// set opens or closes an order.
func (s *shop) set(order string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[order] = open; !open {
		delete(s.open, order)
	}
}

// left returns the open orders.
func (s *shop) left() (open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// at returns when the steps of an order began, after the start.
func (s *shop) at(order string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps[order])
}

// seconds returns durations, rounded.
func seconds(durations ...float64) (times []time.Duration) {
	for _, d := range durations {
		times = append(times, time.Duration(d*float64(time.Second)))
	}
	return times
}

func succeed(context.Context, *shop, string) error { return nil }

func later(wait time.Duration) error { return &lending.Error{Effect: lending.Read, RetryAfter: wait} }

// TestPassCatchesALostHint places an order of which nobody tells the worker.
func TestPassCatchesALostHint(t *testing.T) {
	inShop(t, orders.Options{}, []string{"a"}, succeed, func(t *testing.T, s *shop) {
		bubble.Elapse(10 * time.Second)
		s.set("b", true)
		bubble.Elapse(2 * time.Minute)
		s.set("a", false)
		bubble.Elapse(2 * time.Minute)
		assert.Len(t, s.at("a"), 3, "at each pass while it is open")
		require.Len(t, s.at("b"), 4)
		assert.InDelta(t, 60, s.at("b")[0].Seconds(), 1)
	})
}

// TestEventIsAHint delivers events of webhooks, before the worker runs too.
func TestEventIsAHint(t *testing.T) {
	inShop(t, orders.Options{}, nil, succeed, func(t *testing.T, s *shop) {
		bubble.Elapse(10 * time.Second)
		s.set("a", true)
		handle := s.OnEvent(func(e *webhook.Event) []string { return []string{string(e.Name)} })
		require.NoError(t, handle(t.Context(), &webhook.Event{Name: "a"}))
		synctest.Wait()
		assert.Equal(t, seconds(10), s.at("a"))
	})
}

// TestHintGoesFirst has an event overtake the orders of a pass.
func TestHintGoesFirst(t *testing.T) {
	var open []string
	for i := range 100 {
		open = append(open, strconv.Itoa(i))
	}
	inShop(t, orders.Options{}, open, succeed, func(t *testing.T, s *shop) {
		bubble.Elapse(time.Second)
		s.Hint("new")
		bubble.Elapse(250 * time.Millisecond)
		assert.Len(t, s.at("new"), 1)
	})
}

// TestHintDuringAStepIsNotLost has an order change, or a person act, while the step of the order looks at it.
func TestHintDuringAStepIsNotLost(t *testing.T) {
	for _, err := range []error{nil, idempotency.ErrNeedsReview, &lending.ArgumentError{}} {
		t.Run(fmt.Sprint(err), func(t *testing.T) {
			slow := func(context.Context, *shop, string) error { bubble.Elapse(5 * time.Second); return err }
			inShop(t, orders.Options{}, []string{"a"}, slow, func(t *testing.T, s *shop) {
				bubble.Elapse(time.Second)
				s.Hint("a")
				bubble.Elapse(10 * time.Second)
				assert.Equal(t, seconds(0, 5), s.at("a"))
			})
		})
	}
}

// TestHintDuringAPassIsNotLost has the list of a pass be older than an order that waits.
func TestHintDuringAPassIsNotLost(t *testing.T) {
	fails := func(context.Context, *shop, string) error { return later(5 * time.Second) }
	inShop(t, orders.Options{}, nil, fails, func(t *testing.T, s *shop) {
		s.onList(func() error { s.mu.Unlock(); bubble.Elapse(2 * time.Second); s.mu.Lock(); return nil })
		bubble.Elapse(61 * time.Second)
		s.Hint("a")
		bubble.Elapse(6 * time.Second)
		assert.Equal(t, seconds(61, 66), s.at("a"))
	})
}

// hints are the ways to tell the worker of an order.
var hints = map[string]func(s *shop, order string){
	"no hint": func(*shop, string) {},
	"Hint":    func(s *shop, order string) { s.Hint(order) },
	"event": func(s *shop, order string) {
		concerned := func(*webhook.Event) []string { return []string{order} }
		_ = s.OnEvent(concerned)(context.Background(), &webhook.Event{})
	},
}

// TestWaitsAsTheErrorSays has steps record nothing. After an error without a retry the worker reports the
// order that is still open, and does not call the step.
func TestWaitsAsTheErrorSays(t *testing.T) {
	const every = 500 * time.Millisecond // between two hints
	rejected := &lending.Error{Effect: lending.Mutation, Outcome: lending.OutcomeRejected, StatusCode: 409}
	for _, test := range []struct {
		name   string
		err    error
		hint   string
		passed time.Duration
		want   []time.Duration
	}{
		{"RetryAfter", later(40 * time.Second), "no hint", 100 * time.Second, seconds(0, 40, 80)},
		{"RetryAfter", later(40 * time.Second), "Hint", 100 * time.Second, seconds(0, 40, 80)},
		{"longer than the pass", later(150 * time.Second), "Hint", 200 * time.Second, seconds(0, 150)},
		{"in progress", idempotency.ErrInProgress, "Hint", 70 * time.Second, seconds(0, 60)},
		{"paused", idempotency.ErrPaused, "Hint", 70 * time.Second, seconds(0, 60)},
		{"no wait", errors.New("down"), "Hint", 3500 * time.Millisecond, seconds(0, 1, 2, 3)},
		{"no wait", errors.New("down"), "event", 3500 * time.Millisecond, seconds(0, 1, 2, 3)},
		{"needs review", idempotency.ErrNeedsReview, "no hint", 130 * time.Second, seconds(0, 60, 120)},
		{"needs review", idempotency.ErrNeedsReview, "event", 130 * time.Second, seconds(0, 60, 120)},
		{"needs review", idempotency.ErrNeedsReview, "Hint", 1200 * time.Millisecond, seconds(0, 0.5, 1)},
		{"argument", &lending.ArgumentError{}, "event", 130 * time.Second, seconds(0)},
		{"argument", &lending.ArgumentError{}, "Hint", 1200 * time.Millisecond, seconds(0, 0.5, 1)},
		{"rejected", rejected, "event", 50 * time.Minute, seconds(0)},
		{"rejected", rejected, "Hint", 1200 * time.Millisecond, seconds(0, 0.5, 1)},
		{"lost without a key", &lending.Error{Effect: lending.Mutation}, "no hint", time.Hour, seconds(0)},
		{"lost without a key", &lending.Error{Effect: lending.Mutation}, "event", time.Hour, seconds(0)},
	} {
		t.Run(test.name+", "+test.hint, func(t *testing.T) {
			fails := func(context.Context, *shop, string) error { return fmt.Errorf("step: %w", test.err) }
			inShop(t, orders.Options{}, []string{"a"}, fails, func(t *testing.T, s *shop) {
				bubble.Elapse(every)
				for end := s.start.Add(test.passed); time.Now().Before(end); bubble.Elapse(every) {
					hints[test.hint](s, "a")
				}
				assert.Equal(t, test.want, rounded(s.at("a")))
				s.mu.Lock() // the end can be the time of a pass
				defer s.mu.Unlock()
				for i, result := range s.results {
					assert.Equal(t, "a", result.Order)
					assert.Equal(t, lending.NextOf(test.err), result.Next)
					isFirstMistake := i == 1 && !result.Next.Retry && test.hint != "Hint"
					assert.Equal(t, i > 0 && !isFirstMistake, result.Repeated)
					require.ErrorIs(t, result.Err, test.err)
				}
			})
		})
	}
}

// rounded returns durations without their last milliseconds.
func rounded(all []time.Duration) []time.Duration {
	for i := range all {
		all[i] = all[i].Round(100 * time.Millisecond)
	}
	return all
}

func TestBackOffGrowsUpTo5Minutes(t *testing.T) {
	fails := func(context.Context, *shop, string) error { return errors.New("down") }
	inShop(t, orders.Options{}, []string{"a"}, fails, func(t *testing.T, s *shop) {
		bubble.Elapse(time.Hour)
		assert.InDelta(t, 20, len(s.at("a")), 10)
	})
}

// TestBackOffIsOfOneCall has 200 orders, each of nine mutations that fail once, and then end, as
// in a plain loop that waits for a second.
func TestBackOffIsOfOneCall(t *testing.T) {
	const count, mutations = 200, 9
	var open []string
	for i := range count {
		open = append(open, strconv.Itoa(i))
	}
	var mu sync.Mutex
	done := map[string]int{}
	step := func(_ context.Context, s *shop, order string) error {
		mu.Lock()
		defer mu.Unlock()
		if done[order]++; done[order] > mutations {
			s.set(order, false)
			return nil
		}
		return &lending.Error{Effect: lending.Mutation, IdempotencyKey: fmt.Sprint(order, "/", done[order])}
	}
	fast := orders.Options{Concurrency: count, StepsPerMinute: 600_000}
	inShop(t, fast, open, step, func(t *testing.T, s *shop) {
		bubble.Elapse(18 * time.Second)
		assert.Empty(t, s.left())
	})
}

// TestWaitOfItsOwnIsNoFailure has an order fail often with a wait of its own: the back-off of
// its next failure is the first.
func TestWaitOfItsOwnIsNoFailure(t *testing.T) {
	steps := 0
	step := func(context.Context, *shop, string) error {
		if steps++; steps <= 9 {
			return later(time.Second)
		}
		return &lending.Error{Effect: lending.Read}
	}
	inShop(t, orders.Options{}, []string{"a"}, step, func(t *testing.T, s *shop) {
		bubble.Elapse(12 * time.Second)
		assert.GreaterOrEqual(t, len(s.at("a")), 11)
	})
}

// TestEndedOrderIsNotRunFromAnOlderList has a hint end an order while a pass lists it.
func TestEndedOrderIsNotRunFromAnOlderList(t *testing.T) {
	inShop(t, orders.Options{}, nil, succeed, func(t *testing.T, s *shop) {
		bubble.Elapse(time.Second)
		s.set("a", true)
		s.onList(func() error {
			s.listing = nil
			s.mu.Unlock()
			defer s.mu.Lock()
			s.Hint("a")
			synctest.Wait()
			return nil
		})
		bubble.Elapse(100 * time.Second)
		assert.Equal(t, seconds(60), s.at("a"), "the list has the order, and is older than its end")
		bubble.Elapse(time.Minute)
		assert.Len(t, s.at("a"), 2, "the order was open at the next pass")
	})
}

// TestFailureDuringAPassIsNotTriedByIt has an order fail while a pass lists it.
func TestFailureDuringAPassIsNotTriedByIt(t *testing.T) {
	fails := func(context.Context, *shop, string) error { return idempotency.ErrNeedsReview }
	inShop(t, orders.Options{}, nil, fails, func(t *testing.T, s *shop) {
		bubble.Elapse(50 * time.Second)
		s.set("a", true)
		s.onList(func() error { s.mu.Unlock(); bubble.Elapse(2 * time.Second); s.mu.Lock(); return nil })
		bubble.Elapse(11 * time.Second)
		s.Hint("a")
		bubble.Elapse(30 * time.Second)
		assert.Equal(t, seconds(61), s.at("a"))
	})
}

// TestStopEndsTheStepsOfAnOrder has a step fail without a retry. If the step has ended the order, the worker
// forgets it. Otherwise each pass reports the mistake, and the step runs again after a hint only.
func TestStopEndsTheStepsOfAnOrder(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
	}{
		{"argument", &lending.ArgumentError{}},
		{"read without permission", &lending.Error{Effect: lending.Read, Outcome: lending.OutcomeRejected, StatusCode: 403}},
		{"rejected", &lending.Error{Effect: lending.Mutation, Outcome: lending.OutcomeRejected, StatusCode: 409}},
		{"lost without a key", &lending.Error{Effect: lending.Mutation}},
	} {
		t.Run(test.name, func(t *testing.T) {
			step := func(_ context.Context, s *shop, order string) error {
				s.set(order, order == "mistake")
				return test.err
			}
			inShop(t, orders.Options{}, []string{"right", "mistake"}, step, func(t *testing.T, s *shop) {
				bubble.Elapse(130 * time.Second)
				assert.Len(t, s.at("right"), 1)
				assert.Len(t, s.at("mistake"), 1)
				s.mu.Lock()
				ofMistake := slices.DeleteFunc(slices.Clone(s.results), func(r orders.Result) bool { return r.Order != "mistake" })
				assert.Len(t, s.results, len(ofMistake)+1)
				s.mu.Unlock()
				require.Len(t, ofMistake, 3)
				for i, result := range ofMistake {
					require.ErrorIs(t, result.Err, test.err)
					assert.Equal(t, i == 2, result.Repeated, "the mistake is new, and then not")
					assert.Equal(t, i > 0, strings.Count(result.Err.Error(), "still open") == 1, result.Err)
				}
				s.Hint("mistake")
				bubble.Elapse(time.Second)
				assert.Len(t, s.at("mistake"), 2)
			})
		})
	}
}

// TestStepGoesOnInAnotherWay has a step fail without a retry, and call Hint.
func TestStepGoesOnInAnotherWay(t *testing.T) {
	step := func(_ context.Context, s *shop, order string) error {
		if len(s.at(order)) == 1 {
			s.Hint(order)
			return &lending.Error{Effect: lending.Mutation, Outcome: lending.OutcomeRejected, StatusCode: 400}
		}
		s.set(order, false)
		return nil
	}
	inShop(t, orders.Options{}, []string{"a"}, step, func(t *testing.T, s *shop) {
		bubble.Elapse(time.Second)
		assert.Empty(t, s.left())
		assert.Len(t, s.at("a"), 2)
	})
}

// TestLockedStepWaits has another replica hold the lock of an order for 10 seconds. A hint shortens the
// wait, and nothing is reported. The failure of a lock is.
func TestLockedStepWaits(t *testing.T) {
	for _, test := range []struct {
		name        string
		hint        string
		held        error
		least, most int // tries; a back-off is random
	}{
		{"busy", "no hint", orders.ErrBusy, 5, 6},
		{"busy", "Hint", orders.ErrBusy, 11, 11},
		{"busy", "event", orders.ErrBusy, 11, 11},
		{"broken", "no hint", errors.New("the database is down"), 5, 6},
	} {
		t.Run(test.name+", "+test.hint, func(t *testing.T) {
			var s *shop
			tries, unlocked := 0, 0
			step := func(_ context.Context, s *shop, order string) error { s.set(order, false); return nil }
			opts := orders.Options{Lock: func(ctx context.Context, order string) (func(), error) {
				assert.Equal(t, "a", order)
				deadline, _ := ctx.Deadline()
				assert.Equal(t, time.Minute, time.Until(deadline))
				if tries++; time.Since(s.start) < 10*time.Second {
					return nil, fmt.Errorf("lock: %w", test.held)
				}
				return func() { unlocked++ }, nil
			}}
			inShop(t, opts, nil, step, func(t *testing.T, inner *shop) {
				s = inner
				s.set("a", true)
				s.Hint("a")
				for {
					bubble.Elapse(500 * time.Millisecond)
					if synctest.Wait(); len(s.left()) == 0 {
						break
					}
					hints[test.hint](s, "a")
				}
				assert.True(t, test.least <= tries && tries <= test.most, tries)
				assert.Equal(t, 1, unlocked)
				assert.Len(t, s.at("a"), 1)
				s.mu.Lock()
				defer s.mu.Unlock()
				failed := slices.DeleteFunc(slices.Clone(s.results), func(r orders.Result) bool { return r.Err == nil })
				assert.Equal(t, test.name == "broken", len(failed) > 0)
			})
		})
	}
}

// TestVerdictIsTakenUpByAPass has nobody give a hint after a person's verdict.
func TestVerdictIsTakenUpByAPass(t *testing.T) {
	var decided atomic.Bool
	step := func(_ context.Context, s *shop, order string) error {
		if !decided.Load() {
			return idempotency.ErrNeedsReview
		}
		s.set(order, false)
		return nil
	}
	inShop(t, orders.Options{}, []string{"a"}, step, func(t *testing.T, s *shop) {
		bubble.Elapse(10 * time.Second)
		decided.Store(true)
		bubble.Elapse(51 * time.Second)
		assert.Empty(t, s.left())
	})
}

// TestClosedOrderIsForgotten closes a waiting order.
func TestClosedOrderIsForgotten(t *testing.T) {
	fails := func(context.Context, *shop, string) error { return later(150 * time.Second) }
	inShop(t, orders.Options{}, []string{"a"}, fails, func(t *testing.T, s *shop) {
		bubble.Elapse(time.Second)
		s.set("a", false)
		bubble.Elapse(time.Hour)
		assert.Equal(t, seconds(0), s.at("a"))
	})
}

// TestPanicEndsNothing has a step, the list, the report and an error panic.
func TestPanicEndsNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		step func() error
	}{
		{"panic", func() error { panic("hush") }},
		{"Goexit", func() error { runtime.Goexit(); return nil }},
		{"error that panics", func() error { return panics{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			step := func(_ context.Context, _ *shop, order string) error {
				if order == "bad" {
					return test.step()
				}
				return nil
			}
			inShop(t, orders.Options{}, []string{"bad", "good"}, step, func(t *testing.T, s *shop) {
				s.onList(func() error { s.listing = nil; panic("hush") })
				bubble.Elapse(150 * time.Second)
				assert.Len(t, s.at("good"), 3)
				assert.NotEmpty(t, s.at("bad"))
				failed := slices.IndexFunc(s.results, func(r orders.Result) bool { return r.Order == "bad" })
				require.Error(t, s.results[failed].Err)
				assert.True(t, s.results[failed].Next.Retry)
				assert.True(t, slices.ContainsFunc(s.results, func(r orders.Result) bool { return r.Order == "" }))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		list := func(context.Context) ([]string, error) { return []string{"a"}, nil }
		ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
		defer stop()
		steps := 0
		w := fake.Must(orders.New(list, func(context.Context, string) error { steps++; return nil },
			&orders.Options{Report: func(orders.Result) { panic("hush") }}))
		require.ErrorIs(t, w.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 2, steps)
	})
}

type panics struct{}

func (panics) Error() string      { return "hush" }
func (panics) Next() lending.Next { panic("hush") }

// TestSlowStepHoldsNobody has one order hang until its deadline.
func TestSlowStepHoldsNobody(t *testing.T) {
	step := func(ctx context.Context, _ *shop, order string) error {
		if order == "slow" {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	inShop(t, orders.Options{Concurrency: 2}, []string{"slow", "a", "b"}, step, func(t *testing.T, s *shop) {
		for range 50 {
			s.Hint("a", "b")
			bubble.Elapse(time.Second)
		}
		assert.GreaterOrEqual(t, len(s.at("a")), 50)
		assert.Len(t, s.at("slow"), 1)
		bubble.Elapse(15 * time.Second)
		assert.Len(t, s.at("slow"), 2, "its deadline has ended it")
	})
}

// TestBounds has 10,000 open orders: how many steps begin in a minute, and how many run at a time.
func TestBounds(t *testing.T) {
	var open []string
	for i := range 10_000 {
		open = append(open, strconv.Itoa(i))
	}
	var mu sync.Mutex
	now, most := 0, 0
	step := func(context.Context, *shop, string) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		bubble.Elapse(time.Second)
		mu.Lock()
		now--
		mu.Unlock()
		return nil
	}
	inShop(t, orders.Options{Concurrency: 20, StepsPerMinute: 1000}, open, step, func(t *testing.T, s *shop) {
		bubble.Elapse(5*time.Minute - time.Second)
		s.mu.Lock()
		assert.InDelta(t, 5000, len(s.steps), 20, "no order has a second turn before all had one")
		s.mu.Unlock()
		bubble.Elapse(6 * time.Minute)
		s.mu.Lock()
		assert.Len(t, s.steps, 10_000)
		s.mu.Unlock()
	})
	assert.InDelta(t, 17, most, 3)
}

// TestEndWaitsForTheSteps ends the context of Run in the middle of a step, whose own goes on.
func TestEndWaitsForTheSteps(t *testing.T) {
	var ended error
	step := func(ctx context.Context, _ *shop, _ string) error {
		bubble.Elapse(10 * time.Second)
		ended = ctx.Err()
		return nil
	}
	inShop(t, orders.Options{}, []string{"a"}, step, func(t *testing.T, s *shop) {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, s.Run(soon), "is running already")
		s.stop()
		s.Hint("b")
		bubble.Elapse(9 * time.Second)
		select {
		case <-s.ended:
			assert.Fail(t, "Run has returned before its step")
		default:
		}
		s.ended <- <-s.ended
		require.NoError(t, ended)
		assert.Empty(t, s.at("b"), "no step begins after the end")
	})
}

func TestWorkerRunsAgainAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		w := fake.Must(orders.New(func(context.Context) ([]string, error) { return []string{"a"}, nil },
			func(context.Context, string) error { steps++; return nil }, nil))
		for range 2 {
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			require.ErrorIs(t, w.Run(ctx), context.DeadlineExceeded)
			stop()
		}
		assert.Equal(t, 2, steps)
	})
}

// TestFailedPassIsTriedAgain lists the open orders in vain, and then not. The back-off of a later failure is the first.
func TestFailedPassIsTriedAgain(t *testing.T) {
	inShop(t, orders.Options{}, nil, succeed, func(t *testing.T, s *shop) {
		var lists []time.Time
		s.onList(func() error {
			lists = append(lists, time.Now())
			if n := len(lists); n <= 3 || n == 5 {
				return errors.New("the database is down")
			}
			return nil
		})
		bubble.Elapse(time.Minute)
		s.set("a", true)
		bubble.Elapse(10 * time.Second)
		assert.Len(t, s.at("a"), 1)
		s.mu.Lock()
		require.Len(t, s.results, 4)
		assert.True(t, s.results[0].Order == "" && s.results[0].Err != nil)
		s.mu.Unlock()
		bubble.Elapse(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, lists, 6)
		assert.LessOrEqual(t, lists[5].Sub(lists[4]), time.Second)
	})
}

// TestReviewIsReportedOnceAsNew has the passes of two replicas call the step of an order that needs a
// review, before and after their restart. A call or Log.Check makes the review.
func TestReviewIsReportedOnceAsNew(t *testing.T) {
	for _, by := range []string{"a call", "Check"} {
		t.Run(by, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				reviewIsReportedOnceAsNew(t, service, by == "Check")
			})
		})
	}
}

func reviewIsReportedOnceAsNew(t *testing.T, service *lendingtest.Service, byCheck bool) {
	t.Helper()
	var mu sync.Mutex
	entries, tokens := store.NewMemory(), lending.NewMemoryTokenStore()
	application := fake.Must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
	service.Fail("POST /api/Application/submit-bankstatement-document/{applicationId}",
		lendingtest.Fault{ResetAfter: true})
	list := func(context.Context) ([]string, error) { return []string{"order-1"}, nil }
	replica := func() (*idempotency.Log, *lending.Client, func(context.Context, string) error) {
		log := fake.Must(idempotency.NewLog(entries, nil))
		client := fake.SignIn(t, service, nil, lending.WithIdempotency(log),
			lending.WithTokenStore(tokens))
		return log, client, func(ctx context.Context, order string) error {
			ctx = lending.WithIdempotencyKey(ctx, order+"/statement")
			return client.Applications.SubmitBankStatement(ctx, application,
				lending.Document{Name: "a.pdf", Content: strings.NewReader("content")})
		}
	}
	if byCheck {
		log, client, step := replica()
		require.ErrorIs(t, step(t.Context(), "order-1"), lending.ErrOutcomeUnknown)
		bubble.Elapse(10 * time.Minute)
		fake.Must(log.Check(t.Context(), client))
		require.Equal(t, 1, fake.Must(log.Counts(t.Context())).NeedsReview.Count)
	}
	var person, repeated int
	report := func(r orders.Result) {
		mu.Lock()
		defer mu.Unlock()
		if r.Next.Person {
			person++
		}
		if r.Next.Person && r.Repeated {
			repeated++
		}
	}
	for range 2 {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
		var replicas sync.WaitGroup
		for range 2 {
			_, _, step := replica()
			worker := fake.Must(orders.New(list, step, &orders.Options{Report: report}))
			replicas.Go(func() { _ = worker.Run(ctx) })
		}
		replicas.Wait()
		stop()
	}
	assert.Greater(t, person, 10)
	assert.GreaterOrEqual(t, repeated, person-2*2, "a replica reports at most once that it is new")
}

// TestForgetInAStepRepeatsNothing has steps that call Log.Forget at their end, in two replicas with lists
// from before the end of the order. Without a fault, the log of the clients has no warning.
func TestForgetInAStepRepeatsNothing(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		var lines strings.Builder
		logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
		entries, tokens := store.NewMemory(), lending.NewMemoryTokenStore()
		customer := fake.Must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID))
		service.Fail("POST /api/Application/create-application", lendingtest.Fault{AnswerDelay: 2 * time.Second})
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
		defer stop()
		stale := func(context.Context) ([]string, error) { return []string{"order-1"}, nil }
		var replicas sync.WaitGroup
		for range 2 {
			log := fake.Must(idempotency.NewLog(entries, nil))
			client := fake.SignIn(t, service, nil, lending.WithLogger(logger), lending.WithIdempotency(log),
				lending.WithTokenStore(tokens))
			step := func(ctx context.Context, order string) error {
				_, err := client.Applications.Create(lending.WithIdempotencyKey(ctx, order+"/create"),
					lending.ApplicationRequest{CustomerID: customer, BusinessName: "B", BusinessZip: "94105"}, nil)
				_, forgotten := log.Forget(ctx, order+"/")
				return errors.Join(err, forgotten)
			}
			worker := fake.Must(orders.New(stale, step, nil))
			replicas.Go(func() { _ = worker.Run(ctx) })
		}
		replicas.Wait()
		assert.Equal(t, 1, service.Executed("POST /api/Application/create-application"))
		assert.Empty(t, lines.String())
	})
}

// TestDocumentIsOpenedAgain has a step open a document without Seek, and the service refuse the first
// upload for now. Outside a step NextOf says stop.
func TestDocumentIsOpenedAgain(t *testing.T) {
	const route = "POST /api/Application/submit-bankstatement-document/{applicationId}"
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		application := fake.Must(lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID))
		client := fake.SignIn(t, service, nil, lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
		upload := func(ctx context.Context, order string) error {
			return client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, order+"/statement"), application,
				lending.Document{Name: "a.pdf", Content: io.MultiReader(strings.NewReader("content"))})
		}
		limited := lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
		service.Fail(route, limited)
		assert.False(t, lending.NextOf(upload(t.Context(), "order-1")).Retry)
		service.Fail(route, limited)
		open := true
		list := func(context.Context) (all []string, _ error) {
			if open {
				all = append(all, "order-2")
			}
			return all, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		worker := fake.Must(orders.New(list, func(ctx context.Context, order string) error {
			err := upload(ctx, order)
			open = open && err != nil
			return err
		}, &orders.Options{Report: func(r orders.Result) { assert.True(t, r.Err == nil || r.Next.Retry, r.Err) }}))
		_ = worker.Run(ctx)
		assert.False(t, open)
		assert.Equal(t, 1, service.Executed(route))
	})
}

func TestNewRefuses(t *testing.T) {
	list := func(context.Context) ([]string, error) { return nil, nil }
	step := func(context.Context, string) error { return nil }
	for _, test := range []struct {
		name string
		open func(context.Context) ([]string, error)
		step func(context.Context, string) error
		opts orders.Options
	}{
		{"no list", nil, step, orders.Options{}},
		{"no step", list, nil, orders.Options{}},
		{"negative", list, step, orders.Options{Every: -1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := orders.New(test.open, test.step, &test.opts)
			require.Error(t, err)
		})
	}
}
