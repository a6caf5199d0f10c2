package guarantees_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
)

func stored(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

func encrypted(t *testing.T, store lending.TokenStore, key byte) lending.TokenStore {
	t.Helper()
	sealed, err := lending.NewEncryptedTokenStore(store, bytes.Repeat([]byte{key}, 32))
	require.NoError(t, err)
	return sealed
}

func fileStore(t *testing.T, path string) lending.TokenStore {
	t.Helper()
	store, err := lending.NewFileTokenStore(path)
	require.NoError(t, err)
	return store
}

// eachStore runs test with every store of the package, on fake time.
func eachStore(t *testing.T, test func(t *testing.T, store lending.TokenStore)) {
	t.Helper()
	for name, open := range map[string]func() lending.TokenStore{
		"memory": lending.NewMemoryTokenStore,
		"file": func() lending.TokenStore {
			return fileStore(t, filepath.Join(t.TempDir(), "token"))
		},
		"encrypted": func() lending.TokenStore { return encrypted(t, lending.NewMemoryTokenStore(), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open()) })
		})
	}
}

func TestMemoryTokenStoreKeepsItsContract(t *testing.T) {
	storetest.TokenStore(t, func(*testing.T) func() lending.TokenStore {
		store := lending.NewMemoryTokenStore()
		return func() lending.TokenStore { return store }
	})
}

func TestFileTokenStoreKeepsItsContract(t *testing.T) {
	storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
		path := filepath.Join(t.TempDir(), "token")
		return func() lending.TokenStore {
			store, err := lending.NewFileTokenStore(path)
			require.NoError(t, err)
			return store
		}
	})
}

func TestEncryptedTokenStoreKeepsItsContract(t *testing.T) {
	storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
		store := lending.NewMemoryTokenStore()
		return func() lending.TokenStore { return encrypted(t, store, 1) }
	})
}

func TestFileStoreOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(`{}`), 0o644))
	require.NoError(t, os.WriteFile(path+".tmp", []byte(`{"fence":9,"da`), 0o644), "as a crash leaves it")
	store := fileStore(t, path)
	require.NoError(t, store.Save(t.Context(), stored(1, "kept")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.NoFileExists(t, path+".tmp")
	kept, err := fileStore(t, path).Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "kept", kept.Data.Reveal())

	require.NoError(t, os.WriteFile(path, []byte(`{"fence":9,"da`), 0o600))
	_, err = store.Load(t.Context())
	require.ErrorIs(t, err, lending.ErrCorruptToken)
	require.NoError(t, store.Save(t.Context(), stored(2, "over it")))
	for _, wrong := range []string{"", filepath.Join(path, "below a file"), filepath.Join(path+"s", "in no folder")} {
		_, err = lending.NewFileTokenStore(wrong)
		require.ErrorAs(t, err, new(*lending.ArgumentError), "%q", wrong)
	}
	below := filepath.Join(t.TempDir(), "folder", "token")
	require.NoError(t, os.Mkdir(filepath.Dir(below), 0o700))
	store = fileStore(t, below)
	require.NoError(t, os.Remove(filepath.Dir(below)))
	_, err = store.Acquire(t.Context(), "a", time.Minute)
	require.Error(t, err)
}

func TestEncryptedStore(t *testing.T) {
	plain := lending.NewMemoryTokenStore()
	require.NoError(t, encrypted(t, plain, 1).Save(t.Context(), stored(1, "a token")))
	sealed, err := plain.Load(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, sealed.Data.Reveal(), "token")
	_, err = encrypted(t, plain, 2).Load(t.Context())
	require.ErrorIs(t, err, lending.ErrCorruptToken, "another key")
	require.NoError(t, plain.Save(t.Context(), lending.StoredToken{Fence: 2, Data: sealed.Data}))
	_, err = encrypted(t, plain, 1).Load(t.Context())
	require.ErrorIs(t, err, lending.ErrCorruptToken, "an old token under a new fence")
	var argument *lending.ArgumentError
	_, err = lending.NewEncryptedTokenStore(plain, []byte("short"))
	require.ErrorAs(t, err, &argument)
}

func TestTokenStoreNeedsCredentials(t *testing.T) {
	var argument *lending.ArgumentError
	_, err := lending.New("http://127.0.0.1", lending.WithTokenStore(lending.NewMemoryTokenStore()))
	require.ErrorAs(t, err, &argument)
	_, err = lending.New("http://127.0.0.1", lending.WithTokenStore(nil))
	require.ErrorAs(t, err, &argument)
	client, err := lending.New("http://127.0.0.1", lending.WithTokenSource(lending.StaticToken("x")))
	require.NoError(t, err)
	assert.Nil(t, client.Session())
}

