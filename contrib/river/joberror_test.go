package lendingriver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
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

// decided is an error with a decision. TestNextOfEveryError of package guarantees holds the decision
// about each error of the library.
type decided struct{ next lending.Next }

func (decided) Error() string        { return "a failure" }
func (d decided) Next() lending.Next { return d.next }

func TestJobErrorFollowsNextOf(t *testing.T) {
	failed := func(next lending.Next) error { return fmt.Errorf("step: %w", decided{next}) }
	for _, test := range []struct {
		name  string
		err   error
		event river.EventKind
		wait  time.Duration // until the next try of a snoozed job
	}{
		{"stop", failed(lending.Next{}), river.EventKindJobCancelled, 0},
		{"retry", failed(lending.Next{Retry: true}), river.EventKindJobFailed, 0},
		{"retry later", failed(lending.Next{Retry: true, After: time.Minute}), river.EventKindJobSnoozed, time.Minute},
		{"a person", failed(lending.Next{Retry: true, Person: true}), river.EventKindJobSnoozed, 15 * time.Minute},
		{"in progress", fmt.Errorf("step: %w", idempotency.ErrInProgress), river.EventKindJobSnoozed, time.Minute},
		{"an error of another package", errors.New("the disk is full"), river.EventKindJobFailed, 0},
		{
			"snoozed by the job", errors.Join(failed(lending.Next{}), river.JobSnooze(time.Hour)),
			river.EventKindJobSnoozed, time.Hour,
		},
		{"cancelled by the job", river.JobCancel(failed(lending.Next{Retry: true})), river.EventKindJobCancelled, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			told := lendingriver.JobError(test.err)
			require.ErrorIs(t, told, test.err)
			if errors.As(test.err, new(*river.JobSnoozeError)) || errors.As(test.err, new(*river.JobCancelError)) {
				assert.Equal(t, test.err, told)
			}
			j := newJobs(t, func(context.Context) error { return told })
			start := time.Now()
			worked := j.work(j.insert())
			require.Equal(t, test.event, worked.EventKind)
			switch test.event {
			case river.EventKindJobSnoozed:
				assert.Zero(t, worked.Job.Attempt, "an attempt is used up")
				assert.WithinRange(t, worked.Job.ScheduledAt, start.Add(test.wait), time.Now().Add(test.wait))
			case river.EventKindJobCancelled:
				assert.Equal(t, rivertype.JobStateCancelled, worked.Job.State)
				fallthrough
			default:
				assert.Equal(t, 1, worked.Job.Attempt)
				require.Len(t, worked.Job.Errors, 1)
				assert.Contains(t, worked.Job.Errors[0].Error, test.err.Error(), "what an operator reads")
			}
		})
	}
}

func TestJobErrorOfNothing(t *testing.T) { require.NoError(t, lendingriver.JobError(nil)) }

// TestJobWaitsForAPerson lets a job with a single attempt wait until a person has resolved its
// mutation. The job then continues without further help.
func TestJobWaitsForAPerson(t *testing.T) {
	const route = "POST /api/Application/send-application-link"
	service := lendingtest.NewServer()
	defer service.Close()
	customer := service.AddCustomer(lendingtest.Customer{Email: "order@example.com"})
	added := service.AddApplication(lendingtest.Application{CustomerID: customer.ID})
	application, err := lending.ParseApplicationID(added.ID)
	require.NoError(t, err)
	log, err := idempotency.NewLog(store.NewMemory(), nil)
	require.NoError(t, err)
	client, err := lending.New(service.URL, lending.WithIdempotency(log), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	require.NoError(t, err)
	defer client.Close()
	sendLink := func(ctx context.Context) error {
		return client.Applications.SendLink(lending.WithIdempotencyKey(ctx, "order-1"), application)
	}
	service.Fail(route, lendingtest.Fault{ResetAfter: true})
	require.ErrorIs(t, sendLink(t.Context()), lending.ErrOutcomeUnknown)
	j := newJobs(t, func(ctx context.Context) error { return lendingriver.JobError(sendLink(ctx)) })
	job := j.insert()
	for range 3 {
		worked := j.work(job)
		require.Equal(t, river.EventKindJobSnoozed, worked.EventKind)
		job = worked.Job
	}
	require.NoError(t, log.Resolve(t.Context(), "order-1", idempotency.Resolution{
		By: "ada", Why: "she has the link", Verdict: idempotency.Happened(nil),
	}))
	assert.Equal(t, river.EventKindJobCompleted, j.work(job).EventKind)
	assert.Equal(t, 1, service.Executed(route))
}
