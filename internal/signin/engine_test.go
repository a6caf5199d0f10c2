package signin_test

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/test/bubble"
)

// emptyStore keeps nothing and has one lease after another.
type emptyStore struct {
	fence    atomic.Int64
	released atomic.Pointer[func()] // called once, when a lease is given back
}

func (*emptyStore) Load(context.Context) (signin.Stored, error) { return signin.Stored{}, nil }
func (*emptyStore) Save(context.Context, signin.Stored) error   { return nil }
func (s *emptyStore) Release(context.Context, string) error {
	if released := s.released.Swap(nil); released != nil {
		(*released)()
	}
	return nil
}

func (s *emptyStore) Acquire(context.Context, string, time.Duration) (int64, error) {
	return s.fence.Add(1), nil
}

// counted are the steps of an engine whose tokens live for life.
type counted struct {
	signIns, refreshes int
	reports            int   // to the log
	failure            error // of a sign-in
	lost               error // of a refresh
	takes              time.Duration
	store              emptyStore
}

func newEngine(t *testing.T, life time.Duration, now func() time.Time) (*signin.Engine, *counted) {
	t.Helper()
	steps := &counted{}
	issue := func(kind string, n *int) (signin.Issue, error) {
		*n++
		bubble.Elapse(steps.takes)
		begun := now()
		return signin.Issue{Token: fmt.Sprint(kind, *n), Issued: begun, Expires: begun.Add(life)}, steps.failure
	}
	e := signin.New(signin.Config{
		Store: &steps.store, Now: now,
		SignIn: func(context.Context) (signin.Issue, error) { return issue("sign-in ", &steps.signIns) },
		Refresh: func(context.Context, string, time.Duration) (signin.Issue, error) {
			issued, _ := issue("refresh ", &steps.refreshes)
			return issued, steps.lost
		},
		Report: func(doing string, err error) {
			if steps.reports++; steps.lost == nil {
				t.Errorf("%s: %v", doing, err)
			}
		},
		Jitter:    func(most time.Duration) time.Duration { return most / 2 },
		Elsewhere: func([]byte) error { return signin.ErrRefused },
	})
	t.Cleanup(e.Close)
	return e, steps
}

func take(t *testing.T, e *signin.Engine) string {
	t.Helper()
	token, _, _, err := e.Token(t.Context())
	require.NoError(t, err)
	return *token
}

// children counts the contexts that a context cancels when it ends.
type children struct {
	context.Context
	open int
}

func (*children) Value(any) any { return nil } // package context knows its own contexts by a value

func (c *children) AfterFunc(func()) (stop func() bool) {
	c.open++
	return func() bool { c.open--; return true }
}

// A caller's long context keeps nothing of a step that has ended.
func TestContextOfAStepEnds(t *testing.T) {
	e, _ := newEngine(t, time.Hour, time.Now)
	long := &children{Context: t.Context()}
	require.NoError(t, e.Do(long, func(context.Context) (signin.Issue, error) {
		assert.Positive(t, long.open)
		return signin.Issue{Token: "a", Issued: time.Now()}, nil
	}))
	require.Zero(t, long.open)
	require.Zero(t, reflect.ValueOf(e).Elem().FieldByName("flights").Len())
}

// While a machine sleeps its monotonic clock stands still: a token that has expired meanwhile
// by the wall clock is neither given out nor refreshed. A wall clock that is set back keeps no token
// in use past its end.
func TestTokenEndsByEitherClock(t *testing.T) {
	for _, test := range []struct {
		name          string
		awake, asleep time.Duration // both pass on the wall clock, and one on the monotonic clock
		want          string
		refreshes     int
	}{
		{"no sleep", 0, 0, "sign-in 1", 0},
		{"sleep until the token is due", 0, 52 * time.Minute, "sign-in 1", 1},
		{"sleep until it has expired", 0, 2 * time.Hour, "sign-in 2", 0},
		{"process stopped until it has expired", 2 * time.Hour, 0, "sign-in 2", 0}, // no timer has fired
		{"wall clock set back", 59*time.Minute + 55*time.Second, -24 * time.Hour, "sign-in 2", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Now() // on both clocks, which a bubble does not have
			synctest.Test(t, func(t *testing.T) {
				e, steps := newEngine(t, time.Hour, func() time.Time { return now })
				require.Equal(t, "sign-in 1", take(t, e))
				now = wakeUp(now.Add(test.awake), test.asleep)
				assert.Equal(t, test.want, take(t, e))
				synctest.Wait()
				assert.Equal(t, test.refreshes, steps.refreshes)
			})
		})
	}
}

