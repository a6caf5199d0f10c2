package ops

import (
	"errors"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
)

// audited is the result of the last audit; empty before the first.
type audited struct{ *idempotency.AuditResult }

// Shown returns the differences that the page shows.
func (a audited) Shown() []idempotency.Difference {
	return a.Differences[:min(len(a.Differences), shown)]
}

// Total is the number of differences.
func (a audited) Total() (n int) {
	for _, some := range a.Found {
		n += some
	}
	return n
}

// audited serves GET api/audit: the result of the last audit in any replica.
func (d *desk) audited(r *http.Request) (audited, error) {
	result, err := d.Log.Audited(r.Context())
	return audited{result}, err
}

// audit serves POST api/audit: it makes an audit, and ends with the request. The result is the number of differences.
func (d *desk) audit(r *http.Request, _ string, o order) (what string, n int, err error) {
	what = "audit"
	if d.Client == nil {
		return what, 0, failf(http.StatusNotFound, "this handler makes no audits: its Options have no Client")
	}
	opts := idempotency.AuditOptions{To: time.Now(), Client: d.Client}
	if opts.From, err = timeIn("from", o.From); err == nil && o.To != "" {
		opts.To, err = timeIn("to", o.To)
	}
	if len(o.To) == len(time.DateOnly) { // the day is in the period
		opts.To = opts.To.AddDate(0, 0, 1)
	}
	if err != nil {
		return what, 0, err
	}
	what += " from " + opts.From.Format(time.DateTime) + " to " + opts.To.UTC().Format(time.DateTime)
	for _, err := range d.Log.Audit(r.Context(), opts) {
		if failed, ok := errors.AsType[*lending.Error](err); ok {
			return what, n, failf(http.StatusBadGateway, "the audit has ended early: %v", failed)
		}
		if err != nil {
			return what, n, err
		}
		n++
	}
	return what, n, nil
}
