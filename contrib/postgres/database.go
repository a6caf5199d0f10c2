package lendingpostgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// database is where a store has its tables.
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
	firstWait = 15 * time.Millisecond // quadrupled after each try
	maxWait   = time.Second
)

// retry calls do until it succeeds, or fails in a way that another time does not mend. Each
// time do has a connection of its own, and what it does is one statement, or one
// transaction, that does no harm when it is done twice: it may have been done when the
// connection broke. A function of WorkTx that leaves rows open, or closes the connection by a
// deadline of its own, looks as if that had broken, and is called each time.
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

// once says whether its error can be over the next time: that of a connection, and of the
// server's answers those that are about the moment.
func (d database) once(ctx context.Context, do func(conn *pgxpool.Conn) error) (again bool, err error) {
	conn, err := d.pool().Acquire(ctx)
	if err != nil {
		return stateOf(err) == "" || passing(stateOf(err)), err
	}
	defer conn.Release()
	err = do(conn)
	state := stateOf(err)
	if state == readOnly { // perhaps of a server that is a standby now: the pool finds another
		_ = conn.Conn().Close(ctx)
	}
	return errors.Is(err, errAgain) || passing(state) || state == "" && conn.Conn().IsClosed(), err
}

// errAgain is of a statement that has found neither what it was to change nor what is in its
// way: that has gone meanwhile.
var errAgain = errors.New("lendingpostgres: the rows change all the time")

const readOnly = "25006" // SQLSTATE

func stateOf(err error) string {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failed.Code
	}
	return ""
}

func passing(state string) bool {
	switch state {
	case "57014": // a statement was cancelled, by its timeout for example
		return false
	case "40001", "40P01", readOnly: // serialization failure, deadlock
		return true
	}
	for _, class := range []string{"08", "53", "57"} { // connections, resources, the server ends or starts
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}
