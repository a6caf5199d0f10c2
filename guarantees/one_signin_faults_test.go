package guarantees_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/lendingtest"
)

// hookedStore calls a function before each step of a store, which fails if that does.
type hookedStore struct {
	lending.TokenStore
	hook atomic.Pointer[func(ctx context.Context, step string) error]
}

func newHookedStore() *hookedStore {
	return &hookedStore{TokenStore: lending.NewMemoryTokenStore()}
}

func (h *hookedStore) before(hook func(ctx context.Context, step string) error) {
	h.hook.Store(&hook)
}

func (h *hookedStore) call(ctx context.Context, step string) error {
	if hook := h.hook.Load(); hook != nil && *hook != nil {
		return (*hook)(ctx, step)
	}
	return nil
}

func (h *hookedStore) Load(ctx context.Context) (lending.StoredToken, error) {
	if err := h.call(ctx, "load"); err != nil {
		return lending.StoredToken{}, err
	}
	return h.TokenStore.Load(ctx)
}

func (h *hookedStore) Save(ctx context.Context, token lending.StoredToken) error {
	if err := h.call(ctx, "save"); err != nil {
		return err
	}
	return h.TokenStore.Save(ctx, token)
}

func (h *hookedStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	if err := h.call(ctx, "acquire"); err != nil {
		return 0, err
	}
	return h.TokenStore.Acquire(ctx, owner, ttl)
}

func (h *hookedStore) Release(ctx context.Context, owner string) error {
	if err := h.call(ctx, "release"); err != nil {
		return err
	}
	return h.TokenStore.Release(ctx, owner)
}

// breaking is a logger's handler that breaks.
type breaking struct{ slog.Handler }

func (b breaking) Enabled(context.Context, slog.Level) bool  { return true }
func (b breaking) Handle(context.Context, slog.Record) error { panic("never seen") }

// What breaks in a goroutine of the session's must not end the process.
func TestFunctionsOfTheCallerBreak(t *testing.T) {
	broken := new(atomic.Bool)
	for how, end := range map[string]func(){"panics": func() { panic("hush") }, "exits": runtime.Goexit} {
		strike := func() {
			if broken.Load() {
				end()
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
		for what, set := range map[string]func(*hookedStore) []lending.Option{
			"loading": inStep("load"), "saving": inStep("save"), "acquiring": inStep("acquire"), "releasing": inStep("release"),
			"observer": func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithObserver(func(context.Context, lending.Attempt) { strike() })}
			},
			"begin": func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithCallObserver(func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
					strike()
					return nil, nil //nolint:nilnil // both may be nil
				})}
			},
			"end": func(*hookedStore) []lending.Option {
				return []lending.Option{lending.WithCallObserver(func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
					return nil, func(lending.Call) { strike() } //nolint:nilnil // it may be nil
				})}
			},
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
					store := newHookedStore()
					client := fake.SignIn(t, service, nil, append(set(store), lending.WithTokenStore(store))...)
					broken.Store(true)
					_, _, err := takeToken(t.Context(), client)
					if what == "saving" || what == "releasing" {
						require.NoError(t, err, "there is a token all the same")
					} else {
						var panicked *lending.PanicError
						require.Equal(t, how == "panics", errors.As(err, &panicked))
						require.Error(t, err)
						require.NotContains(t, err.Error(), "hush")
						if how == "panics" {
							require.ErrorContains(t, err, "panic with a string")
							require.Equal(t, "hush", panicked.Value)
							require.Contains(t, string(panicked.Stack), "signin_faults_test.go")
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
			})
		}
	}
}

func TestLoggerBreaksInTheBackground(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		logging := fake.SignIn(t, service, nil, lending.WithTokenStore(store), lending.WithLogger(slog.New(breaking{})))
		_, _, err := takeToken(t.Context(), logging)
		require.NoError(t, err)
		bubble.Elapse(51 * time.Minute)
		store.before(func(context.Context, string) error { return errDown })
		_, _, err = takeToken(t.Context(), logging)
		require.NoError(t, err)
		synctest.Wait() // it has reported that the store is down
		store.before(nil)
	})
}

