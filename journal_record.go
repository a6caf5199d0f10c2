package lending

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
)

// record writes down what became of a command that was sent, and returns the error of the
// call, which is err unless the journal fails.
func (p *passage) record(ctx context.Context, err error) error {
	if !p.sent {
		return err
	}
	switch OutcomeOf(err) {
	case OutcomeNotSent, OutcomeRejected:
		if failed, ok := errors.AsType[*Error](err); ok && p.doubt {
			failed.Outcome = OutcomeUnknown // it may have happened before
		}
		p.free(ctx, recordLimit)
	case OutcomeUnknown:
		_ = p.insist(ctx, recordLimit, CommandUnknown)
	case OutcomeDone:
		state := CommandForgotten
		if answer := p.x.answer; p.x.err == nil && len(answer.Body) <= p.MaxAnswer { // and not cut
			state = CommandDone
			p.memo.Answer, p.memo.Status, p.memo.Media = answer.Body, answer.StatusCode, answer.Header.Get("Content-Type")
		}
		if failed := p.insist(ctx, recordLimit, state); failed != nil {
			return p.refuse(KeyError{kind: ErrJournal, cause: failed})
		}
	}
	return err
}

// free writes down that the command did not leave, or was refused. That says nothing of
// what was sent before.
func (p *passage) free(ctx context.Context, limit time.Duration) {
	if p.doubt {
		_ = p.insist(ctx, limit, CommandUnknown)
		return
	}
	p.memo.Left = p.left
	if p.memo.Before = nil; !p.left {
		p.memo.Sends = 0
	}
	_ = p.insist(ctx, limit, CommandFree)
}

// insist saves the memo, again and again until limit is over, also if the call's context
// has ended. It gives way to another who knows as much.
func (p *passage) insist(ctx context.Context, limit time.Duration, state CommandState) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		scope := "" // of a command that has ended, unless it can still be executed late
		if state == CommandUnknown || p.memo.Hold > 0 {
			scope = p.scope()
		}
		err := p.save(ctx, state, scope)
		if err == nil {
			return nil
		}
		if _, held := errors.AsType[*ScopeHeldError](err); held && p.memo.Hold > 0 { // too late to hold it
			p.memo.Hold = 0
			continue
		}
		if errors.Is(err, ErrJournalConflict) {
			var settled bool
			if settled, err = p.overtake(ctx, state); settled {
				return nil
			} else if err == nil {
				continue
			}
		}
		if backoff.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// overtake looks at who has changed the entry while the command was under way: this call
// itself, with a save that failed and was done all the same, or one that has settled it. Who
// sent it knows more than who has settled it, unless that has found it done.
func (p *passage) overtake(ctx context.Context, state CommandState) (settled bool, err error) {
	entry, err := p.store.Load(ctx, p.entry.Key)
	if err != nil {
		return false, err
	}
	if entry == nil { // the store has lost it
		p.entry.Revision = 0
		return false, nil
	}
	other, err := readMemo(entry.Data)
	if err != nil {
		return false, err
	}
	happened := state == CommandDone || state == CommandForgotten
	switch ours := other.Nonce == p.memo.Nonce; {
	case entry.State == CommandDone || entry.State == CommandForgotten:
		return true, nil
	case happened && !ours: // and another has sent it again
		p.memo.Hold = max(p.memo.Hold, other.Lease+p.Quiet)
		fallthrough
	case happened, ours && state == CommandFree:
		p.entry.Revision = entry.Revision
		return false, nil
	}
	return true, nil
}