// wakeUp moves the wall clock's reading in t and not that of the monotonic clock. Package time
// has no way to do that, and a machine that slept has such a time: the upper 34 bits of the
// first word are a flag and the seconds.
func wakeUp(t time.Time, asleep time.Duration) time.Time {
	if t == t.Round(0) { //nolint:staticcheck // the readings too
		panic("the time has no monotonic reading")
	}
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(asleep/time.Second) << 30
	return t
}

// A caller whose token is replaced while it asks for the token renews neither.
func TestReplacedTokenIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var meanwhile atomic.Pointer[func()]
		e, steps := newEngine(t, time.Hour, func() time.Time {
			if replace := meanwhile.Swap(nil); replace != nil {
				(*replace)()
			}
			return time.Now()
		})
		take(t, e)
		bubble.Elapse(51 * time.Minute) // a renewal is due
		replace := func() { assert.NoError(t, e.SignIn(t.Context())) }
		meanwhile.Store(&replace)
		take(t, e)
		synctest.Wait()
		assert.Equal(t, "refresh 1", take(t, e))
		assert.Equal(t, 1, steps.refreshes)
	})
}

// A token refused while its lease is given back is not given out, if there is another.
func TestTokenRefusedAtTheEndOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		another := func() {
			<-e.Drop("sign-in 1")
			assert.NoError(t, e.Do(t.Context(), func(context.Context) (signin.Issue, error) {
				return signin.Issue{Token: "another", Issued: time.Now(), Expires: time.Now().Add(time.Hour)}, nil
			}))
		}
		steps.store.released.Store(&another)
		assert.Equal(t, "another", take(t, e))
	})
}

// The sign-in of a person during a pause serves the callers meanwhile.
func TestCallersShareTheSignInOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		steps.failure = &signin.Failure{Err: signin.ErrRefused, Class: signin.Refused}
		_, _, _, err := e.Token(t.Context())
		require.ErrorIs(t, err, signin.ErrRefused)
		steps.failure, steps.takes = nil, time.Second
		go func() { assert.NoError(t, e.SignIn(t.Context())) }()
		synctest.Wait()
		assert.Equal(t, "sign-in 2", take(t, e))
	})
}

// A failed refresh is tried again after a quarter of the token's remaining use.
func TestFailedRefreshIsTriedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		steps.lost = &signin.Failure{Err: signin.ErrRefused}
		for range 6 * 61 {
			take(t, e)
			bubble.Elapse(10 * time.Second)
		}
		assert.Equal(t, 14, steps.refreshes, "in 15 minutes")
		assert.Equal(t, 14, steps.reports, "each to the log")
		assert.Equal(t, 2, steps.signIns, "at the end of the token")
	})
}

// A Keepalive refreshes a token of a short life in time.
func TestKeepaliveOfAShortLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, 10*time.Second, time.Now)
		take(t, e)
		go func() { assert.ErrorIs(t, e.Keepalive(t.Context()), signin.ErrClosed) }()
		bubble.Elapse(time.Minute)
		synctest.Wait()
		take(t, e)
		assert.Equal(t, 1, steps.signIns)
		assert.InDelta(t, 8, steps.refreshes, 2)
		e.Close()
		synctest.Wait()
	})
}

// A session that lives for months forgets the tokens that were refused long ago.
func TestRefusedTokensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		for range 160 {
			<-e.Drop(take(t, e))
			time.Sleep(time.Hour) //nolint:forbidigo // fake time; the failures are not in a row
		}
		assert.Equal(t, 160, steps.signIns)
		assert.Equal(t, 16, reflect.ValueOf(e).Elem().FieldByName("refused").Len())
	})
}