// A function that ends its goroutine after a code was sent must not cause one more for every call.
func TestCallbackExits(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { runtime.Goexit(); return "", nil }
		})
		for range 60 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.LessOrEqual(t, len(service.Sent()), 4)
	})
}

// A Date that is more than a day off says nothing of the expiry.
func TestAbsurdDate(t *testing.T) {
	for _, date := range []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"} {
		t.Run(date, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				start := time.Now() // 2000-01-01
				bubble.Elapse(24 * time.Hour)
				answer := func(body string) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Date", date)
						w.Header().Set("Content-Type", "application/json")
						fmt.Fprint(w, body)
					}
				}
				service.Answer(fake.LoginRoute, answer(`{"requiresTwoFactor":false,"token":"first","expiresUTC":"2000-01-02T01:00:00Z"}`))
				second := jwt(fmt.Sprintf(`{"exp":%d}`, start.Add(26*time.Hour).Unix()))
				service.Answer(fake.RefreshRoute, answer(fmt.Sprintf("%q", second)))
				client := fake.SignIn(t, service, nil)
				got, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				assert.True(t, start.Add(25*time.Hour).Equal(got.Expires))
				bubble.Elapse(51 * time.Minute)
				_, _, err = takeToken(t.Context(), client)
				require.NoError(t, err)
				synctest.Wait()
				got, _, err = takeToken(t.Context(), client)
				require.NoError(t, err)
				assert.Equal(t, second, got.Value.Reveal())
				assert.True(t, start.Add(26*time.Hour).Equal(got.Expires))
				assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
			})
		})
	}
}

// While the store hangs each session refreshes by itself, however shortly a token lives.
func TestStoreHangs(t *testing.T) {
	lives := []time.Duration{20 * time.Second, 10 * time.Minute, 5 * time.Second, time.Minute, 3 * time.Minute, time.Hour}
	if race.Enabled {
		lives = lives[:2]
	}
	for _, life := range lives {
		for _, deaf := range []bool{false, true} {
			for _, from := range []string{"load", "acquire", "release"} {
				t.Run(fmt.Sprint(life, from, map[bool]string{true: " deaf"}[deaf]), func(t *testing.T) {
					fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) { useHangingStore(t, service, life, deaf, from) },
						lendingtest.WithTokenLifetime(life))
				})
			}
		}
	}
}

// useHangingStore has a store that hangs from a step on, with a deaf ear for its context.
func useHangingStore(t *testing.T, service *lendingtest.Service, life time.Duration, deaf bool, from string) {
	t.Helper()
	store := newHookedStore()
	var clients []*lending.Client
	for range 3 {
		clients = append(clients, fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
	}
	service.Fail(fake.RefreshRoute, lendingtest.Fault{Delay: min(life/40, 10*time.Second), Times: -1})
	use := func(lives int) {
		for range lives * 60 {
			for _, client := range clients {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				require.NoError(t, read(ctx, client))
				cancel()
			}
			bubble.Elapse(life / 60)
		}
	}
	for _, client := range clients {
		require.NoError(t, read(t.Context(), client))
	}
	back := make(chan struct{})
	comeBack := sync.OnceFunc(func() { close(back) })
	defer comeBack() // Close waits for it
	store.before(func(ctx context.Context, step string) error {
		switch {
		case from == "acquire" && step == "load", from == "release" && step != "release":
			return nil
		case deaf:
			<-back
		default:
			<-ctx.Done()
		}
		return ctx.Err()
	})
	use(3)
	store.before(nil)
	comeBack()
	use(2)
	assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	for _, request := range service.Requests() {
		require.NotEqual(t, http.StatusUnauthorized, request.Status)
	}
}

// A token that was got without the store stays, though the store has an older one.
func TestTokenOfALoneSignInStays(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		store := &faultyStore{TokenStore: shared}
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(shared))))
		old, err := shared.Load(t.Context())
		require.NoError(t, err)
		bubble.Elapse(5 * time.Minute)

		store.down.Store(true)
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, client.Session().SignIn(t.Context()))
		store.down.Store(false)
		bubble.Elapse(51 * time.Minute) // it is due, and the older one may still be used
		_, _, err = takeToken(t.Context(), client)
		require.NoError(t, err)
		synctest.Wait()
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.NotContains(t, old.Data.Reveal(), got.Value.Reveal())
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		kept, err := shared.Load(t.Context())
		require.NoError(t, err)
		assert.Contains(t, kept.Data.Reveal(), got.Value.Reveal(), "from now on all have it")
	})
}

