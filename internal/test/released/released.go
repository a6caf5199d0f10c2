// Package released has the stores that earlier releases have written. Their files are written
// once, with -released v0.1, and never again: a test reads them with the code of today.
package released

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/webhook"
)

var release = flag.String("released", "", "write the stores of this release, such as v0.1")

// Each calls read for the folder of each release. With -released, it first calls write for a new
// folder.
func Each(t *testing.T, write, read func(t *testing.T, folder string)) {
	t.Helper()
	folders := filepath.Join("testdata", "released")
	if *release != "" {
		require.NoError(t, os.MkdirAll(folders, 0o750))
		require.NoError(t, os.Mkdir(filepath.Join(folders, *release), 0o750), "a release is written once")
		t.Run("write", func(t *testing.T) {
			folder := filepath.Join(folders, *release)
			write(t, folder)
			require.NoError(t, os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums(t, folder)), 0o600))
		})
	}
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(folders, name)
			written, err := os.ReadFile(filepath.Join(folder, sumsFile))
			require.NoError(t, err)
			require.Equal(t, string(written), sums(t, folder), "somebody has edited a store of a release: restore it from git")
			read(t, folder)
		})
	}
}

// names returns the releases of which any package has a folder.
func names(t *testing.T) []string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	var names []string
	for _, packages := range []string{"*", "*/*"} {
		folders, err := filepath.Glob(filepath.Dir(file) + "/../../../" + packages + "/testdata/released/*")
		require.NoError(t, err)
		for _, folder := range folders {
			names = append(names, filepath.Base(folder))
		}
	}
	require.NotEmpty(t, names)
	slices.Sort(names)
	return slices.Compact(names)
}

const sumsFile = "SHA256SUMS"

// sums returns the checksums of the files of a release, as sha256sum prints them.
func sums(t *testing.T, folder string) (all string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, file := range files {
		if file.Name() != sumsFile {
			content, err := os.ReadFile(filepath.Join(folder, file.Name()))
			require.NoError(t, err)
			all += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), file.Name())
		}
	}
	return all
}

// Keep keeps the keys of events longer than any test data lives.
const Keep = 100 * 365 * 24 * time.Hour

// Encryption is the encryption of the encrypted inboxes.
func Encryption() *webhook.Encryption { return fake.Must(webhook.NewEncryption(encryptionKey)) }

var (
	encryptionKey = bytes.Repeat([]byte{7}, 32)
	decision      = webhook.Decision{By: "kim", Why: "a release"}
)

type inbox interface {
	webhook.Inbox
	webhook.DeadLetters
}

func event(name string) *webhook.Event {
	return fake.Must(webhook.Parse(fmt.Appendf(nil,
		`{"webhookEvent":"%s", "data":{"otp":"731904"}, "creationTimeUtc":"2026-11-23T10:00:00.1234567"}`, name)))
}

func take(t *testing.T, inbox inbox) *webhook.InboxEntry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	entry, err := inbox.Take(ctx)
	require.NoError(t, err)
	return entry
}

// FillInbox leaves an event in each state in an empty inbox.
func FillInbox(t *testing.T, inbox inbox) {
	t.Helper()
	for _, name := range []string{"Dropped", "Dead", "Running", "Later", "Waiting"} {
		require.NoError(t, inbox.Put(t.Context(), event(name)))
		switch name {
		case "Dropped", "Dead":
			require.NoError(t, inbox.DeadLetter(t.Context(), take(t, inbox), fmt.Errorf("a failure with 731904")))
			if name == "Dropped" {
				_, err := webhook.DropAll(t.Context(), inbox, decision, webhook.DeadLetterFilter{})
				require.NoError(t, err)
			}
		case "Running":
			take(t, inbox)
		case "Later":
			require.NoError(t, inbox.Retry(t.Context(), take(t, inbox), 100*time.Millisecond))
		}
	}
}

