package lendingriver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

type orderArgs struct{}

func (orderArgs) Kind() string { return "order" }

// jobs runs jobs with River itself, in a transaction that is rolled back at the end.
type jobs struct {
	t      *testing.T
	tx     pgx.Tx
	worker *rivertest.Worker[orderArgs, pgx.Tx]
}

func newJobs(t *testing.T, work func(context.Context) error) *jobs {
	t.Helper()
	tx, err := connect(t).Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	worker := river.WorkFunc(func(ctx context.Context, _ *river.Job[orderArgs]) error { return work(ctx) })
	return &jobs{t, tx, rivertest.NewWorker(t, riverpgxv5.New(nil), &river.Config{}, worker)}
}

// work runs a job once.
func (j *jobs) work(job *rivertype.JobRow) *rivertest.WorkResult {
	j.t.Helper()
	result, err := j.worker.WorkJob(j.t.Context(), j.t, j.tx, job)
	if result.EventKind != river.EventKindJobFailed {
		require.NoError(j.t, err)
	}
	return result
}

// insert returns a job with a single attempt.
func (j *jobs) insert() *rivertype.JobRow {
	j.t.Helper()
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{})
	require.NoError(j.t, err)
	inserted, err := client.InsertTx(j.t.Context(), j.tx, orderArgs{}, &river.InsertOpts{MaxAttempts: 1})
	require.NoError(j.t, err)
	return inserted.Job
}

func TestJobErrorOfEveryKind(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			var failed error
			synctest.Test(t, func(t *testing.T) { failed = kind.fails(newOffice(t)) })
			require.Error(t, failed)
			if kind.is != nil {
				require.ErrorIs(t, failed, kind.is)
			}
			told := lendingriver.JobError(failed)
			require.ErrorIs(t, told, failed)
			if errors.As(failed, new(*river.JobSnoozeError)) || errors.As(failed, new(*river.JobCancelError)) {
				assert.Equal(t, failed, told, "the job has said itself how to go on")
			}
			if call, ok := errors.AsType[*lending.Error](failed); ok {
				var found *lending.Error
				require.ErrorAs(t, told, &found)
				assert.Same(t, call, found)
			}

			j := newJobs(t, func(context.Context) error { return told })
			start := time.Now()
			worked := j.work(j.insert())
			require.Equal(t, kind.event, worked.EventKind)
			switch kind.event {
			case river.EventKindJobSnoozed:
				assert.Zero(t, worked.Job.Attempt, "an attempt is used up")
				assert.WithinRange(t, worked.Job.ScheduledAt, start.Add(kind.wait), time.Now().Add(kind.wait))
			case river.EventKindJobCancelled:
				assert.Equal(t, rivertype.JobStateCancelled, worked.Job.State)
				fallthrough
			default:
				assert.Equal(t, 1, worked.Job.Attempt)
				require.Len(t, worked.Job.Errors, 1)
				assert.Contains(t, worked.Job.Errors[0].Error, failed.Error(), "what an operator reads")
			}
		})
	}
}

func TestJobErrorOfNothing(t *testing.T) { require.NoError(t, lendingriver.JobError(nil)) }

// TestJobWaitsForAPerson lets a job with a single attempt wait until a person has resolved its
// mutation. The job then continues without further help.
func TestJobWaitsForAPerson(t *testing.T) {
	o := newOffice(t)
	o.service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
	require.ErrorIs(t, o.sendLink("order-1"), lending.ErrOutcomeUnknown)
	j := newJobs(t, func(ctx context.Context) error {
		o := *o
		o.ctx = ctx
		return lendingriver.JobError(errors.Join(o.sendLink("order-1"), o.create("order-1/application")))
	})
	job := j.insert()
	for range 3 {
		worked := j.work(job)
		require.Equal(t, river.EventKindJobSnoozed, worked.EventKind)
		job = worked.Job
	}
	require.NoError(t, o.log.Resolve(t.Context(), "order-1", idempotency.Resolution{
		By: "ada", Why: "she has the link",
		Verdict: idempotency.Happened(nil),
	}))
	assert.Equal(t, river.EventKindJobCompleted, j.work(job).EventKind)
	assert.Equal(t, 1, o.service.Executed(linkRoute))
	assert.Equal(t, 1, o.service.Executed(createRoute))
}