func TestTokenOfALoneRefreshStays(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		store := &faultyStore{TokenStore: shared}
		alone := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		other := fake.SignIn(t, service, nil, lending.WithTokenStore(shared))
		require.NoError(t, read(t.Context(), alone))
		require.NoError(t, read(t.Context(), other))
		store.down.Store(true)
		bubble.Elapse(55 * time.Minute)
		require.NoError(t, read(t.Context(), other)) // refreshes, under a later lease
		synctest.Wait()
		theirs, _, err := takeToken(t.Context(), other)
		require.NoError(t, err)
		for range 4 * 12 {
			require.NoError(t, read(t.Context(), alone))
			bubble.Elapse(5 * time.Second)
		}
		require.Equal(t, 2, service.Arrived(fake.RefreshRoute))
		store.down.Store(false)
		bubble.Elapse(50 * time.Minute)
		_, _, err = takeToken(t.Context(), alone)
		require.NoError(t, err)
		synctest.Wait()
		got, _, err := takeToken(t.Context(), alone)
		require.NoError(t, err)
		assert.NotEqual(t, theirs.Value.Reveal(), got.Value.Reveal())
		assert.Equal(t, 3, service.Arrived(fake.RefreshRoute))
	})
}

// None of several tokens that were refused comes back out of a store that kept one.
func TestRefusedTokensDoNotComeBack(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		first, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		store.down.Store(true)
		client.Session().Invalidate(first)
		require.NoError(t, client.Session().SignIn(t.Context()))
		second, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		client.Session().Invalidate(second)
		store.down.Store(false)
		third, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.NotEqual(t, first.Value.Reveal(), third.Value.Reveal())
		assert.Equal(t, 3, service.Arrived(fake.LoginRoute))
	})
}

// A token can be refused before the store has it. Nobody waits for a refresh, who would sign
// in anew and so replace the refused token.
func TestTokenIsRefusedBeforeItWasKept(t *testing.T) {
	for _, got := range []string{"by a sign-in", "by a refresh"} {
		t.Run(got, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				store := newHookedStore()
				client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
				if got == "by a refresh" {
					require.NoError(t, read(t.Context(), client))
					bubble.Elapse(50 * time.Minute)
				}
				ready := make(chan struct{})
				store.before(func(_ context.Context, step string) error {
					if step == "save" {
						<-ready
					}
					return nil
				})
				go func() { _, _, _ = takeToken(t.Context(), client) }()
				synctest.Wait()
				refused, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				client.Session().Invalidate(refused)
				close(ready)
				synctest.Wait()
				next, _, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
				require.NoError(t, err)
				assert.NotEqual(t, refused.Value.Reveal(), next.Value.Reveal())
			})
		})
	}
}

// ahead moves times in a JSON object into the future.
func ahead(t *testing.T, text []byte, by time.Duration, names ...string) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	for _, name := range names {
		var at time.Time
		require.NoError(t, json.Unmarshal(fields[name], &at))
		moved, err := json.Marshal(at.Add(by))
		require.NoError(t, err)
		fields[name] = moved
	}
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	return text
}

