package lending

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/redact"
)

// maxKey is how long a key may be, in bytes.
const maxKey = 256

type keyKey struct{}

// commandKey is what WithKey puts into a context.
type commandKey struct {
	name      string
	looking   bool // it is no key: a read is a look of the journal's
	mayRepeat bool
	look      func(context.Context) (Verdict, error)
}

// WithKey returns a context for one command, which key names for ever: with the same key
// the same method is done once, by whichever process that shares the journal, also if one
// dies in the middle. The package documentation says how.
//
// A key comes from the caller's business, "order-42/confirm" for example: not from the
// clock, nor from the run of a job, which are others in the next try. It has 1 to 256
// bytes of UTF-8 without control characters, stands in the journal and in errors as it
// is, and is never sent.
//
// The client needs a journal. A read or a sign-in with a key is an [*ArgumentError], and
// so is another request under a key with which one has left. The call ends after two
// minutes at most, an upload without a deadline after an hour: others wait for that long.
func WithKey(ctx context.Context, key string, opts ...KeyOption) context.Context {
	k := &commandKey{name: key}
	for _, opt := range opts {
		if opt != nil {
			opt(k)
		}
	}
	return context.WithValue(ctx, keyKey{}, k)
}

// keyOf returns the key of the command that ctx is for, nil if it has none.
func keyOf(ctx context.Context) *commandKey {
	k, _ := ctx.Value(keyKey{}).(*commandKey)
	return k
}

// withoutKey is for what is called on the way to a command.
func withoutKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyKey{}, (*commandKey)(nil))
}

// looking is for the reads that settle a command.
func looking(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyKey{}, &commandKey{looking: true})
}

func (k *commandKey) check(c *checks) {
	c.that(k.name != "", "key", CodeRequired, "must not be empty")
	c.that(len(k.name) <= maxKey, "key", CodeLength, fmt.Sprintf("must have at most %d bytes", maxKey))
	c.that(utf8.ValidString(k.name) && !strings.ContainsFunc(k.name, isControl), "key", CodeUnsafe, "must not hold control characters or invalid UTF-8")
}

// KeyOption says more of a command with a key: see [WithKey].
type KeyOption func(*commandKey)

// MayRepeat says that it does no harm if the command is done twice, as with a one-time
// password that is sent again. It is sent again as soon as nobody can be at it any more,
// unless a read has shown that it happened.
func MayRepeat() KeyOption { return func(k *commandKey) { k.mayRepeat = true } }

// SettleWith finds out with look, instead of with the reads of this package, what became
// of a command whose answer is lost. The caller may know fields that nobody published, for
// example an order number that he sent along. look must only read, and be as right after
// hours as after seconds. Its error leaves all as it is.
//
// [NotHappened] counts only when the command has been gone for the time that
// [JournalOptions] call Quiet.
func SettleWith(look func(context.Context) (Verdict, error)) KeyOption {
	return func(k *commandKey) { k.look = look }
}

// Verdict says what became of a command. The zero Verdict is undecided.
type Verdict struct{ hidden func() verdict }

type verdict struct {
	happened, absent bool
	answer           []byte // of one that happened; nil if it is lost
	why              string // it is undecided
	early            bool   // it is undecided, and a later look can show more
	err              error  // the answer cannot be written
}

// Happened is the verdict on a command that has happened. answer is what marshals to the
// JSON that the service answers to it, an id or a record for example: calls with the key
// return it from then on. With nil it is lost; methods that return an error only need none.
func Happened(answer any) Verdict {
	v := verdict{happened: true}
	if answer != nil {
		v.answer, v.err = encode(answer)
	}
	return Verdict{func() verdict { return v }}
}

// NotHappened is the verdict on a command that has not happened.
func NotHappened() Verdict { return Verdict{func() verdict { return verdict{absent: true} }} }

// Undecided is the verdict of who cannot say, and why. It holds until [Journal.Resolve], or
// until another verdict of [SettleWith].
func Undecided(why string) Verdict { return Verdict{func() verdict { return verdict{why: why} }} }

func (v Verdict) verdict() verdict {
	if v.hidden == nil {
		return verdict{why: "nobody can say"}
	}
	return v.hidden()
}

// Why a command with a key was not sent. errors.As finds the [*KeyError] beside them, and
// its RetryAfter, which is that of
// the [Error] too, says when to call again.
var (
	// ErrInProgress means that another call with the key may be at it.
	ErrInProgress error = redact.Text("lending: another call with the key may be at it")
	// ErrUnsettled means that the answer of the command is lost, and that it is not yet known
	// whether it happened: a read failed, or the command can still be executed.
	ErrUnsettled error = redact.Text("lending: it is not settled yet whether it happened")
	// ErrUndecided means that the answer of the command is lost, and that no read tells
	// whether it happened. [Journal.Resolve], [MayRepeat] or [SettleWith] decide it.
	ErrUndecided error = redact.Text("lending: no read tells whether it happened: a person has to")
	// ErrScopeHeld means that another command, with another key, is unsettled, and that its
	// effect could not be told from that of this one. [KeyError] names it.
	ErrScopeHeld error = redact.Text("lending: another command that would hide it is unsettled")
	// ErrAnswerLost means that the command has happened and that its answer is not kept.
	ErrAnswerLost error = redact.Text("lending: it has happened, and its answer is not kept")
	// ErrJournal means that the store of the journal failed. If the outcome is
	// [OutcomeDone], the command has happened, and the next call with the key settles it.
	ErrJournal error = redact.Text("lending: the journal cannot be used")
)

// KeyError says why a command with a key was not sent: it wraps one of [ErrInProgress],
// [ErrUnsettled], [ErrUndecided], [ErrScopeHeld], [ErrAnswerLost] and [ErrJournal].
type KeyError struct {
	safe

	Key        string        // of the command
	Held       string        // with ErrScopeHeld the key of the other command
	Why        string        // what a person should know; may be empty
	RetryAfter time.Duration // when to call again; 0 if nothing says it

	kind  error
	cause error // of a store, a read or a look; hidden
}

// Error names the keys.
func (e *KeyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: key %q", e.kind, e.Key)
	if e.Held != "" {
		fmt.Fprintf(&b, ": held by key %q", e.Held)
	}
	if e.Why != "" {
		b.WriteString(": " + e.Why)
	}
	if e.cause != nil {
		b.WriteString(": " + redact.Describe(e.cause))
	}
	return b.String()
}

// Format prints [KeyError.Error] under every verb.
func (e *KeyError) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

// Unwrap returns the kind and the cause, which shows nothing that was sent or received.
func (e *KeyError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}
