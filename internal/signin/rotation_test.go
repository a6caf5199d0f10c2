package signin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// vault has the current password, and counts the questions.
type vault struct {
	password string
	asked    int
	err      error
}

func (v *vault) current(context.Context) (string, lending.Secret, error) {
	v.asked++
	return lendingtest.Username, lending.NewSecret(v.password), v.err
}

func (v *vault) in(c *lending.Credentials) { c.Current, c.Password = v.current, lending.Secret{} }

// changePassword changes the password at the service, where the tokens end too.
func changePassword(service *lendingtest.Service, password string) {
	service.AddAccount(lendingtest.Account{
		Username: lendingtest.Username, Password: password, PartnerID: lendingtest.PartnerID,
	})
	service.RevokeTokens()
}

// for24Hours reads every minute through each client and returns the number of failures of the
// last. Now and then the service forgets its tokens.
func for24Hours(t *testing.T, service *lendingtest.Service, clients ...*lending.Client) (failures int) {
	t.Helper()
	for n := range 24 * 60 {
		if n%30 == 0 {
			service.RevokeTokens()
		}
		for i, client := range clients {
			if err := read(t.Context(), client); err != nil && i == len(clients)-1 {
				failures++
			}
		}
		bubble.Elapse(time.Minute)
	}
	return failures
}

func TestPasswordChangesWithoutARestart(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		secrets := &vault{password: "first"}
		changePassword(service, "first")
		client := fake.SignIn(t, service, secrets.in)
		require.NoError(t, read(t.Context(), client))

		changePassword(service, "second")
		secrets.password = "second"
		require.NoError(t, read(t.Context(), client), "the function is asked before the sign-in")
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))

		changePassword(service, "third")
		rotating := &vault{password: "second"}
		late := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.Current = func(ctx context.Context) (string, lending.Secret, error) {
				defer func() { rotating.password = "third" }()
				return rotating.current(ctx)
			}
		})
		require.NoError(t, read(t.Context(), late), "asked once more after the rejection")
		assert.Equal(t, 2, rotating.asked)
		assert.Equal(t, 2+2, service.Arrived(fake.LoginRoute))
	})
}

func TestVaultIsAskedTwiceInASignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		asked := 0
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.Current = func(context.Context) (string, lending.Secret, error) {
				asked++
				return lendingtest.Username, lending.NewSecret(strings.Repeat("wrong", asked)), nil
			}
		})
		require.Error(t, read(t.Context(), client))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// A rejected password is sent once by a process, except if a person asks.
func TestRejectedPasswordIsNotSentAgain(t *testing.T) {
	t.Parallel()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		secrets := &vault{password: "outdated"}
		client := fake.SignIn(t, service, secrets.in)
		for range 24 * 60 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Minute)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		err := read(t.Context(), client)
		require.ErrorIs(t, err, lending.ErrSignInRequired)
		require.ErrorContains(t, err, "let Credentials.Current return others, or call Session.SignIn")
		assert.NotContains(t, err.Error(), "outdated")

		require.Error(t, client.Session().SignIn(t.Context()))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "a person has asked")
		changePassword(service, "outdated")
		require.NoError(t, client.Session().SignIn(t.Context()), "a person has changed the password back")

		secrets.err, secrets.asked = errors.New("the vault is sealed: outdated"), 0
		service.RevokeTokens()
		for range 3600 {
			err = read(t.Context(), client)
			require.Error(t, err)
			bubble.Elapse(time.Second)
		}
		require.ErrorContains(t, err, "the Current function of Credentials failed")
		assert.NotContains(t, err.Error(), "sealed")
		secrets.err = nil
		bubble.Elapse(time.Minute)
		require.NoError(t, read(t.Context(), client))
		assert.LessOrEqual(t, secrets.asked, 70, "the pause holds for the vault too")
	})
}

