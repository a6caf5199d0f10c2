package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

const (
	auditEvery = 24 * time.Hour
	auditWait  = 100 * time.Millisecond // before the reads of an owner, in a daily audit
	auditLost  = time.Hour              // another replica makes the audit if none has saved for so long
)

// AuditDaily makes a [Log.Audit] once a day, of the time since the last daily audit, and returns the wait before
// the next call. Call AuditDaily in a loop of its own, in any number of replicas: a single replica makes the audit.
// It reads at most 10 owners a second. [Log.Audited] returns the result. A log with several accounts needs
// [Log.Audit] with each client instead.
func (l *Log) AuditDaily(ctx context.Context, client *lending.Client) (next time.Duration, err error) {
	s := l.settings()
	all, entry, err := s.audits(ctx)
	to := time.Now().Add(-s.MaxLateness) // reads show the changes before
	switch wait := all.Until.Add(auditEvery).Sub(to); {
	case err != nil:
		return 0, storeError(err)
	case all.Runs && entry.Age < auditLost:
		return auditLost - entry.Age, nil
	case wait > 0:
		return wait, nil
	}
	from := all.Until
	if from.IsZero() {
		from = to.Add(-auditEvery)
	}
	all.Runs = true
	switch err := s.saveAudits(ctx, entry, all); {
	case errors.Is(err, store.ErrConflict): // another replica was faster
		return time.Minute, nil
	case err != nil:
		return 0, storeError(err)
	}
	a := s.newAudit(AuditOptions{From: from, To: to, Client: client, Wait: auditWait})
	a.isDaily, a.yield = true, func(Difference) bool { return true }
	if err := a.run(ctx); err != nil {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rememberLimit)
		defer stop()
		_ = s.changeAudits(ctx, func(all *audits) { all.Runs = false })
		return 0, err
	}
	return auditEvery, nil
}
