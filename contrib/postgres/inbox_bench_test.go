package lendingpostgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// benchPool returns a pool of a server that syncs its commits, unlike the other test servers.
func benchPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	cluster := runServer(b, "fsync=on", "max_connections=200", "shared_buffers=256MB")
	pool := connect(b, databaseIn(b, cluster), func(c *pgxpool.Config) { c.MaxConns = 70 })
	require.NoError(b, lendingpostgres.Migrate(b.Context(), pool, nil))
	_, err := pool.Exec(b.Context(), `
		CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE,
			body bytea NOT NULL, taken timestamptz);
		CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL)`)
	require.NoError(b, err)
	return pool
}

// BenchmarkAccept has a floor that inserts each event by hand, into a table that refuses a
// redelivery. Every correct receiver needs such a unique index: the service delivers an event
// again after a lost response. The inbox also writes a second row, because the key of an event
// stays after the event.
func BenchmarkAccept(b *testing.B) {
	webhooktest.BenchmarkAccept(b, func(b *testing.B) (webhook.Inbox, webhook.EventFunc) {
		b.Helper()
		pool := benchPool(b)
		return inboxOf(pool, nil), func(ctx context.Context, event *webhook.Event) error {
			key := sha256.Sum256(event.Body())
			tag, err := pool.Exec(ctx, "INSERT INTO floor (key, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
				key[:], event.Body())
			if err == nil && tag.RowsAffected() == 0 {
				err = webhook.ErrDuplicate
			}
			return err
		}
	})
}

// fill puts n events into an inbox, and into the floor's table, and leaves no dead rows.
func fill(b *testing.B, pool *pgxpool.Pool, n int) {
	b.Helper()
	insert := func(table string, columns []string, row func(body []byte) []any) {
		rows := make([][]any, n)
		for i := range rows {
			rows[i] = row(webhooktest.Numbered())
		}
		_, err := pool.CopyFrom(b.Context(), pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		require.NoError(b, err)
	}
	due := time.Now().Add(-time.Hour)
	insert("lending_inbox", []string{"name", "due", "body"}, func(body []byte) []any {
		return []any{"test", due, body}
	})
	insert("floor", []string{"key", "body"}, func(body []byte) []any {
		key := sha256.Sum256(body)
		return []any{key[:], body}
	})
	_, err := pool.Exec(b.Context(), "VACUUM ANALYZE")
	require.NoError(b, err)
}

// BenchmarkDrain handles a backlog in turns of 2,048 events, in Work and in WorkTx. The floor of both is
// a plain loop that takes a row, has its effect and deletes the row in a single transaction. All parse
// the event.
//
// The loop counts no tries: an event that ends the process does so again and again. The inbox
// therefore writes a claim that the loop does not.
func BenchmarkDrain(b *testing.B) {
	const effect = "INSERT INTO effects (body) VALUES ($1)"
	act := func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
		_, err := tx.Exec(ctx, effect, event.Body())
		return err
	}
	for _, workers := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint("Work/", workers), func(b *testing.B) {
			drains(b, workers, act, func(
				ctx context.Context, pool *pgxpool.Pool, inbox *lendingpostgres.Inbox, opts *webhook.WorkOptions,
			) {
				webhook.Work(ctx, inbox, func(ctx context.Context, event *webhook.Event) error {
					_, err := pool.Exec(ctx, effect, event.Body())
					return err
				}, opts)
			})
		})
		b.Run(fmt.Sprint("WorkTx/", workers), func(b *testing.B) {
			drains(b, workers, act, func(
				ctx context.Context, _ *pgxpool.Pool, inbox *lendingpostgres.Inbox, opts *webhook.WorkOptions,
			) {
				inbox.WorkTx(ctx, act, opts)
			})
		})
	}
}

// drains compares work with the plain loop.
func drains(
	b *testing.B, workers int, act lendingpostgres.TxFunc,
	work func(context.Context, *pgxpool.Pool, *lendingpostgres.Inbox, *webhook.WorkOptions),
) {
	b.Helper()
	const turn = 2048
	pool := benchPool(b)
	fill(b, pool, (b.N+2)*(turn+workers))
	inbox := inboxOf(pool, nil)
	drained := func(work func(ctx context.Context, done func())) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		var done atomic.Int32
		work(ctx, func() {
			if done.Add(1) >= turn {
				cancel()
			}
		})
	}
	took, ratio := webhooktest.InTurns(b, func() {
		drained(func(ctx context.Context, done func()) {
			work(ctx, pool, inbox,
				&webhook.WorkOptions{Concurrency: workers, Observe: func(webhook.Result) { done() }})
		})
	}, func() {
		drained(func(ctx context.Context, done func()) {
			var group sync.WaitGroup
			for range workers {
				group.Go(func() {
					for ctx.Err() == nil {
						if err := plainly(context.WithoutCancel(ctx), pool, act); err != nil {
							b.Error(err)
							return
						}
						done()
					}
				})
			}
			group.Wait()
		})
	})
	b.ReportMetric(turn/took[0].Seconds(), "inbox/s")
	b.ReportMetric(turn/took[1].Seconds(), "loop/s")
	b.ReportMetric(ratio, "of-loop")
}

// plainly handles an event as a plain loop does.
func plainly(ctx context.Context, pool *pgxpool.Pool, act lendingpostgres.TxFunc) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var id int64
		var body []byte
		const first = "SELECT id, body FROM floor ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
		if err := tx.QueryRow(ctx, first).Scan(&id, &body); err != nil {
			return err
		}
		event, err := webhook.Parse(body)
		if err != nil {
			return err
		}
		if err := act(ctx, tx, event); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM floor WHERE id = $1", id)
		return err
	})
}
