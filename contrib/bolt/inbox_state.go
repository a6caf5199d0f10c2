package lendingbolt

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/webhook"
	"go.etcd.io/bbolt"
)

// Counts implements [webhook.Inbox].
func (b *Inbox) Counts(context.Context) (counts webhook.InboxCounts, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		counts = webhook.InboxCounts{
			Waiting:     tx.Bucket(waiting).Stats().KeyN,
			Running:     tx.Bucket(running).Stats().KeyN,
			DeadLetters: tx.Bucket(dead).Stats().KeyN,
		}
		return nil
	})
	return counts, err
}

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(context.Context) (ages webhook.InboxAges, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		for bucket, age := range map[string]*time.Duration{string(waiting): &ages.Due, string(dead): &ages.DeadLetter} {
			if first, _ := tx.Bucket([]byte(bucket)).Cursor().First(); first != nil {
				*age = max(0, time.Since(timeOf(first)))
			}
		}
		return nil
	})
	return ages, err
}

// Ready implements [webhook.Inbox]. A closed or damaged file is not ready.
func (b *Inbox) Ready(context.Context) error {
	if err := b.file().view(func(*bbolt.Tx) error { return nil }); err != nil {
		return fmt.Errorf("lendingbolt: the inbox is not ready: %w", err)
	}
	return nil
}
