// Onboarding carries out ten orders, from a new customer to a confirmed withdrawal, in two
// workers. The workers are killed again and again, and the service drops 20 % of its responses.
// Each order is a row in PostgreSQL with a River job; the same transaction inserts both. At the
// end the service has exactly ten of everything.
//
// The program needs Go and an installed PostgreSQL server, and starts a server of its own. The
// main process runs the service. It starts itself as the workers, kills them with SIGKILL at
// random moments, and starts others until all orders are done. Then the main process counts the
// records in the service. Take worker.go and orders.go over into your program, and package
// internal/test/partner, which carries an order out.
//
//	go -C contrib/river run ./examples/onboarding
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
)

// The embedded service executes nothing later than held, so a short maxLateness is enough here.
// The limit of the real service is not published: MaxLateness is 5 minutes by default.
const (
	held        = 150 * time.Millisecond
	maxLateness = 500 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		go endWith(os.Stdin)
		err = work(ctx, os.Args[2], os.Args[3])
	} else {
		err = run(ctx, os.Stdout, show{customers: 10, kills: 8, worker: "worker"})
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onboarding:", err)
		os.Exit(1)
	}
}

// endWith ends this worker process when its parent ends.
func endWith(input io.Reader) {
	_, _ = io.Copy(io.Discard, input)
	os.Exit(2)
}

type show struct {
	customers, kills int
	worker           string // the argument that starts this program as a worker
}

func run(ctx context.Context, out io.Writer, s show) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(s.customers)*time.Second)
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
	emails, err := prepare(ctx, pool, s.customers)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	maintained := make(chan error, 1)
	maintenance, stop := context.WithCancel(ctx)
	go func() { maintained <- maintain(maintenance, pool) }()

	say(out, "The embedded service, a PostgreSQL of its own and two workers are running: nothing leaves this machine.")
	result, err := onboarding.Trial{
		Customers: emails, Lost: 0.2, Held: held, Fleet: 2, Kills: s.kills, Life: 200 * time.Millisecond, Approval: s.worker == "worker",
		Worker: func(address string) *exec.Cmd { return exec.Command(self, s.worker, address, database) }, //nolint:gosec,noctx // this very program, which the trial kills
		Tell:   onboarding.Show(out, s.customers),
	}.Run(ctx)
	stop()
	if err := errors.Join(err, <-maintained); err != nil {
		return err
	}
	return errors.Join(result.Count(out, s.customers), check(ctx, out, pool, s.customers))
}

// check returns an error unless all orders are confirmed and no mutation is in doubt.
func check(ctx context.Context, out io.Writer, pool *pgxpool.Pool, customers int) error {
	var confirmed, attempts, snoozes int
	err := pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM orders WHERE confirmed = 1),
		(SELECT sum(attempt) FROM river_job), (SELECT coalesce(sum((metadata->>'snoozes')::int), 0) FROM river_job)`).Scan(&confirmed, &attempts, &snoozes)
	if err != nil {
		return err
	}
	say(out, "Their jobs took %d attempts, and were snoozed %d times.", attempts, snoozes)
	entries, err := lendingpostgres.NewIdempotencyStore(pool, "orders", nil)
	if err != nil {
		return err
	}
	log, err := idempotency.NewLog(entries, nil)
	if err != nil {
		return err
	}
	inDoubt, err := log.Keys(ctx, idempotency.Filter{States: idempotency.InDoubtStates()})
	switch {
	case err != nil:
		return err
	case confirmed != customers:
		return fmt.Errorf("%d orders are confirmed", confirmed)
	case len(inDoubt) > 0:
		return fmt.Errorf("%d mutations are in doubt, %s first", len(inDoubt), inDoubt[0].Key)
	}
	say(out, "The log has nothing left in doubt.")
	return nil
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
