package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// database is a pool and the tables of a store.
type database struct {
	place
	pool opaque.Value[*pgxpool.Pool]
}

func open(pool *pgxpool.Pool, tables *Tables) (database, error) {
	if pool == nil {
		return database{}, errors.New("lendingpostgres: the pool is nil")
	}
	p, err := tables.place()
	return database{p, opaque.Hide(pool)}, err
}

const (
	maxTries  = 4
	firstWait = 15 * time.Millisecond // quadruples after each try
	maxWait   = time.Second
)

// retry calls do until it succeeds, at most maxTries times, and only after an error that may be
// temporary. Each call gets a connection of its own. The statement or transaction of do must be
// safe to repeat, because it may have been committed when the connection broke.
//
// If a function of WorkTx leaves rows open, or its own deadline closes the connection, the error
// looks like a broken connection, and retry calls the function again.
func (d database) retry(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	for try := 1; ; try++ {
		again, err := d.once(ctx, do)
		if err == nil || !again || try == maxTries {
			return err
		}
		if backoff.Sleep(ctx, backoff.After(2*try-1, firstWait, maxWait)) != nil {
			return err
		}
	}
}

// once calls do and reports whether a later try can succeed: after an error of the connection,
// or after a temporary error of the server.
func (d database) once(ctx context.Context, do func(conn *pgxpool.Conn) error) (again bool, err error) {
	conn, err := d.pool().Acquire(ctx)
	if err != nil {
		return stateOf(err) == "" || passing(stateOf(err)), err
	}
	defer conn.Release()
	err = do(conn)
	state := stateOf(err)
	if state == readOnly { // the server may be a standby now; a new connection can find another
		_ = conn.Conn().Close(ctx)
	}
	broken := state == "" && err != nil && conn.Conn().IsClosed()
	if broken && ctx.Err() == nil {
		err = fmt.Errorf("lendingpostgres: the connection broke: %w; check PostgreSQL and the network", err)
	}
	return errors.Is(err, errAgain) || passing(state) || broken, err
}

// exec executes a statement that is safe to repeat, and returns the number of rows.
func (d database) exec(ctx context.Context, statement string, arguments ...any) (rows int64, err error) {
	err = d.retry(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, d.sql(statement), arguments...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// queryRow is exec for a statement with a single row, whose columns go into the variables to.
func (d database) queryRow(ctx context.Context, to []any, statement string, arguments ...any) error {
	return d.retry(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, d.sql(statement), arguments...).Scan(to...)
	})
}

// collect is queryRow for any number of rows.
func collect[T any](ctx context.Context, d database, scan pgx.RowToFunc[T], statement string, arguments ...any) (all []T, err error) {
	err = d.retry(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, d.sql(statement), arguments...) // CollectRows returns the error
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// errAgain means that a statement found neither its row nor a conflicting row, because another
// transaction removed the row in between. The statement can be tried again.
var errAgain = errors.New("lendingpostgres: other processes change the rows all the time; try again")

const readOnly = "25006" // SQLSTATE

func stateOf(err error) string {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failed.Code
	}
	return ""
}

func passing(state string) bool {
	switch state {
	case "57014": // a statement was canceled, for example by its timeout
		return false
	case "40001", "40P01", readOnly: // serialization failure, deadlock
		return true
	}
	for _, class := range []string{"08", "53", "57"} { // connections, resources, start or shutdown of the server
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}
