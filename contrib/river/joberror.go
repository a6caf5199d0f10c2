package lendingriver

import (
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/riverqueue/river"
)

// JobError returns err in the form that tells River the decision of [lending.NextOf]. Return the
// result from the Work method of a job. errors.Is and errors.As find the same errors as in err.
// The result is nil if err is nil.
//
//   - A retry with a time snoozes the job, which takes none of its attempts. This includes a step
//     that waits for a person: the job tries again every 15 minutes and continues after the
//     person has acted, for example with
//     [github.com/lendingapi/lending-go/idempotency.Log.Resolve]. JobRetry of River starts the
//     job at once.
//   - A retry without a time fails the attempt. The retry policy of River decides when to try
//     again.
//   - Without a retry, JobError cancels the job, because all attempts would fail in the same way.
//
// JobError returns the errors of [river.JobSnooze] and [river.JobCancel] unchanged.
func JobError(err error) error {
	next := lending.NextOf(err)
	switch {
	case err == nil, errors.As(err, new(*river.JobSnoozeError)), errors.As(err, new(*river.JobCancelError)):
		return err
	case !next.Retry:
		return river.JobCancel(err)
	case next.After > 0:
		return fmt.Errorf("%w: %w", err, river.JobSnooze(next.After))
	}
	return err
}
