package signin_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A replica of this release neither uses nor replaces what a newer release has stored. A person
// can still let it sign in.
func TestTokenOfANewerReleaseStays(t *testing.T) {
	newer := `{"v":3,"account":{"later":true},"token":"hush-hush"}`
	sealed := base64.StdEncoding.EncodeToString(append([]byte{3}, "hush-hush and more"...))
	for _, test := range []struct {
		name, want, file, data string
		wrap                   func(*testing.T, lending.TokenStore) lending.TokenStore
	}{
		{"file", "the file of the token", strings.Replace(newer, "account", "fence", 1), "", nil},
		{"token", "the stored token", "", newer, nil},
		{"encrypted token", "the encrypted text", "", sealed, func(t *testing.T, s lending.TokenStore) lending.TokenStore {
			return encrypted(t, s, 1)
		}},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			path := filepath.Join(t.TempDir(), "token")
			store := fileStore(t, path)
			if test.file != "" {
				require.NoError(t, os.WriteFile(path, []byte(test.file), 0o600))
			} else {
				require.NoError(t, store.Save(t.Context(), stored(1, test.data)))
			}
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			if test.wrap != nil {
				store = test.wrap(t, store)
			}
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			for range 100 {
				err = read(t.Context(), client)
				require.ErrorContains(t, err, test.want+" was written by a newer release, at least v0.3; update this replica")
				require.NotContains(t, err.Error(), "hush")
				bubble.Elapse(time.Minute)
			}
			require.Zero(t, service.Arrived(fake.LoginRoute))
			require.NoError(t, client.Session().SignIn(t.Context()))
			require.NoError(t, read(t.Context(), client))
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(before), string(after))
		})
	}
}

// A release that only adds a member keeps the version. This release keeps the member.
func TestMemberOfALaterReleaseSurvives(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		path := filepath.Join(t.TempDir(), "token")
		store := fileStore(t, path)
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		token, err := store.Load(t.Context())
		require.NoError(t, err)
		token.Data = lending.NewSecret(strings.Replace(token.Data.Reveal(), "{", `{"later":{"inner":1},`, 1))
		require.NoError(t, store.Save(t.Context(), token))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "{", `{"next":[2],`, 1)), 0o600))

		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		service.RevokeTokens()
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		text, err = os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"next":[2]`)
		after, err := store.Load(t.Context())
		require.NoError(t, err)
		assert.Contains(t, after.Data.Reveal(), `"later":{"inner":1}`)
		assert.Greater(t, after.Fence, token.Fence)
	})
}
