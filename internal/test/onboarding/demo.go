package onboarding

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
)

const (
	// MaxLateness is for the logs of a demonstration. The value can be short, because the embedded
	// service executes nothing later than held. The limit of the real service is not published.
	MaxLateness = 500 * time.Millisecond
	// StepTimeout is the deadline of a try of an order in a demonstration. After a worker was
	// killed, the next worker leaves its last mutation alone until this time is over, because the
	// first worker could still be alive.
	StepTimeout = time.Second

	held = 150 * time.Millisecond
)

// Demo runs the trial for a person who watches: the service loses 20 % of its responses, and
// workers live for 200 ms at most. Demo counts the records in the service.
func (t Trial) Demo(ctx context.Context, out io.Writer) error {
	t.Lost, t.Held, t.Life = 0.2, held, 200*time.Millisecond
	result, err := t.Run(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "After %.1f s: %d workers killed, %d responses lost\n", result.Elapsed.Seconds(), result.Kills, result.Lost)
	if err != nil {
		return err
	}
	return result.Count(out, len(t.Customers))
}

// NothingInDoubt prints that no mutation is in doubt, or returns an error with the first.
func NothingInDoubt(ctx context.Context, out io.Writer, keys *idempotency.Log) error {
	inDoubt, err := keys.Keys(ctx, idempotency.Filter{States: idempotency.InDoubtStates()})
	if err != nil {
		return err
	}
	if len(inDoubt) > 0 {
		return fmt.Errorf("%d mutations are in doubt, %s first", len(inDoubt), inDoubt[0].Key)
	}
	_, err = fmt.Fprintln(out, "The log has nothing left in doubt.")
	return err
}

// EndWithParent ends this worker process when its parent process ends.
func EndWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
}
