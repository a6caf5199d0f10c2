package lendingpostgres_test

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// benchPool returns a pool of a server that syncs its commits, unlike the other test servers.
func benchPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	cluster := pgtest.Run(b, "fsync=on", "max_connections=200", "shared_buffers=256MB")
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
func fill(b *testing.B, pool *pgxpool.Pool, name string, n int) {
	b.Helper()
	events := func(insert string) {
		rows := make([][]any, n)
		for i := range rows {
			rows[i] = []any{name, time.Now().Add(-time.Hour), webhooktest.Numbered()}
		}
		table, columns := pgx.Identifier{"lending_inbox"}, []string{"name", "due", "body"}
		if insert == "floor" {
			table, columns = pgx.Identifier{"floor"}, []string{"key", "body"}
			for i := range rows {
				body, _ := rows[i][2].([]byte)
				key := sha256.Sum256(body)
				rows[i] = []any{key[:], body}
			}
		}
		_, err := pool.CopyFrom(b.Context(), table, columns, pgx.CopyFromRows(rows))
		require.NoError(b, err)
	}
	events("inbox")
	if name == "test" {
		events("floor")
	}
	_, err := pool.Exec(b.Context(), "VACUUM ANALYZE")
	require.NoError(b, err)
}

const workers = 16

// BenchmarkDrain handles a backlog in turns of 2,048 events. WorkTx is compared with a loop that
// takes, handles and deletes a row in a single transaction. Work is compared with a loop that
// uses two, and whose claims expire. Both sides parse each event.
//
// The loops count no tries: an event that ends the process does so again and again. For WorkTx,
// the inbox therefore writes a claim that the loop does not.
func BenchmarkDrain(b *testing.B) {
	const turn = 2048
	act := func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (body) VALUES ($1)", event.Body())
		return err
	}
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
	loop := func(one func(ctx context.Context) error) {
		drained(func(ctx context.Context, done func()) {
			var group sync.WaitGroup
			for range workers {
				group.Go(func() {
					for ctx.Err() == nil {
						if err := one(context.WithoutCancel(ctx)); err != nil {
							b.Error(err)
							return
						}
						done()
					}
				})
			}
			group.Wait()
		})
	}
	report := func(b *testing.B, took [2]time.Duration, ratio float64) {
		b.Helper()
		b.ReportMetric(turn/took[0].Seconds(), "inbox/s")
		b.ReportMetric(turn/took[1].Seconds(), "loop/s")
		b.ReportMetric(ratio, "of-loop")
	}
	b.Run("WorkTx", func(b *testing.B) {
		pool := benchPool(b)
		fill(b, pool, "test", (b.N+2)*(turn+workers))
		inbox := inboxOf(pool, nil)
		took, ratio := webhooktest.InTurns(b, func() {
			drained(func(ctx context.Context, done func()) {
				inbox.WorkTx(ctx, act,
					&webhook.WorkOptions{Concurrency: workers, Observe: func(webhook.Result) { done() }})
			})
		}, func() {
			loop(func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var id int64
					var body []byte
					err := tx.QueryRow(ctx, `SELECT id, body FROM floor
						ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`).Scan(&id, &body)
					if err != nil {
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
			})
		})
		report(b, took, ratio)
	})
	b.Run("Work", func(b *testing.B) {
		pool := benchPool(b)
		fill(b, pool, "test", (b.N+2)*(turn+workers))
		inbox := inboxOf(pool, nil)
		took, ratio := webhooktest.InTurns(b, func() {
			drained(func(ctx context.Context, done func()) {
				webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error { return nil },
					&webhook.WorkOptions{Concurrency: workers, Observe: func(webhook.Result) { done() }})
			})
		}, func() {
			loop(func(ctx context.Context) error {
				var id int64
				var body []byte
				err := pool.QueryRow(ctx, `UPDATE floor SET taken = clock_timestamp() WHERE id = (
					SELECT id FROM floor WHERE taken IS NULL OR taken < clock_timestamp() - interval '5 min'
					ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body`).Scan(&id, &body)
				if err != nil {
					return err
				}
				if _, err := webhook.Parse(body); err != nil {
					return err
				}
				_, err = pool.Exec(ctx, "DELETE FROM floor WHERE id = $1", id)
				return err
			})
		})
		report(b, took, ratio)
	})
}

// BenchmarkQueue puts, takes and ends events, 32 at a time, with 1,000 and with 100,000 other
// events in the queue, in turns of 512.
func BenchmarkQueue(b *testing.B) {
	const turn = 512
	pool := benchPool(b)
	step := func(name string, queued int) func() {
		fill(b, pool, name, queued)
		inbox, err := lendingpostgres.NewInbox(pool, name, nil)
		require.NoError(b, err)
		return func() {
			webhooktest.Parallel(b, 32, turn, func() error {
				if err := webhooktest.PutNumbered(b.Context(), inbox); err != nil {
					return err
				}
				return webhooktest.TakeAndEnd(b.Context(), inbox)
			})
		}
	}
	took, ratio := webhooktest.InTurns(b, step("short", 1_000), step("long", 100_000))
	b.ReportMetric(float64(took[0].Microseconds())/turn, "µs/event-behind-1000")
	b.ReportMetric(float64(took[1].Microseconds())/turn, "µs/event-behind-100000")
	b.ReportMetric(ratio, "long/short")
}
