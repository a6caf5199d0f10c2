package lending

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// JournalAction says what the journal did with a call: see [WithKey].
type JournalAction string

const (
	// JournalSent is a command with a key that was sent.
	JournalSent JournalAction = "sent"
	// JournalReplayed is one that had happened: its recorded answer was returned.
	JournalReplayed JournalAction = "replayed"
	// JournalSettled is one that had happened, and whose answer was lost: what is returned
	// was rebuilt from a read, or comes from a [Verdict].
	JournalSettled JournalAction = "settled"
	// JournalRefused is one that was not sent, for a reason of the journal's.
	JournalRefused JournalAction = "refused"
	// JournalLook is a read before a command, or one that settles it.
	JournalLook JournalAction = "look"
)

const (
	// uploadLease is how long an upload without a deadline may be at it, if it has a key.
	uploadLease = time.Hour
	// recordLimit is how long a store may take to record an outcome, trying again.
	recordLimit = 10 * time.Second
	// reserved is for how long a command that looks before it is sent has the scope to itself.
	reserved = 10 * time.Second
	// maxTurns is how often a call begins again because another has changed the entry.
	maxTurns = 8
)

// passage is the way of a command with a key through the journal: recalled before it is
// sent, recorded after.
type passage struct {
	journalSettings
	x     *exchange
	key   *commandKey
	row   settlement
	entry JournalEntry // as it was loaded or saved last
	memo  memo         // the data of it, as this call changes it
	nonce string       // of this call's send
	left  bool         // what the memo said of that before the command was sent
	sent  bool         // that the command is sent is written down
	doubt bool         // it was sent before, and nothing shows that it did not happen then
}

// takeKey takes the key of the command out of ctx, so that nothing that is called on the way
// has it. It marks the looks of a journal.
func (x *exchange) takeKey(ctx context.Context) context.Context {
	switch key := keyOf(ctx); {
	case key == nil:
	case !key.looking:
		x.key = key
		return withoutKey(ctx)
	case x.request.effect == Read:
		x.call.Journal = JournalLook
	}
	return ctx
}

// isCheck reports whether the call is a read that tells what became of a mutation.
func (x *exchange) isCheck() bool { return x.call.Journal == JournalLook }

// recall looks the key up. It returns nil if the command is to be sent, now that this is
// written down, or if the exchange has the recorded answer; otherwise the error of the call.
func (x *exchange) recall(ctx context.Context) error {
	p := &passage{x: x, key: x.key}
	if err := p.check(); err != nil {
		return err
	}
	p.journalSettings = x.client.settings().journal.settings()
	x.passage = p
	err := p.turns(ctx)
	if err != nil {
		p.act(ctx, JournalRefused, err)
	}
	return err
}

// check refuses a key that is none, or where there can be none.
func (p *passage) check() error {
	p.row = settlementOf(p.route())
	if p.x.result == reflect.TypeFor[Record]() { // of Client.Do, whose body can be anything
		p.row = settlement{reads: p.row.reads, signIn: p.row.signIn}
	}
	var c checks
	p.key.check(&c)
	c.that(p.x.request.effect == Mutation, "key", CodeConflict, "is for commands: a read needs none")
	c.that(!p.row.signIn, "key", CodeConflict, "is not for a sign-in, which is begun anew")
	c.that(p.x.client.settings().journal != nil, "key", CodeConflict, "needs a client with WithJournal")
	return c.err(&p.x.request)
}

func (p *passage) route() string { return p.x.request.method + " " + p.x.request.path }

func (p *passage) scope() string {
	if p.row.scope == nil {
		return ""
	}
	name := p.row.scope(&p.x.request)
	if name == "" {
		return ""
	}
	return hashed(p.stored(name))
}

// turns takes turns until nobody else has changed the entry meanwhile.
func (p *passage) turns(ctx context.Context) error {
	for range maxTurns {
		err := p.load(ctx)
		if err == nil {
			err = p.turn(ctx)
		}
		if !errors.Is(err, ErrJournalConflict) {
			return err
		}
	}
	return p.refuse(KeyError{kind: ErrInProgress, RetryAfter: time.Second})
}

