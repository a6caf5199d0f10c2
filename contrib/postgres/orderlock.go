package lendingpostgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/orders"
)

// OrderLock has one step of an order run at a time in all replicas. Its method Lock is Options.Lock of
// package orders.
//
// The lock is an advisory lock of a transaction without changes, which stays open during the step. So the
// lock holds through a pooler in transaction mode, needs no table, and ends with its connection: no
// replica waits for a dead one. The transaction does not delay vacuum.
// An idle_in_transaction_session_timeout of the server does not end the lock.
// Set the idle_transaction_timeout of PgBouncer, and transaction_timeout of PostgreSQL 17, above the
// StepTimeout of the worker.
//
// If the connection breaks during a step, the lock is lost, and the step goes on. The version of the
// order's row protects the order then: see package orders.
//
// Each running step takes a connection of the pool, and two connections stay free for the stores. Set
// MaxConns to the Concurrency of the worker and two more. With fewer connections, steps wait for each
// other.
type OrderLock struct {
	database
	name   string
	places chan struct{}
}

// NewOrderLock returns a lock. Locks with different names are independent.
func NewOrderLock(pool *pgxpool.Pool, name string) (*OrderLock, error) {
	d, err := open(pool, nil)
	if err != nil {
		return nil, err
	}
	return &OrderLock{d, name, make(chan struct{}, max(1, pool.Config().MaxConns-2))}, nil
}

// Lock locks an order until unlock. If another replica has the lock, the error is [orders.ErrBusy].
func (l *OrderLock) Lock(ctx context.Context, order string) (unlock func(), err error) {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	tx, err := l.pool().BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLock})
	if err != nil { // the pool can have a connection that has ended
		tx, err = l.pool().BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLock})
	}
	unlock = func() {
		if tx != nil {
			ending, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer stop()
			_ = tx.Rollback(ending) // closes the connection if it fails
		}
		<-l.places
	}
	locked := false
	if err == nil {
		// The portal of another protocol keeps the snapshot of the query, which delays vacuum.
		err = tx.QueryRow(ctx, tryLock, pgx.QueryExecModeSimpleProtocol, "lending_order "+l.name+" "+order).Scan(&locked)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("lendingpostgres: the order is not locked: %w; check PostgreSQL", err)
	case !locked:
		err = orders.ErrBusy
	default:
		return unlock, nil
	}
	unlock()
	return nil, err
}

const (
	// Another isolation level keeps the snapshot. The timeout ends in the same message, so that it cannot
	// pass in between.
	beginLock = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0"
	tryLock   = "SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))"
)
