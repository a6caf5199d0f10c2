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
	onboard func(ctx context.Context, job *river.Job[onboardArgs]) (open bool, err error)
}

func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	open, err := w.onboard(ctx, job)
	if open && !lending.NextOf(err).Retry {
		return river.JobSnooze(time.Minute)
	}
	return lendingriver.JobError(err)
}

var _ river.Worker[onboardArgs] = (*worker)(nil)

// The job of an open order must not end, since nothing else carries the order on.
func TestJobOfTheDocumentation(t *testing.T) {
	stop, later := decided{}, decided{lending.Next{Retry: true, After: time.Hour}}
	for _, test := range []struct {
		name string
		open bool
		err  error
		want error
	}{
		{"the customer has to enter the password", true, nil, river.JobSnooze(time.Minute)},
		{"another password", true, stop, river.JobSnooze(time.Minute)},
		{"in progress", true, later, river.JobSnooze(time.Hour)},
		{"over", false, stop, river.JobCancel(stop)},
		{"done", false, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &worker{onboard: func(context.Context, *river.Job[onboardArgs]) (bool, error) { return test.open, test.err }}
			err := w.Work(t.Context(), nil)
			snoozed, _ := errors.AsType[*river.JobSnoozeError](err)
			wanted, _ := errors.AsType[*river.JobSnoozeError](test.want)
			assert.Equal(t, wanted, snoozed)
			assert.Equal(t, errors.As(test.want, new(*river.JobCancelError)), errors.As(err, new(*river.JobCancelError)))
		})
	}
}

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