// ReadInbox takes the events of FillInbox to their ends.
func ReadInbox(t *testing.T, inbox inbox) {
	t.Helper()
	got := map[lending.EventName]int{}
	for len(got) < 3 {
		entry := take(t, inbox)
		require.Equal(t, event(string(entry.Event.Name)).Body(), entry.Event.Body())
		got[entry.Event.Name] = entry.Tries
		require.NoError(t, inbox.Done(t.Context(), entry))
	}
	require.Equal(t, map[lending.EventName]int{"Running": 2, "Later": 2, "Waiting": 1}, got)

	letters, err := inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{Event: "Dead"})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	dead := event("Dead")
	require.Equal(t, webhook.DeadLetter{
		ID: letters[0].ID, Key: dead.Key(), Event: "Dead", Created: dead.Created.UTC(), SetAside: letters[0].SetAside,
		Cause: "a failure with [redacted]", Tries: 1,
	}, letters[0])
	found, err := inbox.DeadLetterEvent(t.Context(), letters[0].ID)
	require.NoError(t, err)
	require.Equal(t, dead.Body(), found.Body())
	_, err = inbox.Redrive(t.Context(), letters[0].ID)
	require.NoError(t, err)
	require.NoError(t, inbox.Done(t.Context(), take(t, inbox)))
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts)

	removed, err := inbox.Removed(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, removed, 1)
	require.Equal(t, decision, removed[0].Decision)
	require.Equal(t, event("Dropped").Key(), removed[0].Key)
	for _, name := range []string{"Dropped", "Dead", "Running", "Later", "Waiting"} {
		require.ErrorIs(t, inbox.Put(t.Context(), event(name)), webhook.ErrDuplicate)
	}
}

var states = []store.State{store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten}

func entry(state store.State) store.Entry {
	return store.Entry{
		Key: "orders/" + string(state), State: state, Lock: "lock of " + string(state),
		Data: []byte("{\"data\":\"of \x00" + state + "\"}"),
	}
}

// FillEntries saves an entry in each state, and the same encrypted.
func FillEntries(t *testing.T, entries store.Store) {
	t.Helper()
	for prefix, entries := range both(t, entries) {
		for _, state := range states {
			e := entry(state)
			e.Key, e.Lock = prefix+e.Key, prefix+e.Lock
			require.NoError(t, entries.Save(t.Context(), e))
		}
	}
}

// ReadEntries reads the entries of FillEntries, and saves each of them once more.
func ReadEntries(t *testing.T, entries store.Store) {
	t.Helper()
	for prefix, entries := range both(t, entries) {
		for _, state := range states {
			want := entry(state)
			want.Key, want.Lock, want.Revision = prefix+want.Key, prefix+want.Lock, 1
			got, err := entries.Load(t.Context(), want.Key)
			require.NoError(t, err)
			require.NotNil(t, got, "%s", want.Key)
			require.GreaterOrEqual(t, got.Age, time.Duration(0))
			want.Age, want.Position = got.Age, got.Position
			require.Equal(t, want, *got)
			listed, err := entries.List(t.Context(), store.Filter{Prefix: want.Key, States: []store.State{state}, Limit: 9})
			require.NoError(t, err)
			require.Len(t, listed, 1)
			require.Equal(t, want.Data, listed[0].Data)

			var held *store.LockedError
			taker := store.Entry{Key: want.Key + "2", State: store.Sent, Lock: want.Lock}
			require.ErrorAs(t, entries.Save(t.Context(), taker), &held)
			require.Equal(t, want.Key, held.Key)
			next := want
			next.State, next.Lock = store.Done, ""
			require.NoError(t, entries.Save(t.Context(), next))
			require.ErrorIs(t, entries.Save(t.Context(), next), store.ErrConflict)
		}
	}
}

const sealed = "encrypted " // prefix of the keys of the encrypted store

// both returns a store and the same encrypted, by the prefix of their keys.
func both(t *testing.T, entries store.Store) map[string]store.Store {
	t.Helper()
	encrypted, err := store.NewEncrypted(entries, encryptionKey)
	require.NoError(t, err)
	return map[string]store.Store{"": entries, sealed: encrypted}
}

const fence = 1_700_000_000_000_000

// FillToken saves a token.
func FillToken(t *testing.T, tokens lending.TokenStore) {
	t.Helper()
	_, err := tokens.Acquire(t.Context(), "an owner that has ended", time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, tokens.Save(t.Context(), lending.StoredToken{Fence: fence, Data: lending.NewSecret("a token")}))
}

// ReadToken reads the token of FillToken and replaces it.
func ReadToken(t *testing.T, tokens lending.TokenStore) {
	t.Helper()
	kept, err := tokens.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(fence), kept.Fence)
	require.Equal(t, "a token", kept.Data.Reveal())
	kept.Fence, err = tokens.Acquire(t.Context(), "another owner", time.Minute)
	require.NoError(t, err)
	require.Greater(t, kept.Fence, int64(fence))
	require.NoError(t, tokens.Save(t.Context(), kept))
	kept.Fence = fence
	require.ErrorIs(t, tokens.Save(t.Context(), kept), lending.ErrFenced)
}
