package lendingbolt_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/webhooktest"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func open(t *testing.T, path string, opts *lendingbolt.Options) *lendingbolt.Inbox {
	t.Helper()
	inbox, err := lendingbolt.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return inbox
}

func TestInbox(t *testing.T) {
	t.Parallel()
	webhooktest.Inbox(t, open(t, filepath.Join(t.TempDir(), "inbox"), nil))
}

func event(name lending.EventName) *lending.Event { return &lending.Event{Name: name} }

func TestInboxSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	for _, name := range []lending.EventName{"running", "waiting", "done"} {
		require.NoError(t, inbox.Put(t.Context(), event(name)))
	}
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("running"), entry.Event.Name)
	require.NoError(t, inbox.Close())

	inbox = open(t, path, nil)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Waiting: 3}, counts)
	entry, err = inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("running"), entry.Event.Name, "what was running is first")
	require.Equal(t, 1, entry.Tries, "the try that ended with the process is none with an error")
	for _, name := range []lending.EventName{"running", "waiting", "done"} {
		require.ErrorIs(t, inbox.Put(t.Context(), event(name)), lending.ErrDuplicate)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = lendingbolt.Open(path, &lendingbolt.Options{Wait: 20 * time.Millisecond})
	require.Error(t, err, "opened by two at a time")
}

func TestInboxForgets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	synctest.Test(t, func(t *testing.T) {
		inbox := open(t, path, &lendingbolt.Options{Keep: time.Hour})
		require.NoError(t, inbox.Put(t.Context(), event("a")))
		time.Sleep(59 * time.Minute) //nolint:forbidigo // virtual
		require.NoError(t, inbox.Put(t.Context(), event("b")))
		require.ErrorIs(t, inbox.Put(t.Context(), event("a")), lending.ErrDuplicate)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual
		require.NoError(t, inbox.Put(t.Context(), event("c")))
		require.NoError(t, inbox.Put(t.Context(), event("a")))
		require.ErrorIs(t, inbox.Put(t.Context(), event("b")), lending.ErrDuplicate)
		require.NoError(t, inbox.Close())
	})
}

func TestInboxRevivesTheDead(t *testing.T) {
	t.Parallel()
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.NoError(t, inbox.Bury(t.Context(), entry))
	dead, err := inbox.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, lending.EventName("a"), dead[0].Event.Name)
	require.NoError(t, inbox.Revive(t.Context(), dead[0]))
	require.NoError(t, inbox.Revive(t.Context(), dead[0]), "twice is once")
	entry, err = inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, entry.Tries)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1}, counts)
	require.Error(t, inbox.Done(t.Context(), &lending.InboxEntry{ID: "not ours"}))
}

// What another version of the program has put in may be refused by this one.
func TestInboxPutsAsideWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	require.NoError(t, inbox.Close())
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		first, _ := tx.Bucket([]byte("bodies")).Cursor().First()
		return tx.Bucket([]byte("bodies")).Put(first, []byte("{{{"))
	}))
	require.NoError(t, db.Close())

	inbox = open(t, path, nil)
	_, err = inbox.Take(t.Context())
	require.ErrorContains(t, err, "put aside")
	entry, err := inbox.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.EventName("b"), entry.Event.Name)
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, lending.InboxCounts{Running: 1, Dead: 1}, counts)
	dead, err := inbox.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, "{{{", string(dead[0].Event.Body()))
	require.Equal(t, 1, dead[0].Tries)
}

func TestClosedInboxFails(t *testing.T) {
	t.Parallel()
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	require.NoError(t, inbox.Close())
	require.Error(t, inbox.Put(t.Context(), event("a")))
	_, err := inbox.Take(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, lending.ErrDuplicate)
}