// load gets the entry of the key, a free one if there is none.
func (p *passage) load(ctx context.Context) error {
	p.entry, p.memo, p.doubt = JournalEntry{}, memo{}, false
	entry, err := p.store.Load(ctx, p.stored(p.key.name))
	if err == nil && entry != nil {
		p.memo, err = readMemo(entry.Data)
	}
	switch {
	case err != nil:
		return p.refuse(KeyError{kind: ErrJournal, cause: err})
	case entry == nil:
		p.entry = JournalEntry{Key: p.stored(p.key.name), State: CommandFree}
	default:
		p.entry = *entry
	}
	return nil
}

// turn does what the state of the entry asks for.
func (p *passage) turn(ctx context.Context) error {
	if !p.memo.Left { // there is none, or it may be corrected
		p.memo = memo{Route: p.route(), Salt: rand.Text()}
	}
	mark, err := p.fingerprint(ctx)
	if err != nil {
		return p.refuse(KeyError{kind: errFingerprint, cause: err})
	}
	if !p.memo.Left {
		p.memo.Print = mark
	}
	if p.memo.Route != p.route() || !hmac.Equal(mark, p.memo.Print) {
		var c checks
		c.add("key", CodeConflict, "has been used for another request, which has left")
		return c.err(&p.x.request)
	}
	lost := p.memo.lostFor(&p.entry)
	switch p.entry.State {
	case CommandFree:
		return p.send(ctx)
	case CommandDone, CommandForgotten:
		return p.replay(ctx, JournalReplayed)
	case CommandSent:
		if p.nonce != "" && p.nonce == p.memo.Nonce { // the store has told this call of its own save
			return p.goAhead(ctx)
		}
		if lost < 0 {
			return p.refuse(KeyError{kind: ErrInProgress, RetryAfter: -lost})
		}
	case CommandUnknown, CommandUndecided:
	}
	return p.settle(ctx, lost)
}

var errFingerprint = redact.Text("lending: the request cannot be read twice")

// fingerprint tells requests apart. What is secret is no part of it, so that it cannot be
// guessed from it, and so that a command is the same with another one-time password.
func (p *passage) fingerprint(ctx context.Context) ([]byte, error) {
	r := &p.x.request
	sum := hmac.New(sha256.New, []byte(p.memo.Salt))
	for _, arg := range r.args {
		fmt.Fprintf(sum, "%q\n", arg)
	}
	for _, q := range r.query {
		if q.name != secretParam && q.value != "" {
			fmt.Fprintf(sum, "%q=%q\n", q.name, q.value)
		}
	}
	if u, ok := r.body.(*upload); ok {
		err := u.print(ctx, sum)
		return sum.Sum(nil), err
	}
	body, err := encodeWithoutSecrets(r.body)
	_, _ = sum.Write(body)
	return sum.Sum(nil), err
}

// send writes down that the command is sent, when the look before it is done.
func (p *passage) send(ctx context.Context) error {
	if p.row.look != nil && p.memo.Before == nil && p.key.look == nil {
		if err := p.reserve(ctx); err != nil {
			return err
		}
		before, err := p.row.look(looking(ctx), p.x.client, &p.x.request)
		if err != nil {
			return p.refuse(KeyError{kind: errLookBefore, cause: err})
		}
		p.memo.Before = &before
	}
	if p.entry.State == CommandFree { // so that a sign-in that fails, or a person who is asked, is waited for before
		if _, err := p.x.client.token(ctx, &p.x.request); err != nil {
			return p.x.notSent(err)
		}
	}
	deadline, _ := ctx.Deadline()
	p.left = p.memo.Left
	p.nonce = rand.Text()
	p.memo.Left, p.memo.Nonce, p.memo.Lease = true, p.nonce, time.Until(deadline)
	p.memo.Sends++
	err := p.save(ctx, CommandSent, p.scope())
	held, isHeld := errors.AsType[*ScopeHeldError](err)
	switch {
	case err == nil:
		return p.goAhead(ctx)
	case errors.Is(err, ErrJournalConflict):
		return err
	case isHeld:
		return p.release(ctx, held.Key)
	}
	failed := p.refuse(KeyError{kind: ErrJournal, cause: err})
	p.free(ctx, time.Second) // it may be written down all the same
	return failed
}

