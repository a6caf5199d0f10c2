package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/batch"
)

// store counts the transactions of items. An item is the time of its transaction.
type store struct {
	mu     sync.Mutex
	size   int
	err    error
	panics bool
	alone  []time.Duration
	shared [][]time.Duration
	ended  int // transactions whose context ended
}

var errItem = errors.New("an item fails")

func (s *store) group() *batch.Group[time.Duration] {
	return batch.New(batch.Store[time.Duration]{
		Alone: s.one, Together: s.many, Size: func(time.Duration) int { return s.size },
	})
}

func (s *store) wait(ctx context.Context, item time.Duration) error {
	select {
	case <-time.After(item):
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
		return ctx.Err()
	}
}

func (s *store) one(ctx context.Context, item time.Duration) error {
	s.mu.Lock()
	s.alone = append(s.alone, item)
	s.mu.Unlock()
	return s.wait(ctx, item)
}

// many fails the items with an odd number of milliseconds.
func (s *store) many(ctx context.Context, items []time.Duration) ([]error, error) {
	s.mu.Lock()
	s.shared = append(s.shared, items)
	s.mu.Unlock()
	if s.panics {
		panic("here")
	}
	results := make([]error, len(items))
	for i, item := range items {
		if item/time.Millisecond%2 == 1 {
			results[i] = errItem
		}
	}
	return results, errors.Join(s.err, s.wait(ctx, slices.Max(items)))
}

// busy occupies all transactions for a while.
func busy(t *testing.T, g *batch.Group[time.Duration], while time.Duration) {
	t.Helper()
	for range 4 {
		go func() { assert.NoError(t, g.Do(t.Context(), while)) }()
		synctest.Wait()
	}
}

const ms = time.Millisecond

func TestALoneCallRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g, start := s.group(), time.Now()
		for range 3 {
			require.NoError(t, g.Do(t.Context(), 2*ms))
		}
		require.Equal(t, 6*ms, time.Since(start))
		require.Empty(t, s.shared)
	})
}

func TestCallsThatWaitShareATransaction(t *testing.T) {
	for _, tt := range []struct {
		name   string
		store  *store
		calls  int
		shared []int // items of each transaction
		alone  int   // transactions of single items, after the first four
	}{
		{"both wait", &store{}, 2, []int{2}, 0},
		{"a single call waits", &store{}, 1, nil, 1},
		{"more than 64 items", &store{}, 100, []int{36, 64}, 0},
		{"more than 1 MiB", &store{size: 400 << 10}, 5, []int{2, 2}, 1},
		{"items above 1 MiB", &store{size: 2 << 20}, 3, nil, 3},
		{"the transaction fails", &store{err: errors.New("a failure")}, 3, []int{3}, 3},
		{"the transaction panics", &store{panics: true}, 3, []int{3}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.store
				g := s.group()
				busy(t, g, 50*ms)
				var calls sync.WaitGroup
				for n := range tt.calls {
					calls.Go(func() {
						err := g.Do(t.Context(), time.Duration(n)*ms)
						if tt.alone < 2 && n%2 == 1 {
							assert.ErrorIs(t, err, errItem, "each call has its own result")
						} else {
							assert.NoError(t, err)
						}
					})
					synctest.Wait()
				}
				calls.Wait()
				var shared []int
				for _, items := range s.shared {
					shared = append(shared, len(items))
					require.True(t, slices.IsSorted(items), "in the order of the calls")
				}
				slices.Sort(shared) // they begin at the same time
				require.Equal(t, tt.shared, shared)
				require.Len(t, s.alone, 4+tt.alone)
			})
		})
	}
}

// The end of a context ends its call only. The last end of a context ends the transaction.
func TestContextsEndTheirCallsOnly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // the contexts of two calls end; the third call begins after 50 ms
		third time.Duration
		ended int
		items []int
	}{
		{"while they wait", 10 * ms, 0, 0, nil},
		{"in their transaction", 60 * ms, 0, 0, []int{3}},
		{"all, in their transaction", 60 * ms, 65 * ms, 1, []int{3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				g := s.group()
				busy(t, g, 50*ms)
				start := time.Now()
				ending := func(after time.Duration) {
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					assert.ErrorIs(t, g.Do(ctx, 20*ms), context.DeadlineExceeded)
					assert.Equal(t, after, time.Since(start))
				}
				var calls sync.WaitGroup
				for range 2 {
					calls.Go(func() { ending(tt.after) })
				}
				calls.Go(func() {
					if tt.third > 0 {
						ending(tt.third)
						return
					}
					assert.NoError(t, g.Do(t.Context(), 20*ms))
					assert.Equal(t, 70*ms, time.Since(start))
				})
				calls.Wait()
				synctest.Wait()
				require.Equal(t, tt.ended, s.ended)
				var items []int
				for _, shared := range s.shared {
					items = append(items, len(shared))
				}
				require.Equal(t, tt.items, items)
				require.NoError(t, g.Do(t.Context(), 0), "later calls run")
			})
		})
	}
}

// Transactions that wait for a long time, as for a lock, delay no later call for long.
func TestASlowTransactionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g := s.group()
		busy(t, g, time.Hour)
		start := time.Now()
		for range 10 {
			require.NoError(t, g.Do(t.Context(), ms))
		}
		require.Equal(t, batch.Patience+10*ms, time.Since(start))
		<-time.After(time.Hour)
		busy(t, g, 50*ms) // no more transactions at once than before
		start = time.Now()
		require.NoError(t, g.Do(t.Context(), ms))
		require.Equal(t, 51*ms, time.Since(start))
	})
}

// Many calls with random times, failures and ends of contexts all return, and no call that
// succeeds is without a transaction.
func TestManyCalls(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				var mu sync.Mutex
				stored := map[int]int{}
				store := func(ctx context.Context, items ...int) error {
					mu.Lock()
					took, fails := time.Duration(random.IntN(150))*ms, random.IntN(5) == 0
					mu.Unlock()
					select {
					case <-time.After(took):
					case <-ctx.Done():
						return ctx.Err()
					}
					if fails {
						return errItem
					}
					mu.Lock()
					defer mu.Unlock()
					for _, item := range items {
						stored[item]++
					}
					return nil
				}
				g := batch.New(batch.Store[int]{
					Alone: func(ctx context.Context, item int) error { return store(ctx, item) },
					Together: func(ctx context.Context, items []int) ([]error, error) {
						return make([]error, len(items)), store(ctx, items...)
					},
					Size: func(int) int { return 100 << 10 },
				})
				var calls sync.WaitGroup
				for item := range 100 {
					mu.Lock()
					begins, ends := time.Duration(random.IntN(500))*ms, time.Duration(random.IntN(600))*ms
					mu.Unlock()
					calls.Go(func() {
						<-time.After(begins)
						ctx, cancel := context.WithTimeout(t.Context(), ends)
						defer cancel()
						err := g.Do(ctx, item)
						mu.Lock()
						defer mu.Unlock()
						assert.LessOrEqual(t, stored[item], 1)
						if err == nil {
							assert.Equal(t, 1, stored[item])
						}
					})
				}
				calls.Wait()
				synctest.Wait()
				start := time.Now()
				_ = g.Do(t.Context(), 1000)
				require.Less(t, time.Since(start), 150*ms, "nothing is in progress")
			})
		})
	}
}