func TestTokenSurvivesARestart(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		path := filepath.Join(t.TempDir(), "token")
		for range 3 {
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
			require.NoError(t, read(t.Context(), client))
			require.NoError(t, client.Close())
			bubble.Elapse(time.Minute)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))

		require.NoError(t, os.WriteFile(path, []byte("\x00\x00"), 0o600))
		var log strings.Builder
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)),
			lending.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, read(t.Context(), client), "a corrupted file is signed over")
		assert.Contains(t, log.String(), "the stored token cannot be read")
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		next := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
		require.NoError(t, read(t.Context(), next))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// TestStoreIsOfOneAccount has a store that the token of one account of one service is in
// used for others: no call goes out with it, and it stays.
func TestStoreIsOfOneAccount(t *testing.T) {
	service, another, store := lendingtest.NewServer(), lendingtest.NewServer(), lending.NewMemoryTokenStore()
	defer service.Close()
	defer another.Close()
	administrator := lending.Credentials{Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword)}
	client := wire.NewClient(t, service.URL, lending.WithCredentials(fake.Credentials(service)), lending.WithTokenStore(store))
	require.NoError(t, client.Session().SignIn(t.Context()))
	before, err := store.Load(t.Context())
	require.NoError(t, err)
	requests := len(service.Requests())

	for url, credentials := range map[string]lending.Credentials{service.URL: administrator, another.URL: fake.Credentials(another)} {
		stranger := wire.NewClient(t, url, lending.WithCredentials(credentials), lending.WithTokenStore(store))
		_, err := stranger.Customers.GetByEmail(t.Context(), "ada@example.com")
		assert.ErrorContains(t, err, "what it holds is of another account or service")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		assert.ErrorContains(t, stranger.Session().SignIn(t.Context()), "what it holds is of another account or service")
	}
	assert.Len(t, service.Requests(), requests)
	assert.Empty(t, another.Requests())
	after, err := store.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, after)

	again := wire.NewClient(t, strings.Replace(service.URL, "http", "HTTP", 1)+"/", lending.WithCredentials(fake.Credentials(service)), lending.WithTokenStore(store))
	require.NoError(t, again.Session().SignIn(t.Context()))
	assert.Equal(t, 1, service.Executed("POST /api/Authenication/login"), "the address is the same, if spelled otherwise")
}

// TestSameService tells which addresses are of one service, by what a session finds in
// the store of another.
func TestSameService(t *testing.T) {
	service := lendingtest.New()
	token := func(url string, store lending.TokenStore) error {
		client := wire.NewClient(t, url, lending.WithTokenStore(store), lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
			lending.WithCredentials(lending.Credentials{Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword)}))
		_, err := client.Session().Token(t.Context())
		return err
	}
	for url, same := range map[string]bool{
		"https://LENDING.example/": true, "https://lending.example:443": true,
		"https://lending.example:8443": false, "https://lending.example/tenant": false, "https://other.example": false,
	} {
		store := lending.NewMemoryTokenStore()
		require.NoError(t, token("https://lending.example", store))
		assert.Equal(t, same, token(url, store) == nil, url)
	}
	for _, old := range []string{`{"token":"t"}`, `{"account":"other","token":"t","expires":"2020-01-01T00:00:00Z"}`, `{"account":"other","until":"2020-01-01T00:00:00Z"}`} {
		store := lending.NewMemoryTokenStore()
		require.NoError(t, store.Save(t.Context(), lending.StoredToken{Data: lending.NewSecret(old)}))
		assert.NoError(t, token("https://lending.example", store), "of no use to anybody: %s", old)
	}
	for _, held := range []string{`{"account":"other","token":"t"}`, `{"account":"other","until":"2999-01-01T00:00:00Z"}`} {
		store := lending.NewMemoryTokenStore()
		require.NoError(t, store.Save(t.Context(), lending.StoredToken{Data: lending.NewSecret(held)}))
		assert.ErrorContains(t, token("https://lending.example", store), "of another account", held)
	}
}

