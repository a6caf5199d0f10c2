//go:build unix

package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func TestNothingIsLostWhenARedriveIsKilled(t *testing.T) {
	t.Parallel()
	url := withEffects(t, database(t))
	webhooktest.KillRedrive(t, url, func(url string) (webhooktest.Store, error) {
		pool := connect(t, url)
		inbox, err := lendingpostgres.NewInbox(pool, "test", nil)
		return webhooktest.Store{Inbox: inbox, Close: func() error { pool.Close(); return nil }}, err
	})
}

// The table has 100,000 dead letters. No call reads all of them into memory.
//
//nolint:paralleltest // it measures memory
func TestManyDeadLetters(t *testing.T) {
	const number = 100_000
	pool := migrated(t)
	_, err := pool.Exec(t.Context(), `
INSERT INTO lending_inbox (name, body, set_aside, event, letter)
SELECT 'test',
	convert_to(format('{"webhookEvent":"%s","data":{"n":%s,"text":"%s"}}', event, n, repeat('x', 500)), 'UTF8'),
	now() + n * interval '1 microsecond', convert_to(event, 'UTF8'),
	format('{"key":"%s","event":"%s","cause":"a failure"}', lpad(n::text, 64, '0'), event)
FROM (SELECT n, CASE n % 2 WHEN 0 THEN 'WB_Loan_Opened' ELSE 'WB_Loan_Closed' END AS event
	FROM generate_series(1, $1::integer) AS n) AS events`, number)
	require.NoError(t, err)
	webhooktest.ManyDeadLetters(t, inboxOf(pool, nil), number)
}

func TestInboxWithoutItsTablesIsNotReady(t *testing.T) {
	t.Parallel()
	pool := connect(t, database(t))
	inbox := inboxOf(pool, nil)
	require.ErrorContains(t, inbox.Ready(t.Context()), "lendingpostgres: the inbox is not ready: ")
	_, err := inbox.Ages(t.Context())
	require.Error(t, err)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	require.NoError(t, inbox.Ready(t.Context()))
	_, err = pool.Exec(t.Context(),
		"ALTER DATABASE \""+pool.Config().ConnConfig.Database+"\" SET default_transaction_read_only = on")
	require.NoError(t, err)
	pool.Reset()
	require.EqualError(t, inbox.Ready(t.Context()),
		"lendingpostgres: the inbox is not ready: the database is read only; check the database, and call Migrate")
}
