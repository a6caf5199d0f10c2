package lendingriver

import (
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go"
	"github.com/riverqueue/river"
)

// JobError returns err such that River does with the job as [lending.NextOf] says, for a Work
// method to return. errors.Is and errors.As find in it what they find in err. nil stays nil.
//
//   - A retry that has a time snoozes the job, which costs none of its attempts. This includes
//     a step that waits for a person: the job looks again every 15 minutes and goes on by
//     itself, for example after [github.com/lendingapi/lending-go/idempotency.Log.Resolve]. River's JobRetry has it go on at once.
//   - A retry without a time fails the attempt, and River tries again as its retry policy says.
//   - Without a retry the job is cancelled: all attempts would end like this one.
//
// An error that comes from [river.JobSnooze] or [river.JobCancel] is returned as it is.
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
