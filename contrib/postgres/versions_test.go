package lendingpostgres_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// The tables of a release are a dump in SQL.
func TestTablesOfEveryReleaseAreRead(t *testing.T) {
	t.Parallel()
	inboxes := func(pool *pgxpool.Pool, lease time.Duration) (plain, encrypted *lendingpostgres.Inbox) {
		plain = fake.Must(lendingpostgres.NewInbox(pool, "plain",
			&lendingpostgres.InboxOptions{Lease: lease, Keep: released.Keep}))
		encrypted = fake.Must(lendingpostgres.NewInbox(pool, "encrypted",
			&lendingpostgres.InboxOptions{Lease: lease, Keep: released.Keep, Encryption: released.Encryption()}))
		return plain, encrypted
	}
	// of the server and of psql
	settings := regexp.MustCompile(`(?m)^(--.*|\\.*|SET .*|SELECT pg_catalog.set_config.*|ALTER .* OWNER .*|)\n`)
	released.Each(t, func(t *testing.T, folder string) {
		url := migratedURL(t, database(t))
		pool := connect(t, url)
		plain, encrypted := inboxes(pool, time.Second)
		released.FillInbox(t, plain)
		released.FillInbox(t, encrypted)
		released.FillEntries(t, fake.Must(lendingpostgres.NewIdempotencyStore(pool, "entries", nil)))
		released.FillToken(t, fake.Must(lendingpostgres.NewTokenStore(pool, "token", nil)))
		dump, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", url).Output()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "dump.sql"), settings.ReplaceAll(dump, nil), 0o600))
	}, func(t *testing.T, folder string) {
		dump, err := os.ReadFile(filepath.Join(folder, "dump.sql"))
		require.NoError(t, err)
		pool := connect(t, database(t))
		_, err = pool.Exec(t.Context(), string(dump))
		require.NoError(t, err)
		require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
		plain, encrypted := inboxes(pool, time.Second)
		released.ReadInbox(t, plain)
		released.ReadInbox(t, encrypted)
		released.ReadEntries(t, fake.Must(lendingpostgres.NewIdempotencyStore(pool, "entries", nil)))
		released.ReadToken(t, fake.Must(lendingpostgres.NewTokenStore(pool, "token", nil)))
	})
}

// An event with an unknown encryption key waits for another process, and is no dead letter.
func TestEncryptedEventWaitsForItsKey(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Encryption: released.Encryption()})
	require.NoError(t, inbox.Put(t.Context(), event("E")))
	without := inboxOf(pool, nil)
	_, err := without.Take(t.Context())
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
	counts, err := without.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, webhook.InboxCounts{Waiting: 1}, counts)
	var tries int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT tries FROM lending_inbox").Scan(&tries))
	require.Zero(t, tries, "the claim is no try")
	_, err = without.Erase(t.Context(), webhook.Decision{By: "kim", Why: "asked"}, "the person's id")
	require.ErrorContains(t, err, "check the encryption keys of the inbox")
}

// No dump has a value of an erased person, or of an encrypted event.
func TestErasedPersonIsInNoDump(t *testing.T) {
	t.Parallel()
	url := migratedURL(t, database(t))
	pool := connect(t, url)
	const person, code = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10", "731904"
	put := func(name string, encryption *webhook.Encryption) *lendingpostgres.Inbox {
		inbox := fake.Must(lendingpostgres.NewInbox(pool, name, &lendingpostgres.InboxOptions{Encryption: encryption}))
		for _, path := range []string{"waiting", "dead letter"} {
			event := fake.Must(webhook.Parse(fmt.Appendf(nil,
				`{"webhookEvent":"E","data":{"path":%q,"of":%q,"code":%q}}`, path, person, code)))
			require.NoError(t, inbox.Put(t.Context(), event))
			if path == "waiting" {
				entry := fake.Must(inbox.Take(t.Context()))
				require.NoError(t, inbox.DeadLetter(t.Context(), entry, errors.New("failed for "+person+" with "+code)))
			}
		}
		return inbox
	}
	dump := func() string {
		return string(fake.Must(exec.CommandContext(t.Context(), "pg_dump", "--inserts", url).Output()))
	}
	hexOf := func(text string) string { return hex.EncodeToString([]byte(text)) }
	put("encrypted", released.Encryption())
	for _, canary := range []string{person, code, hexOf(person), hexOf(code)} {
		require.NotContains(t, dump(), canary, "encrypted")
	}
	storetest.Erase(t, storesOf(pool).idempotency, inboxOf(pool, nil), dump)
}
