package idempotency

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/opaque"
)

type optionsContext struct{}

type keyOptions struct {
	key             string
	safeToRepeat    bool
	acceptsRecorded bool
	check           func(context.Context) (Verdict, error)
}

func with(ctx context.Context, change func(*keyOptions)) context.Context {
	o := optionsFor(ctx, lending.IdempotencyKeyOf(ctx))
	change(&o)
	return context.WithValue(ctx, optionsContext{}, &o)
}

// optionsFor returns the options of key in ctx. It ignores the options of another key.
func optionsFor(ctx context.Context, key string) keyOptions {
	if o, ok := ctx.Value(optionsContext{}).(*keyOptions); ok && o.key == key {
		return *o
	}
	return keyOptions{key: key}
}

// SafeToRepeat declares that a second execution of the mutation does no harm, for example a
// second one-time password. After a lost response, the next call resends the mutation as soon as
// the first send has ended, unless a check finds the response. The log also resends the mutation
// to get a response that was lost or swept.
//
// SafeToRepeat applies to the key that [lending.WithIdempotencyKey] has put into ctx, and to no
// other key.
func SafeToRepeat(ctx context.Context) context.Context {
	return with(ctx, func(o *keyOptions) { o.safeToRepeat = true })
}

// AcceptRecorded accepts the response of the earlier request with the key, although this request
// differs: your release sets a new field, or a phone number was corrected. Without AcceptRecorded the
// call fails with ErrKeyReused. If the earlier request is in doubt, the call first ends the
// doubt. If the earlier request did not happen, the call sends this request after MaxLateness.
//
// Both requests must name the same records: application, loan, customer or e-mail address.
// AcceptRecorded applies to the key in ctx, like [SafeToRepeat].
func AcceptRecorded(ctx context.Context) context.Context {
	return with(ctx, func(o *keyOptions) { o.acceptsRecorded = true })
}

// WithCheck replaces the check of this package after a lost response. Use WithCheck if your
// program can identify the mutation by a field that is not published, for example an order
// number. check must only read, and must give the right verdict after seconds and after hours.
// An error of check changes nothing.
//
// The log accepts [NotHappened] when MaxLateness is over. WithCheck applies to the key in ctx,
// like [SafeToRepeat].
func WithCheck(ctx context.Context, check func(context.Context) (Verdict, error)) context.Context {
	return with(ctx, func(o *keyOptions) { o.check = check })
}

type acceptedContext struct{}

// WithAccepted tells when your program accepted the order of the mutations in ctx, with any key. If the order was
// accepted after [Log.Restored], the log sends a key that it does not have without a check: nothing of the order can
// have been sent before, and [Log.Lookup] says so. Pass the time in your table of orders. The table must have no
// order from before Restored with a time after Restored: a clock that writes these times must not be ahead of this process by
// more than the time between the stop of all replicas and Restored. docs/second-year.md has the query.
// A time more than a minute in the future is a mistake, and tells nothing.
func WithAccepted(ctx context.Context, accepted time.Time) context.Context {
	return context.WithValue(ctx, acceptedContext{}, accepted)
}

// isNewOrder reports whether the order of ctx was accepted after the instruction.
func isNewOrder(ctx context.Context, o *restore) bool {
	accepted, _ := ctx.Value(acceptedContext{}).(time.Time)
	age := time.Since(accepted)
	return !accepted.IsZero() && age < o.Age && age > -time.Minute
}

// Verdict tells whether a mutation happened. The zero Verdict means [NeedsReview].
type Verdict struct{ hidden opaque.Value[finding] }

// Happened is the verdict for a mutation that happened. answer must marshal to the JSON of the
// service's response, for example an id or a record. Later calls with the key return that
// response. Pass nil if the method returns only an error. If a [WithCheck] passes nil because the
// response is lost, a person has to supply it; [Log.Resolve] refuses nil, unless no later step uses
// the response, as after [lending.ApplicationsService.Process] and
// [lending.LoansService.ConfirmInvoiceWithdrawal].
func Happened(answer any) Verdict {
	f := finding{evidence: happened, verdict: true}
	if answer != nil {
		f.answer, f.err = json.Marshal(answer)
	}
	return Verdict{opaque.Hide(f)}
}

// NotHappened is the verdict for a mutation that did not happen.
func NotHappened() Verdict { return Verdict{opaque.Hide(finding{evidence: absent})} }

// NeedsReview is the verdict of a check that cannot tell, with the reason. The verdict holds
// until [Log.Resolve], or until [WithCheck] returns another verdict.
func NeedsReview(why string) Verdict { return Verdict{opaque.Hide(finding{why: why})} }

func (v Verdict) finding() finding {
	if v.hidden == nil {
		return finding{why: "the check has returned no verdict"}
	}
	return v.hidden()
}
