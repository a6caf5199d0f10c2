package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
)

type standing struct {
	Instruction string    `json:"instruction"` // paused or restored
	By          string    `json:"by"`
	Why         string    `json:"why"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until,omitzero"`
}

// standing serves GET api/standing: the instructions in force.
func (d *desk) standing(r *http.Request) ([]standing, error) {
	now, err := d.Log.Standing(r.Context())
	all := []standing{}
	note := func(instruction string, o *idempotency.Instruction) {
		if o != nil {
			all = append(all, standing{Instruction: instruction, By: o.By, Why: o.Why, Since: time.Now().UTC().Add(-o.Age)})
		}
	}
	note("paused", now.Paused)
	note("restored", now.Restored)
	if o := now.Restored; o != nil {
		last := &all[len(all)-1]
		last.Until = last.Since.Add(o.Lasts)
	}
	return all, err
}

// pause serves POST api/pause.
func (d *desk) pause(r *http.Request, who string, o order) (what string, n int, err error) {
	return d.command(r, "pause", func(ctx context.Context) error {
		return d.Log.Pause(ctx, idempotency.Decision{By: who, Why: o.Why})
	})
}

// resume serves POST api/resume.
func (d *desk) resume(r *http.Request, _ string, _ order) (what string, n int, err error) {
	return d.command(r, "resume", d.Log.Resume)
}

// restored serves POST api/restored.
func (d *desk) restored(r *http.Request, who string, o order) (what string, n int, err error) {
	restoration := idempotency.Restoration{By: who, Claim: o.Claim}
	what = "restored"
	if restoration.Copy, err = timeIn("since", o.Since); err != nil {
		return what, 0, err
	}
	if o.For != "" {
		if restoration.Lasts, err = time.ParseDuration(o.For); err != nil {
			return what, 0, failf(http.StatusBadRequest, "for must be a duration such as 72h")
		}
	}
	what += " since " + restoration.Copy.UTC().Format(time.DateTime)
	return d.command(r, what, func(ctx context.Context) error { return d.Log.Restored(ctx, restoration) })
}

// command gives the log an instruction.
func (d *desk) command(r *http.Request, what string, give func(context.Context) error) (string, int, error) {
	if err := give(r.Context()); err != nil {
		return what, 0, err
	}
	return what, 1, nil
}

// timeIn reads the time in a parameter, in UTC.
func timeIn(name, text string) (at time.Time, err error) {
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, failf(http.StatusBadRequest, "%s must be a time such as 2026-11-22 15:04:05, in UTC", name)
}
