package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// erase removes a person from the log and from all inboxes.
func (c *client) erase(ctx context.Context, ids []string, o options) error {
	var result struct{ Done int }
	if err := c.call(ctx, http.MethodPost, "api/erase", nil, map[string]any{"ids": ids, "why": o.why}, &result); err != nil {
		return err
	}
	return c.fields("erased", fmt.Sprint(result.Done))
}

// removed prints the dropped and erased events of an inbox.
func (c *client) removed(ctx context.Context, inbox string) error {
	var found struct {
		Removed []struct {
			At                 time.Time
			By, Why, ID, Event string
		}
	}
	if err := c.call(ctx, http.MethodGet, "api/inboxes/"+url.PathEscape(inbox)+"/removed", nil, nil, &found); err != nil {
		return err
	}
	rows := [][]string{{"REMOVED (UTC)", "BY", "WHY", "ID", "EVENT"}}
	for _, r := range found.Removed {
		rows = append(rows, []string{stamp(r.At), r.By, r.Why, r.ID, r.Event})
	}
	return c.table(rows)
}
