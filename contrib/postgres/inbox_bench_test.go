package lendingpostgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const benchSecret = "whs_0123456789abcdef0123456789abcdef"

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

// inTurns measures two functions in turns, in changing order, and returns the median time of each
// and the median of the ratios of two neighboring turns.
func inTurns(b *testing.B, first, second func()) (took [2]time.Duration, ratio float64) {
	b.Helper()
	each, all, ratios := [2]func(){first, second}, [2][]time.Duration{}, []float64{}
	first() // prepares the statements
	second()
	b.ResetTimer()
	for n := range b.N {
		for i := range each {
			i ^= n % 2
			start := time.Now()
			each[i]()
			all[i] = append(all[i], time.Since(start))
		}
		ratios = append(ratios, all[1][n].Seconds()/all[0][n].Seconds())
	}
	b.ReportMetric(0, "ns/op")
	for i, times := range all {
		slices.Sort(times)
		took[i] = times[len(times)/2]
	}
	slices.Sort(ratios)
	return took, ratios[len(ratios)/2]
}

// BenchmarkAccept delivers webhooks over real connections to two receivers, in turns of 256. The
// first receiver puts events into the inbox. The second, the floor, inserts each event by hand, into
// a table that refuses a redelivery. Every correct receiver needs such a unique index: the service
// delivers an event again after a lost response. Both commit before they respond.
//
// The inbox also writes a second row, because the key of an event stays after the event.
func BenchmarkAccept(b *testing.B) {
	for _, connections := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("connections=", connections), func(b *testing.B) {
			pool := benchPool(b)
			const turn = 256
			inbox := receive(b, connections, inboxOf(pool, nil).Put)
			floor := receive(b, connections, func(ctx context.Context, event *webhook.Event) error {
				key := sha256.Sum256(event.Body())
				tag, err := pool.Exec(ctx, "INSERT INTO floor (key, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
					key[:], event.Body())
				if err == nil && tag.RowsAffected() == 0 {
					err = webhook.ErrDuplicate
				}
				return err
			})
			took, ratio := inTurns(b, func() { inbox(turn) }, func() { floor(turn) })
			b.ReportMetric(turn/took[0].Seconds(), "inbox/s")
			b.ReportMetric(turn/took[1].Seconds(), "floor/s")
			b.ReportMetric(ratio, "of-floor")
		})
	}
}

var numbers atomic.Int64

// numbered returns a delivery of usual size. No two deliveries are equal.
func numbered() []byte {
	return fmt.Appendf(nil,
		`{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Application_Status_Changed",`+
			`"data":{"applicationId":"11111111-2222-3333-4444-%012d","status":"Under review","partner":"%0100d"},`+
			`"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`, numbers.Add(1), 0)
}

// receive starts a receiver and returns a function that delivers n events to it.
func receive(b *testing.B, connections int, handle webhook.EventFunc) func(n int) {
	b.Helper()
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(benchSecret)), handle, nil)
	require.NoError(b, err)
	server := httptest.NewServer(receiver)
	b.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	return func(n int) {
		parallel(b, connections, n, func() error {
			body := numbered()
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(webhook.SignatureHeader, lending.Sign(benchSecret, body))
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNoContent {
				return errors.New(response.Status)
			}
			return nil
		})
	}
}

// parallel calls f n times, several calls at a time.
func parallel(b *testing.B, concurrency, n int, f func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range concurrency {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// fill puts n events into an inbox, and into the floor's table, and leaves no dead rows.
func fill(b *testing.B, pool *pgxpool.Pool, name string, n int) {
	b.Helper()
	events := func(insert string) {
		rows := make([][]any, n)
		for i := range rows {
			rows[i] = []any{name, time.Now().Add(-time.Hour), numbered()}
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
		took, ratio := inTurns(b, func() {
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
		took, ratio := inTurns(b, func() {
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
			parallel(b, 32, turn, func() error {
				event, err := webhook.Parse(numbered())
				if err != nil {
					return err
				}
				if err := inbox.Put(b.Context(), event); err != nil {
					return err
				}
				entry, err := inbox.Take(b.Context())
				if err != nil {
					return err
				}
				return inbox.Done(b.Context(), entry)
			})
		}
	}
	took, ratio := inTurns(b, step("short", 1_000), step("long", 100_000))
	b.ReportMetric(float64(took[0].Microseconds())/turn, "µs/event-behind-1000")
	b.ReportMetric(float64(took[1].Microseconds())/turn, "µs/event-behind-100000")
	b.ReportMetric(ratio, "long/short")
}
