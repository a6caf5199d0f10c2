package claimer

import (
	"errors"
	"slices"
	"time"
)

// Unreadable is how long an event waits that another process has to read: a newer release, or a
// process with the encryption key.
const Unreadable = time.Minute

const (
	// MaxDeadLetters is the largest number of dead letters in a call.
	MaxDeadLetters = 500
	// MinErased is the length of the shortest id that Erase accepts.
	MinErased = 8
)

var (
	errNoBy    = errors.New("lending/webhook: dead letters: By or Why is empty; name the person who decides, and the reason")
	errTooMany = errors.New("lending/webhook: dead letters: too many in one call; pass at most 500 ids; RedriveAll and DropAll take any number")
	errErased  = errors.New("lending/webhook: erase: pass the ids of the person, each of at least 8 bytes: a shorter text could be a part of any value")
)

// CheckRedrive returns the error of invalid arguments of Redrive.
func CheckRedrive(ids []string) error {
	if len(ids) > MaxDeadLetters {
		return errTooMany
	}
	return nil
}

// CheckDrop returns the error of invalid arguments of Drop.
func CheckDrop(by, why string, ids []string) error {
	if by == "" || why == "" {
		return errNoBy
	}
	return CheckRedrive(ids)
}

// CheckErase returns the error of invalid arguments of Erase.
func CheckErase(by, why string, ids []string) error {
	if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return len(id) < MinErased }) {
		return errErased
	}
	return CheckDrop(by, why, ids)
}

// Limit returns a limit between 1 and MaxDeadLetters; 0 or less means MaxDeadLetters.
func Limit(limit int) int {
	if limit <= 0 {
		return MaxDeadLetters
	}
	return min(limit, MaxDeadLetters)
}
