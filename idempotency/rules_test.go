package idempotency

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestActionOnDoubt holds the rules of the table of actions, cell by cell.
func TestActionOnDoubt(t *testing.T) {
	own := []situation{harmless, open, overdue, confirmed, unshown}
	others := []situation{othersOpen, othersOverdue, anyOpen, anyOverdue, anyUnshown}
	assert.Len(t, actions, len(own)+len(others))
	for s := range situation(len(actions)) {
		for e := range evidence(len(actions[s])) {
			got := actions[s][e]
			isOverdue := s == overdue || s == othersOverdue || s == anyOverdue
			assert.Equal(t, s == harmless && e != happened || isOverdue && e == absent, got == thenResend,
				"a resend needs a harmless mutation, or an absence after MaxLateness: %d, %d", s, e)
			assert.Equal(t, e == happened, got == thenRecord,
				"a mutation is recorded as done if a check shows its effect, and only then: %d, %d", s, e)
			assert.False(t, got == thenWait && s != open && s != confirmed && s != anyOpen,
				"a doubt ends when MaxLateness is over: %d, %d", s, e)
			assert.Equal(t, got == thenLose, got != thenWait && got != thenRecord && (s == confirmed || s == unshown),
				"nobody is asked whether a confirmed mutation happened: %d, %d", s, e)
			assert.False(t, s == open && got == thenReview && e != silent,
				"a person is asked when no read can show more: %d, %d", s, e)
			assert.False(t, s == anyOpen && got == thenReview,
				"another call does not end a doubt by a review before MaxLateness is over: %d", e)
			assert.Equal(t, got == thenLeave, (s == othersOpen || s == othersOverdue) && got != thenRecord && got != thenResend,
				"Check leaves a doubt that only a call with the key can end: %d, %d", s, e)
		}
	}
}