func TestPauses(t *testing.T) {
	for _, test := range []struct {
		name    string
		failure signin.Failure
		want    []time.Duration // after the first, second … failure in a row
	}{
		{"outage", signin.Failure{}, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}},
		{"refused", signin.Failure{Class: signin.Refused}, []time.Duration{60, 120, 240, 480, 960, 1920, 3600, 3600}},
		{"code sent", signin.Failure{Class: signin.CodeSent}, []time.Duration{300, 600, 1200, 2400, 3600, 3600}},
		{"store", signin.Failure{Class: signin.StoreOutage}, []time.Duration{1, 2, 4, 5, 5}},
		{"mild", signin.Failure{Mild: true}, []time.Duration{0, 0, 0, 1, 2, 4}},
		{"mild, code sent", signin.Failure{Mild: true, Class: signin.CodeSent}, []time.Duration{0, 0, 0, 300, 600}},
		{"rate limited", signin.Failure{RetryAfter: 10 * time.Second}, []time.Duration{10, 10, 10, 10, 16}},
		{"absurd Retry-After", signin.Failure{RetryAfter: 1<<63 - 1}, []time.Duration{(1<<63 - 1) / time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, steps := newEngine(t, time.Hour, time.Now)
				test.failure.Err = signin.ErrRefused
				steps.failure = &test.failure
				for i, want := range test.want {
					_, _, _, err := e.Token(t.Context())
					require.ErrorIs(t, err, signin.ErrRefused)
					assert.Equal(t, want, e.Pause()/time.Second, "after %d failures", i+1)
					time.Sleep(e.Pause()) //nolint:forbidigo // fake time
				}
				assert.Equal(t, len(test.want), steps.signIns)
			})
		})
	}
}

// Failures are in a row until five pauses and a minute have passed.
func TestFailuresInARow(t *testing.T) {
	for _, test := range []struct {
		name    string
		between time.Duration
		want    time.Duration
	}{
		{"as soon as it may", time.Second, 2 * time.Second},
		{"a while later", 65 * time.Second, 2 * time.Second},
		{"much later", 66 * time.Second, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, steps := newEngine(t, time.Hour, time.Now)
				steps.failure = signin.ErrRefused
				for _, want := range []time.Duration{time.Second, test.want} {
					_, _, _, err := e.Token(t.Context())
					require.ErrorIs(t, err, signin.ErrRefused)
					assert.Equal(t, want, e.Pause())
					time.Sleep(test.between) //nolint:forbidigo // fake time
				}
			})
		})
	}
}

// A step that ends because its lease was lost is taken again. If the step brings a token all the
// same, the token is used: a two-factor code could not be used again.
func TestStepWhoseLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newEngine(t, time.Hour, time.Now)
		steps := 0
		require.NoError(t, e.Do(t.Context(), func(ctx context.Context) (signin.Issue, error) {
			steps++
			<-ctx.Done() // the store grants each lease anew
			if steps == 1 {
				return signin.Issue{}, ctx.Err()
			}
			return signin.Issue{Token: "late", Issued: time.Now()}, nil
		}))
		assert.Equal(t, 2, steps)
		assert.Equal(t, "late", take(t, e))
	})
}

// The end of a sign-in for which nobody waits any more leaves the next sign-in to its callers.
func TestCallersShareASignInAfterAnAbandonedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var signIns atomic.Int32
		e := signin.New(signin.Config{
			Store: &emptyStore{},
			SignIn: func(context.Context) (signin.Issue, error) {
				first := signIns.Add(1) == 1
				bubble.Elapse(10 * time.Second)
				if first {
					return signin.Issue{}, &signin.Failure{Err: signin.ErrRefused, Mild: true}
				}
				return signin.Issue{Token: "a", Issued: time.Now()}, nil
			},
			Report: func(doing string, err error) { t.Errorf("%s: %v", doing, err) },
		})
		defer e.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _, err := e.Token(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() { _, _, _, _ = e.Token(t.Context()) }()
		bubble.Elapse(9500 * time.Millisecond) // the first has ended, and the second has not
		take(t, e)
		assert.EqualValues(t, 2, signIns.Load())
	})
}

// The engine makes a refresh at a time, whatever else ends meanwhile.
func TestOneRefreshAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		take(t, e)
		steps.takes = 10 * time.Minute
		bubble.Elapse(45 * time.Minute)
		take(t, e)
		_, err := e.State(t.Context())
		require.NoError(t, err)
		bubble.Elapse(9 * time.Minute)
		take(t, e) // another attempt is due
		synctest.Wait()
		assert.Equal(t, 1, steps.refreshes)
		bubble.Elapse(steps.takes)
	})
}
