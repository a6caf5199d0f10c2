package signin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestTokenFilesOfEveryReleaseAreRead reads the token and the rejected sign-in that a process of each
// release has left in a file, in the clear and encrypted. A sign-in takes the file to its end.
func TestTokenFilesOfEveryReleaseAreRead(t *testing.T) {
	opens := map[string]func(t *testing.T, path string) lending.TokenStore{
		"plain": fileStore,
		"encrypted": func(t *testing.T, path string) lending.TokenStore {
			t.Helper()
			return encrypted(t, fileStore(t, path), 7)
		},
	}
	in := func(t *testing.T, folder string,
		of func(t *testing.T, isRejected bool, client func(password string) *lending.Client),
	) {
		t.Helper()
		for form, open := range opens {
			for _, isRejected := range []bool{false, true} {
				name := form
				if isRejected {
					name += "-rejected"
				}
				runInBubble(t, name, func(t *testing.T, service *lendingtest.Service) {
					of(t, isRejected, func(password string) *lending.Client {
						return fake.SignIn(t, service, func(c *lending.Credentials) {
							if password != "" {
								c.Password = lending.NewSecret(password)
							}
						}, lending.WithTokenStore(open(t, filepath.Join(folder, name))))
					})
				})
			}
		}
	}
	released.Each(t, func(t *testing.T, folder string) {
		in(t, folder, func(t *testing.T, isRejected bool, client func(string) *lending.Client) {
			t.Helper()
			if isRejected {
				require.Error(t, read(t.Context(), client("wrong")))
				return
			}
			require.NoError(t, read(t.Context(), client("")))
		})
		locks, err := filepath.Glob(filepath.Join(folder, "*.lock"))
		require.NoError(t, err)
		for _, lock := range locks {
			require.NoError(t, os.Remove(lock))
		}
	}, func(t *testing.T, folder string) {
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
		in(t, copied, func(t *testing.T, isRejected bool, client func(string) *lending.Client) {
			t.Helper()
			password := map[bool]string{true: "wrong"}[isRejected]
			state, err := client(password).Session().State(t.Context())
			require.NoError(t, err)
			assert.Equal(t, !isRejected, state.SignedIn)
			assert.Equal(t, isRejected, !state.Paused.IsZero())
			c := client("")
			require.NoError(t, c.Session().SignIn(t.Context()))
			require.NoError(t, read(t.Context(), c))
			state, err = c.Session().State(t.Context())
			require.NoError(t, err)
			assert.True(t, state.SignedIn && state.Paused.IsZero(), "%+v", state)
		})
	})
}
