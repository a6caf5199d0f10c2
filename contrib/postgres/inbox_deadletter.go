package lendingpostgres

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
)

var _ webhook.DeadLetters = (*Inbox)(nil)

// DeadLetter implements [webhook.Inbox].
func (b *Inbox) DeadLetter(ctx context.Context, entry *webhook.InboxEntry, cause error) error {
	letter := webhook.NewDeadLetter(entry, cause)
	text, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	return b.endClaim(ctx, entry, `
UPDATE {inbox} SET claim = NULL, due = NULL,
	set_aside = pg_catalog.clock_timestamp(), event = $4::bytea, letter = $5::text`+ofClaim, []byte(letter.Event), string(text))
}

// letterIDOf returns the row of a dead letter, and the time when it was set aside.
func letterIDOf(id string) (row int64, setAside time.Time, ok bool) {
	first, second, _ := strings.Cut(id, "-")
	microseconds, err := strconv.ParseInt(first, 10, 56) // a time within the range of PostgreSQL
	row, failed := strconv.ParseInt(second, 10, 64)
	return row, time.UnixMicro(microseconds).UTC(), err == nil && failed == nil
}

// DeadLetters implements [webhook.DeadLetters].
func (b *Inbox) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	filter = filter.WithDefaults()
	var name []byte
	if filter.Event != "" {
		name = []byte(filter.Event)
	}
	var after *time.Time
	row, setAside, ok := letterIDOf(filter.After)
	if ok {
		after = &setAside
	}
	return collect(ctx, b.database, scanLetter, `
SELECT id, set_aside, letter FROM {inbox}
WHERE name = $1::text AND due IS NULL AND ($2::bytea IS NULL OR event = $2::bytea)
	AND (set_aside, id) < (coalesce($3::timestamptz, 'infinity'), $4::bigint)
ORDER BY set_aside DESC, id DESC LIMIT $5::integer`, b.name, name, after, row, filter.Limit)
}

func scanLetter(row pgx.CollectableRow) (letter webhook.DeadLetter, err error) {
	var id int64
	var setAside time.Time
	var text string
	if err := row.Scan(&id, &setAside, &text); err != nil {
		return letter, err
	}
	if json.Unmarshal([]byte(text), &letter) != nil {
		return letter, errors.New("lendingpostgres: a dead letter cannot be read: another program has written the row; correct or delete the row")
	}
	letter.ID, letter.SetAside = idOfLetter(setAside, id), setAside.UTC()
	return letter, nil
}

func idOfLetter(setAside time.Time, row int64) string {
	return strconv.FormatInt(setAside.UnixMicro(), 10) + "-" + strconv.FormatInt(row, 10)
}

// DeadLetterEvent implements [webhook.DeadLetters].
func (b *Inbox) DeadLetterEvent(ctx context.Context, id string) (*webhook.Event, error) {
	row, setAside, ok := letterIDOf(id)
	if !ok {
		return nil, webhook.ErrNoDeadLetter
	}
	var body []byte
	err := b.queryRow(ctx, []any{&body},
		"SELECT body FROM {inbox} WHERE name = $1::text AND due IS NULL AND set_aside = $2::timestamptz AND id = $3::bigint", b.name, setAside, row)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, webhook.ErrNoDeadLetter
	} else if err != nil {
		return nil, err
	}
	event, err := b.options.Encryption.Open(body)
	if event == nil {
		return nil, err
	}
	return event, nil // the cause tells why Parse rejects the bytes
}

// ofLetters selects dead letters by ID. The LATERAL join looks each ID up: otherwise PostgreSQL
// would read all rows until it has statistics.
const ofLetters = ` WHERE ctid = ANY (ARRAY(
	SELECT found.ctid FROM ROWS FROM (pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[])) AS wanted (id, set_aside)
	CROSS JOIN LATERAL (
		SELECT dead.ctid FROM {inbox} AS dead
		WHERE dead.id = wanted.id AND dead.set_aside = wanted.set_aside AND dead.name = $1::text AND dead.due IS NULL
		LIMIT 1 FOR UPDATE) AS found))`

// Redrive implements [webhook.DeadLetters]. If the connection breaks, Redrive tries again, and
// does not count what the first attempt has redriven.
func (b *Inbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	if err := claimer.CheckRedrive(ids); err != nil {
		return 0, err
	}
	rows, times := letterIDsOf(ids)
	redriven, err := b.exec(ctx, `
UPDATE {inbox} SET tries = 0, due = pg_catalog.clock_timestamp(), set_aside = NULL, event = NULL, letter = NULL`+ofLetters, b.name, rows, times)
	if redriven > 0 {
		b.claims().LookIn(0)
	}
	return int(redriven), err
}

