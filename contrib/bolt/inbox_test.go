package lendingbolt_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func open(t *testing.T, path string, opts *lendingbolt.InboxOptions) *lendingbolt.Inbox {
	t.Helper()
	inbox, err := lendingbolt.OpenInbox(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return inbox
}

func TestInboxKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.Inbox(t, func(t *testing.T, _ time.Duration) func() webhook.Inbox {
		path, closed := filepath.Join(t.TempDir(), "inbox"), func() error { return nil }
		return func() webhook.Inbox {
			require.NoError(t, closed())
			inbox := open(t, path, &lendingbolt.InboxOptions{Encryption: released.Encryption()})
			closed = inbox.Close
			return inbox
		}
	})
}

func event(name lending.EventName) *webhook.Event { return &webhook.Event{Name: name} }

func TestInboxFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	for _, name := range []lending.EventName{"running", "waiting"} {
		require.NoError(t, inbox.Put(t.Context(), event(name)))
	}
	webhooktest.Take(t, inbox, "running")
	require.NoError(t, inbox.Close())
	inbox = open(t, path, nil)
	require.NoError(t, inbox.Done(t.Context(), webhooktest.Take(t, inbox, "waiting")))
	require.Equal(t, 2, webhooktest.Take(t, inbox, "running").Tries) // a moment later
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = lendingbolt.OpenInbox(path, &lendingbolt.InboxOptions{Wait: 20 * time.Millisecond})
	require.EqualError(t, err, "lendingbolt: open: another process has the file open; "+
		"stop that process or use another file")
}

func TestInboxForgets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox")
	synctest.Test(t, func(t *testing.T) {
		inbox := open(t, path, &lendingbolt.InboxOptions{Keep: time.Hour})
		require.NoError(t, inbox.Put(t.Context(), event("a")))
		time.Sleep(59 * time.Minute) //nolint:forbidigo // virtual
		require.NoError(t, inbox.Put(t.Context(), event("b")))
		require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual
		require.NoError(t, inbox.Put(t.Context(), event("c")))
		require.NoError(t, inbox.Put(t.Context(), event("a")))
		require.ErrorIs(t, inbox.Put(t.Context(), event("b")), webhook.ErrDuplicate)
		require.NoError(t, inbox.Close())
	})
}

func TestInboxRefusesAnEntryOfAnother(t *testing.T) {
	t.Parallel()
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	require.Error(t, inbox.Done(t.Context(), &webhook.InboxEntry{ID: "not ours"}))
}

// This version may refuse an event of another version.
func TestInboxPutsAsideWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.NoError(t, inbox.Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		first, _ := tx.Bucket([]byte("bodies")).Cursor().First()
		return tx.Bucket([]byte("bodies")).Put(first, []byte("{{{"))
	})
	webhooktest.SetsAsideWhatIsNoEvent(t, open(t, path, nil))
}

func TestClosedInboxFails(t *testing.T) {
	t.Parallel()
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	require.NoError(t, inbox.Close())
	require.Error(t, inbox.Put(t.Context(), event("a")))
	require.EqualError(t, inbox.Ready(t.Context()),
		"lendingbolt: the inbox is not ready: the file is closed; open it again")
	_, err := inbox.Take(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, webhook.ErrDuplicate)
}

func TestOpenRefusesAForeignFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("a diary\n"), 4096), 0o600))
	_, err := lendingbolt.OpenInbox(path, nil)
	require.EqualError(t, err,
		"lendingbolt: open: the file is not of this package, or damaged; use another path, "+
			"or read Restore in docs/second-year.md: a backup lacks all that came after it")
}

// TestOpenRefusesATornCopy copies a file while a program writes: the first pages of the copy are
// old, the others new.
func TestOpenRefusesATornCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	put := func(n int) (file []byte) {
		for range n {
			require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(rand.Text()))))
		}
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		return file
	}
	older, newer, page := put(200), put(200), os.Getpagesize()
	copied, refused := filepath.Join(t.TempDir(), "copy"), 0
	for cut := page; cut < len(older); cut += page {
		torn := slices.Concat(older[:cut], newer[cut:])
		require.NoError(t, os.WriteFile(copied, torn, 0o600))
		inbox, err := lendingbolt.OpenInbox(copied, nil)
		if err == nil {
			require.NoError(t, inbox.Close())
			continue
		}
		refused++
		require.ErrorContains(t, err, "or was copied while in use: copy it only after the end of its program; stop")
		require.NotContains(t, err.Error(), "runtime error")
	}
	require.Positive(t, refused)
}

func TestOpenRefusesADamagedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	for i := range 300 {
		require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(strings.Repeat("x", i+1)))))
	}
	require.NoError(t, inbox.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	page := os.Getpagesize()
	for _, size := range []int{1, 100, page, 2 * page, 2*page + 1, 3 * page, len(whole) / 4, len(whole) / 2} {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		_, err = lendingbolt.OpenInbox(path, &lendingbolt.InboxOptions{Wait: time.Second})
		require.ErrorContains(t, err, "lendingbolt: open: ", "%d of %d bytes", size, len(whole))
		require.NotContains(t, err.Error(), "another process")
	}
	for name, spoil := range map[string]func(page []byte){
		"another type, or none": func(page []byte) { clear(page) },
		"a key outside of the file": func(page []byte) {
			isLeaf := int(page[8]) - 1
			copy(page[16+4*isLeaf:], "\xff\xff\xff\x0f")
		},
		"a bucket in place of an event": func(page []byte) {
			if isLeaf := page[8] == 2; isLeaf {
				page[16] = 1
			}
		},
	} {
		for at := 2 * page; at < len(whole); at += 3 * page {
			spoilt := bytes.Clone(whole)
			spoil(spoilt[at:min(at+page, len(whole))])
			require.NoError(t, os.WriteFile(path, spoilt, 0o600))
			if inbox, err := lendingbolt.OpenInbox(path, &lendingbolt.InboxOptions{Wait: time.Second}); err == nil {
				require.NoError(t, inbox.Close(), name) // a free page
			} else {
				require.NotContains(t, err.Error(), "another process", name)
			}
		}
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	counts, err := open(t, path, nil).Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, 300, counts.Waiting)
}

// TestNoDamageEndsTheProcess spoils a byte of a page at a time, in a process of its own: each opening is an error, or
// finds an event with another text, and none keeps the lock of the file.
func TestNoDamageEndsTheProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv("LENDING_BOLT_DAMAGE") == "" {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoDamageEndsTheProcess$")
		process.Env = append(os.Environ(), "LENDING_BOLT_DAMAGE=1")
		said, err := process.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return
	}
	path := filepath.Join(t.TempDir(), "inbox")
	inbox := open(t, path, nil)
	var putting sync.WaitGroup
	for i := range 300 { // at once, so that the file has few free pages
		putting.Go(func() {
			assert.NoError(t, inbox.Put(t.Context(), event(lending.EventName(strings.Repeat("x", i+1)))))
		})
	}
	putting.Wait()
	require.NoError(t, inbox.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	page, refused := os.Getpagesize(), 0
	for at := 2 * page; at < len(whole); at += page {
		tries := 1
		if isBranch := whole[at+8] == 1; isBranch {
			tries = 30
		}
		for range tries {
			spoilt := bytes.Clone(whole)
			spoilt[at+mathrand.IntN(40)] ^= byte(1 + mathrand.IntN(255))
			require.NoError(t, os.WriteFile(path, spoilt, 0o600))
			inbox, err := lendingbolt.OpenInbox(path, &lendingbolt.InboxOptions{Wait: time.Nanosecond})
			if err == nil {
				require.NoError(t, inbox.Close())
				continue
			}
			refused++
			require.ErrorContains(t, err, "the file is damaged")
		}
	}
	require.Positive(t, refused)
}

// A bucket whose name is damaged must not give way to an empty one: a log without entries sends everything again.
func TestOpenRefusesABucketOfAnotherName(t *testing.T) {
	t.Parallel()
	openLog := func(path string) (io.Closer, error) { return lendingbolt.OpenIdempotencyStore(path, nil) }
	openInbox := func(path string) (io.Closer, error) { return lendingbolt.OpenInbox(path, nil) }
	for _, test := range []struct {
		name   string
		open   func(path string) (io.Closer, error)
		damage string
	}{
		{"idempotency entries", openLog, "idempotency entriez"},
		{"idempotency states", openLog, "idempotency statez"},
		{"bodies", openInbox, "bodiez"},
		{"waiting", openInbox, "waitinh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			file, err := test.open(path)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(whole, []byte(test.name), []byte(test.damage)), 0o600))
			_, err = test.open(path)
			require.ErrorContains(t, err, "the file is not of this package, or damaged")
			require.NoError(t, os.WriteFile(path, whole, 0o600))
			file, err = test.open(path)
			require.NoError(t, err)
			require.NoError(t, file.Close())
		})
	}
}

// Damage to the open file does not end the process.
func TestInboxOutlivesItsFile(t *testing.T) {
	t.Parallel()
	page := int64(os.Getpagesize())
	for _, test := range []struct {
		name  string
		spoil func(path string, size int64) error
	}{
		{"truncated", func(path string, _ int64) error { return os.Truncate(path, 2*page) }},
		{"overwritten", func(path string, size int64) error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, int(size-2*page)), 2*page)
			return errors.Join(err, file.Close())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "inbox")
			inbox := open(t, path, nil)
			for i := range 300 {
				require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(strings.Repeat("x", i+1)))))
			}
			entry := webhooktest.Take(t, inbox, "x")
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, test.spoil(path, info.Size()))
			require.ErrorContains(t, inbox.Put(t.Context(), event("new")), "the file is damaged")
			require.Error(t, inbox.Done(t.Context(), entry))
			_, err = inbox.Take(t.Context())
			require.Error(t, err)
			_, err = inbox.Counts(t.Context())
			require.Error(t, err)
			require.ErrorContains(t, inbox.Ready(t.Context()), "; stop the program, keep the file, "+
				"restore a backup, and run \"lending-ops restored\" before anything is sent: see docs/second-year.md")
			_, err = inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{})
			require.Error(t, err)
			_ = inbox.Close()
			_, err = lendingbolt.OpenInbox(path, &lendingbolt.InboxOptions{Wait: time.Second})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "another process")
		})
	}
}
