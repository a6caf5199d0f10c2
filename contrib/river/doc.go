// Package lendingriver has River, a queue of jobs in PostgreSQL, take the errors of package
// lending for what they are: see [JobError].
//
// It is a module of its own, so that nobody else gets its dependencies.
//
// # An order and its job
//
// A row of your own and the job that sees it through are inserted in one transaction:
// neither is there without the other. The job names the order and holds nothing else.
//
//	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, `INSERT INTO orders (id, email, amount, asked) VALUES ($1, $2, $3, $4)`, o.ID, o.Email, o.Amount.String(), o.Asked)
//		if err != nil {
//			return err
//		}
//		_, err = jobs.InsertTx(ctx, tx, onboardArgs{o.ID}, nil)
//		return err
//	})
//
// The work is straight code that begins at the top in each attempt, in whatever process.
// Each command in it has a key: what has happened is not sent again, and its answer is as it
// was. The log of the client says so, which all processes share, for example that of
// contrib/postgres in the same database.
//
//	func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
//		return lendingriver.JobError(w.onboard(ctx, job))
//	}
//
// Keys come from the order, "order-42/confirm" for example, and never from the job: one that
// was discarded or deleted may be followed by another for the same order. For the same reason
// no request holds what is another in the next attempt, as time.Now() is. A command without a
// key is sent in each attempt that comes by.
//
// # How long
//
// Set both of these in [river.Config]:
//
//   - JobTimeout ends an attempt, and with it the time for which others leave the command
//     alone that it was at. It is for the way through, without the time that people take:
//     a minute, the default, is a good one.
//   - RescueStuckJobsAfter is when the job of a process that was killed goes to another. It
//     is an hour by default: take two minutes. River refuses one that is shorter than
//     JobTimeout, as jobs would go to another while somebody is at them. The log keeps
//     that from doing anything twice, also where somebody is late.
//
// River looks for such jobs every 30 seconds, in one of the processes, its leader. When that
// one is killed, another takes its place after 21 seconds at most.
//
// # What is left to people
//
// A job has 25 attempts, or MaxAttempts: each failure takes one, and so does each kill, and
// snoozing takes none. Then it is discarded, and deleted a week later. One that is cancelled is
// deleted after a day. Look at them before, with JobList, or keep them, with
// DiscardedJobRetentionPeriod and CancelledJobRetentionPeriod, and have JobRetry run those
// again whose cause is mended. What a command did whose outcome is unknown stands in
// [github.com/lendingapi/lending-go/idempotency.Log.InDoubt] until that is known, whatever has become of the job.
//
// The program in examples/onboarding shows all of that, with two workers that are killed.
package lendingriver
