package lendingriver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

type onboardArgs struct{ Order string }

func (onboardArgs) Kind() string { return "onboard" }

// worker is the worker of the documentation.
type worker struct {
	river.WorkerDefaults[onboardArgs]
	onboard func(ctx context.Context, job *river.Job[onboardArgs]) error
}

func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	return lendingriver.JobError(w.onboard(ctx, job))
}

var _ river.Worker[onboardArgs] = (*worker)(nil)

// decided is an error with a decision. TestNextOfEveryError of package guarantees holds the decision
// about each error of the library.
type decided struct{ next lending.Next }

func (decided) Error() string        { return "a failure" }
func (d decided) Next() lending.Next { return d.next }

func TestJobErrorFollowsNextOf(t *testing.T) {
	failed := func(next lending.Next) error { return fmt.Errorf("step: %w", decided{next}) }
	for _, test := range []struct {
		name    string
		err     error
		snooze  time.Duration // until the next try, which is no attempt
		cancels bool
	}{
		{"stop", failed(lending.Next{}), 0, true},
		{"retry", failed(lending.Next{Retry: true}), 0, false},
		{"retry later", failed(lending.Next{Retry: true, After: time.Minute}), time.Minute, false},
		{"a person", failed(lending.Next{Retry: true, Person: true}), 15 * time.Minute, false},
		{"in progress", fmt.Errorf("step: %w", idempotency.ErrInProgress), time.Minute, false},
		{"an error of another package", errors.New("the disk is full"), 0, false},
		{"snoozed by the job", errors.Join(failed(lending.Next{}), river.JobSnooze(time.Hour)), time.Hour, false},
		{"cancelled by the job", river.JobCancel(failed(lending.Next{Retry: true})), 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := lendingriver.JobError(test.err)
			require.ErrorIs(t, err, test.err)
			require.ErrorContains(t, err, test.err.Error(), "what an operator reads")
			snoozed, _ := errors.AsType[*river.JobSnoozeError](err)
			if test.snooze == 0 {
				assert.Nil(t, snoozed)
			} else if assert.NotNil(t, snoozed) {
				assert.Equal(t, test.snooze, snoozed.Duration)
			}
			assert.Equal(t, test.cancels, errors.As(err, new(*river.JobCancelError)))
		})
	}
	require.NoError(t, lendingriver.JobError(nil))
}
