// Onboarding carries out ten orders, from a new customer to a confirmed withdrawal, in two
// workers. The workers are killed again and again, and the service drops 20 % of its responses.
// Each order is a row in PostgreSQL with a River job; the same transaction inserts both. At the
// end the service has exactly ten of everything.
//
// The program needs Go and an installed PostgreSQL server, and starts a server of its own. The
// main process runs the service. It starts itself as the workers, kills them with SIGKILL at
// random moments, and starts others until all orders are done. Then the main process counts the
// records in the service. Take worker.go and orders.go over into your program, and package
// examples/order, which carries an order out.
//
//	go -C contrib/river run ./examples/onboarding
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		onboarding.EndWithParent()
		err = work(ctx, os.Args[2], os.Args[3])
	} else {
		err = run(ctx, os.Stdout, 10, 8)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onboarding:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, customers, kills int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(customers)*time.Second)
	defer cancel()
	cluster, err := pgtest.New()
	if err != nil {
		return err
	}
	defer cluster.Close()
	database := cluster.URL("postgres")
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	orders, emails := order.Orders(customers)
	if err := prepare(ctx, pool, orders); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	maintained := make(chan error, 1)
	maintenance, stop := context.WithCancel(ctx)
	go func() { maintained <- maintain(maintenance, pool) }()

	fmt.Fprintln(out, "The embedded service, a PostgreSQL of its own and two workers are running: nothing leaves this machine.")
	err = onboarding.Trial{
		Customers: emails, Fleet: 2, Kills: kills,
		Worker: func(address string) *exec.Cmd { return exec.Command(self, "worker", address, database) }, //nolint:gosec,noctx // this very program, which the trial kills
	}.Demo(ctx, out)
	stop()
	if err := errors.Join(err, <-maintained); err != nil {
		return err
	}
	return check(ctx, out, pool, customers)
}

// prepare creates the tables and places the orders.
func prepare(ctx context.Context, pool *pgxpool.Pool, orders []order.Order) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, createOrders); err != nil {
		return err
	}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	for _, o := range orders {
		if err := place(ctx, pool, jobs, o); err != nil {
			return err
		}
	}
	return nil
}

// maintain runs River's leader, which gives the jobs of killed workers to others. In your
// program the workers elect a leader themselves, and no code is needed. A leader looks for such
// jobs at its start and then every 30 seconds. The demonstration cannot wait for so long, so
// maintain starts leaders again and again, in the process that is not killed.
func maintain(ctx context.Context, pool *pgxpool.Pool) error {
	config := jobConfig(&worker{})
	config.LeaderElectionDisabled = false
	config.Queues = map[string]river.QueueConfig{"nobody": {MaxWorkers: 1}} // the leader runs no job itself
	config.TestOnly = true                                                  // without a random delay at the start
	config.Logger = slog.New(slog.DiscardHandler)                           // each stop interrupts its work, which River would log
	for ctx.Err() == nil {
		jobs, err := river.NewClient(riverpgxv5.New(pool), config)
		if err != nil {
			return err
		}
		if err := jobs.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		if err := jobs.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error unless each order is confirmed once and no mutation is in doubt.
func check(ctx context.Context, out io.Writer, pool *pgxpool.Pool, customers int) error {
	var confirmed, attempts, snoozes int
	err := pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM orders WHERE confirmed = 1),
		(SELECT sum(attempt) FROM river_job), (SELECT coalesce(sum((metadata->>'snoozes')::int), 0) FROM river_job)`).Scan(&confirmed, &attempts, &snoozes)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Their jobs took %d attempts, and were snoozed %d times.\n", attempts, snoozes)
	if confirmed != customers {
		return fmt.Errorf("%d orders are confirmed", confirmed)
	}
	keys, err := openLog(pool)
	if err != nil {
		return err
	}
	return onboarding.NothingInDoubt(ctx, out, keys)
}
