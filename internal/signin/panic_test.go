package signin_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// breaking is a logger's handler that breaks.
type breaking struct{ slog.Handler }

func (b breaking) Enabled(context.Context, slog.Level) bool { return true }

func (b breaking) Handle(context.Context, slog.Record) error { panic("never seen") }

// What breaks in a goroutine of the session's must not end the process.
func TestFunctionsOfTheCallerBreak(t *testing.T) {
	broken := new(atomic.Bool)
	for _, test := range []struct {
		how string
		end func()
	}{{"panics", func() { panic("hush") }}, {"exits", runtime.Goexit}} {
		strike := func() {
			if broken.Load() {
				test.end()
			}
		}
		inStep := func(name string) func(*hookedStore) []lending.Option {
			return func(store *hookedStore) []lending.Option {
				store.before(func(_ context.Context, step string) error {
					if step == name {
						strike()
					}
					return nil
				})
				return nil
			}
		}
		for _, tt := range []struct {
			what string
			set  func(*hookedStore) []lending.Option
		}{
			{"loading", inStep("load")},
			{"saving", inStep("save")},
			{"acquiring", inStep("acquire")},
			{"releasing", inStep("release")},
			{"observer", func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithObserver(nil,
					func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
						strike()
						return nil, nil //nolint:nilnil // both may be nil
					})}
			}},
			{"begin", func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithObserver(func(context.Context, lending.Call) (context.Context,
					func(lending.Call),
				) {
					strike()
					return nil, nil //nolint:nilnil // both may be nil
				}, nil)}
			}},
			{"end", func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithObserver(func(context.Context, lending.Call) (context.Context,
					func(lending.Call),
				) {
					return nil, func(lending.Call) { strike() } //nolint:nilnil // it may be nil
				}, nil)}
			}},
		} {
			runInBubble(t, tt.what+" "+test.how, func(t *testing.T, service *lendingtest.Service) {
				store := newHookedStore()
				client := fake.SignIn(t, service, nil, append(tt.set(store), lending.WithTokenStore(store))...)
				broken.Store(true)
				_, _, err := takeToken(t.Context(), client)
				if tt.what == "saving" || tt.what == "releasing" {
					require.NoError(t, err, "there is a token all the same")
				} else {
					var panicked *lending.PanicError
					require.Equal(t, test.how == "panics", errors.As(err, &panicked))
					require.Error(t, err)
					require.NotContains(t, err.Error(), "hush")
					if test.how == "panics" {
						require.ErrorContains(t, err, "panic with a string")
						require.Equal(t, "hush", panicked.Value)
						require.Contains(t, string(panicked.Stack), "panic_test.go")
					}
				}
				broken.Store(false)
				bubble.Elapse(10 * time.Second)
				require.NoError(t, read(t.Context(), client))

				bubble.Elapse(51 * time.Minute)
				broken.Store(true)
				_, _, err = takeToken(t.Context(), client) // refreshes in the background
				require.NoError(t, err)
				synctest.Wait()
				broken.Store(false)
				for range 60 {
					require.NoError(t, read(t.Context(), client))
					bubble.Elapse(time.Minute)
				}
			})
		}
	}
}

func TestLoggerBreaksInTheBackground(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		require.NoError(t, read(t.Context(), client))
		logging := fake.SignIn(t, service, nil, lending.WithTokenStore(store), lending.WithLogger(slog.New(breaking{})))
		tokenIn(t, logging)
		bubble.Elapse(51 * time.Minute)
		store.fail("", errDown)
		tokenIn(t, logging)
		synctest.Wait() // it has reported that the store is down
		store.before(nil)
	})
}

// panicsWhenAsked is the error of a store that returns a nil pointer as an error: errors.Is
// and errors.As of it panic.
type panicsWhenAsked struct{ cause error }

func (e *panicsWhenAsked) Error() string { return e.cause.Error() }

func (e *panicsWhenAsked) Unwrap() error { return e.cause }

func TestStoreWhoseErrorPanicsWhileALeaseIsProlonged(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, acquired := newHookedStore(), 0
		store.before(func(_ context.Context, step string) error {
			if step == "acquire" {
				if acquired++; acquired > 1 {
					var none *panicsWhenAsked
					return none
				}
			}
			return nil
		})
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: 5 * time.Second})
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		assert.Greater(t, acquired, 1)
	})
}
