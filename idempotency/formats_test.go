package idempotency_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestDamagedEntryIsNotSentAgain has the entry of a done key lose a member. The next call returns the response
// if the entry has one, and sends nothing.
func TestDamagedEntryIsNotSentAgain(t *testing.T) {
	for member, want := range map[string]error{
		`"frozen":true,`: nil, `"ids":{`: nil, `"response":{`: idempotency.ErrAnswerLost,
	} {
		t.Run(member, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				create := newOrder(service).createsID(t, client)
				first := fake.Must(create("order/key"))
				entry := *fake.Must(entries.Load(t.Context(), ":order/key"))
				require.Contains(t, string(entry.Data), member)
				entry.Data = []byte(strings.Replace(string(entry.Data), member, strings.Replace(member, `"`, `"lost`, 1), 1))
				require.NoError(t, entries.Save(t.Context(), entry))
				again, err := create("order/key")
				require.ErrorIs(t, err, want)
				if want == nil {
					assert.Equal(t, first, again)
				}
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestEntryOfANewerReleaseIsLeftAlone has an older replica meet an entry that a newer release has
// written. The replica sends nothing, changes nothing and names the release.
func TestEntryOfANewerReleaseIsLeftAlone(t *testing.T) {
	for _, newer := range []string{`"format":3`, `"format":3,"request":"of another form"`} {
		withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
			log, create := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service).creates(t, client)
			service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
			require.ErrorIs(t, create("order/key"), lending.ErrOutcomeUnknown)
			entry := *fake.Must(entries.Load(t.Context(), ":order/key"))
			entry.Data = []byte(strings.Replace(string(entry.Data), `"format":1`, newer, 1))
			require.NoError(t, entries.Save(t.Context(), entry))
			want := fake.Must(entries.Load(t.Context(), ":order/key")).Revision
			bubble.Elapse(31 * 24 * time.Hour)

			err := create("order/key")
			require.ErrorIs(t, err, idempotency.ErrStore)
			require.ErrorContains(t, err, "the entry was written by a newer release, at least v0.3; update this replica")
			next := lending.NextOf(err)
			assert.True(t, next.Retry && next.Person, next)
			_, err = log.Check(t.Context(), client)
			require.NoError(t, err)
			_, err = log.Forget(t.Context(), "order/")
			require.Error(t, err)
			require.Error(t, log.Resolve(t.Context(), "order/key", says(idempotency.Happened(nil))))
			key := fake.Must(log.Keys(t.Context(), doubtful))[0]
			assert.True(t, key.NeedsPerson)
			assert.Contains(t, key.Why, "update this replica")
			assert.Equal(t, want, fake.Must(entries.Load(t.Context(), ":order/key")).Revision)
			assert.Equal(t, 1, service.Executed(createApplicationRoute))
		})
	}
}

// TestMembersOfANewerReleaseSurvive has a newer release add members to an entry. An older replica
// takes the mutation to its end, and keeps the members.
func TestMembersOfANewerReleaseSurvive(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		entry := *fake.Must(entries.Load(t.Context(), ":the/key"))
		entry.Data = []byte(strings.Replace(string(entry.Data), `{"format":1,"request":{`,
			`{"later":["a",1.50],"format":1,"request":{"deeper":{"a":true},`, 1))
		require.NoError(t, entries.Save(t.Context(), entry))
		require.NoError(t, create("the/key"))
		saved := fake.Must(entries.Load(t.Context(), ":the/key"))
		require.Equal(t, store.Done, saved.State)
		var members struct {
			Later   json.RawMessage
			Request struct{ Deeper json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(saved.Data, &members))
		assert.Equal(t, `["a",1.50]`, string(members.Later))
		assert.Equal(t, `{"a":true}`, string(members.Request.Deeper))
	})
}

// TestMembersOfANewerReleaseSurviveInLists has a newer release add members to a line of the history,
// to the entry of a lock and to a record in it.
func TestMembersOfANewerReleaseSurviveInLists(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		entry := *fake.Must(entries.Load(t.Context(), ":the/key"))
		add := func(entry store.Entry, members ...string) {
			t.Helper()
			text := strings.NewReplacer(members...).Replace(string(entry.Data))
			require.NotEqual(t, string(entry.Data), text)
			entry.Data = []byte(text)
			require.NoError(t, entries.Save(t.Context(), entry))
		}
		add(entry, `{"state":"in_doubt"`, `{"later":1.50,"state":"in_doubt"`)
		require.NoError(t, create("the/key"))
		assert.Contains(t, dumped(t, entries), `{"later":1.50,`)
		ofLock := func() store.Entry {
			filter := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 1}
			return fake.Must(entries.List(t.Context(), filter))[0]
		}
		add(ofLock(), `{"format":1`, `{"format":1,"later":[7]`, `{"count":`, `{"later":{"a":9},"count":`)
		require.NoError(t, create("other/key"))
		lock := ofLock()
		assert.Contains(t, string(lock.Data), `"later":[7]`)
		assert.Contains(t, string(lock.Data), `"later":{"a":9}`)
		assert.Equal(t, 2, strings.Count(string(lock.Data), `"ids"`))
	})
}

// TestStoredFormatIsRead has a stored entry. After a change of the form or of the fingerprint, an
// update of a program would get all its keys refused.
func TestStoredFormatIsRead(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("a"), MobileNumber: "4155550100",
		}
		mac := hmac.New(sha256.New, []byte("SALT"))
		mac.Write([]byte(`{"email":"ada@example.com","firstName":"Ada","lastName":"Lovelace","mobileNumber":"4155550100"}`))
		username := fake.Credentials(&lendingtest.Server{Service: service}).Username
		account := sha256.Sum256([]byte(`["https" "lending.example" "443" "" "` + username + `"]`))
		kept := fmt.Sprintf(`{"request":{"frozen":true,"route":"POST /api/Application/create-customer","account":"%x",`+
			`"fingerprint":%q,"salt":"SALT"},"response":{"status":200,"media":"application/json","body":%q}}`,
			account, base64.StdEncoding.EncodeToString(mac.Sum(nil)),
			base64.StdEncoding.EncodeToString([]byte(`{"id":"00000001-0001-4000-8000-000000000009"}`)))
		require.NoError(t, entries.Save(t.Context(), store.Entry{
			Key: ":the/key", State: store.Done,
			Data: []byte(kept),
		}))
		customer, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), user)
		require.NoError(t, err)
		assert.Equal(t, "00000001-0001-4000-8000-000000000009", customer.ID.String())
		assert.Zero(t, service.Executed(fake.CreateRoute))
	})
}
