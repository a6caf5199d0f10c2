package lendingpostgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/webhook"
)

// Counts implements [webhook.Inbox]. Counts reads all rows of the inbox.
func (b *Inbox) Counts(ctx context.Context) (counts webhook.InboxCounts, err error) {
	err = b.retry(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, b.sql("SELECT pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NULL), pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NOT NULL), pg_catalog.count(*) FILTER (WHERE due IS NULL) FROM {inbox} WHERE name = $1::text"),
			b.name).Scan(&counts.Waiting, &counts.Running, &counts.DeadLetters)
	})
	return counts, err
}

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(ctx context.Context) (ages webhook.InboxAges, err error) {
	err = b.retry(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, b.sql(`
SELECT coalesce(now - (SELECT due FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NULL ORDER BY due, id LIMIT 1), '0'),
	greatest(now - (SELECT set_aside FROM {inbox} WHERE name = $1::text AND due IS NULL ORDER BY set_aside, id LIMIT 1), '0')
FROM (SELECT pg_catalog.clock_timestamp() AS now) AS moment`), b.name).Scan(&ages.Due, &ages.DeadLetter)
	})
	return ages, err
}

// Ready implements [webhook.Inbox]. A standby server is not ready.
func (b *Inbox) Ready(ctx context.Context) error {
	err := b.retry(ctx, func(conn *pgxpool.Conn) error {
		var readOnly, empty bool
		err := conn.QueryRow(ctx, b.sql("SELECT pg_catalog.current_setting('transaction_read_only')::boolean, NOT EXISTS (SELECT FROM {inbox})")).Scan(&readOnly, &empty)
		if err == nil && readOnly {
			err = errors.New("the database is read only")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("lendingpostgres: the inbox is not ready: %w; check the database, and call Migrate", err)
	}
	return nil
}