// What was written while the clock was ahead holds nobody longer than it was meant to.
func TestClockWasAhead(t *testing.T) {
	t.Run("lease", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			path := filepath.Join(t.TempDir(), "token")
			store := fileStore(t, path)
			_, err := store.Acquire(t.Context(), "gone", 10*time.Second)
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, ahead(t, text, time.Hour, "until"), 0o600))
			_, err = store.Acquire(t.Context(), "next", time.Second)
			require.ErrorIs(t, err, lending.ErrLeaseHeld, "its owner may live")
			start := time.Now()
			require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
			assert.InDelta(t, 10*time.Second, time.Since(start), float64(2*time.Second))
		})
	})
	change := func(t *testing.T, store lending.TokenStore, names ...string) {
		t.Helper()
		kept, err := store.Load(t.Context())
		require.NoError(t, err)
		kept.Data = lending.NewSecret(string(ahead(t, []byte(kept.Data.Reveal()), time.Hour, names...)))
		require.NoError(t, store.Save(t.Context(), kept))
	}
	t.Run("failure", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := encrypted(t, lending.NewMemoryTokenStore(), 1)
			wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }
			require.Error(t, read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store))))
			change(t, store, "until")
			client, start := fake.SignIn(t, service, nil, lending.WithTokenStore(store)), time.Now()
			for read(t.Context(), client) != nil {
				bubble.Elapse(time.Second)
			}
			assert.InDelta(t, time.Minute, time.Since(start), float64(2*time.Second))
		})
	})
	t.Run("token", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := encrypted(t, lending.NewMemoryTokenStore(), 1)
			require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
			change(t, store, "issued", "expires")
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			got, _, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, time.Hour, time.Until(got.Expires))
			for range 120 {
				require.NoError(t, read(t.Context(), client))
				bubble.Elapse(time.Minute)
			}
			assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		})
	})
}

// Of a refused sign-in the others learn what the service has said, and when it is tried again.
func TestReplicasLearnWhyASignInFailed(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong-password") }
		first := read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store)))
		bubble.Elapse(10 * time.Second)
		err := read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store)))
		require.ErrorContains(t, err, "failed in another process: POST /api/Authenication/login: 400 Bad Request: rejected: not tried again before")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		var call, here, there *lending.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, 50*time.Second, call.RetryAfter)
		require.ErrorAs(t, errors.Unwrap(first), &here)
		require.ErrorAs(t, errors.Unwrap(err), &there)
		assert.Equal(t, []any{here.Method, here.Route, here.StatusCode, here.Outcome}, []any{there.Method, there.Route, there.StatusCode, there.Outcome})
		kept, err := store.Load(t.Context())
		require.NoError(t, err)
		for _, secret := range []string{"wrong-password", lendingtest.Username} {
			assert.NotContains(t, kept.Data.Reveal(), secret)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// When a process was killed in the middle of a sign-in the others do not wait long, and while
// one lives that takes minutes nobody else signs in, though the store is slow and at times fails.
func TestHolderOfTheLease(t *testing.T) {
	t.Run("is killed", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := newHookedStore()
			killed := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			service.Fail(fake.LoginRoute, lendingtest.Fault{Delay: time.Hour})
			go func() { _, _, _ = takeToken(t.Context(), killed) }()
			bubble.Elapse(time.Second)
			store.before(func(context.Context, string) error { return errDown }) // for it
			_, waited, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
			require.NoError(t, err)
			assert.LessOrEqual(t, waited, 8*time.Second)
		})
	})
	t.Run("lives", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store, steps := newHookedStore(), new(atomic.Int32)
			store.before(func(ctx context.Context, step string) error {
				bubble.Elapse(time.Second)
				if step == "acquire" && steps.Add(1)%3 == 2 {
					return errDown
				}
				return ctx.Err()
			})
			service.Fail(fake.TwoFactorRoute, lendingtest.Fault{Delay: 100 * time.Second})
			holder := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			go func() { _, _, _ = takeToken(t.Context(), holder) }()
			bubble.Elapse(3 * time.Second)
			_, waited, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
			require.NoError(t, err)
			assert.GreaterOrEqual(t, waited, 95*time.Second)
			assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		})
	})
}
