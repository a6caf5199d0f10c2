package signin

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// emptyStore keeps nothing and has one lease after another.
type emptyStore struct{ fence atomic.Int64 }

func (*emptyStore) Load(context.Context) (Stored, error)  { return Stored{}, nil }
func (*emptyStore) Save(context.Context, Stored) error    { return nil }
func (*emptyStore) Release(context.Context, string) error { return nil }
func (s *emptyStore) Acquire(context.Context, string, time.Duration) (int64, error) {
	return s.fence.Add(1), nil
}

// counted are the steps of an engine whose tokens live for life.
type counted struct{ signIns, refreshes int }

func newEngine(t *testing.T, life time.Duration, now func() time.Time) (*Engine, *counted) {
	t.Helper()
	steps := &counted{}
	issue := func(kind string, n *int) (Issue, error) {
		*n++
		begun := now()
		return Issue{Token: fmt.Sprint(kind, *n), Issued: begun, Expires: begun.Add(life)}, nil
	}
	e := New(Config{
		Store: &emptyStore{}, Now: now,
		SignIn: func(context.Context) (Issue, error) { return issue("sign-in ", &steps.signIns) },
		Refresh: func(context.Context, string, time.Duration) (Issue, error) {
			return issue("refresh ", &steps.refreshes)
		},
		Report:        func(doing string, err error) { t.Errorf("%s: %v", doing, err) },
		EncodeFailure: func(error) []byte { return nil },
		DecodeFailure: func([]byte) error { return ErrRefused },
	})
	t.Cleanup(e.Close)
	return e, steps
}

func take(t *testing.T, e *Engine) string {
	t.Helper()
	token, _, _, err := e.Token(t.Context())
	require.NoError(t, err)
	return *token
}

// While a machine sleeps its monotonic clock stands still: a token that has expired meanwhile
// by the wall clock is neither given out nor refreshed.
func TestMachineSleeps(t *testing.T) {
	for _, test := range []struct {
		name      string
		asleep    time.Duration
		want      string
		refreshes int
	}{
		{"not at all", 0, "sign-in 1", 0},
		{"until the token is due", 52 * time.Minute, "sign-in 1", 1},
		{"until it has expired", 2 * time.Hour, "sign-in 2", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Now() // on both clocks, which a bubble does not have
			e, steps := newEngine(t, time.Hour, func() time.Time { return now })
			require.Equal(t, "sign-in 1", take(t, e))
			now = wakeUp(now, test.asleep)
			assert.Equal(t, test.want, take(t, e))
			e.running.Wait()
			assert.Equal(t, test.refreshes, steps.refreshes)
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

// A wall clock that is set back keeps no token in use past its end.
func TestWallClockIsSetBack(t *testing.T) {
	now := time.Now()
	e, _ := newEngine(t, time.Hour, func() time.Time { return now })
	require.Equal(t, "sign-in 1", take(t, e))
	now = wakeUp(now.Add(59*time.Minute+55*time.Second), -24*time.Hour)
	assert.Equal(t, "sign-in 2", take(t, e))
}

// A session that lives for months forgets the tokens that were refused long ago.
func TestRefusedTokensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, steps := newEngine(t, time.Hour, time.Now)
		for range 10 * maxRefused {
			<-e.Drop(take(t, e))
			time.Sleep(time.Hour) //nolint:forbidigo // fake time; the failures are not in a row
		}
		assert.Equal(t, 10*maxRefused, steps.signIns)
		assert.Len(t, e.refused, maxRefused)
	})
}

func TestPauses(t *testing.T) {
	for _, test := range []struct {
		name    string
		failure Failure
		want    []time.Duration // after the first, second … failure in a row
	}{
		{"outage", Failure{}, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}},
		{"refused", Failure{Class: Refused}, []time.Duration{60, 120, 240, 480, 960, 1920, 3600, 3600}},
		{"code sent", Failure{Class: CodeSent}, []time.Duration{300, 600, 1200, 2400, 3600, 3600}},
		{"store", Failure{Class: StoreOutage}, []time.Duration{1, 2, 4, 5, 5}},
		{"mild", Failure{Mild: true}, []time.Duration{0, 0, 0, 1, 2, 4}},
		{"mild, code sent", Failure{Mild: true, Class: CodeSent}, []time.Duration{0, 0, 0, 300, 600}},
		{"rate limited", Failure{RetryAfter: 10 * time.Second}, []time.Duration{10, 10, 10, 10, 16}},
		{"absurd Retry-After", Failure{RetryAfter: 1<<63 - 1}, []time.Duration{(1<<63 - 1) / time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i, want := range test.want {
				assert.Equal(t, want, test.failure.pause(i+1)/time.Second, "after %d failures", i+1)
			}
		})
	}
}

// Failures are in a row until five pauses and a minute have passed.
func TestFailuresInARow(t *testing.T) {
	for _, test := range []struct {
		name    string
		between time.Duration
		want    int
	}{
		{"at once", 0, 2},
		{"a while later", 65 * time.Second, 2},
		{"much later", 66 * time.Second, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			now, f := time.Now(), failure{}
			f.remember(&Failure{Err: ErrRefused}, now)
			f.remember(&Failure{Err: ErrRefused}, now.Add(test.between))
			assert.Equal(t, test.want, f.count)
		})
	}
}
