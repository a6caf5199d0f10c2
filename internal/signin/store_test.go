package signin_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
)

// tokenStores opens the token stores of the library, each at a place of its own.
var tokenStores = map[string]func(t *testing.T) func() lending.TokenStore{
	"memory": func(*testing.T) func() lending.TokenStore {
		store := lending.NewMemoryTokenStore()
		return func() lending.TokenStore { return store }
	},
	"file": func(t *testing.T) func() lending.TokenStore {
		path := filepath.Join(t.TempDir(), "token")
		return func() lending.TokenStore { return fileStore(t, path) }
	},
	"encrypted": func(t *testing.T) func() lending.TokenStore {
		store := lending.NewMemoryTokenStore()
		return func() lending.TokenStore { return encrypted(t, store, 1) }
	},
}

func TestTokenStoresKeepTheirContract(t *testing.T) {
	t.Parallel()
	for name, open := range tokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.TokenStore(t, open)
		})
	}
}

// A store that has lost everything must not give out fences below those of before.
func TestFencesComeFromTheClock(t *testing.T) { // not parallel: a process that starts holds the lock of the file
	for name, open := range tokenStores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)()
				bubble.Elapse(time.Second)
				fence, err := store.Acquire(t.Context(), "a", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, time.Now().UnixMicro(), fence)
				require.NoError(t, store.Release(t.Context(), "a"))
				next, err := store.Acquire(t.Context(), "b", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, fence+1, next)
			})
		})
	}
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
		t.Run(wrong, func(t *testing.T) {
			_, err = lending.NewFileTokenStore(wrong)
			require.ErrorAs(t, err, new(*lending.ArgumentError), "%q", wrong)
		})
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
	both, err := lending.NewEncryptedTokenStore(plain, bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{1}, 32))
	require.NoError(t, err)
	token, err := both.Load(t.Context())
	require.NoError(t, err, "an older key reads")
	assert.Equal(t, "a token", token.Data.Reveal())
	require.NoError(t, both.Save(t.Context(), stored(1, "another")))
	token, err = encrypted(t, plain, 2).Load(t.Context())
	require.NoError(t, err, "the first key writes")
	assert.Equal(t, "another", token.Data.Reveal())
	require.NoError(t, plain.Save(t.Context(), lending.StoredToken{Fence: 2, Data: sealed.Data}))
	_, err = encrypted(t, plain, 1).Load(t.Context())
	require.ErrorIs(t, err, lending.ErrCorruptToken, "an old token under a new fence")
	var argument *lending.ArgumentError
	for _, keys := range [][][]byte{{[]byte("short"), nil}, {make([]byte, 32), []byte("short")}} {
		_, err = lending.NewEncryptedTokenStore(plain, keys[0], keys[1])
		require.ErrorAs(t, err, &argument)
	}
	_, err = lending.NewEncryptedTokenStore(nil, make([]byte, 32))
	require.ErrorAs(t, err, &argument)
}

func TestTokenSurvivesARestart(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		path := filepath.Join(t.TempDir(), "token")
		for range 3 {
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
			require.NoError(t, read(t.Context(), client))
			client.Close()
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
	administrator := lending.Credentials{
		Username: lendingtest.AdministratorUsername,
		Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}
	client := wire.NewClient(t, service.URL, lending.WithCredentials(fake.Credentials(service)),
		lending.WithTokenStore(store))
	require.NoError(t, client.Session().SignIn(t.Context()))
	before, err := store.Load(t.Context())
	require.NoError(t, err)
	requests := len(service.Requests())

	for _, test := range []struct {
		url         string
		credentials lending.Credentials
	}{
		{service.URL, administrator},
		{another.URL, fake.Credentials(another)},
	} {
		t.Run(test.url, func(t *testing.T) {
			stranger := wire.NewClient(t, test.url, lending.WithCredentials(test.credentials),
				lending.WithTokenStore(store))
			_, err := stranger.Customers.GetByEmail(t.Context(), "ada@example.com")
			assert.ErrorContains(t, err, "it has the token of another account or service")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			assert.ErrorContains(t, stranger.Session().SignIn(t.Context()),
				"it has the token of another account or service")
		})
	}
	assert.Len(t, service.Requests(), requests)
	assert.Empty(t, another.Requests())
	after, err := store.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// TestSameService tells which addresses are of one service, by what a session finds in
// the store of another.
func TestSameService(t *testing.T) {
	service := lendingtest.New()
	token := func(url string, store lending.TokenStore) error {
		client := wire.NewClient(t, url, lending.WithTokenStore(store),
			lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
			lending.WithCredentials(lending.Credentials{
				Username: lendingtest.AdministratorUsername,
				Password: lending.NewSecret(lendingtest.AdministratorPassword),
			}))
		_, err := client.Session().Token(t.Context())
		return err
	}
	for _, test := range []struct {
		name, url string
		kept      string // in the store before, or "" for the token of https://lending.example
		same      bool
	}{
		{"upper case", "https://LENDING.example/", "", true},
		{"default port", "https://lending.example:443", "", true},
		{"port", "https://lending.example:8443", "", false},
		{"path", "https://lending.example/tenant", "", false},
		{"host", "https://other.example", "", false},
		{"no account", "https://lending.example", `{"token":"t"}`, true},
		{"no token, no pause", "https://lending.example", `{"account":"other"}`, true},
		{
			"expired token", "https://lending.example",
			`{"account":"other","token":"t","expires":"2020-01-01T00:00:00Z"}`, true,
		},
		{"pause that is over", "https://lending.example", `{"account":"other","until":"2020-01-01T00:00:00Z"}`, true},
		{"token", "https://lending.example", `{"account":"other","token":"t"}`, false},
		{"pause", "https://lending.example", `{"account":"other","until":"2999-01-01T00:00:00Z"}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := lending.NewMemoryTokenStore()
			if test.kept == "" {
				require.NoError(t, token("https://lending.example", store))
			} else {
				require.NoError(t, store.Save(t.Context(), lending.StoredToken{Data: lending.NewSecret(test.kept)}))
			}
			if err := token(test.url, store); test.same {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, "of another account")
			}
		})
	}
}

func TestReplicasShareOneToken(t *testing.T) {
	t.Parallel()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{DelayBefore: 40 * time.Second}) // longer than a lease
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
		assert.InDelta(t, 14, service.Arrived(fake.RefreshRoute), 1,
			"one for each life of ten hours, 40 to 50 minutes each")

		service.RevokeTokens()
		for _, client := range clients {
			require.NoError(t, read(t.Context(), client))
		}
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

func TestStoreIsToldWhenATokenExpires(t *testing.T) {
	withStore(t, func(t *testing.T, _ *lendingtest.Service, store *hookedStore, client *lending.Client) {
		got := tokenIn(t, client)
		client.Session().Invalidate(got)
		require.Len(t, store.saved, 2)
		assert.True(t, got.Expires.Equal(store.saved[0].Expires))
		assert.True(t, store.saved[1].Expires.After(time.Now()), "the memory of failures")
	})
}