// TestOldAndNewPasswordSideBySide runs replicas with the old password beside replicas with the
// new one for a day, in which the service revokes all tokens 48 times.
func TestOldAndNewPasswordSideBySide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		in   func(password string) func(*lending.Credentials)
		most int // sign-ins with the old password
	}{
		{"from a function", func(password string) func(*lending.Credentials) { return (&vault{password: password}).in }, 2},
		{"in the options", func(password string) func(*lending.Credentials) {
			return func(c *lending.Credentials) { c.Password = lending.NewSecret(password) }
		}, 2 * 48},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			changePassword(service, "the new one")
			store := newHookedStore()
			var clients []*lending.Client
			for _, password := range []string{"the old one", "the old one", "the new one", "the new one"} {
				clients = append(clients, fake.SignIn(t, service, test.in(password), lending.WithTokenStore(store)))
			}
			assert.Zero(t, for24Hours(t, service, clients...), "failed reads of a replica with the new password")
			require.NoError(t, read(t.Context(), clients[0]), "a replica with the old password has the token of the others")
			old := service.Arrived(fake.LoginRoute) - 48
			t.Logf("%d sign-ins with the old password in a day", old)
			assert.LessOrEqual(t, old, test.most)
			assert.Positive(t, old)
			for _, saved := range store.saved {
				require.NotContains(t, saved.Data.Reveal(), "one\"")
			}
		})
	}
}

// TestVaultChangesAfterTheService has replicas that work when the password changes: first at the service, and later in
// the vault. Each replica waits as NextOf says, and sends the old password once at most.
func TestVaultChangesAfterTheService(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, time.Minute, time.Hour} {
		for _, shared := range []bool{true, false} {
			runInBubble(t, fmt.Sprint(after, "/shared store ", shared), func(t *testing.T, service *lendingtest.Service) {
				var password atomic.Value
				var asked atomic.Int64
				password.Store("old")
				in := func(c *lending.Credentials) {
					c.Current = func(context.Context) (string, lending.Secret, error) {
						asked.Add(1)
						return lendingtest.Username, lending.NewSecret(password.Load().(string)), nil
					}
				}
				changePassword(service, "old")
				var replicas []*lending.Client
				store := lending.NewMemoryTokenStore()
				for range 3 {
					if !shared {
						store = lending.NewMemoryTokenStore()
					}
					replicas = append(replicas, fake.SignIn(t, service, in, lending.WithTokenStore(store)))
					require.NoError(t, read(t.Context(), replicas[len(replicas)-1]))
				}
				changePassword(service, "new")
				sent := service.Arrived(fake.LoginRoute)
				changed := time.Now().Add(after)
				time.AfterFunc(after, func() { password.Store("new") })
				var working sync.WaitGroup
				for _, client := range replicas {
					working.Go(func() {
						for err := read(t.Context(), client); err != nil; err = read(t.Context(), client) {
							bubble.Elapse(max(lending.NextOf(err).After, time.Second))
						}
						assert.LessOrEqual(t, time.Since(changed), 5*time.Second)
					})
				}
				working.Wait()
				assert.LessOrEqual(t, service.Arrived(fake.LoginRoute)-sent, 2*len(replicas), "old and new, once each")
				assert.LessOrEqual(t, int(asked.Load()), len(replicas)*(int(after/(2*time.Second))+20))
			})
		}
	}
}

// TestEveryNewPasswordEndsThePause has a password, 289, with the mark of the old one in the token store.
func TestEveryNewPasswordEndsThePause(t *testing.T) {
	t.Parallel()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		for i := range 300 {
			secrets := &vault{password: "old"}
			changePassword(service, fmt.Sprint(i))
			client := fake.SignIn(t, service, secrets.in)
			require.Error(t, read(t.Context(), client))
			secrets.password = fmt.Sprint(i)
			bubble.Elapse(3 * time.Second)
			require.NoError(t, read(t.Context(), client), i)
		}
	})
}

// A vault that is down delays no process with another vault.
func TestSealedVaultDelaysNoOther(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		changePassword(service, "the password")
		sealed, open := &vault{err: errors.New("sealed")}, &vault{password: "the password"}
		first := fake.SignIn(t, service, sealed.in, lending.WithTokenStore(store))
		for range 60 {
			require.Error(t, read(t.Context(), first))
			bubble.Elapse(time.Second)
		}
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, open.in, lending.WithTokenStore(store))))
	})
}