// Drop implements [webhook.DeadLetters]. If the connection breaks, Drop tries again, and does not
// count what the first attempt has dropped.
func (b *Inbox) Drop(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	if err := claimer.CheckDrop(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	rows, times := letterIDsOf(ids)
	return b.remove(ctx, func(tx pgx.Tx) ([]webhook.Removed, error) {
		dropped, _ := tx.Query(ctx, b.sql("DELETE FROM {inbox}"+ofLetters+" RETURNING id, set_aside, letter"), b.name, rows, times)
		return pgx.CollectRows(dropped, func(row pgx.CollectableRow) (webhook.Removed, error) {
			letter, err := scanLetter(row)
			return webhook.NewRemoved(by, letter.ID, letter.Key, letter.Event), err
		})
	})
}

// remove deletes rows and keeps who did so, in a transaction. It returns the number of rows.
func (b *Inbox) remove(ctx context.Context, deleteRows func(tx pgx.Tx) ([]webhook.Removed, error)) (n int, err error) {
	err = b.retry(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			removed, err := deleteRows(tx)
			if err != nil {
				return err
			}
			traces := make([]string, len(removed))
			for i, trace := range removed {
				text, _ := json.Marshal(trace) // texts and a time
				traces[i] = string(text)
			}
			n = len(removed)
			_, err = tx.Exec(ctx, b.sql("INSERT INTO {inbox_removed} (name, removed) SELECT $1::text, pg_catalog.unnest($2::text[])"), b.name, traces)
			return err
		})
	})
	return n, err
}

// Erase implements [webhook.DeadLetters]. The events stay in dead rows until a vacuum, and in the
// write-ahead log and the backups as long as these are kept.
func (b *Inbox) Erase(ctx context.Context, by webhook.Decision, ids ...string) (erased int, err error) {
	if err := claimer.CheckErase(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	var unreadable error
	for last, more := int64(0), true; more; {
		found := map[int64]webhook.Removed{}
		if last, more, err = b.find(ctx, last, func(id int64, body []byte) {
			event, failed := b.options.Encryption.Open(body)
			if event == nil {
				unreadable = failed
			} else if event.Mentions(ids...) {
				found[id] = webhook.NewRemoved(by, "", event.Key(), event.Name)
			}
		}); err != nil {
			return erased, err
		}
		n, err := b.remove(ctx, func(tx pgx.Tx) ([]webhook.Removed, error) {
			rows, _ := tx.Query(ctx, b.sql("DELETE FROM {inbox} WHERE name = $1::text AND id = ANY ($2::bigint[]) RETURNING id, set_aside"),
				b.name, slices.Collect(maps.Keys(found)))
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (webhook.Removed, error) {
				var id int64
				var setAside *time.Time
				err := row.Scan(&id, &setAside)
				trace := found[id]
				if setAside != nil {
					trace.ID = idOfLetter(*setAside, id)
				}
				return trace, err
			})
		})
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, unreadable
}

// find calls each for a page of the stored events after the row last. It returns the last row, and
// whether there may be more.
func (b *Inbox) find(ctx context.Context, last int64, each func(id int64, body []byte)) (row int64, more bool, err error) {
	const page = 100
	err = b.retry(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, b.sql("SELECT id, body FROM {inbox} WHERE name = $1::text AND id > $2::bigint ORDER BY id LIMIT 100"), b.name, last)
		n := 0
		var body []byte
		_, err := pgx.ForEachRow(rows, []any{&row, &body}, func() error {
			n++
			each(row, body)
			return nil
		})
		more = n == page
		return err
	})
	return row, more, err
}

// Removed implements [webhook.DeadLetters].
func (b *Inbox) Removed(ctx context.Context, limit int) ([]webhook.Removed, error) {
	scan := func(row pgx.CollectableRow) (trace webhook.Removed, err error) {
		var text string
		if err = row.Scan(&text); err == nil {
			err = json.Unmarshal([]byte(text), &trace)
		}
		return trace, err
	}
	const statement = "SELECT removed FROM {inbox_removed} WHERE name = $1::text ORDER BY id DESC LIMIT $2::integer"
	return collect(ctx, b.database, scan, statement, b.name, claimer.Limit(limit))
}

func letterIDsOf(ids []string) (rows []int64, times []time.Time) {
	for _, id := range ids {
		if row, setAside, ok := letterIDOf(id); ok {
			rows, times = append(rows, row), append(times, setAside)
		}
	}
	return rows, times
}
