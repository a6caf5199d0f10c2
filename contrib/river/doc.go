// Package lendingriver connects package lending with River, a job queue in PostgreSQL:
// [JobError] tells River whether to retry, delay or cancel a job whose mutation failed.
//
// # An order and its job
//
// One transaction inserts a row of your own and the job that carries the order out. The job
// names the order and holds nothing else.
//
//	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, `INSERT INTO orders (id, email, amount, accepted) VALUES ($1, $2, $3, $4)`, o.ID, o.Email, o.Amount.String(), o.Accepted)
//		if err != nil {
//			return err
//		}
//		_, err = jobs.InsertTx(ctx, tx, onboardArgs{o.ID}, nil)
//		return err
//	})
//
// Each attempt of the job starts at the top of the same function, in any process. Every mutation
// in the function has an idempotency key. The client does not send a finished mutation again;
// the call returns the first response. All processes share the idempotency log, for example the
// log of contrib/postgres in the same database.
//
//	func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
//		open, err := w.onboard(ctx, job)
//		if open && !lending.NextOf(err).Retry {
//			return river.JobSnooze(time.Minute)
//		}
//		return lendingriver.JobError(err)
//	}
//
// The function is a step of package [github.com/lendingapi/lending-go/orders], and also reports
// whether the order is still open. Without an error, an open order waits for others, for example for
// the password of the customer. After an error without a retry, the order goes on in another way, or
// with the row of another job. Without the snooze the job would end, and nobody would complete the
// order.
//
// Build the keys from the order, for example "order-42/confirm", and never from the job: after a
// job was discarded or deleted, another job may follow for the same order. For the same reason,
// a request holds no value that changes between attempts, such as time.Now(). A mutation without
// a key is sent in each attempt.
//
// # Timeouts
//
// Set both of these in [river.Config]:
//
//   - JobTimeout ends an attempt. It also ends the time in which other workers leave the
//     attempt's last mutation alone. The attempt does not wait for people, so the default of a
//     minute is enough.
//   - RescueStuckJobsAfter is the age at which River gives the job of a killed process to another
//     process. The default is an hour: set two minutes. River refuses a value below JobTimeout,
//     because two workers could then run the same job. If they do, the log still
//     keeps each mutation from happening twice.
//
// River's leader, which is one of the processes, looks for such jobs every 30 seconds. If the
// leader is killed, another process takes over within 21 seconds.
//
// # Operation
//
// A job has 25 attempts, or MaxAttempts. Each failure and each kill takes an attempt; a snooze
// takes none. After the last attempt River discards the job, and deletes the job a week later.
// River deletes a cancelled job after a day. There are two ways to see such jobs in time:
//
//   - List them with JobList before River deletes them.
//   - Keep them for longer with DiscardedJobRetentionPeriod and CancelledJobRetentionPeriod.
//
// After you have corrected the cause, run a job again with JobRetry, which also ends the wait of a
// retry or a snooze, for example after a webhook. A mutation with an unknown
// outcome stays in the log, whatever happens to its job. List such mutations with
// [github.com/lendingapi/lending-go/idempotency.Log.Keys].
package lendingriver
