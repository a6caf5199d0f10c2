package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

// worker carries each order out, from a new customer to a confirmed withdrawal. Each attempt
// starts at the top. Only the idempotency log knows the finished steps.
type worker struct {
	river.WorkerDefaults[onboardArgs]

	partner *order.Partner
	pool    *pgxpool.Pool
}

// jobConfig configures the workers for a short demonstration. In your program, set JobTimeout to
// a minute and RescueStuckJobsAfter to two, and keep the other defaults. With other values the
// program is slower, but no mutation happens twice.
func jobConfig(w *worker) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return &river.Config{
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:    workers,
		JobTimeout: onboarding.StepTimeout,
		// River gives the job of a killed worker to another worker after this time. It is longer
		// than JobTimeout, so the first attempt has ended. The default is an hour.
		RescueStuckJobsAfter:   onboarding.StepTimeout * 3 / 2,
		FetchPollInterval:      100 * time.Millisecond, // how often River looks for snoozed jobs
		LeaderElectionDisabled: true,                   // see maintain
	}
}

// NextRetry retries at once, to keep the demonstration short. Leave this method out: River's
// default waits are 1 s, 16 s, 81 s and so on.
func (w *worker) NextRetry(*river.Job[onboardArgs]) time.Time { return time.Now() }

// Work makes one attempt.
func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	return lendingriver.JobError(w.onboard(ctx, job))
}

// onboard carries the order of the job out and completes both.
func (w *worker) onboard(ctx context.Context, job *river.Job[onboardArgs]) error {
	o, err := load(ctx, w.pool, job.Args.Order)
	if err != nil {
		return err
	}
	o, err = w.partner.Onboard(ctx, o)
	switch {
	case err != nil && lending.NextOf(err).Retry:
		return err
	case err != nil:
		if o.End(err); o.State == order.Over {
			return err // JobError cancels the job
		}
		return errors.Join(save(ctx, w.pool, o), river.JobSnooze(time.Second)) // the order goes on in another way
	case o.State == order.Done:
		return complete(ctx, w.pool, job)
	case o.State == order.Over: // the application was declined
		return river.JobCancel(errors.New(o.Reason))
	}
	return river.JobSnooze(time.Minute) // until the customer has entered the password
}

// openLog opens the log of idempotency keys. Your program passes nil for the options.
func openLog(pool *pgxpool.Pool) (*idempotency.Log, error) {
	entries, err := lendingpostgres.NewIdempotencyStore(pool, "orders", nil)
	if err != nil {
		return nil, err
	}
	return idempotency.NewLog(entries, &idempotency.Options{MaxLateness: onboarding.MaxLateness, SafeToRepeat: order.SafeToRepeat})
}

// work runs a worker process until all orders are done.
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
	keys, err := openLog(pool)
	if err != nil {
		return err
	}
	p, err := order.New(address, onboarding.PhonePath, keys, lending.WithTokenStore(tokens)) // one sign-in for all workers
	if err != nil {
		return err
	}
	defer p.Client.Close()
	jobs, err := river.NewClient(riverpgxv5.New(pool), jobConfig(&worker{partner: p, pool: pool}))
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
