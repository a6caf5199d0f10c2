// Package handover gives a taken resource back if nobody waits for the result any more.
package handover

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

// Grace is how long take and giveBack of [Take] may go on after the caller has left.
const Grace = 10 * time.Second

// Take calls take and returns its result. If ctx ends first, Take returns the error of ctx at
// once. take is not interrupted then, since nobody would know whether a request under way was
// executed: when take has returned, Take calls giveBack. Both functions have contexts of their
// own. A panic of take is returned as a [lending.PanicError].
func Take(ctx context.Context, take, giveBack func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := context.WithoutCancel(ctx)
	taking, cancel := context.WithCancel(own)
	stop := context.AfterFunc(ctx, func() {
		grace := time.AfterFunc(Grace, cancel)
		context.AfterFunc(taking, func() { grace.Stop() })
	})
	taken := make(chan error) // no buffer: either the caller receives, or giveBack is called
	go func() {
		defer cancel()
		defer stop()
		err := safely.Call[lending.PanicError](func() error { return take(taking) })
		select {
		case taken <- err:
		case <-ctx.Done():
			giving, cancel := context.WithTimeout(own, Grace)
			defer cancel()
			_ = safely.Call[lending.PanicError](func() error { return giveBack(giving) }) // else the claim ends by itself
		}
	}()
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
