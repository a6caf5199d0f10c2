package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/partner"
	"github.com/riverqueue/river"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

// worker carries each order out, from a new customer to a confirmed withdrawal. Each attempt
// starts at the top. Only the idempotency log knows the finished steps.
type worker struct {
	river.WorkerDefaults[onboardArgs]

	client *lending.Client
	pool   *pgxpool.Pool
	phone  string // URL of the password that a customer gets by phone
}

const (
	// jobTimeout is the deadline of an attempt. After a worker was killed, the next worker
	// leaves its last mutation alone until this time is over: the first worker could still be
	// alive.
	jobTimeout = time.Second
	// rescueAfter is the age at which River gives the job of a killed worker to another worker.
	// The value is longer than jobTimeout, so the first attempt has ended. River's default is an
	// hour.
	rescueAfter = 1500 * time.Millisecond
)

// jobConfig configures the workers for a short demonstration. In your program, set JobTimeout to
// a minute and RescueStuckJobsAfter to two. With other values the program is slower, but no
// mutation happens twice.
func jobConfig(w river.Worker[onboardArgs]) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:              workers,
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		FetchPollInterval:    100 * time.Millisecond, // how often River looks for snoozed jobs; keep the default of 1 s
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
	if err := (&partner.Partner{Client: w.client, Phone: w.phone}).Onboard(ctx, o); err != nil {
		return err
	}
	return complete(ctx, w.pool, job)
}
