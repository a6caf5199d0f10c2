package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

const createOrders = `CREATE TABLE orders (
	id        text        PRIMARY KEY,
	email     text        NOT NULL,
	amount    numeric     NOT NULL,
	asked     timestamptz NOT NULL,
	passwords int         NOT NULL DEFAULT 0, -- one-time passwords that failed
	confirmed int         NOT NULL DEFAULT 0 -- how often its job has finished
)`

// onboardArgs is the job of an order. River shows the arguments and keeps them after the job has
// ended, so they hold only the name of the order.
type onboardArgs struct {
	Order string `json:"order"`
}

// Kind is stored with each job. Do not change the name.
func (onboardArgs) Kind() string { return "onboard" }

// place inserts an order and its job in the same transaction.
func place(ctx context.Context, pool *pgxpool.Pool, jobs *river.Client[pgx.Tx], o order.Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO orders (id, email, amount, asked) VALUES ($1, $2, $3, $4)`, o.ID, o.Email, o.Amount.String(), o.Asked)
		if err != nil {
			return err
		}
		_, err = jobs.InsertTx(ctx, tx, onboardArgs{o.ID}, nil)
		return err
	})
}

// load reads an order.
func load(ctx context.Context, pool *pgxpool.Pool, id string) (order.Order, error) {
	o := order.Order{ID: id}
	err := pool.QueryRow(ctx, `SELECT email, amount::text, asked, passwords FROM orders WHERE id = $1`, id).
		Scan(&o.Email, &o.Amount, &o.Asked, &o.Passwords)
	return o, err
}

// save keeps how the order goes on after a rejection.
func save(ctx context.Context, pool *pgxpool.Pool, o order.Order) error {
	_, err := pool.Exec(ctx, `UPDATE orders SET passwords = $2 WHERE id = $1`, o.ID, o.Passwords)
	return err
}

// complete confirms the order and completes the job in the same transaction.
func complete(ctx context.Context, pool *pgxpool.Pool, job *river.Job[onboardArgs]) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE orders SET confirmed = confirmed + 1 WHERE id = $1`, job.Args.Order); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}
