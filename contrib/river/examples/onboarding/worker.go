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

// worker takes orders from nothing to a confirmed withdrawal. What it has done stands in the
// log and nowhere else: each attempt begins at the top.
type worker struct {
	river.WorkerDefaults[onboardArgs]

	client *lending.Client
	pool   *pgxpool.Pool
	phone  string // address of the page where a customer enters the one-time password
}

const (
	// jobTimeout is for one attempt. A worker that comes after one which was killed does not
	// touch its last command before that time is over: the other might be alive.
	jobTimeout = time.Second
	// rescueAfter is when the job of a worker that was killed is given to another. It is
	// longer than jobTimeout: nobody is at the job any more then. Without it that is an hour.
	rescueAfter = 1500 * time.Millisecond
)

// jobConfig is how River works the jobs. Yours has a JobTimeout of a minute and rescues after
// two: nothing is done twice if they are wrong, and all takes longer.
func jobConfig(w river.Worker[onboardArgs]) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:              workers,
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		FetchPollInterval:    100 * time.Millisecond, // which is when a job that was snoozed is seen: yours leaves the second that it is
	}
}

// NextRetry does not let you wait: River itself lets a second pass, then 16, 81 and so on.
// Leave it out.
func (w *worker) NextRetry(*river.Job[onboardArgs]) time.Time { return time.Now() }

// Work is one attempt.
func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	return lendingriver.JobError(w.onboard(ctx, job))
}

// onboard carries the order of the job out, and ends both.
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
