package idempotency

import (
	"context"
	"encoding/json"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/opaque"
)

type optionsContext struct{}

// keyOptions say more of the mutation with a key.
type keyOptions struct {
	key             string // that they are for
	safeToRepeat    bool
	acceptsRecorded bool
	check           func(context.Context) (Verdict, error)
}

// with returns a context with the options of its key, changed.
func with(ctx context.Context, change func(*keyOptions)) context.Context {
	o := optionsFor(ctx, lending.IdempotencyKeyOf(ctx))
	change(&o)
	return context.WithValue(ctx, optionsContext{}, &o)
}

// optionsFor returns the options that ctx holds for key: those of another key are left.
func optionsFor(ctx context.Context, key string) keyOptions {
	if o, ok := ctx.Value(optionsContext{}).(*keyOptions); ok && o.key == key {
		return *o
	}
	return keyOptions{key: key}
}

// SafeToRepeat says that a second execution of the mutation does no harm, as with a
// one-time password that is sent again. After a lost answer the next call sends it again as
// soon as it can no longer be in flight, unless a check finds its answer. It is also sent again
// to get an answer that is lost or swept.
//
// It belongs to the key that [lending.WithIdempotencyKey] has put into ctx, and changes
// nothing for another key.
func SafeToRepeat(ctx context.Context) context.Context {
	return with(ctx, func(o *keyOptions) { o.safeToRepeat = true })
}

// AcceptRecorded says that the answer of the request that has left under the key will do for
// this request, although it differs: a release has added a field, or a phone number was corrected.
// Without it the call is ErrKeyReused. If the earlier request is in doubt, the call finds out what
// became of it, and sends this request when it did not happen, after MaxLateness.
//
// The requests must be about the same records: application, loan, customer or e-mail address.
// AcceptRecorded belongs to the key in ctx, as [SafeToRepeat].
func AcceptRecorded(ctx context.Context) context.Context {
	return with(ctx, func(o *keyOptions) { o.acceptsRecorded = true })
}

// WithCheck finds out with check, instead of with the checks of this package, whether the
// mutation happened after its answer was lost. The caller may know fields that are not
// published, for example an order number in the request. check must only read, and be as
// right after hours as after seconds. An error of check changes nothing.
//
// [NotHappened] counts when MaxLateness is over. WithCheck belongs to the key in ctx, as
// [SafeToRepeat].
func WithCheck(ctx context.Context, check func(context.Context) (Verdict, error)) context.Context {
	return with(ctx, func(o *keyOptions) { o.check = check })
}

// Verdict says whether a mutation happened. The zero Verdict needs a review.
type Verdict struct{ hidden opaque.Value[verdict] }

type verdict struct {
	happened, absent bool
	answer           []byte // of one that happened; nil if it is lost
	why              string // it needs a review
	isCallers        bool   // only a call with the key can check it
	early            bool   // it needs a review, and a later check can show more
	err              error  // the answer cannot be written
}

// Happened is the verdict on a mutation that has happened. answer marshals to the JSON that
// the service answers with, for example an id or a record: calls with the key return it from
// then on. With nil the answer is lost; methods that return only an error need none.
func Happened(answer any) Verdict {
	v := verdict{happened: true}
	if answer != nil {
		v.answer, v.err = json.Marshal(answer)
	}
	return Verdict{opaque.Hide(v)}
}

// NotHappened is the verdict on a mutation that has not happened.
func NotHappened() Verdict { return Verdict{opaque.Hide(verdict{absent: true})} }

// NeedsReview is the verdict of a check that cannot tell, and why. It holds until
// [Log.Resolve], or until another verdict of [WithCheck].
func NeedsReview(why string) Verdict { return Verdict{opaque.Hide(verdict{why: why})} }

func (v Verdict) verdict() verdict {
	if v.hidden == nil {
		return verdict{why: "nobody can say"}
	}
	return v.hidden()
}
