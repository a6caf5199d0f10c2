package main

import (
	"context"
	"net/http"
	"time"
)

// order gives the log of the backend a standing order: pause, resume or restored.
func (c *client) order(ctx context.Context, name string, o options) error {
	body := map[string]any{"why": o.why, "since": lastTime(o.since, time.Now()), "for": o.lasts}
	if err := c.call(ctx, http.MethodPost, "api/"+name, nil, body, &struct{}{}); err != nil {
		return err
	}
	return c.status(ctx)
}

// lastTime returns a time of the day, such as 14:05 in UTC, as the last such time before now. It leaves
// other texts to the handler.
func lastTime(text string, now time.Time) string {
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return text
	}
	now = now.UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	if at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	return at.Format(time.DateTime)
}

// status prints the standing orders in force.
func (c *client) status(ctx context.Context) error {
	var all []struct {
		Order, By, Why string
		Since, Until   time.Time
	}
	if err := c.call(ctx, http.MethodGet, "api/standing", nil, nil, &all); err != nil {
		return err
	}
	rows := [][]string{{"STANDING ORDER", "SINCE (UTC)", "UNTIL (UTC)", "BY", "WHY"}}
	for _, o := range all {
		rows = append(rows, []string{o.Order, stamp(o.Since), stamp(o.Until), o.By, o.Why})
	}
	if len(all) == 0 {
		rows = [][]string{{"no standing order: the log sends"}}
	}
	return c.table(rows)
}
