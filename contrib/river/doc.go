// Package lendingriver has River, the job queue in PostgreSQL, take the errors of package
// lending for what they are: [JobError].
//
// It is a module of its own, so that nobody else gets its dependencies.
//
// # An order and its job
//
// The order of a customer and the job that sees it through are inserted in one transaction:
// neither is there without the other. The job names the order, and nothing else.
//
//	if _, err := tx.Exec(ctx, "INSERT INTO orders ...", order.ID); err != nil {
//		return err
//	}
//	_, err := jobs.InsertTx(ctx, tx, OnboardArgs{Order: order.ID}, nil)
//
// The work is straight code, which begins at the top in each attempt. Each command has a
// key, so that what has happened is not sent again, and its answer is as it was: see
// [lending.WithKey]. A journal keeps them, for example in the same database.
//
//	func (w *worker) Work(ctx context.Context, job *river.Job[OnboardArgs]) error {
//		return lendingriver.JobError(w.onboard(ctx, job.Args.Order))
//	}
//
// Keys come from the order, "order-42/confirm". The id of a job and the number of an attempt
// are no keys: an order that gets another job, because the first was cancelled or deleted,
// would be done again. Nor is time.Now() part of a request, which must be the same in each
// attempt. A command without a key is sent again in each attempt.
//
// # Times
//
// Set both of these in [river.Config]:
//
//   - JobTimeout ends an attempt, and so is the longest time for which others leave a command
//     alone that it was at. Take what the whole way needs, without the time that people take:
//     the default of a minute is a good one.
//   - RescueStuckJobsAfter is when the job of a process that was killed is given to another.
//     The default is an hour. It must be longer than JobTimeout, or jobs are given away that
//     are still worked on; the journal keeps that from doing anything twice, and attempts are
//     wasted. Take twice JobTimeout. River looks every 30 seconds, and where the process
//     was its leader, not before another has been elected, after up to 21 seconds.
//
// A rescue takes one of the job's attempts, 25 if MaxAttempts does not say otherwise; a
// snooze takes none. When they are used up the job is discarded, and deleted after seven
// days; when it is cancelled it is deleted after one: set DiscardedJobRetentionPeriod and
// CancelledJobRetentionPeriod to -1, or look after the orders themselves. What a person has
// to decide is in [lending.Journal.Unsettled] until somebody does.
//
// The program in examples/onboarding does all of that, with two workers that are killed.
package lendingriver