func TestReplicasShareOneToken(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{Delay: 40 * time.Second}) // longer than a lease
		var clients []*lending.Client
		for range 8 {
			clients = append(clients, fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
		}
		var all sync.WaitGroup
		for _, client := range clients {
			all.Go(func() {
				for range 10 * 60 {
					assert.NoError(t, read(t.Context(), client))
					bubble.Elapse(time.Minute)
				}
			})
		}
		all.Wait()
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		assert.InDelta(t, 14, service.Arrived(fake.RefreshRoute), 1, "one for each life of ten hours, 40 to 50 minutes each")

		service.RevokeTokens()
		for _, client := range clients {
			require.NoError(t, read(t.Context(), client))
		}
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// faultyStore is a store that can be down, or slow to prolong a lease.
type faultyStore struct {
	lending.TokenStore
	down   atomic.Bool
	frozen atomic.Pointer[chan struct{}]
}

var errDown = errors.New("the store is down")

func (f *faultyStore) wait() error {
	if frozen := f.frozen.Load(); frozen != nil {
		<-*frozen
	}
	if f.down.Load() {
		return errDown
	}
	return nil
}

func (f *faultyStore) Load(ctx context.Context) (lending.StoredToken, error) {
	if err := f.wait(); err != nil {
		return lending.StoredToken{}, err
	}
	return f.TokenStore.Load(ctx)
}

func (f *faultyStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	if err := f.wait(); err != nil {
		return 0, err
	}
	return f.TokenStore.Acquire(ctx, owner, ttl)
}

func (f *faultyStore) Save(ctx context.Context, token lending.StoredToken) error {
	if err := f.wait(); err != nil {
		return err
	}
	return f.TokenStore.Save(ctx, token)
}

func TestStoreIsDown(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		first := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		second := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), first))
		require.NoError(t, read(t.Context(), second))
		store.down.Store(true)
		for range 3 * 60 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(time.Minute)
			if time.Since(service.Requests()[0].Time) == 50*time.Minute {
				assert.Zero(t, service.Arrived(fake.RefreshRoute), "there is hope that the store comes back")
			}
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		assert.Equal(t, 6, service.Arrived(fake.RefreshRoute), "each its own, at the last moment")

		store.down.Store(false)
		for range 60 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(time.Minute)
		}
		assert.InDelta(t, 7, service.Arrived(fake.RefreshRoute), 1, "shared again")
		a, _, err := takeToken(t.Context(), first)
		require.NoError(t, err)
		b, _, err := takeToken(t.Context(), second)
		require.NoError(t, err)
		assert.Equal(t, a.Value.Reveal(), b.Value.Reveal())
	})
}

func TestNobodySignsInWithoutTheStore(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		store.down.Store(true)
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		err := read(t.Context(), client)
		require.ErrorIs(t, err, errDown)
		require.ErrorContains(t, err, "token store")
		require.Error(t, read(t.Context(), client))
		assert.Zero(t, service.Arrived(fake.LoginRoute))
		require.NoError(t, client.Session().SignIn(t.Context()), "unless somebody asks for it")
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

func TestStoreErrorsAreTold(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		for cause, text := range map[error]string{
			&fs.PathError{Op: "open", Path: "hush", Err: fs.ErrNotExist}:   "no such file or directory",
			&fs.PathError{Op: "open", Path: "hush", Err: fs.ErrPermission}: "permission denied",
		} {
			store := brokenStore{lending.NewMemoryTokenStore(), cause}
			err := read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
			require.ErrorContains(t, err, "the token store: "+text)
			assert.NotContains(t, err.Error(), "hush")
		}
	})
}

// brokenStore cannot give out a lease.
type brokenStore struct {
	lending.TokenStore
	cause error
}

func (b brokenStore) Acquire(context.Context, string, time.Duration) (int64, error) {
	return 0, b.cause
}

// The pause for the store must not be the one that spares a person messages.
func TestStoreComesBack(t *testing.T) {
	for down := range 12 {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
			store.down.Store(true)
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			for range 600 + 7*down {
				require.Error(t, read(t.Context(), client))
				bubble.Elapse(time.Second)
			}
			store.down.Store(false)
			start := time.Now()
			for read(t.Context(), client) != nil {
				bubble.Elapse(time.Second)
			}
			assert.LessOrEqual(t, time.Since(start), 6*time.Second)
		})
	}
}

