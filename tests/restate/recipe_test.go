package lendingrestate_test

import (
	"time"

	"github.com/lendingapi/lending-go"
	restate "github.com/restatedev/sdk-go"
)

// once runs a step until lending.NextOf has no retry. The decision is made in the step: Restate
// keeps the text of an error, and not its type.
func once[T any](ctx restate.Context, step func(restate.RunContext) (T, error)) (T, error) {
	return restate.Run(ctx, func(run restate.RunContext) (result T, err error) {
		if result, err = step(run); err != nil && !lending.NextOf(err).Retry {
			return result, restate.ToTerminalError(err)
		}
		return result, err
	}, restate.WithInitialRetryInterval(200*time.Millisecond), restate.WithMaxRetryInterval(time.Minute))
}

var _ = once[any] // of docs/workflows.md
