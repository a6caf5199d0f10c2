// Package deadletters has the rules that the inboxes share for calls about dead letters.
package deadletters

import (
	"context"
	"errors"
	"log/slog"
)

// Max is the largest number of dead letters in one call.
const Max = 500

var (
	errNoWho   = errors.New("lending/webhook: dead letters: who is empty; name the person who decides")
	errTooMany = errors.New("lending/webhook: dead letters: too many in one call; pass at most 500, or use RedriveAll and DropAll")
)

// CheckRedrive returns the error of a call of Redrive, nil if its arguments are good.
func CheckRedrive(ids []string) error {
	if len(ids) > Max {
		return errTooMany
	}
	return nil
}

// CheckDrop returns the error of a call of Drop, nil if its arguments are good.
func CheckDrop(who string, ids []string) error {
	if who == "" {
		return errNoWho
	}
	return CheckRedrive(ids)
}

// LogDrop writes one line about the events that who has dropped. A panic of the logger is dropped:
// the events are gone already.
func LogDrop(ctx context.Context, logger *slog.Logger, who string, keys []string) {
	if logger == nil || len(keys) == 0 {
		return
	}
	defer func() { _ = recover() }()
	logger.LogAttrs(ctx, slog.LevelInfo, "lending/webhook: dead letters dropped",
		slog.String("who", who), slog.Int("number", len(keys)), slog.Any("keys", keys))
}
