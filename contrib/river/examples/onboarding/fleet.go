package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/partner"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// prepare creates the tables and places an order for each customer. It returns the customers'
// email addresses.
func prepare(ctx context.Context, pool *pgxpool.Pool, customers int) (emails []string, err error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, createOrders); err != nil {
		return nil, err
	}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return nil, err
	}
	for i := range customers {
		email := fmt.Sprintf("customer-%d@example.com", i+1)
		emails = append(emails, email)
		if err := place(ctx, pool, jobs, partner.Order{ID: fmt.Sprintf("order-%d", i+1), Email: email, Amount: "2500.00", Asked: time.Now()}); err != nil {
			return nil, err
		}
	}
	return emails, nil
}

// work runs a worker process.
func work(ctx context.Context, address, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	tokens, err := lendingpostgres.NewTokenStore(pool, "partner", nil)
	if err != nil {
		return err
	}
	entries, err := lendingpostgres.NewIdempotencyStore(pool, "orders", nil)
	if err != nil {
		return err
	}
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: maxLateness})
	if err != nil {
		return err
	}
	client, err := lending.New(address,
		lending.WithCredentials(lending.Credentials{
			Username:           lendingtest.Username,
			Password:           lending.NewSecret(lendingtest.Password),
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
		}),
		lending.WithTokenStore(tokens), // one sign-in for all workers
		lending.WithIdempotency(log))
	if err != nil {
		return err
	}
	defer client.Close()
	return serve(ctx, pool, &worker{client: client, pool: pool, phone: address + onboarding.PhonePath})
}

// serve runs jobs with w until all orders are done.
func serve(ctx context.Context, pool *pgxpool.Pool, w river.Worker[onboardArgs]) error {
	config := jobConfig(w)
	config.LeaderElectionDisabled = true // see maintain
	jobs, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	if err := jobs.Start(ctx); err != nil {
		return err
	}
	err = wait(ctx, jobs, pool)
	return errors.Join(err, jobs.Stop(ctx))
}

// wait returns when all orders are done, or with an error when River gives a job up.
func wait[Tx any](ctx context.Context, jobs *river.Client[Tx], pool *pgxpool.Pool) error {
	for {
		given, err := jobs.JobList(ctx, river.NewJobListParams().States(rivertype.JobStateCancelled, rivertype.JobStateDiscarded))
		if err != nil {
			return err
		}
		if len(given.Jobs) > 0 {
			job := given.Jobs[0]
			return fmt.Errorf("the job %s is %s: %s", job.EncodedArgs, job.State, job.Errors[len(job.Errors)-1].Error)
		}
		var missing int
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM orders WHERE confirmed = 0`).Scan(&missing); err != nil || missing == 0 {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// maintain runs River's leader, which gives the jobs of killed workers to others. In your
// program the workers elect a leader themselves, and no code is needed. A leader looks for such
// jobs at its start and then every 30 seconds. The demonstration cannot wait for so long, so
// maintain starts leaders again and again, in the process that is not killed.
func maintain(ctx context.Context, pool *pgxpool.Pool) error {
	config := jobConfig(&worker{})
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