// goAhead has the command sent: that it is, is written down.
func (p *passage) goAhead(ctx context.Context) error {
	p.sent = true
	p.act(ctx, JournalSent, nil)
	return nil
}

// reserve takes the scope before the look. Who takes it away changes the entry, and the
// command is not sent then: what it has seen before could be older than the end of another
// command, whose effect would be taken for its own.
func (p *passage) reserve(ctx context.Context) error {
	scope := p.scope()
	if scope == p.entry.Scope {
		return nil
	}
	err := p.save(ctx, CommandFree, scope)
	if held, isHeld := errors.AsType[*ScopeHeldError](err); isHeld {
		return p.release(ctx, held.Key)
	}
	return p.unsaved(err)
}

var errLookBefore = redact.Text("lending: what is there before the command cannot be read")

// release takes the scope from the command of another key, if that need not have it any
// more. It returns a conflict then.
func (p *passage) release(ctx context.Context, key string) error {
	other, err := p.store.Load(ctx, key)
	if err != nil {
		return p.refuse(KeyError{kind: ErrJournal, cause: err})
	}
	if other == nil || other.Scope == "" {
		return ErrJournalConflict
	}
	held := KeyError{kind: ErrScopeHeld, Held: strings.TrimPrefix(key, p.stored(""))}
	of, err := readMemo(other.Data)
	if err != nil || isUnsettled(other.State) {
		held.RetryAfter = max(0, -of.lostFor(other))
		return p.refuse(held)
	}
	if held.RetryAfter = of.Hold - other.Age; held.RetryAfter > 0 {
		held.Why = "it was sent twice, and the first can be executed late"
		return p.refuse(held)
	}
	if held.RetryAfter = min(reserved-other.Age, time.Second); other.State == CommandFree && held.RetryAfter > 0 {
		held.Why = "it is about to be sent"
		return p.refuse(held)
	}
	other.Scope = ""
	if err := p.store.Save(ctx, *other); err != nil && !errors.Is(err, ErrJournalConflict) {
		return p.refuse(KeyError{kind: ErrJournal, cause: err})
	}
	return ErrJournalConflict
}

// settle finds out what became of a command that nobody has been at for as long as lost.
func (p *passage) settle(ctx context.Context, lost time.Duration) error {
	v, err := p.look(ctx)
	if err == nil {
		err = v.err
	}
	again := p.key.mayRepeat || p.row.again
	switch {
	case err != nil:
		return p.refuse(KeyError{kind: ErrUnsettled, cause: err})
	case v.happened:
		if err := p.store.Save(ctx, p.memo.settle(&p.entry, v, p.MaxAnswer)); err != nil {
			return p.unsaved(err)
		}
		return p.replay(ctx, JournalSettled)
	case again || v.absent && lost >= p.Quiet:
		if p.row.again && lost < p.Quiet {
			p.memo.Hold = p.Quiet // one executed late would undo what comes after
		}
		if p.key.look != nil {
			p.memo.Before = nil // which this look has not looked at
		}
		p.doubt = !v.absent || lost < p.Quiet
		return p.send(ctx)
	case v.absent:
		return p.refuse(KeyError{kind: ErrUnsettled, Why: "no read shows it, but it can be executed late", RetryAfter: p.Quiet - lost})
	case v.early && lost < p.Quiet:
		return p.refuse(KeyError{kind: ErrUnsettled, Why: v.why, RetryAfter: p.Quiet - lost})
	}
	if p.entry.State != CommandUndecided { // or its age would begin anew
		p.memo.Why = v.why
		if err := p.save(ctx, CommandUndecided, p.scope()); err != nil {
			return p.unsaved(err)
		}
	}
	return p.refuse(KeyError{kind: ErrUndecided, Why: v.why})
}

