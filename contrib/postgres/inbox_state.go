package lendingpostgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go/webhook"
)

// Counts implements [webhook.Inbox]. Counts reads all rows of the inbox.
func (b *Inbox) Counts(ctx context.Context) (counts webhook.InboxCounts, err error) {
	err = b.queryRow(ctx, []any{&counts.Waiting, &counts.Running, &counts.DeadLetters}, `
SELECT pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NULL),
	pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NOT NULL), pg_catalog.count(*) FILTER (WHERE due IS NULL)
FROM {inbox} WHERE name = $1::text`, b.name)
	return counts, err
}

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(ctx context.Context) (ages webhook.InboxAges, err error) {
	err = b.queryRow(ctx, []any{&ages.Due, &ages.DeadLetter}, `
SELECT coalesce(now - (SELECT due FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NULL ORDER BY due, id LIMIT 1), '0'),
	greatest(now - (SELECT set_aside FROM {inbox} WHERE name = $1::text AND due IS NULL ORDER BY set_aside, id LIMIT 1), '0')
FROM (SELECT pg_catalog.clock_timestamp() AS now) AS moment`, b.name)
	return ages, err
}

// Ready implements [webhook.Inbox]. A standby server is not ready.
func (b *Inbox) Ready(ctx context.Context) error {
	var readOnly, empty bool
	err := b.queryRow(ctx, []any{&readOnly, &empty},
		"SELECT pg_catalog.current_setting('transaction_read_only')::boolean, NOT EXISTS (SELECT FROM {inbox})")
	if err == nil && readOnly {
		err = errors.New("the database is read only")
	}
	if err != nil {
		return fmt.Errorf("lendingpostgres: the inbox is not ready: %w; check the database, and call Migrate", err)
	}
	return nil
}
