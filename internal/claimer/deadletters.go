package claimer

import (
	"context"
	"errors"
	"log/slog"
)

// MaxDeadLetters is the largest number of dead letters in a call.
const MaxDeadLetters = 500

var (
	errNoWho   = errors.New("lending/webhook: dead letters: who is empty; name the person who decides")
	errTooMany = errors.New("lending/webhook: dead letters: too many in one call; pass at most 500, or use RedriveAll and DropAll")
)

// CheckRedrive returns the error of invalid arguments of Redrive.
func CheckRedrive(ids []string) error {
	if len(ids) > MaxDeadLetters {
		return errTooMany
	}
	return nil
}

// CheckDrop returns the error of invalid arguments of Drop.
func CheckDrop(who string, ids []string) error {
	if who == "" {
		return errNoWho
	}
	return CheckRedrive(ids)
}

// LogDrop logs the events dropped by who. It ignores a panic of the logger, because the events
// are gone already.
func LogDrop(ctx context.Context, logger *slog.Logger, who string, keys []string) {
	if logger == nil || len(keys) == 0 {
		return
	}
	defer func() { _ = recover() }()
	logger.LogAttrs(ctx, slog.LevelInfo, "lending/webhook: dead letters dropped",
		slog.String("who", who), slog.Int("number", len(keys)), slog.Any("keys", keys))
}