// unsaved is the error of a call that could not write down what it has found out, nil for nil.
func (p *passage) unsaved(err error) error {
	if err == nil || errors.Is(err, ErrJournalConflict) {
		return err
	}
	return p.refuse(KeyError{kind: ErrJournal, cause: err})
}

// look says what became of the command.
func (p *passage) look(ctx context.Context) (verdict, error) {
	switch {
	case p.key.look != nil:
		v, err := p.key.look(looking(ctx))
		return v.verdict(), err
	case p.entry.State == CommandUndecided:
		return verdict{why: p.memo.Why}, nil
	case p.row.look == nil:
		return verdict{why: cmp.Or(p.row.note, "nothing that is published shows it")}, nil
	}
	r, client := &p.x.request, p.x.client
	after, err := p.row.look(looking(ctx), client, r)
	if err != nil {
		return verdict{}, err
	}
	v := p.row.settled(r, p.memo.Before, after)
	if v.happened && p.row.answer != nil {
		v.answer, err = p.row.answer(looking(ctx), client, r, p.memo.Before, after)
	}
	return v, err
}

// journalHeader marks, in the [Response] of [CaptureResponse], an answer that has not just
// come from the service.
const journalHeader = "Lending-Journal"

// replay puts the recorded answer into the exchange, from where it is decoded as one that
// has just come.
func (p *passage) replay(ctx context.Context, action JournalAction) error {
	x, none := p.x, p.memo.Status == 0
	u, isUpload := x.request.body.(*upload)
	switch {
	case isUpload && none: // its method returns nothing either
		p.memo.Answer, p.memo.Media = []byte("true"), mediaJSON[0]
	case none && x.result != reflect.TypeFor[nothing]():
		return p.refuse(KeyError{kind: ErrAnswerLost})
	}
	if none {
		p.memo.Status = http.StatusOK
	}
	if isUpload {
		u.complete.Store(true)
	}
	x.answer = Response{StatusCode: p.memo.Status, Header: http.Header{}, Body: p.memo.Answer}
	if p.memo.Rebuilt {
		action = JournalSettled
	}
	x.answer.Header.Set("Content-Type", p.memo.Media)
	x.answer.Header.Set(journalHeader, string(action))
	x.said = hear(&x.answer)
	p.act(ctx, action, nil)
	return nil
}

// save writes the memo down.
func (p *passage) save(ctx context.Context, state CommandState, scope string) error {
	next := JournalEntry{Key: p.entry.Key, Revision: p.entry.Revision, State: state, Scope: scope, Data: p.memo.bytes()}
	err := p.store.Save(ctx, next)
	if err == nil {
		next.Revision++
		p.entry = next
	}
	return err
}

// refuse returns the error of a command that is not sent now.
func (p *passage) refuse(why KeyError) error {
	why.Key = p.key.name
	if failed, ok := errors.AsType[*Error](why.cause); ok {
		why.RetryAfter = max(why.RetryAfter, failed.RetryAfter)
	}
	why.cause = hide(why.cause)
	e := p.x.failed(&why)
	switch {
	case p.x.answer.StatusCode != 0:
	case errors.Is(why.kind, ErrAnswerLost):
		e.Outcome = OutcomeDone
	case p.entry.State == CommandFree:
		e.Outcome = OutcomeNotSent
	default:
		e.Outcome = OutcomeUnknown
	}
	e.RetryAfter = max(e.RetryAfter, why.RetryAfter)
	return e
}

// act remembers for the observers what the journal does with the call, and logs it unless
// an attempt will tell.
func (p *passage) act(ctx context.Context, action JournalAction, err error) {
	p.x.call.Journal = action
	logger := p.x.client.settings().logger
	if logger == nil || action == JournalSent {
		return
	}
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("method", p.x.request.method), slog.String("route", p.x.request.path), slog.String("journal", string(action)),
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("error", err.Error()))
	}
	logger.LogAttrs(ctx, level, "lending journal", attrs...)
}
