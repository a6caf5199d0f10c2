package lendingbolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func TestFilesOfEveryReleaseAreRead(t *testing.T) {
	t.Parallel()
	in := func(folder string, fill func(inbox, encrypted *lendingbolt.Inbox, entries *lendingbolt.IdempotencyStore)) {
		inbox := open(t, filepath.Join(folder, "inbox"), &lendingbolt.InboxOptions{Keep: released.Keep})
		encrypted := open(t, filepath.Join(folder, "encrypted-inbox"),
			&lendingbolt.InboxOptions{Keep: released.Keep, Encryption: released.Encryption()})
		entries, err := lendingbolt.OpenIdempotencyStore(filepath.Join(folder, "entries"), nil)
		require.NoError(t, err)
		fill(inbox, encrypted, entries)
		require.NoError(t, errors.Join(inbox.Close(), encrypted.Close(), entries.Close()))
	}
	released.Each(t, func(t *testing.T, folder string) {
		in(folder, func(inbox, encrypted *lendingbolt.Inbox, entries *lendingbolt.IdempotencyStore) {
			released.FillInbox(t, inbox)
			released.FillInbox(t, encrypted)
			released.FillEntries(t, entries)
		})
	}, func(t *testing.T, folder string) {
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
		in(copied, func(inbox, encrypted *lendingbolt.Inbox, entries *lendingbolt.IdempotencyStore) {
			released.ReadInbox(t, inbox)
			released.ReadInbox(t, encrypted)
			released.ReadEntries(t, entries)
		})
	})
}

func TestFileOfANewerReleaseStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, open(t, path, nil).Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("format"))
		return errors.Join(err, bucket.Put([]byte("format"), []byte("3")))
	})
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	const newer = "lendingbolt: open: the file was written by a newer release, at least v0.3; update this replica"
	_, err = lendingbolt.OpenInbox(path, nil)
	require.EqualError(t, err, newer)
	_, err = lendingbolt.OpenIdempotencyStore(path, nil)
	require.EqualError(t, err, newer)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// An event with an unknown encryption key waits for another process, and is no dead letter.
func TestEncryptedEventWaitsForItsKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, &lendingbolt.InboxOptions{Encryption: released.Encryption()})
	require.NoError(t, inbox.Put(t.Context(), event("E")))
	require.NoError(t, inbox.Close())
	inbox = open(t, path, nil)
	_, err := inbox.Take(t.Context())
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, webhook.InboxCounts{Waiting: 1}, counts)
	_, err = inbox.Erase(t.Context(), webhook.Decision{By: "kim", Why: "asked"}, "the person's id")
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
	require.NoError(t, inbox.Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("waiting")).ForEach(func(_, tries []byte) error {
			require.Equal(t, []byte{0, 0, 0, 0}, tries, "the claim is no try")
			return nil
		})
	})
}

func TestErasedCustomerIsInNoDump(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	inbox := open(t, filepath.Join(folder, "inbox"), nil)
	entries, err := lendingbolt.OpenIdempotencyStore(filepath.Join(folder, "entries"), nil)
	require.NoError(t, err)
	storetest.Erase(t, entries, inbox, func() (all string) {
		copied := t.TempDir() // what bbolt compact keeps
		require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
		for _, name := range []string{"inbox", "entries"} {
			db, err := bbolt.Open(filepath.Join(copied, name), 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.View(func(tx *bbolt.Tx) error {
				return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
					return bucket.ForEach(func(key, value []byte) error {
						all += string(key) + string(value) + "\n"
						return nil
					})
				})
			}))
			require.NoError(t, db.Close())
		}
		return all
	})
	require.NoError(t, entries.Close())
}