// A holder that stands still loses its lease, and what it saves afterwards is refused.
func TestFrozenHolder(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		store := &faultyStore{TokenStore: shared}
		slow := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		fast := fake.SignIn(t, service, nil, lending.WithTokenStore(shared))
		require.NoError(t, read(t.Context(), slow))
		require.NoError(t, read(t.Context(), fast))
		bubble.Elapse(50*time.Minute + time.Second)

		frozen := make(chan struct{})
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Reached: func() { store.frozen.Store(&frozen) }})
		require.NoError(t, read(t.Context(), slow)) // has refreshed, and cannot save
		synctest.Wait()
		require.NoError(t, read(t.Context(), fast), "finds the lease held, and goes on")
		synctest.Wait()
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		for range 4 * 60 { // the lease ends
			require.NoError(t, read(t.Context(), fast))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 2, service.Arrived(fake.RefreshRoute))
		before, err := shared.Load(t.Context())
		require.NoError(t, err)
		b, _, err := takeToken(t.Context(), fast)
		require.NoError(t, err)
		store.frozen.Store(nil)
		close(frozen)
		synctest.Wait()
		after, err := shared.Load(t.Context())
		require.NoError(t, err)
		assert.Equal(t, before, after)
		bubble.Elapse(50 * time.Minute)
		require.NoError(t, read(t.Context(), slow))
		synctest.Wait()
		a, _, err := takeToken(t.Context(), slow)
		require.NoError(t, err)
		assert.Equal(t, b.Value.Reveal(), a.Value.Reveal(), "the slow one takes the newer token when its own is due")
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// lateStore gives out the lease only after another process was at work.
type lateStore struct {
	lending.TokenStore
	before func()
}

func (l *lateStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.TokenStore.Acquire(ctx, owner, ttl)
}

func TestTokenThatCameBeforeTheLease(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		fast := fake.SignIn(t, service, nil, lending.WithTokenStore(shared))
		store := &lateStore{shared, func() { assert.NoError(t, read(t.Context(), fast)) }}
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// What a process does under a lease ends when another process has it.
func TestLostLeaseEndsTheWork(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &stolenStore{TokenStore: lending.NewMemoryTokenStore()}
		ended := make(chan time.Time, 1)
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				store.stolen.Store(true)
				<-ctx.Done()
				ended <- time.Now()
				return "", ctx.Err()
			}
		}, lending.WithTokenStore(store))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, read(ctx, client), context.DeadlineExceeded)
		assert.LessOrEqual(t, (<-ended).Sub(start), 6*time.Second)
	})
}

type stolenStore struct {
	lending.TokenStore
	stolen atomic.Bool
}

func (s *stolenStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	if s.stolen.Load() {
		return 0, lending.ErrLeaseHeld
	}
	return s.TokenStore.Acquire(ctx, owner, ttl)
}

// A wrong password that every replica tried would lock the account.
func TestReplicasShareAFailure(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		for range 8 {
			client := fake.SignIn(t, service, func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }, lending.WithTokenStore(store))
			require.Error(t, read(t.Context(), client))
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// Processes that live for one call each must not find the refused token again.
func TestRefusedTokenLeavesTheStore(t *testing.T) {
	for name, end := range map[string]func(*lending.Client){
		"closed": func(c *lending.Client) { _ = c.Close() },
		"exits":  func(*lending.Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				path := filepath.Join(t.TempDir(), "token")
				mutate := func() error {
					client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
					defer end(client)
					return client.Applications.Cancel(t.Context(), catalog.Application)
				}
				require.NotErrorIs(t, mutate(), lending.ErrUnauthorized)
				service.RevokeTokens()
				require.ErrorIs(t, mutate(), lending.ErrUnauthorized)
				for range 3 {
					require.NotErrorIs(t, mutate(), lending.ErrUnauthorized)
					bubble.Elapse(time.Minute)
				}
				assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
			})
		})
	}
}

// A refusal of an old token must not clear the newer one of another process.
func TestRefusedTokenDoesNotTakeANewerOneAlong(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		first := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		second := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		old, _, err := takeToken(t.Context(), first)
		require.NoError(t, err)
		require.NoError(t, read(t.Context(), second))
		service.RevokeTokens()
		require.NoError(t, read(t.Context(), second), "signs in anew")
		first.Session().Invalidate(old)
		third := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), third))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// notingStore notes until when what is saved is of use.
type notingStore struct {
	lending.TokenStore
	expires []time.Time
}

func (n *notingStore) Save(ctx context.Context, token lending.StoredToken) error {
	n.expires = append(n.expires, token.Expires)
	return n.TokenStore.Save(ctx, token)
}

func TestStoreIsToldWhenATokenExpires(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &notingStore{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		client.Session().Invalidate(got)
		require.Len(t, store.expires, 2)
		assert.True(t, got.Expires.Equal(store.expires[0]))
		assert.True(t, store.expires[1].After(time.Now()), "the memory of failures")
	})
}
